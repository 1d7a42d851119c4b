"""Decodes spans, log records and resources of protobuf; the only file that imports opentelemetry-proto."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.span_record import MOST_DEPTH, AttributeShapes, LogEntry, SpanRecord

_NO_TRACE, _NO_PARENT = bytes(16), bytes(8)


def parse_request(body: bytes, *, is_logs: bool) -> bool:
    """Return whether a body is an export request in which every span decodes."""
    try:
        (ExportLogsServiceRequest if is_logs else ExportTraceServiceRequest).FromString(body)
    except DecodeError:
        return False
    return True


def is_sound(body: bytes) -> bool:
    """Return whether a body is an export request of spans that all decode and all have ids."""
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return False
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                trace_id, span_id = span.trace_id, span.span_id
                if len(trace_id) != 16 or trace_id == _NO_TRACE or len(span_id) != 8 or span_id == _NO_PARENT:
                    return False
    return True


def read_span(raw: bytes, shapes: AttributeShapes) -> SpanRecord:
    """Decode a span.

    Raises:
        UndecodableError: It is none, or an attribute has no key.
    """
    try:
        span = Span.FromString(raw)
    except DecodeError as error:
        raise UndecodableError(_reason(error)) from None
    pairs = list(span.attributes)
    shape = shapes[tuple([pair.key for pair in pairs])]
    values: list[Any] = []
    for index in shape.indices:
        value = pairs[index].value
        # Most values are texts or whole numbers.
        values.append(value.string_value or value.int_value or _value(value, 0))
    is_error, message = False, ""
    if span.HasField("status"):
        status = span.status
        is_error, message = status.code == 2, status.message
    parent = span.parent_span_id
    events: Any = span.events
    links: Any = span.links
    return SpanRecord(
        span.span_id.hex(), None if parent == _NO_PARENT or len(parent) != 8 else parent.hex(), span.name, span.kind,
        span.start_time_unix_nano, span.end_time_unix_nano, is_error, message, shape, values,
        [(event.name, event.time_unix_nano, _attributes(event.attributes)) for event in events] if events else (),
        [(link.trace_id.hex(), link.span_id.hex()) for link in links] if links else (),
        span.dropped_attributes_count, span.trace_state,
    )  # fmt: skip


def read_log(raw: bytes) -> LogEntry:
    """Decode a log record.

    Raises:
        UndecodableError: It is none.
    """
    try:
        record = LogRecord.FromString(raw)
    except DecodeError as error:
        raise UndecodableError(_reason(error)) from None
    attributes = _attributes(record.attributes)
    name = record.event_name or str(attributes.get("event.name") or "")
    body = _value(record.body, 0) if record.HasField("body") else None
    return LogEntry(name, record.time_unix_nano or record.observed_time_unix_nano, attributes, body)


def read_block(resource: bytes, scope: bytes) -> tuple[dict[str, Any], str, str]:
    """Decode a resource and a scope to the attributes of the one, and name and version of the other.

    Raises:
        UndecodableError: One of them is none.
    """
    try:
        own = InstrumentationScope.FromString(scope)
        return _attributes(Resource.FromString(resource).attributes), own.name, own.version
    except DecodeError as error:
        raise UndecodableError(_reason(error)) from None


def _attributes(pairs: Any) -> dict[str, Any]:
    found = {pair.key: _value(pair.value, 0) for pair in pairs}
    if "" in found:
        raise UndecodableError("an attribute has no key")
    return found


def _value(value: Any, depth: int) -> Any:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bool_value":
            return value.bool_value
        case "array_value" if depth < MOST_DEPTH:
            return [_value(member, depth + 1) for member in value.array_value.values]
        case "kvlist_value" if depth < MOST_DEPTH:
            return {pair.key: _value(pair.value, depth + 1) for pair in value.kvlist_value.values}
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
    return None


def _reason(error: Exception) -> str:
    text = str(error)
    return "a text is not UTF-8" if "UTF-8" in text else "it is no protobuf message of its type"
