"""Bodies of OTLP answers, in protobuf and JSON: partial success, and `google.rpc.Status` for errors.

Source: OpenTelemetry protocol specification 1.x, sections "Full Success", "Partial Success" and "Failures"; field
numbers from `google/rpc/status.proto` and `opentelemetry/proto/collector/*/v1`.
"""

from __future__ import annotations

import orjson

from gapwatch.streams.otlp.receiving.intake import Signal, Taken

PROTOBUF, JSON = "application/x-protobuf", "application/json"

#: Codes of `google.rpc.Code`.
INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 3, 5, 8, 12, 13, 14
PERMISSION_DENIED, UNAUTHENTICATED, DEADLINE_EXCEEDED = 7, 16, 4

_REJECTED = {
    Signal.TRACES: "rejectedSpans",
    Signal.LOGS: "rejectedLogRecords",
    Signal.METRICS: "rejectedDataPoints",
}
_VARINT, _BYTES = 0, 2


def success_body(signal: Signal, taken: Taken, is_json: bool) -> bytes:
    """Return the answer to a request that was taken, in part or as a whole.

    Args:
        signal: Signal of the request.
        taken: What was rejected.
        is_json: Encoding of the request, which the answer must have.
    """
    if not taken.rejected:
        return b"{}" if is_json else b""
    if is_json:
        # 64-bit integers are strings in the JSON form of protobuf.
        partial = {_REJECTED[signal]: str(taken.rejected), "errorMessage": taken.reason}
        return orjson.dumps({"partialSuccess": partial})
    message = _number(1, taken.rejected) + _text(2, taken.reason)
    return _tag(1, _BYTES) + varint(len(message)) + message


def status_body(code: int, text: str, is_json: bool) -> bytes:
    """Return a `google.rpc.Status`.

    Args:
        code: Code of `google.rpc.Code`.
        text: What was wrong, for a developer.
        is_json: Encoding of the request.
    """
    return orjson.dumps({"code": code, "message": text}) if is_json else _number(1, code) + _text(2, text)


def _number(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + varint(value)


def _text(field: int, text: str) -> bytes:
    encoded = text.encode()
    return _tag(field, _BYTES) + varint(len(encoded)) + encoded


def _tag(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def varint(value: int) -> bytes:
    """Return a number of at least 0 as protobuf writes it."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
