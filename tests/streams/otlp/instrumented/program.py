"""A program as users have it: OpenTelemetry's SDK, an instrumentor and a client of a model; nothing of Gapwatch.

    program.py INSTRUMENTOR MODEL_SERVER [QUESTIONS]

Each question is put to one model, and to a second one where that fails. Where spans go is told by the variables of the
environment alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

#: Puts a question to a model; raises where the call fails.
Ask = Callable[[str, str], Any]

name, server = sys.argv[1], sys.argv[2]
questions = int(sys.argv[3]) if len(sys.argv) > 3 else 3
#: Sends what is left.
ends: list[Callable[[], Any]] = []


def send_spans() -> None:
    """Set up the SDK as its manual says, for spans and log records."""
    from opentelemetry import trace
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if name.endswith("-grpc"):
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    else:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    provider, logs = TracerProvider(), LoggerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    trace.set_tracer_provider(provider)
    set_logger_provider(logs)
    ends.extend([provider.shutdown, logs.shutdown])


def step(question: str) -> Any:
    """Begin the step that a person named."""
    from opentelemetry import trace

    return trace.get_tracer("support").start_as_current_span("answer_question")


def failing_over(ask: Ask, models: tuple[str, str], around: Callable[[str], Any]) -> None:
    """Put all questions."""
    for number in range(questions):
        question = f"question {number}"
        with around(question):
            for model in models:
                with suppress(Exception):
                    ask(model, question)
                    break


GPT, CLAUDE = ("gpt-4.1", "gpt-4.1-mini"), ("claude-sonnet-4-5", "claude-haiku-4-5")


def openai_client(make: Any = None) -> Ask:
    if make is None:
        from openai import OpenAI

        make = OpenAI
    client = make(base_url=server, api_key="no-key", max_retries=0)
    return lambda model, question: client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}]
    )


def anthropic_client() -> Ask:
    from anthropic import Anthropic

    client = Anthropic(base_url=server.removesuffix("/v1"), api_key="no-key", max_retries=0)
    return lambda model, question: client.messages.create(
        model=model, max_tokens=100, messages=[{"role": "user", "content": question}]
    )


def openinference() -> None:
    from openinference.instrumentation.openai import OpenAIInstrumentor

    send_spans()
    OpenAIInstrumentor().instrument()
    failing_over(openai_client(), GPT, step)


def openllmetry() -> None:
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    send_spans()
    OpenAIInstrumentor().instrument()
    failing_over(openai_client(), GPT, step)


def openai_v2() -> None:
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    send_spans()
    OpenAIInstrumentor().instrument()
    failing_over(openai_client(), GPT, step)


def openinference_anthropic() -> None:
    from openinference.instrumentation.anthropic import AnthropicInstrumentor

    send_spans()
    AnthropicInstrumentor().instrument()
    failing_over(anthropic_client(), CLAUDE, step)


def openllmetry_anthropic() -> None:
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor

    send_spans()
    AnthropicInstrumentor().instrument()
    failing_over(anthropic_client(), CLAUDE, step)


def openinference_langchain() -> None:
    from langchain_openai import ChatOpenAI
    from openinference.instrumentation.langchain import LangChainInstrumentor

    send_spans()
    LangChainInstrumentor().instrument()
    failing_over(
        lambda model, question: ChatOpenAI(
            model=model, base_url=server, api_key="no-key", max_retries=0
        ).invoke(question),
        GPT, step,
    )  # fmt: skip


def openinference_agents() -> None:
    from agents import Agent, AsyncOpenAI, OpenAIChatCompletionsModel, Runner
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    send_spans()
    OpenAIAgentsInstrumentor().instrument()
    client = AsyncOpenAI(base_url=server, api_key="no-key", max_retries=0)
    failing_over(
        lambda model, question: Runner.run_sync(
            Agent("answerer", model=OpenAIChatCompletionsModel(model, openai_client=client)), question
        ),
        GPT, step,
    )  # fmt: skip


def openinference_litellm() -> None:
    import litellm
    from openinference.instrumentation.litellm import LiteLLMInstrumentor

    send_spans()
    LiteLLMInstrumentor().instrument()
    failing_over(
        lambda model, question: litellm.completion(
            model=f"openai/{model}", messages=[{"role": "user", "content": question}], base_url=server,
            api_key="no-key", max_retries=0,
        ),
        GPT, step,
    )  # fmt: skip


def openinference_dspy() -> None:
    import dspy
    from openinference.instrumentation.dspy import DSPyInstrumentor

    send_spans()
    DSPyInstrumentor().instrument()
    lms = {
        model: dspy.LM(f"openai/{model}", api_base=server, api_key="no-key", cache=False, num_retries=0)
        for model in GPT
    }  # fmt: skip

    def ask(model: str, question: str) -> Any:
        with dspy.context(lm=lms[model]):
            return dspy.Predict("question -> answer")(question=question)

    failing_over(ask, GPT, step)


def openinference_llama_index() -> None:
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai import OpenAI
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

    send_spans()
    LlamaIndexInstrumentor().instrument()
    failing_over(
        lambda model, question: OpenAI(model=model, api_base=server, api_key="no-key", max_retries=0).chat(
            [ChatMessage(role="user", content=question)]
        ),
        GPT, step,
    )  # fmt: skip


def logfire() -> None:
    import logfire

    logfire.configure(send_to_logfire=False, console=False)
    logfire.instrument_openai()
    ends.append(logfire.shutdown)
    failing_over(openai_client(), GPT, lambda question: logfire.span("answer_question"))


def pydantic_ai() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    send_spans()
    Agent.instrument_all()
    from openai import AsyncOpenAI

    provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=server, api_key="no-key", max_retries=0))
    failing_over(
        lambda model, question: Agent(OpenAIChatModel(model, provider=provider), name="answerer").run_sync(question),
        GPT, step,
    )  # fmt: skip


def langfuse() -> None:
    from langfuse import get_client
    from langfuse.openai import OpenAI

    client = get_client()
    ends.append(client.shutdown)
    failing_over(
        openai_client(OpenAI), GPT,
        lambda question: client.start_as_current_observation(name="answer_question", as_type="span"),
    )  # fmt: skip


def traceloop() -> None:
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import workflow

    Traceloop.init(app_name=os.environ["OTEL_SERVICE_NAME"], api_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
    ask = openai_client()

    @workflow(name="answer_question")
    def answer(question: str) -> None:
        for model in GPT:
            with suppress(Exception):
                ask(model, question)
                break

    for number in range(questions):
        answer(f"question {number}")
    from opentelemetry import trace

    ends.append(trace.get_tracer_provider().shutdown)


globals()[name.removesuffix("-grpc").replace("-", "_")]()
for end in ends:
    end()
