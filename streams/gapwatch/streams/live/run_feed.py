"""`RunFeed`: what assembles spans to the traces that a run reads; the extra `otlp` implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.sinks.spans.late_spans import LateSpanRow
from gapwatch.sinks.spans.span_counts import SpanKey
from gapwatch.streams.alerting.incidents.alert_texts import RecordPlace
from gapwatch.streams.sources.raw_slice import RawSlice
from gapwatch.streams.sources.trace_source import OffsetProgress, TraceSource


class LocalTraces(Protocol):
    """Log of whole traces on this machine, where there is no topic."""

    @property
    def progress(self) -> OffsetProgress:
        """Offsets of the log."""
        ...

    def read_by(
        self,
        on_slice: Callable[[RawSlice], Awaitable[None]],
        stored_offsets: Callable[[set[int]], Mapping[int, int | None]],
        drain_seconds: float,
    ) -> TraceSource:
        """Return the source that reads the log.

        Args:
            on_slice: Called with each slice; when it returns, the slice is stored.
            stored_offsets: Returns for partitions the next offset in the store, None for those it does not know.
            drain_seconds: Most seconds that a stop waits for slices in work.
        """
        ...

    async def records(self, places: Sequence[RecordPlace]) -> dict[RecordPlace, bytes | None]:
        """Return traces again by partition and offset; None for one that is no longer there."""
        ...


class LateSpans(Protocol):
    """Late spans so far."""

    count: int
    sum: float

    def buckets(self) -> Sequence[tuple[float, int]]:
        """Return upper bounds of the delay in seconds, each with the number of spans up to it."""
        ...

    def quiet_for(self, share: float) -> float:
        """Return the quiet time in seconds that would have caught a share of them."""
        ...


class RunFeed(Protocol):
    """Receives or reads spans from `start` to `stop`, and assembles them to traces."""

    @property
    def local(self) -> LocalTraces | None:
        """Log of the traces on this machine; None if they go to a topic."""
        ...

    @property
    def url(self) -> str:
        """URL that programs send to; empty if there is none."""
        ...

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Requests by signal and outcome."""
        ...

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were received and are not assembled yet; 0 where Kafka holds them."""
        ...

    @property
    def open_traces(self) -> int:
        """Traces that are still open."""
        ...

    @property
    def late(self) -> LateSpans:
        """Late spans."""
        ...

    def take_late_spans(self) -> list[LateSpanRow]:
        """Return the late spans since the last call; the newest, if there are many."""
        ...

    @property
    def waiting_for(self) -> str:
        """Reason why nothing is assembled now; empty if there is none."""
        ...

    def is_idle(self) -> bool:
        """Return True if everything is assembled and committed, and nothing is pending."""
        ...

    def counts(self) -> Mapping[SpanKey, int]:
        """Return the ledger of spans as of the last commit, by item, state and cause."""
        ...

    def start_rows(self) -> dict[str, list[str]]:
        """Return rows for the block at the start of a run: name to its lines."""
        ...

    def start(self, take_feedback: Callable[[Sequence[Feedback]], None]) -> None:
        """Start.

        Args:
            take_feedback: Stores feedback, on a thread of the feed; when it returns, each of it is stored once.

        Raises:
            UsageError: An address cannot be used.
        """
        ...

    def switch(self, portfolios: Sequence[Portfolio]) -> None:
        """Map the traces that are closed from now on by other portfolios."""
        ...

    async def until_failed(self) -> None:
        """Wait for, and raise, an error that ends the assembly."""
        ...

    def stop(self, seconds: float) -> bool:
        """Stop, and commit what is assembled; False if that took longer than `seconds`."""
        ...


#: Makes a feed of the path and the id of a store, and the portfolios in force.
MakeFeed = Callable[[Path, str, Sequence[Portfolio]], RunFeed]
