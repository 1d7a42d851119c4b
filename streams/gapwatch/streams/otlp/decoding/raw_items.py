"""`RawSpan`, `RawLog`: parts of an OTLP request that are not decoded yet, with their ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: Bytes of a dead letter that are kept.
KEPT_BYTES = 64 << 10
#: Resource and scope of spans by their bytes: a program sends the same ones with each request. More are forgotten.
_MOST_BLOCKS = 2_000


class UndecodableError(Exception):
    """A body is no message of its signal, or a span of it cannot be decoded; the text says why."""


class RawBlock:
    """Resource and scope that spans have in common.

    Args:
        resource: The resource as it was sent.
        scope: The scope as it was sent.
        read: Decodes attributes of the resource, the scope's name and its version.
    """

    __slots__ = ("_values", "read", "resource", "scope")

    def __init__(self, resource: bytes, scope: bytes, read: Callable[[], tuple[dict[str, Any], str, str]]) -> None:
        self.resource, self.scope, self.read = resource, scope, read
        self._values: tuple[dict[str, Any], str, str] | None = None

    @property
    def values(self) -> tuple[dict[str, Any], str, str]:
        """Attributes of the resource, name of the scope, version of the scope; empty where they cannot be decoded."""
        if self._values is None:
            try:
                self._values = self.read()
            except UndecodableError:
                self._values = ({}, "", "")
        return self._values

    @property
    def service(self) -> str:
        """`service.name` of the resource; empty without one."""
        return str(self.values[0].get("service.name") or "")


class BlockCache:
    """Gives the same `RawBlock` for the same bytes.

    Args:
        read: Decodes the bytes of a resource and of a scope.
    """

    def __init__(self, read: Callable[[bytes, bytes], tuple[dict[str, Any], str, str]]) -> None:
        self._read = read
        self._blocks: dict[tuple[bytes, bytes], RawBlock] = {}

    def block(self, resource: bytes, scope: bytes) -> RawBlock:
        """Return the block of a resource and a scope."""
        key = (resource, scope)
        block = self._blocks.get(key)
        if block is None:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            block = self._blocks[key] = RawBlock(resource, scope, lambda: self._read(resource, scope))
        return block


class RawSpan:
    """Span with its ids, not decoded.

    Attributes:
        trace_id: 16 bytes.
        span_id: 8 bytes.
        parent_id: 8 bytes; empty for a root.
        raw: The span alone, as it was sent.
        is_json: Whether `raw` is JSON.
        block: Its resource and scope.
    """

    __slots__ = ("block", "is_json", "parent_id", "raw", "span_id", "trace_id")

    def __init__(
        self, trace_id: bytes, span_id: bytes, parent_id: bytes, raw: bytes, is_json: bool, block: RawBlock
    ) -> None:
        self.trace_id, self.span_id, self.parent_id = trace_id, span_id, parent_id
        self.raw, self.is_json, self.block = raw, is_json, block


class RawLog:
    """Log record with its ids, not decoded.

    Attributes:
        trace_id: 16 bytes; empty if it belongs to no trace.
        span_id: 8 bytes; empty if it belongs to no span.
        raw: The record alone, as it was sent.
        is_json: Whether `raw` is JSON.
        block: Its resource and scope.
    """

    __slots__ = ("block", "is_json", "raw", "span_id", "trace_id")

    def __init__(self, trace_id: bytes, span_id: bytes, raw: bytes, is_json: bool, block: RawBlock) -> None:
        self.trace_id, self.span_id, self.raw, self.is_json, self.block = trace_id, span_id, raw, is_json, block


@dataclass(slots=True)
class RawTrace:
    """Trace to which nothing is added any more, not decoded.

    Attributes:
        trace_id: 16 bytes.
        spans: Its spans, each id once.
        logs: Its log records.
        closed_by: What closed it, such as `quiet`.
        arrived_at: Arrival of its last span, seconds since the epoch; None if it is unknown.
    """

    trace_id: bytes
    spans: list[RawSpan]
    logs: list[RawLog] = field(default_factory=list)
    closed_by: str = "end"
    arrived_at: float | None = None


@dataclass(frozen=True, slots=True)
class DeadItem:
    """Span or log record that cannot be used.

    Attributes:
        item: `span`, `log_record` or `span_event`.
        cause: `bad_id`, `too_large`, `undecodable` or `bad_feedback`.
        detail: What is wrong.
        trace_id: Its trace id in hexadecimal digits, as far as it has one.
        raw: Its bytes, cut at `KEPT_BYTES`.
    """

    item: str
    cause: str
    detail: str
    trace_id: str
    raw: bytes


@dataclass(slots=True)
class SplitPayload:
    """Parts of one OTLP request.

    Attributes:
        spans: Spans in the order of the request.
        logs: Log records in the order of the request.
        dead: Spans or log records that cannot be used.
    """

    spans: list[RawSpan] = field(default_factory=list)
    logs: list[RawLog] = field(default_factory=list)
    dead: list[DeadItem] = field(default_factory=list)

    def bury(self, item: str, cause: str, detail: str, trace_id: str, raw: bytes) -> None:
        """Add a dead letter."""
        self.dead.append(DeadItem(item, cause, detail, trace_id, raw[:KEPT_BYTES]))


def is_json(body: bytes) -> bool:
    """Return whether a body is JSON rather than protobuf, where nothing else says so: it begins with a brace."""
    return body[:64].lstrip()[:1] == b"{"
