"""Decodes spans, log records and resources of OTLP/JSON; ids are hexadecimal digits, and 64-bit numbers may be texts.

Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. `google.protobuf.json_format` reads the ids
as base64, without an error, so it is not used.
"""

from __future__ import annotations

from typing import Any

import orjson

from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.span_record import MOST_DEPTH, SPAN_KINDS, AttributeShapes, LogEntry, SpanRecord


def read_json_span(raw: bytes, shapes: AttributeShapes) -> SpanRecord:
    """Decode a span of JSON.

    Raises:
        UndecodableError: It is none.
    """
    span = _object(raw)
    try:
        pairs = span.get("attributes") or ()
        shape = shapes[tuple([pair.get("key") for pair in pairs])]
        values: list[Any] = []
        for index in shape.indices:
            value = pairs[index].get("value")
            text = value.get("stringValue") if value else None
            values.append(text if type(text) is str and len(value) == 1 else _value(value, 0))
        events = [
            (str(event.get("name") or ""), _integer(event.get("timeUnixNano")), _attributes(event.get("attributes")))
            for event in span.get("events") or ()
        ]
        links = [
            (str(link.get("traceId") or "").lower(), str(link.get("spanId") or "").lower())
            for link in span.get("links") or ()
        ]
        status = span.get("status") or {}
        parent = str(span.get("parentSpanId") or "").lower()
        return SpanRecord(
            str(span.get("spanId") or "").lower(), parent if len(parent) == 16 and parent.strip("0") else None,
            str(span.get("name") or ""), _kind(span.get("kind")), _integer(span.get("startTimeUnixNano")),
            _integer(span.get("endTimeUnixNano")), status.get("code") in (2, "STATUS_CODE_ERROR"),
            str(status.get("message") or ""), shape, values, events, links,
            _integer(span.get("droppedAttributesCount")), str(span.get("traceState") or ""),
        )  # fmt: skip
    except (AttributeError, TypeError):
        raise UndecodableError("a member of the span has a wrong type") from None


def read_json_log(raw: bytes) -> LogEntry:
    """Decode a log record of JSON.

    Raises:
        UndecodableError: It is none.
    """
    record = _object(raw)
    try:
        attributes = _attributes(record.get("attributes"))
        name = str(record.get("eventName") or attributes.get("event.name") or "")
        time = _integer(record.get("timeUnixNano")) or _integer(record.get("observedTimeUnixNano"))
        return LogEntry(name, time, attributes, _value(record.get("body"), 0))
    except (AttributeError, TypeError):
        raise UndecodableError("a member of the log record has a wrong type") from None


def read_json_block(resource: bytes, scope: bytes) -> tuple[dict[str, Any], str, str]:
    """Decode a resource and a scope of JSON; see `protobuf_reader.read_block`.

    Raises:
        UndecodableError: One of them is none.
    """
    try:
        own = _object(scope) if scope else {}
        attributes = _attributes(_object(resource).get("attributes")) if resource else {}
        return attributes, str(own.get("name") or ""), str(own.get("version") or "")
    except (AttributeError, TypeError):
        raise UndecodableError("a resource or a scope has a wrong type") from None


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(raw)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise UndecodableError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UndecodableError("the JSON is no object")
    return value


def _attributes(pairs: Any) -> dict[str, Any]:
    found = {pair.get("key"): _value(pair.get("value"), 0) for pair in pairs or ()}
    if not all(found) or not all(isinstance(key, str) for key in found):
        raise UndecodableError("an attribute has no key")
    return found


def _value(value: Any, depth: int) -> Any:
    if not value:
        return None
    for kind, content in value.items():
        match kind:
            case "stringValue" | "bytesValue":
                return content if isinstance(content, str) else None
            case "intValue":
                return _number(content, int)
            case "boolValue":
                return content if isinstance(content, bool) else None
            case "doubleValue":
                return _number(content, float)
            case "arrayValue" if depth < MOST_DEPTH:
                return [_value(member, depth + 1) for member in content.get("values") or ()]
            case "kvlistValue" if depth < MOST_DEPTH:
                return {pair.get("key"): _value(pair.get("value"), depth + 1) for pair in content.get("values") or ()}
    return None


def _number(content: Any, of: type[int] | type[float]) -> Any:
    """Return a number that may be written as a text; None for a text that is no number."""
    try:
        return of(content)
    except (TypeError, ValueError, OverflowError):
        return None


def _integer(content: Any) -> int:
    value = _number(content, int)
    return value if value is not None and 0 <= value < 1 << 64 else 0


def _kind(content: Any) -> int:
    if isinstance(content, str):
        name = content.removeprefix("SPAN_KIND_")
        return SPAN_KINDS.index(name) if name in SPAN_KINDS else 0
    return content if isinstance(content, int) else 0
