"""Splits the body of an OTLP request into raw spans and log records, and checks it for the answer to the exporter."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gapwatch.streams.otlp.decoding.json_reader import (
    read_json_block,
    read_json_log,
    read_json_span,
)
from gapwatch.streams.otlp.decoding.json_splitting import split_json
from gapwatch.streams.otlp.decoding.protobuf_reader import is_sound, parse_request, read_block, read_log, read_span
from gapwatch.streams.otlp.decoding.raw_items import BlockCache, RawLog, RawSpan, SplitPayload, UndecodableError
from gapwatch.streams.otlp.decoding.span_bytes import IS_COMPILED, UnusualSpanError, read_span_bytes
from gapwatch.streams.otlp.decoding.span_record import AttributeShapes, LogEntry, SpanRecord
from gapwatch.streams.otlp.decoding.wire_format import MOST_ITEM_BYTES, split_message

_PROTOBUF_BLOCKS, _JSON_BLOCKS = BlockCache(read_block), BlockCache(read_json_block)


@dataclass(frozen=True, slots=True)
class CheckedPayload:
    """Faults of a body that is a message.

    Attributes:
        rejected: Number of its spans or log records that cannot be used.
        reason: What is wrong with the first of them; empty if none is rejected.
    """

    rejected: int
    reason: str


_SOUND = CheckedPayload(0, "")


def split(body: bytes, *, is_json: bool, is_logs: bool) -> SplitPayload:
    """Return the spans or log records of a body, not decoded.

    Args:
        body: An `ExportTraceServiceRequest` or `ExportLogsServiceRequest`; `TracesData` and `LogsData` have the same
            form.
        is_json: Whether it is JSON.
        is_logs: Whether it carries log records.

    Raises:
        UndecodableError: The body is no such message.
    """
    if is_json:
        return split_json(body, is_logs=is_logs, blocks=_JSON_BLOCKS)
    return split_message(body, is_logs=is_logs, blocks=_PROTOBUF_BLOCKS)


def check_payload(body: bytes, *, is_json: bool, is_logs: bool) -> CheckedPayload:
    """Check a body as a receiver must before it answers; see `split` for the arguments.

    Raises:
        UndecodableError: The body is no such message; the answer is 400.
    """
    if not is_json and not is_logs and len(body) <= MOST_ITEM_BYTES and is_sound(body):
        return _SOUND
    found = split(body, is_json=is_json, is_logs=is_logs)
    reasons = [dead.detail for dead in found.dead]
    if is_json or not parse_request(body, is_logs=is_logs):
        for span in found.spans:
            if (reason := _problem(span)) is not None:
                reasons.append(reason)
        for log in found.logs:
            if (reason := _problem(log)) is not None:
                reasons.append(reason)
        if not is_json and not reasons:
            raise UndecodableError("the body is no protobuf message of its signal")
    return CheckedPayload(len(reasons), reasons[0] if reasons else "")


class _NoShape:
    indices: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()


class _NoShapes:
    """Shapes that read no attribute, for a look at the rest of a span."""

    _none = _NoShape()

    def __getitem__(self, keys: tuple[Any, ...], /) -> _NoShape:
        if not all(isinstance(key, str) and key for key in keys):
            raise UndecodableError("an attribute has no key")
        return self._none


_NO_SHAPES = _NoShapes()


def _problem(item: RawSpan | RawLog) -> str | None:
    try:
        if isinstance(item, RawSpan):
            decode_span(item, _NO_SHAPES)
        else:
            decode_log(item)
    except UndecodableError as error:
        return str(error)
    return None


def name_of_span(span: RawSpan) -> str:
    """Return the name of a span; empty where it cannot be decoded."""
    try:
        return decode_span(span, _NO_SHAPES).name
    except UndecodableError:
        return ""


def events_of_span(span: RawSpan) -> Sequence[tuple[str, int, dict[str, Any]]]:
    """Return name, nanoseconds and attributes of the events of a span; none where it cannot be decoded."""
    try:
        return decode_span(span, _NO_SHAPES).events
    except UndecodableError:
        return ()


def decode_span(span: RawSpan, shapes: AttributeShapes) -> SpanRecord:
    """Decode a span with the attributes that its shape reads.

    Raises:
        UndecodableError: It cannot be decoded.
    """
    if span.is_json:
        return read_json_span(span.raw, shapes)
    if IS_COMPILED:
        with suppress(UnusualSpanError):
            return read_span_bytes(span.raw, shapes)
    return read_span(span.raw, shapes)


def decode_log(log: RawLog) -> LogEntry:
    """Decode a log record.

    Raises:
        UndecodableError: It cannot be decoded.
    """
    return read_json_log(log.raw) if log.is_json else read_log(log.raw)
