"""Protocols of the detectors that see each slice before it is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step

Steps = Sequence[tuple[str, Step]]


class WatchTaken(Protocol):
    """Result of the detectors for one slice."""

    @property
    def scored(self) -> ScoredSlice:
        """The slice, with the rows that the detectors add to its tables."""

    @property
    def steps(self) -> Steps:
        """Findings, as steps of the same transaction."""


class LaneWatch(Protocol):
    """Runs the detectors on each slice of the live lane before it is written; called on the writer thread."""

    def take(
        self,
        scored: ScoredSlice,
        kept_at: datetime,
        unread: Collection[tuple[str, int]] = (),
        *,
        is_last: bool = True,
    ) -> WatchTaken:
        """Run the detectors on a slice.

        Args:
            scored: The slice, in the order of writing.
            kept_at: Time of writing.
            unread: Topics and partitions that have more records after this slice.
            is_last: False where another slice follows in the same transaction; the state is written with the last.
        """

    def save(self, store: Store) -> None:
        """Write the state of the detectors, so that the next start need not recompute it."""


#: Opens the detectors of a store for the portfolios in force; called again when these change.
OpenWatch = Callable[[Store, Sequence[Portfolio]], LaneWatch]

#: By topic and partition: first offset of this run, and one past the last known record.
KnownEnds = Mapping[tuple[str, int], tuple[int, int]]


def unread_after(scored: Sequence[ScoredSlice], store: Store, known: KnownEnds) -> list[tuple[str, int]]:
    """Return the topics and partitions that have more records after some slices are written.

    Args:
        scored: Slices of one lane that are about to be written, at least one.
        store: The store with the offsets before them.
        known: Known offsets of the source.
    """
    unread = []
    ends = {(one.topic, one.partition): one.to_offset for one in scored}
    for (topic, partition), (start, end) in known.items():
        kept = store.position(scored[0].lane, topic, partition)
        if max(start, kept.to_offset if kept else 0, ends.get((topic, partition), 0)) < end:
            unread.append((topic, partition))
    return unread
