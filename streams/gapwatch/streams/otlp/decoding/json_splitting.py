"""Splits OTLP requests of JSON into raw spans and log records, without decoding what is in a span."""

from __future__ import annotations

import msgspec

from gapwatch.streams.otlp.decoding.raw_items import BlockCache, SplitPayload, UndecodableError
from gapwatch.streams.otlp.decoding.wire_format import add_log, add_span

_RAW = msgspec.Raw


class _Scope(msgspec.Struct, gc=False):
    scope: _RAW = _RAW(b"")
    spans: list[_RAW] | None = None
    logRecords: list[_RAW] | None = None  # noqa: N815


class _ResourceSpans(msgspec.Struct, gc=False):
    resource: _RAW = _RAW(b"")
    scopeSpans: list[_Scope] | None = None  # noqa: N815
    scopeLogs: list[_Scope] | None = None  # noqa: N815


class _Request(msgspec.Struct, gc=False):
    resourceSpans: list[_ResourceSpans] | None = None  # noqa: N815
    resourceLogs: list[_ResourceSpans] | None = None  # noqa: N815


class _Ids(msgspec.Struct, gc=False):
    traceId: str | None = None  # noqa: N815
    spanId: str | None = None  # noqa: N815
    parentSpanId: str | None = None  # noqa: N815


_request, _ids = msgspec.json.Decoder(_Request).decode, msgspec.json.Decoder(_Ids).decode


def split_json(body: bytes, *, is_logs: bool, blocks: BlockCache) -> SplitPayload:
    """Return the spans, or log records, of an export request in JSON.

    Raises:
        UndecodableError: The body is no such message.
    """
    try:
        request = _request(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UndecodableError(f"the body is no OTLP/JSON: {error}") from None
    found = SplitPayload()
    for resource in (request.resourceLogs if is_logs else request.resourceSpans) or ():
        for scope in (resource.scopeLogs if is_logs else resource.scopeSpans) or ():
            block = blocks.block(bytes(resource.resource), bytes(scope.scope))
            for item in (scope.logRecords if is_logs else scope.spans) or ():
                _add(bytes(item), is_logs, found, block)
    return found


def _add(raw: bytes, is_logs: bool, found: SplitPayload, block: object) -> None:
    try:
        ids = _ids(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        item = "log_record" if is_logs else "span"
        found.bury(item, "undecodable", "an id is no text, or the JSON is no object", "", raw)
        return
    trace_id, span_id = _id(ids.traceId), _id(ids.spanId)
    if is_logs:
        add_log(trace_id, span_id, raw, True, found, block)
    else:
        add_span(trace_id, span_id, _id(ids.parentSpanId), raw, True, found, block)


def _id(text: str | None) -> bytes:
    """Return the bytes of an id; a text that is not hexadecimal gives an id of a wrong length."""
    try:
        return bytes.fromhex(text) if text else b""
    except ValueError:
        return (text or "").encode("utf-8", "replace")[:15] or b"?"
