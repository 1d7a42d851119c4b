"""Writes the spans of a request again as one message for each trace, without decoding what is in a span.

Source: field numbers of `TracesData` and `LogsData` in `trace.proto` and `logs.proto`; both have the same form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gapwatch.streams.otlp.decoding.raw_items import RawBlock, RawLog, RawSpan
from gapwatch.streams.otlp.decoding.splitting import split
from gapwatch.streams.otlp.receiving.answers import varint
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Signal


@dataclass(frozen=True)
class RegroupedRequest:
    """Request whose spans are apart by trace.

    Attributes:
        by_trace: Message for each trace, by its id in hexadecimal digits, in the encoding of the request.
        items: Number of spans, or log records, in them.
        foreign: Number of log records that belong to no trace.
        dead: Number of spans, or log records, that cannot be used.
    """

    by_trace: dict[str, bytes]
    items: int
    foreign: int
    dead: int


def regroup(request: OtlpRequest) -> RegroupedRequest:
    """Return the messages of a request by trace.

    Raises:
        UndecodableError: The body is not a message of its signal.
    """
    found = split(request.body, is_json=request.is_json, is_logs=request.signal is Signal.LOGS)
    items: Sequence[RawSpan | RawLog] = [*found.spans, *found.logs]
    groups: dict[bytes, list[RawSpan | RawLog]] = {}
    for item in items:
        if item.trace_id:
            groups.setdefault(item.trace_id, []).append(item)
    foreign = sum(not item.trace_id for item in items)
    write = _json if request.is_json else _protobuf
    if len(groups) == 1 and not foreign and not found.dead:
        by_trace = {next(iter(groups)).hex(): request.body}
    else:
        by_trace = {trace.hex(): write(group, request.signal) for trace, group in groups.items()}
    return RegroupedRequest(by_trace, len(items) - foreign, foreign, len(found.dead))


def _by_block(items: Iterable[RawSpan | RawLog]) -> dict[int, tuple[RawBlock, list[bytes]]]:
    blocks: dict[int, tuple[RawBlock, list[bytes]]] = {}
    for item in items:
        blocks.setdefault(id(item.block), (item.block, []))[1].append(item.raw)
    return blocks


def _protobuf(items: Iterable[RawSpan | RawLog], _: Signal) -> bytes:
    message = b""
    for block, raws in _by_block(items).values():
        scope = _field(1, block.scope) + b"".join(_field(2, raw) for raw in raws)
        message += _field(1, _field(1, block.resource) + _field(2, scope))
    return message


def _json(items: Iterable[RawSpan | RawLog], signal: Signal) -> bytes:
    kind, own = (b"Logs", b"logRecords") if signal is Signal.LOGS else (b"Spans", b"spans")
    resources = [
        b'{"resource":%s,"scope%s":[{"scope":%s,"%s":[%s]}]}'
        % (block.resource or b"{}", kind, block.scope or b"{}", own, b",".join(raws))
        for block, raws in _by_block(items).values()
    ]
    return b'{"resource%s":[%s]}' % (kind, b",".join(resources))


def _field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value
