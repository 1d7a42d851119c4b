"""Traces and spans while they are recorded on the pipeline's thread, and their encoding as one JSON record."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

import orjson

_DUMP = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY

#: Attribute of a trace with the name of the host, as OpenTelemetry's conventions for resources call it.
HOST_KEY = "host.name"
_HOST = socket.gethostname()[:100]

#: Most characters of an error's message. It is read by people; a longer text would carry payloads into attributes.
ERROR_MESSAGE_LENGTH = 300


class Captured:
    """JSON text of a value at the moment of capture, so that later changes by the pipeline have no effect."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def capture(value: Any) -> Any:
    """Return a copy of the value as it is now: texts and numbers unchanged, all else as `Captured`; never raises."""
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is float or kind is int:
        return value
    try:
        return Captured(orjson.dumps(value, _plain, _DUMP))
    except Exception:
        return _capture_slowly(value)  # integers over 64 bits, lone surrogates, values that contain themselves


def _capture_slowly(value: Any) -> Any:
    try:
        return Captured(json.dumps(value, default=_plain, allow_nan=False).encode())
    except Exception:
        try:
            return repr(value)
        except Exception:
            return f"<{type(value).__name__}>"


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # pydantic
    if dump is not None:
        return dump(mode="json")
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, BaseException):
        return f"{type(value).__qualname__}: {value}"
    return repr(value)


def size_of(value: Any) -> int:
    """Return the approximate size in bytes of a captured value in the record."""
    if type(value) is Captured:
        return len(value.data)
    return len(value) if type(value) is str else 8


class Span:
    """One step of a trace. Assign its fields as they become known; times, ids and exceptions are recorded for you.

    A time that you set by hand is kept.

    Attributes:
        component: The component of the pipeline that this step belongs to, as the portfolio names it.
        name: Free text; may stay None.
        kind: llm, embedding, retrieval, rerank, tool, agent, chain, guardrail, parse, cache or other.
        tier: The route inside the component that answered: `primary`, `fallback`, `cache`, ...
        model: Name of the model.
        input, output: Any value with a JSON form; other values are recorded by their `repr`.
        attributes: Further fields, as a flat mapping; metrics can check them.
        status: `ok`, or `error` after an exception or `fail`.
        error_type: Name of the exception's class.
        started_at, ended_at: Seconds since the epoch, UTC. Without an `ended_at` of yours, it is `started_at` plus the
            duration.
    """

    __slots__ = (
        *("attributes", "component", "ended_at", "error_type", "input", "kind", "model", "name", "output"),
        *("parent_id", "span_id", "started_at", "status", "tier", "trace", "usage", "_started"),
    )

    def __init__(self, trace: Trace, component: str, parent_id: str | None) -> None:
        self.trace = trace
        self.component = component
        self.parent_id = parent_id
        self.span_id = os.urandom(8).hex()  # not `random`: a pipeline that seeds it would repeat its ids
        self.name: str | None = None
        self.kind: str | None = None
        self.tier: str | None = None
        self.model: str | None = None
        self.status = "ok"
        self.error_type: str | None = None
        self.input: Any = None
        self.output: Any = None
        self.usage: dict[str, float] | None = None
        self.attributes: dict[str, Any] = {}
        self.started_at = time.time()
        self.ended_at: float | None = None
        self._started = time.perf_counter()

    @property
    def is_recording(self) -> bool:
        """True if the span will be published."""
        return True

    def set_usage(
        self, input_tokens: float | None = None, output_tokens: float | None = None, cost_usd: float | None = None
    ) -> None:
        """Record tokens and cost of a model call; an argument that is None leaves its field unchanged."""
        values = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cost_usd": cost_usd}
        self.usage = {**(self.usage or {}), **{key: value for key, value in values.items() if value is not None}}

    def fail(self, error: BaseException | str) -> None:
        """Record an error that the pipeline handled itself; the span's status becomes `error`.

        Args:
            error: The exception, or a name for the error.
        """
        self.status = "error"
        if isinstance(error, str):
            self.error_type = error
            return
        self.error_type = type(error).__qualname__
        try:
            message = str(error)[:ERROR_MESSAGE_LENGTH]
        except Exception:
            message = ""
        if message:
            self.attributes.setdefault("error_message", message)

    def end(self) -> None:
        """Record the end, unless the pipeline set it; the duration is measured by a monotonic clock."""
        if self.ended_at is None:
            self.ended_at = self.started_at + (time.perf_counter() - self._started)


class Trace:
    """One run of a pipeline: the fields of its record, and the spans that have ended.

    Attributes:
        trace_id: Also the key of the Kafka record.
        session_id: Shared by the traces of one conversation; may be None.
        attributes: Further fields, as a flat mapping; assign until the trace ends.
        is_recording: False for a trace that sampling left out; its spans record nothing.
        spans: The spans that have ended; any thread may append.
        size: Approximate size of the spans in bytes.
        started_at, ended_at: Seconds since the epoch, UTC; a value that you set by hand is kept.
        has_ended: True from the end on; a span that ends later is not published.
    """

    __slots__ = (
        *("attributes", "ended_at", "environment", "has_ended", "is_recording", "pipeline", "release"),
        *("sampling_probability", "session_id", "size", "spans", "started_at", "trace_id", "_started"),
    )

    def __init__(self, trace_id: str, pipeline: str, environment: str, release: str | None) -> None:
        self.trace_id = trace_id
        self.pipeline = pipeline
        self.environment = environment
        self.release = release
        self.session_id: str | None = None
        self.sampling_probability = 1.0
        self.is_recording = True
        self.has_ended = False
        self.attributes: dict[str, Any] = {}
        self.spans: list[Span] = []
        self.size = 0
        self.started_at = time.time()
        self.ended_at: float | None = None
        self._started = time.perf_counter()

    def end(self) -> None:
        """Record the end, unless the pipeline set it; spans that end after it are late and are not published."""
        self.has_ended = True
        if self.ended_at is None:
            self.ended_at = self.started_at + (time.perf_counter() - self._started)


def encode_trace(trace: Trace, spans: list[Span]) -> bytes:
    """Return the trace as one JSON record of the envelope, version 1; fields that are None are left out.

    Args:
        trace: The trace, ended.
        spans: Its spans.
    """
    record = _without_nones(
        trace_id=trace.trace_id,
        pipeline=trace.pipeline,
        environment=trace.environment,
        release=trace.release,
        session_id=trace.session_id,
        started_at=trace.started_at,
        ended_at=trace.ended_at,
        sampling_probability=trace.sampling_probability,
        attributes=_with_host(trace.attributes),
    )
    record["spans"] = [_span_record(span) for span in spans]
    try:
        return orjson.dumps(record, _fragment, _DUMP)
    except TypeError:  # a lone surrogate, an integer over 64 bits, an attribute that holds itself
        record["spans"] = [_made_safe(span) for span in record["spans"]]
        return orjson.dumps(_made_safe(record), _fragment, _DUMP)


def _with_host(attributes: Any) -> Any:
    """Return the attributes of a trace with the name of this host, unless the pipeline set one.

    A wrong clock is named by it: the times of a trace are those of its host.
    """
    if not attributes:
        return {HOST_KEY: _HOST}
    if type(attributes) is dict and HOST_KEY not in attributes:
        return {HOST_KEY: _HOST, **attributes}
    return attributes


def _span_record(span: Span) -> dict[str, Any]:
    return _without_nones(
        span_id=span.span_id,
        parent_id=span.parent_id,
        component=span.component,
        name=span.name,
        kind=span.kind,
        started_at=span.started_at,
        ended_at=span.ended_at,
        status=span.status,
        error_type=span.error_type,
        model=span.model,
        tier=span.tier,
        input=span.input,
        output=span.output,
        usage=span.usage,
        attributes=span.attributes or None,
    )


def _without_nones(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _fragment(value: Any) -> Any:
    return orjson.Fragment(value.data) if type(value) is Captured else _plain(value)


def _made_safe(value: Any, depth: int = 0) -> Any:
    """Return a record in which every value can be encoded by orjson."""
    if type(value) is dict and depth < 2:  # the record and its `attributes`
        return {_utf8(str(key)): _made_safe(item, depth + 1) for key, item in value.items()}
    if type(value) is list and depth == 1:  # the spans, made safe already
        return value
    captured = capture(value)
    if type(captured) is int and not -(2**63) <= captured < 2**63:
        return Captured(str(captured).encode())
    return _utf8(captured) if type(captured) is str else captured


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
