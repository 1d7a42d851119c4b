"""Decodes spans from their bytes, without a protobuf library; of use where this file is compiled.

See `hatch_build.py`. As Python it is slower than `protobuf_reader`, whose message objects cost most of the decoding. It
reads what the known SDKs write. Of everything else, such as groups, unknown fields or a text that is not UTF-8, it says
that it cannot, and the protobuf library has the word.

Source: https://protobuf.dev/programming-guides/encoding; the numbers of the fields are those of `trace.proto` and
`common.proto` of opentelemetry-proto.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from gapwatch.streams.otlp.decoding.span_record import MOST_DEPTH, AttributeShapes, SpanRecord

if TYPE_CHECKING:
    from mypy_extensions import i64

#: Whether this file is compiled.
IS_COMPILED = not __file__.endswith(".py")

#: Keys of attributes that are remembered, and bytes of one.
_MOST_KEYS, _KEY_BYTES = 20_000, 200
_NO_PARENT = bytes(8)
_double = struct.Struct("<d").unpack_from

_keys: dict[bytes, str] = {}


class UnusualSpanError(Exception):
    """The bytes are not of the form that this file reads."""


def read_span_bytes(raw: bytes, shapes: AttributeShapes) -> SpanRecord:
    """Decode a span; the result is that of `protobuf_reader.read_span`.

    Raises:
        UnusualSpanError: It has another form than SDKs write, or is none.
        UndecodableError: An attribute has no key.
    """
    try:
        return _read_span(raw, shapes)
    except (IndexError, UnicodeDecodeError, struct.error):
        raise UnusualSpanError from None


def _read_span(raw: bytes, shapes: AttributeShapes) -> SpanRecord:
    at: i64 = 0
    size: i64 = 0
    stop: i64 = 0
    end: i64 = len(raw)
    kind: i64 = 0
    dropped: i64 = 0
    code: i64 = 0
    number: i64 = 0
    span_id, parent_id, name, message, state = b"", b"", "", "", ""
    start = finish = 0
    has_status = False
    keys: list[str] = []
    found: list[Any] = []
    events: list[tuple[str, int, dict[str, Any]]] = []
    while at < end:
        tag: i64 = raw[at]
        at += 1
        if tag == 0x39 or tag == 0x41:
            if at + 8 > end:
                raise UnusualSpanError
            if tag == 0x39:
                start = int.from_bytes(raw[at : at + 8], "little")
            else:
                finish = int.from_bytes(raw[at : at + 8], "little")
            at += 8
        elif tag == 0x30 or tag == 0x50 or tag == 0x60 or tag == 0x70:
            number, at = _varint(raw, at, end)
            if number >= 0x80000000:
                raise UnusualSpanError
            if tag == 0x30:
                kind = number
            elif tag == 0x50:
                dropped = number
        elif tag == 0x85:
            if at + 5 > end or raw[at] != 1:  # flags
                raise UnusualSpanError
            at += 5
        else:
            size, at = _varint(raw, at, end)
            stop = at + size
            if stop > end:
                raise UnusualSpanError
            if tag == 0x4A:
                key, value = _pair(raw, at, stop, 0)
                keys.append(key)
                found.append(value)
            elif tag == 0x12:
                span_id = raw[at:stop]
            elif tag == 0x22:
                parent_id = raw[at:stop]
            elif tag == 0x2A:
                name = raw[at:stop].decode("utf-8")
            elif tag == 0x5A:
                events.append(_event(raw, at, stop))
            elif tag == 0x7A:
                if has_status:
                    raise UnusualSpanError
                has_status = True
                code, message = _status(raw, at, stop)
            elif tag == 0x1A:
                state = raw[at:stop].decode("utf-8")
            elif tag != 0x0A:  # the trace id is known; links are rare
                raise UnusualSpanError
            at = stop
    shape = shapes[tuple(keys)]
    values: list[Any] = [found[index] for index in shape.indices]
    return SpanRecord(
        span_id.hex(), None if len(parent_id) != 8 or parent_id == _NO_PARENT else parent_id.hex(), name, kind, start,
        finish, code == 2, message, shape, values, events, (), dropped, state,
    )  # fmt: skip


def _pair(raw: bytes, at: i64, end: i64, depth: i64) -> tuple[str, Any]:
    """Return key and value of a `KeyValue`; a Collector writes the value first."""
    size: i64 = 0
    tag: i64 = 0
    text = ""
    value: Any = None
    has_value = False
    while at < end:
        tag = raw[at]
        size, at = _varint(raw, at + 1, end)
        if at + size > end:
            raise UnusualSpanError
        if tag == 0x0A:
            text = _key(raw[at : at + size])
        elif tag == 0x12 and not has_value:
            has_value = True
            value = _value(raw, at, at + size, depth)
        else:
            raise UnusualSpanError
        at += size
    return text, value


def _key(key: bytes) -> str:
    text = _keys.get(key)
    if text is None:
        text = key.decode("utf-8")
        if len(key) <= _KEY_BYTES:
            if len(_keys) >= _MOST_KEYS:
                _keys.clear()
            _keys[key] = text
    return text


def _value(raw: bytes, at: i64, end: i64, depth: i64) -> Any:
    """Return the value of an `AnyValue`."""
    if at == end:
        return None
    tag: i64 = raw[at]
    number: i64 = 0
    at += 1
    if tag == 0x21:
        if at + 8 != end:
            raise UnusualSpanError
        return _double(raw, at)[0]
    number, at = _varint(raw, at, end)
    if tag == 0x18 or tag == 0x10:
        if at != end:
            raise UnusualSpanError
        if tag == 0x10:
            return number != 0
        return number
    if at + number != end:
        raise UnusualSpanError
    if tag == 0x0A:
        return raw[at:end].decode("utf-8")
    if tag == 0x3A:
        return base64.b64encode(raw[at:end]).decode()
    if depth >= MOST_DEPTH or (tag != 0x2A and tag != 0x32):
        raise UnusualSpanError
    members: list[Any] = []
    named: dict[str, Any] = {}
    size: i64 = 0
    stop: i64 = 0
    while at < end:
        if raw[at] != 0x0A:
            raise UnusualSpanError
        size, at = _varint(raw, at + 1, end)
        stop = at + size
        if stop > end:
            raise UnusualSpanError
        if tag == 0x2A:
            members.append(_value(raw, at, stop, depth + 1))
        else:
            key, value = _pair(raw, at, stop, depth + 1)
            named[key] = value
        at = stop
    return members if tag == 0x2A else named


def _event(raw: bytes, at: i64, end: i64) -> tuple[str, int, dict[str, Any]]:
    size: i64 = 0
    tag: i64 = 0
    time, name = 0, ""
    attributes: dict[str, Any] = {}
    while at < end:
        tag = raw[at]
        at += 1
        if tag == 0x09:
            if at + 8 > end:
                raise UnusualSpanError
            time = int.from_bytes(raw[at : at + 8], "little")
            at += 8
        elif tag == 0x20:
            size, at = _varint(raw, at, end)
        elif tag == 0x12 or tag == 0x1A:
            size, at = _varint(raw, at, end)
            if at + size > end:
                raise UnusualSpanError
            if tag == 0x12:
                name = raw[at : at + size].decode("utf-8")
            else:
                key, value = _pair(raw, at, at + size, 0)
                if not key:
                    raise UnusualSpanError
                attributes[key] = value
            at += size
        else:
            raise UnusualSpanError
    return name, time, attributes


def _status(raw: bytes, at: i64, end: i64) -> tuple[i64, str]:
    code: i64 = 0
    size: i64 = 0
    tag: i64 = 0
    message = ""
    while at < end:
        tag = raw[at]
        if tag == 0x18:
            code, at = _varint(raw, at + 1, end)
        elif tag == 0x12:
            size, at = _varint(raw, at + 1, end)
            if at + size > end:
                raise UnusualSpanError
            message = raw[at : at + size].decode("utf-8")
            at += size
        else:
            raise UnusualSpanError
    if code > 0x7FFFFFFF:
        raise UnusualSpanError
    return code, message


def _varint(raw: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Return a number of at most 62 bits and the position behind it."""
    if at >= end:
        raise UnusualSpanError
    byte: i64 = raw[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value: i64 = byte & 0x7F
    shift: i64 = 7
    while True:
        if at >= end or shift > 55:
            raise UnusualSpanError
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
