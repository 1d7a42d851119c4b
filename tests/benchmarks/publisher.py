"""Cost of a span on the pipeline's own thread: `TracePublisher` beside OpenTelemetry's SDK.

Run from the root: `python -m tests.benchmarks.publisher`. Both note the same of an LLM call (kind, model, tier, input,
output, usage) and hand every trace to a thread that gets rid of none (ours waits for a broker that is not there,
OpenTelemetry's exports to nowhere), so that what is measured is the caller's side. A trace has 8 spans; its own start
and end are counted in. CPU time of the calling thread, best of 5 rounds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from gapwatch.publisher.trace_publisher import TracePublisher

SPANS_A_TRACE, TRACES, ROUNDS = 8, 1_500, 5
QUESTION, ANSWER = "What does the fare rule say about rebooking? " * 10, "It can be rebooked once, without a fee. " * 20

#: What the issue allows, in microseconds a span.
GOAL_MICROSECONDS = 30.0


class NoExport(SpanExporter):
    """Takes spans and forgets them."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def gapwatch_context_managers() -> Callable[[], None]:
    publisher = TracePublisher("benchmark", brokers="127.0.0.1:1", max_buffered_traces=10**6, max_buffered_bytes=10**10)

    def trace() -> None:
        with publisher.trace():
            for _ in range(SPANS_A_TRACE):
                with publisher.span("generator", kind="llm", tier="primary", model="m", input=QUESTION) as span:
                    span.output = ANSWER
                    span.set_usage(input_tokens=1503, output_tokens=88)

    return trace


def gapwatch_decorator() -> Callable[[], None]:
    publisher = TracePublisher("benchmark", brokers="127.0.0.1:1", max_buffered_traces=10**6, max_buffered_bytes=10**10)
    answer = {
        "model": "m",
        "choices": [{"message": {"content": ANSWER}}],
        "usage": {"prompt_tokens": 1503, "completion_tokens": 88},
    }

    @publisher.span("generator", kind="llm", tier="primary")
    def generate(question: str) -> dict[str, object]:
        return answer

    def trace() -> None:
        with publisher.trace():
            for _ in range(SPANS_A_TRACE):
                generate(QUESTION)

    return trace


def opentelemetry_context_managers() -> Callable[[], None]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(NoExport()))
    tracer = provider.get_tracer("benchmark")

    def trace() -> None:
        with tracer.start_as_current_span("trace"):
            for _ in range(SPANS_A_TRACE):
                with tracer.start_as_current_span("generator") as span:
                    span.set_attribute("gen_ai.operation.name", "chat")
                    span.set_attribute("gen_ai.request.model", "m")
                    span.set_attribute("tier", "primary")
                    span.set_attribute("gen_ai.input.messages", QUESTION)
                    span.set_attribute("gen_ai.output.messages", ANSWER)
                    span.set_attribute("gen_ai.usage.input_tokens", 1503)
                    span.set_attribute("gen_ai.usage.output_tokens", 88)

    return trace


def microseconds_a_span(make: Callable[[], Callable[[], None]]) -> float:
    trace = make()
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(TRACES):
            trace()
        best = min(best, time.thread_time() - began)
    return best / (TRACES * SPANS_A_TRACE) * 1e6


def main() -> None:
    logging.getLogger("gapwatch.publisher").setLevel(logging.ERROR)
    contenders = {
        "TracePublisher, with": gapwatch_context_managers,
        "TracePublisher, decorator": gapwatch_decorator,
        "opentelemetry-sdk, with": opentelemetry_context_managers,
    }
    found = {name: microseconds_a_span(make) for name, make in contenders.items()}
    reference = found["opentelemetry-sdk, with"]
    for name, value in found.items():
        print(f"{name:<28}{value:7.1f} us a span   {reference / value:4.1f} x less than OpenTelemetry's")
    worst = max(value for name, value in found.items() if name.startswith("TracePublisher"))
    print(f"goal: at most {GOAL_MICROSECONDS:.0f} us: {'met' if worst <= GOAL_MICROSECONDS else 'MISSED'}")


if __name__ == "__main__":
    main()
