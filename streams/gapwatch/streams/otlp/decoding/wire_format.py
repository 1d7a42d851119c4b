"""Splits OTLP requests of protobuf on its wire format, without decoding what is in a span.

Source: https://protobuf.dev/programming-guides/encoding; the numbers of the fields are those of `trace.proto` and
`logs.proto` of opentelemetry-proto.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.streams.otlp.decoding.raw_items import BlockCache, RawLog, RawSpan, SplitPayload, UndecodableError

#: Bytes of a span or log record, at most; the envelope of a whole trace has the same limit.
MOST_ITEM_BYTES = 10_000_000
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
# Fields of a message on the way from the request to a span, which traces and logs have in common.
_RESOURCES, _OWN, _MEMBERS = 1, 1, 2
_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = 0, 1, 2, 3, 4, 5
#: Groups in each other, at most: the protobuf library has the same limit.
_MOST_GROUPS = 100


def split_message(body: bytes, *, is_logs: bool, blocks: BlockCache) -> SplitPayload:
    """Return the spans, or log records, of an export request.

    Raises:
        UndecodableError: The body is no such message.
    """
    found = SplitPayload()
    try:
        for field, start, end in _members(body, 0, len(body)):
            if field == _RESOURCES:
                _split_resource(body, start, end, is_logs, blocks, found)
    except IndexError:
        raise UndecodableError("the protobuf message ends in the middle") from None
    return found


def _split_resource(body: bytes, start: int, end: int, is_logs: bool, blocks: BlockCache, found: SplitPayload) -> None:
    resource, scopes = b"", []
    for field, first, last in _members(body, start, end):
        if field == _OWN:
            resource = body[first:last]
        elif field == _MEMBERS:
            scopes.append((first, last))
    for scope_start, scope_end in scopes:
        scope, items = b"", []
        for field, first, last in _members(body, scope_start, scope_end):
            if field == _MEMBERS:
                items.append((first, last))
            elif field == _OWN:
                scope = body[first:last]
        block = blocks.block(resource, scope)
        for first, last in items:
            raw = body[first:last]
            if is_logs:
                _add_log(raw, found, block)
            else:
                _add_span(raw, found, block)


def _add_span(raw: bytes, found: SplitPayload, block: object) -> None:
    if raw[:2] == b"\n\x10" and raw[18:20] == b"\x12\x08":  # how every known exporter begins a span
        trace_id, span_id, at = raw[2:18], raw[20:28], 28
        if raw[28:29] == b"\x1a":  # trace state
            size, at = _varint(raw, 29)
            at += size
        parent_id = raw[at + 2 : at + 10] if raw[at : at + 2] == b"\x22\x08" else b""
    else:
        trace_id = span_id = parent_id = b""
        try:
            for field, first, last in _members(raw, 0, len(raw)):
                if field == 1:
                    trace_id = raw[first:last]
                elif field == 2:
                    span_id = raw[first:last]
                elif field == 4:
                    parent_id = raw[first:last]
        except (IndexError, UndecodableError):
            found.bury("span", "undecodable", "the span is no protobuf message", "", raw)
            return
    add_span(trace_id, span_id, parent_id, raw, False, found, block)


def add_span(
    trace_id: bytes, span_id: bytes, parent_id: bytes, raw: bytes, is_json: bool, found: SplitPayload, block: object
) -> None:
    """Add a span to what was found, or a dead letter where an id or its size is wrong."""
    if len(trace_id) != 16 or trace_id == _NO_TRACE:
        found.bury("span", "bad_id", f"trace id of {len(trace_id)} bytes, or zeros", trace_id.hex()[:64], raw)
    elif len(span_id) != 8 or span_id == _NO_SPAN:
        found.bury("span", "bad_id", f"span id of {len(span_id)} bytes, or zeros", trace_id.hex(), raw)
    elif len(raw) > MOST_ITEM_BYTES:
        found.bury("span", "too_large", f"{len(raw)} bytes, more than {MOST_ITEM_BYTES}", trace_id.hex(), raw)
    else:
        if len(parent_id) != 8 or parent_id == _NO_SPAN:
            parent_id = b""
        found.spans.append(RawSpan(trace_id, span_id, parent_id, raw, is_json, block))  # type: ignore[arg-type]


def _add_log(raw: bytes, found: SplitPayload, block: object) -> None:
    try:
        values = {field: raw[first:last] for field, first, last in _members(raw, 0, len(raw))}
    except (IndexError, UndecodableError):
        found.bury("log_record", "undecodable", "the log record is no protobuf message", "", raw)
        return
    add_log(values.get(9, b""), values.get(10, b""), raw, False, found, block)


def add_log(trace_id: bytes, span_id: bytes, raw: bytes, is_json: bool, found: SplitPayload, block: object) -> None:
    """Add a log record to what was found; one without a trace or a span is added without ids."""
    if len(raw) > MOST_ITEM_BYTES:
        found.bury("log_record", "too_large", f"{len(raw)} bytes, more than {MOST_ITEM_BYTES}", "", raw)
        return
    if len(trace_id) != 16 or trace_id == _NO_TRACE or len(span_id) != 8 or span_id == _NO_SPAN:
        trace_id = span_id = b""
    found.logs.append(RawLog(trace_id, span_id, raw, is_json, block))  # type: ignore[arg-type]


def _members(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of the length-delimited fields of a message; raises IndexError at a cut."""
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1)
        wire = tag & 7
        if wire == _BYTES:
            size = data[at]
            at += 1
            if size > 127:
                size, at = _varint(data, at - 1)
            stop = at + size
            if stop > end:
                raise IndexError
            yield tag >> 3, at, stop
            at = stop
        elif wire == _VARINT:
            at = _varint(data, at)[1]
        elif wire == _FIXED64:
            at += 8
        elif wire == _FIXED32:
            at += 4
        elif wire == _GROUP:  # of an unknown field: skipped
            at = _after_group(data, at, end)
        else:
            raise UndecodableError("the body is no protobuf message")
    if at != end:
        raise IndexError


def _after_group(data: bytes, at: int, end: int) -> int:
    """Return the position behind the end of a group whose first tag was read."""
    depth = 1
    while depth:
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _GROUP:
            depth += 1
        elif wire == _GROUP_END:
            depth -= 1
        elif wire == _VARINT:
            at = _varint(data, at)[1]
        elif wire == _BYTES:
            size, at = _varint(data, at)
            at += size
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            raise UndecodableError("the body is no protobuf message")
        if at > end or depth > _MOST_GROUPS:
            raise UndecodableError("the body is no protobuf message")
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise UndecodableError("the body is no protobuf message")
