"""What looks at each slice before it is kept, such as detectors, as the pipeline sees it."""

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
    """What a watch makes of a slice before it is kept."""

    @property
    def scored(self) -> ScoredSlice:
        """The slice, with what the watch adds to its tables."""

    @property
    def steps(self) -> Steps:
        """What it found, to be written in the same transaction."""


class LaneWatch(Protocol):
    """Looks at each slice of the live lane before it is kept; on the keeper's thread."""

    def take(self, scored: ScoredSlice, kept_at: datetime, unread: Collection[tuple[str, int]] = ()) -> WatchTaken:
        """See a slice, in the order of keeping; after it, records of these partitions are known and not kept."""

    def save(self, store: Store) -> None:
        """Write what would have to be found anew at the next start; the run has ended well."""


#: Opens a watch over what the store holds, for the portfolios in force; again when they change.
OpenWatch = Callable[[Store, Sequence[Portfolio]], LaneWatch]

#: By topic and partition where this run began to read, and one past the last record that is known.
KnownEnds = Mapping[tuple[str, int], tuple[int, int]]


def unread_after(scored: ScoredSlice, store: Store, known: KnownEnds) -> list[tuple[str, int]]:
    """Return the partitions that have records beyond what is kept once a slice is.

    Args:
        scored: That is about to be kept.
        store: Where to.
        known: What there is to read.
    """
    unread = []
    for (topic, partition), (start, end) in known.items():
        kept = store.position(scored.lane, topic, partition)
        done = max(start, kept.to_offset if kept else 0)
        if (topic, partition) == (scored.topic, scored.partition):
            done = max(done, scored.to_offset)
        if done < end:
            unread.append((topic, partition))
    return unread
