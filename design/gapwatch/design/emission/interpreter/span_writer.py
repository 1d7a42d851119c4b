"""Writes the spans of watched calls with OpenTelemetry, to the program's own provider or to one of its own."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from gapwatch.design.emission.interpreter.model_replies import client_reply, count_results
from gapwatch.design.emission.interpreter.plain_values import MOST_CHARACTERS, text_of_value

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
#: Types of results that are no replies of models.
_PLAIN = (str, int, float, bool, type(None), bytes, list, tuple)
#: Milliseconds between two exports; what is not exported is lost when the program is killed.
_DELAY = 1_000
#: The innermost watched call, and whether a client's call is under way, in OpenTelemetry's context.
_CALL, _CLIENT = contexts.create_key("gapwatch-call"), contexts.create_key("gapwatch-client")


@dataclass(slots=True)
class WatchedCall:
    """A call of a watched function that is under way.

    Attributes:
        span: Its span.
        context: Context with the span.
        before: Context in which it was called.
        is_owner: Whether the span ends with it.
        notes: Fields of the span.
        started: Seconds of the monotonic clock.
        chunks: Texts that a generator gave.
        first_chunk: Seconds until the first of them; None for none.
        last: Nanoseconds since the epoch at the last of them; None for none.
    """

    span: Any
    context: Context
    before: Context
    is_owner: bool
    notes: dict[str, Any]
    started: float = field(default_factory=time.monotonic)
    chunks: list[str] = field(default_factory=list)
    first_chunk: float | None = None
    last: int | None = None


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
        self._joined: set[int] = set()
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
        elif id(provider) not in self._joined:
            self._joined.add(id(provider))
            # Spans that the program makes itself go to the same place, so that its traces are whole.
            self._export(provider)
        tracer = self._tracers.get(id(provider))
        if tracer is None:
            tracer = self._tracers[id(provider)] = provider.get_tracer("gapwatch.instrument")
        return tracer

    def _export(self, provider: TracerProvider) -> None:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=_DELAY))
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
        span: Any = trace.get_current_span(before)
        is_owner = not (plan["is_there"] and span.is_recording())
        if is_owner:
            span = tracer.start_span(plan["span"], context=before)
            span.set_attribute("gapwatch.component", plan["component"])
            if (kind := _KINDS.get(plan["kind"], "CHAIN")) is not None:
                span.set_attribute("openinference.span.kind", kind)
            if self._has_content:
                span.set_attribute("input.value", text_of_value(arguments))
        call = WatchedCall(span, before, before, is_owner, dict(plan["start"]))
        call.context = contexts.set_value(_CALL, call, trace.set_span_in_context(span, before))
        contexts.attach(call.context)
        return call

    def end(self, call: WatchedCall, result: Any, error: BaseException | None, is_stream: bool) -> None:
        """End the span of a call and make the caller's context current again.

        Args:
            call: The call.
            result: What it returned.
            error: What it raised; None where it returned.
            is_stream: Whether it is a generator.
        """
        self.leave(call)
        span, notes = call.span, call.notes
        if error is None and not is_stream and type(result) not in _PLAIN:
            for name, value in client_reply(result).items():
                notes.setdefault(name, value)
        self._settle(call, result, error, is_stream)
        for name, value in notes.items():
            if value is None:
                continue
            if name == "tier":
                span.set_attribute("gapwatch.tier", value)
            elif name == "finish_reason":
                span.set_attribute("gen_ai.response.finish_reasons", [value])
            else:
                span.set_attribute(_REPLY.get(name, name), value)
        if not call.is_owner:
            return
        if self._has_content and error is None:
            span.set_attribute("output.value", "".join(call.chunks) if is_stream else _output(result))
        if isinstance(error, Exception):
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)[:300]))
        # A generator that nobody takes from any more was over after its last chunk.
        span.end(call.last if isinstance(error, GeneratorExit) else None)

    def _settle(self, call: WatchedCall, result: Any, error: BaseException | None, is_stream: bool) -> None:
        notes = call.notes
        end = notes.pop("agent_end", None)
        if end is not None and notes["agent_exit"] is None:
            notes["agent_exit"] = "error" if isinstance(error, Exception) else end
        attempts = notes.pop("attempts", None)
        if attempts is not None:
            notes["retry_count"] = max(0, attempts - 1)
            if error is not None:
                notes["retry_outcome"] = "exhausted"
            else:
                notes.setdefault("retry_outcome", "first_try" if attempts <= 1 else "recovered")
        if notes.get("retrieved_count") == "of_result":
            notes["retrieved_count"] = None if error is not None else count_results(result)
        if notes.get("rows_written") == "of_cursor":
            notes["rows_written"] = None
        if "stream_outcome" in notes:
            notes["stream_outcome"] = (
                "aborted" if error is not None else "completed" if call.first_chunk is not None else "empty"
            )
        if "first_chunk_seconds" in notes:
            notes["first_chunk_seconds"] = call.first_chunk

    @staticmethod
    def leave(call: WatchedCall) -> None:
        """Make the caller's context current again, where the call's own still is."""
        if contexts.get_current() is call.context:
            contexts.attach(call.before)

    @staticmethod
    def enter(call: WatchedCall) -> None:
        """Make the call's context current: a generator goes on, perhaps for another caller."""
        call.before = contexts.get_current()
        contexts.attach(call.context)

    @staticmethod
    def chunk(call: WatchedCall, value: Any) -> None:
        """Note what a generator gives."""
        call.last = time.time_ns()
        if call.first_chunk is None:
            call.first_chunk = time.monotonic() - call.started
        if type(value) is str and sum(map(len, call.chunks[-1:])) + len(call.chunks) < MOST_CHARACTERS:
            call.chunks.append(value)


def _output(result: Any) -> str:
    """Return the text of a reply, or the result as it is."""
    choices = getattr(result, "choices", None)
    if isinstance(choices, list) and choices:
        content = getattr(getattr(choices[0], "message", None), "content", None)
        if isinstance(content, str):
            return content[:MOST_CHARACTERS]
    return text_of_value(result) if result is not None else ""


def innermost_call() -> WatchedCall | None:
    """Return the innermost watched call of the current context."""
    found = contexts.get_value(_CALL)
    return found if isinstance(found, WatchedCall) else None


def innermost_with(name: str, call: WatchedCall) -> WatchedCall | None:
    """Return a call or the innermost one around it that has a field."""
    found: object = call
    while isinstance(found, WatchedCall) and name not in found.notes:
        found = contexts.get_value(_CALL, found.before)
    return found if isinstance(found, WatchedCall) else None


def begin_client() -> Context | None:
    """Mark that a client's call is under way; return the context before it, None where one is under way already."""
    before = contexts.get_current()
    if contexts.get_value(_CLIENT, before) or contexts.get_value(_CALL, before) is None:
        return None
    contexts.attach(contexts.set_value(_CLIENT, True, before))
    return before


def end_client(before: Context, kind: str, result: Any) -> None:
    """Give the reply of a client's call to the innermost watched call.

    Args:
        before: Context before the call.
        kind: llm or retrieval.
        result: What the call returned; None where it raised.
    """
    call = contexts.get_value(_CALL, before)
    contexts.attach(before)
    if not isinstance(call, WatchedCall):
        return
    notes = call.notes
    if kind == "retrieval":
        if (count := count_results(result)) is not None and "retrieved_count" in notes:
            known = notes["retrieved_count"]
            notes["retrieved_count"] = count + (known if isinstance(known, int) else 0)
        return
    for name, value in client_reply(result).items():
        if name.endswith("_tokens") or name == "cost_usd":
            notes[name] = notes.get(name, 0) + value
        else:
            notes[name] = value
