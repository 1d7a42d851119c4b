"""Writes the spans of watched calls with OpenTelemetry, to the program's own provider or to one of its own."""

from __future__ import annotations

import atexit
import copy
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from gapwatch.design.emission.hidden_secrets import error_texts, hide_secrets
from gapwatch.design.emission.interpreter.client_call import ClientCall
from gapwatch.design.emission.interpreter.listed_code import MODEL_ASKED
from gapwatch.design.emission.interpreter.model_replies import client_reply, count_results, reply_text
from gapwatch.design.emission.interpreter.plain_values import MOST_CHARACTERS, plain, text_of_value
from gapwatch.design.emission.interpreter.waiting_root import RootNeeds, is_root, under_root
from gapwatch.design.emission.interpreter.watched_call import CALL, WatchedCall, innermost_call

#: Kind of a step to the word of OpenInference's convention.
_KINDS = {
    "llm": "LLM",
    "embedding": "EMBEDDING",
    "retrieval": "RETRIEVER",
    "rerank": "RERANKER",
    "tool": "TOOL",
    "agent": "AGENT",
    "guardrail": "GUARDRAIL",
    "parse": "PARSER",
}
_REPLY = {
    "model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cost_usd": "gen_ai.usage.cost",
}
#: Notes that hold what was said.
_CONTENT = ("model_prompt", "model_reply")
#: Types of results that are no replies of models.
_PLAIN = (str, int, float, bool, type(None), bytes, list, tuple)
#: Milliseconds between two exports; what is not exported is lost when the program is killed.
_DELAY = 1_000
#: Seconds of one export with its retries: a receiver that is away holds up the end of the program for as long.
_LONGEST_EXPORT = 2.0
#: Milliseconds that a server that ends waits for its last spans to be sent, at most.
_FLUSH = 3_000


def _timeout() -> float | None:
    """Return the seconds that an export may take; None where the program's environment says them."""
    named = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
    return None if any(name in os.environ for name in named) else _LONGEST_EXPORT


class _NamedExporter(OTLPSpanExporter):
    """Exports spans of the program's own provider under the name of the pipeline, whatever name it gave itself.

    Args:
        resource: Its `service.name` is the pipeline.
    """

    def __init__(self, resource: Resource) -> None:
        super().__init__(timeout=_timeout())
        self._pipeline = Resource({"service.name": resource.attributes["service.name"]})

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export copies of spans; those of the program stay as they are."""
        named = []
        for span in spans:
            copied = copy.copy(span)
            copied._resource = span.resource.merge(self._pipeline)
            named.append(copied)
        return super().export(named)


class SpanWriter:
    """Begins and ends spans.

    Args:
        pipeline: Name of the service, where OTEL_SERVICE_NAME gives none.
        has_content: Whether inputs and outputs are written.

    Attributes:
        before_exit: Called at the end of the program, before the last spans are sent.
    """

    def __init__(self, pipeline: str, has_content: bool) -> None:
        self._has_content = has_content
        name = os.environ.get("OTEL_SERVICE_NAME") or pipeline
        self._resource = Resource.create({"service.name": name})
        self._own: TracerProvider | None = None
        self._exporting: list[TracerProvider] = []
        self._tracers: dict[int, Any] = {}
        self.before_exit: Callable[[], None] = lambda: None

    def _tracer(self) -> Any:
        """Return a tracer of the program's own provider, or of one for these spans alone."""
        provider: Any = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            if self._own is None:
                self._own = TracerProvider(resource=self._resource)
                self._export(self._own)
            provider = self._own
        elif provider not in self._exporting:
            # Spans that the program makes itself go to the same place, so that its traces are whole.
            self._export(provider)
        tracer = self._tracers.get(id(provider))
        if tracer is None:
            tracer = self._tracers[id(provider)] = provider.get_tracer("gapwatch.instrument")
        return tracer

    def own_tracer(self) -> Any:
        """Return a tracer of the program's own provider; None where it makes no spans itself."""
        return self._tracer() if isinstance(trace.get_tracer_provider(), TracerProvider) else None

    def flush(self) -> None:
        """Send what there is: the program ends, perhaps by a signal."""
        self.before_exit()
        for provider in self._exporting:
            provider.force_flush(_FLUSH)

    def _export(self, provider: TracerProvider) -> None:
        exporter = OTLPSpanExporter(timeout=_timeout()) if provider is self._own else _NamedExporter(self._resource)
        provider.add_span_processor(RootNeeds())
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=_DELAY))
        self._exporting.append(provider)
        # Functions for the end run in reverse order: this one before the provider's own.
        atexit.register(lambda: self.before_exit())

    def begin(self, plan: dict[str, Any], arguments: dict[str, Any]) -> WatchedCall:
        """Begin the span of a call, or take the span that a decorator began for it; make it current.

        Args:
            plan: The planned span.
            arguments: Arguments by name.
        """
        before = contexts.get_current()
        tracer = self._tracer()
        around = under_root(before, tracer)
        span: Any = trace.get_current_span(around)
        is_owner = not (plan["is_there"] and span.is_recording() and not is_root(span))
        if is_owner:
            span = tracer.start_span(plan["span"], context=around)
            span.set_attribute("gapwatch.component", plan["component"])
            if (kind := _KINDS.get(plan["kind"], "CHAIN")) is not None:
                span.set_attribute("openinference.span.kind", kind)
            if self._has_content:
                span.set_attribute("input.value", text_of_value(arguments))
        call = WatchedCall(before, before, plan, span, is_owner, dict(plan["start"]))
        if any(mark[1] == "reply" for function in plan["functions"] for mark in function["marks"]):
            call.notes[MODEL_ASKED] = 0
        call.is_silent = not any(_says_something(value) for value in arguments.values())
        call.context = contexts.set_value(CALL, call, trace.set_span_in_context(span, before))
        contexts.attach(call.context)
        return call

    def end(self, call: WatchedCall, result: Any, error: BaseException | None, is_stream: bool) -> None:
        """End the span of a call and make the caller's context current again.

        Args:
            call: The call.
            result: What it returned.
            error: What it raised; None where it returned.
            is_stream: Whether it gave its result in chunks.
        """
        call.leave()
        span, notes = call.span, call.notes
        if notes.pop("asked", 1) is None:
            return  # A page ran and asked no model. A span that never ends is never sent.
        around = innermost_call()
        if around is not None and around.reply is None:
            # Whoever asks a model through another function is answered by it.
            around.reply = call.reply
        # Who hands on what a call inside it was answered has no tokens of its own.
        has_own = not call.is_answered or (call.is_model and not call.is_passing_on)
        if error is None and not is_stream and type(result) not in _PLAIN and has_own:
            for name, value in client_reply(result).items():
                notes.setdefault(name, value)
        if error is not None or notes.get("retrieved_count") == "of_result":
            notes["retrieved_count"] = None if error is not None else count_results(result)
        if _goes_on(error):
            error = None
        has_asked = notes.pop(MODEL_ASKED, 1) or call.is_answered or call.question is not None
        call.settle(result, error, is_stream)
        for name, value in notes.items():
            if value is None or (name in _CONTENT and not self._has_content):
                continue
            if name == "tier":
                span.set_attribute("gapwatch.tier", value)
            elif name == "finish_reason":
                span.set_attribute("gen_ai.response.finish_reasons", [value])
            else:
                span.set_attribute(_REPLY.get(name, name), hide_secrets(value) if isinstance(value, str) else value)
        if not call.is_owner:
            return
        if self._has_content and call.question is not None and call.is_silent:
            span.set_attribute("input.value", call.question)
        # Who was left by a reader, a cancelled task or a page that runs again has said something all the same.
        has_said = call.reply is not None if call.is_model else is_stream and call.pieces.first is not None
        is_left = has_said and not isinstance(error, Exception)
        if self._has_content and (error is None or is_left):
            said = _output(call, result, is_stream)
            # Who had nothing to ask gives nothing, in JSON; that is no missing answer.
            span.set_attribute("output.value", said if said or has_asked else json.dumps(plain(result)))
        _note_error(span, error)
        # A generator that nobody takes from any more was over after its last chunk.
        span.end(call.last if isinstance(error, GeneratorExit) else None)

    def write_search(self, search: ClientCall, name: str, result: Any, error: BaseException | None) -> None:
        """Write the span of a library's search inside of a call, so that a judge of its trace reads the passages.

        Args:
            search: The search, which is over.
            name: Qualified name of the library's function.
            result: What it found.
            error: What it raised; None where it returned.
        """
        around = trace.set_span_in_context(search.call.span)
        span = self._tracer().start_span(name, context=around, start_time=search.began)
        span.set_attribute("openinference.span.kind", "RETRIEVER")
        if error is None and (count := count_results(result)) is not None:
            span.set_attribute("retrieved_count", count)
        if self._has_content:
            span.set_attribute("input.value", text_of_value(search.asked))
            if error is None:
                span.set_attribute("output.value", text_of_value(result))
        _note_error(span, error)
        span.end()


def _note_error(span: Any, error: BaseException | None) -> None:
    if isinstance(error, Exception):
        span.record_exception(error, texts := error_texts(error))
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(trace.Status(trace.StatusCode.ERROR, texts["exception.message"][:300]))


def _goes_on(error: BaseException | None) -> bool:
    """Return whether an exception is none of a failure: a graph waits or goes on elsewhere, or a page runs anew."""
    return any(
        (c.__name__ == "GraphBubbleUp" and c.__module__ == "langgraph.errors")
        or (c.__name__ == "ScriptControlException" and c.__module__.startswith("streamlit."))
        for c in type(error).__mro__
    )


def _says_something(argument: Any) -> bool:
    """Return whether an argument can hold what is asked; switches and numbers do not."""
    if argument is None or isinstance(argument, bool | int | float):
        return False
    return not (type(argument) in (str, list, tuple, dict) and not argument)


def _output(call: WatchedCall, result: Any, is_stream: bool) -> str:
    """Return the text that a call gave, without secrets: its chunks, its reply of a model, or its result.

    The output of a model's call is what the model said, where the function gives no text itself: it may hand the reply
    on in an object of its own, or in a state of a graph.
    """
    if is_stream and (call.pieces.has_text() or call.reply is None or not call.is_model):
        return _short(call.pieces.text())
    if type(result) is str:
        return _short(result)
    text = call.reply if call.is_model else None
    if text is None and type(result) not in _PLAIN and client_reply(result):
        text = reply_text(result)
    if text is not None:
        return _short(text)
    return text_of_value(result) if result is not None else ""


def _short(text: str) -> str:
    return str(hide_secrets(text))[:MOST_CHARACTERS]
