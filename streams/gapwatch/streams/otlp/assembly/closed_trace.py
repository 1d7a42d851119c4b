"""`ClosedTrace`, `LateSpan`: what an assembler gives, and the forms of what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gapwatch.streams.otlp.decoding.raw_items import RawTrace
from gapwatch.streams.otlp.mapping.mapper import MappedTrace


class ExportBody(Protocol):
    """Body of an export request."""

    @property
    def signal(self) -> str:
        """`traces` or `logs`."""
        ...

    @property
    def is_json(self) -> bool:
        """True for JSON, False for protobuf."""
        ...

    @property
    def body(self) -> bytes:
        """The message."""
        ...


class Mapper(Protocol):
    """Maker of the envelope of a trace."""

    @property
    def root_globs(self) -> tuple[str, ...]:
        """Globs on the names of spans that are a root although they have a parent."""
        ...

    def map(self, trace: RawTrace) -> MappedTrace:
        """Map one closed trace."""
        ...


@dataclass(frozen=True, slots=True)
class ClosedTrace:
    """Trace to which nothing is added any more.

    Attributes:
        trace_id: 32 hexadecimal digits.
        envelope: The trace as one line of JSON without its end; None if nothing of it is left to score.
        closed_by: What closed it.
        span_count: Number of spans in the envelope.
    """

    trace_id: str
    envelope: bytes | None
    closed_by: str
    span_count: int


@dataclass(frozen=True, slots=True)
class LateSpan:
    """Span that came after its trace was closed.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        service: Its service.
        delay: Seconds since the trace was closed.
        gap: Seconds since the last span of the trace that came in time.
        raw: The span as it was sent.
        is_json: Whether it is JSON.
    """

    trace_id: str
    span_id: str
    service: str
    delay: float
    gap: float
    raw: bytes
    is_json: bool
