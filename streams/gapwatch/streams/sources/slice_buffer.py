"""`SliceBuffer`: fetched records that wait, at most one slice of each partition, and the choice of the next slices.

    broker ──fetch──▶ aiokafka ──▶ [one waiting slice of each partition] ──▶ hand over: after the linger, or at once
                                    ▓▓▓▓  older than most: goes first                  where there are many records
                                    ▓     goes with it, unless a backlog waits much longer

A partition with a backlog would otherwise starve: it has a full slice each time, but only as many turns as partitions
with few records.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gapwatch.streams.sources.linger import ENOUGH_RECORDS, Linger

#: Least records of a full slice, where many partitions share the buffer.
_LEAST_RECORDS = 500
# While a partition has a backlog, only slices go that wait at least this share of the longest wait: then no partition
# waits more than twice as long as another, and the rest is a margin for the work on a slice.
_FAIR_SHARE = 0.7
# Seconds of waiting below which all go.
_SHORT_WAIT = 2.0
#: Turns that a slice is passed over at most. It goes by the time of its oldest record, which comes from the clock of a
#: producer: without this limit one wrong clock could hold up all other partitions.
MOST_PASSES = 64


@dataclass
class WaitingSlice:
    """Fetched records of one partition that were not handed over yet.

    Attributes:
        from_offset: End of the slice before.
        to_offset: One past the last fetched offset.
        since: Time of the oldest record, seconds since the epoch; that of the fetch, if the record has none.
        fetched_at: Time of the first fetch, in seconds of a clock that only moves forward.
        records: The records.
        lost: Number of offsets that the broker deleted before they were read.
        passes: Number of turns in which other slices were chosen.
    """

    from_offset: int
    to_offset: int
    since: float
    fetched_at: float
    records: list[Any] = field(default_factory=list)
    lost: int = 0
    passes: int = 0


def chosen(waiting: Mapping[Hashable, WaitingSlice], full: int, most: int, now: float) -> list[Hashable]:
    """Choose the slices that go next, the one that waits longest first.

    Args:
        waiting: Waiting slices by partition.
        full: Records of a full slice, behind which a backlog is.
        most: Most records to choose, unless a single slice has more.
        now: Seconds since the epoch.

    Returns:
        Partitions in order; empty only if none waits.
    """
    order = sorted(waiting, key=lambda of: (waiting[of].passes < MOST_PASSES, waiting[of].since))
    longest = max((now - one.since for one in waiting.values()), default=0.0)
    has_backlog = any(len(one.records) >= full for one in waiting.values())
    least = _FAIR_SHARE * longest if has_backlog and longest > _SHORT_WAIT else -math.inf
    found: list[Hashable] = []
    records = 0
    for of in order:
        one = waiting[of]
        if now - one.since < least and one.passes < MOST_PASSES:
            continue
        if found and records + len(one.records) > most:
            break
        found.append(of)
        records += len(one.records)
    return found


class SliceBuffer:
    """Keeps waiting slices; used on one thread.

    Args:
        max_records: Most records of a slice, and of what is handed over at once.
        linger: Time that few records wait for others.
        fetch_seconds: Seconds that a record may have waited at the broker before its fetch.
    """

    def __init__(self, max_records: int, linger: Linger, fetch_seconds: float) -> None:
        self._most, self._linger, self._fetch_seconds = max_records, linger, fetch_seconds
        self._waiting: dict[Hashable, WaitingSlice] = {}

    def __contains__(self, partition: Hashable) -> bool:
        return partition in self._waiting

    def full_slice(self, partitions: int) -> int:
        """Return the most records of a slice where so many partitions share the buffer."""
        return min(self._most, max(_LEAST_RECORDS, self._most // max(1, partitions)))

    def clear(self) -> None:
        """Drop everything: it will be fetched again, and waits for nothing."""
        self._waiting.clear()
        self._linger.skip()

    def add(self, partition: Hashable, fetched: WaitingSlice) -> None:
        """Add fetched records, which follow those that wait."""
        waiting = self._waiting.setdefault(partition, fetched)
        if waiting is not fetched:
            waiting.records += fetched.records
            waiting.to_offset, waiting.lost = fetched.to_offset, waiting.lost + fetched.lost

    @property
    def records(self) -> int:
        """Number of waiting records."""
        return sum(len(one.records) for one in self._waiting.values())

    def seconds_left(self, active: Collection[Any], partitions: int, clock: float) -> float | None:
        """Return how long the waiting records still wait for others; None if there are none.

        Args:
            active: Partitions that are read now.
            partitions: Number of partitions that share the buffer.
            clock: Seconds of the clock of `fetched_at`.
        """
        waiting = [one for of, one in self._waiting.items() if of in active]
        if not waiting:
            return None
        if self.records >= min(ENOUGH_RECORDS, self.full_slice(partitions)):
            return 0.0
        first = min(one.fetched_at for one in waiting)
        return max(0.0, first - self._fetch_seconds + self._linger.seconds - clock)

    def take(
        self, active: Collection[Any], partitions: int, clock: float, now: float
    ) -> list[tuple[Any, WaitingSlice]]:
        """Return the slices that go next, with their partitions, the one that waits longest first.

        Args:
            active: Partitions to choose from.
            partitions: Number of partitions that share the buffer.
            clock: Seconds of the clock of `fetched_at`.
            now: Seconds since the epoch.
        """
        waiting = {of: one for of, one in self._waiting.items() if of in active}
        order = chosen(waiting, self.full_slice(partitions), self._most, now)
        taken = [(of, self._waiting.pop(of)) for of in order]
        for one in self._waiting.values():
            one.passes += 1
        self._linger.note(sum(len(one.records) for _, one in taken), clock)
        return taken
