"""Event time of a pipeline in one partition: tells the records whose time is far from that of their neighbours."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

AHEAD_BUCKETS = 60
"""Buckets of 30 s (half an hour) by which a record may lead its neighbours. Fewer delay a stream with gaps; with more,
the other records of the pipeline are late by as much."""
BEHIND_BUCKETS = 240
"""Buckets (two hours) by which a record may come late. Fewer leave out what a publisher sent after an outage."""
CONFIRMING = 32
"""Surplus of records at a later time over records at the earlier time, before the later time is believed. At a share of
one third from a wrong clock the wrong time is believed once in 2^32 runs (gambler's ruin); more delay the first records
after a gap in a backlog."""
# Fewest records behind, one after the other at the end of a source, that are believed: a file may be newest first.
_FEWEST_BEHIND = 8
# Buckets (30 days) that time may jump at the end of a source, and within which the first records confirm each other.
_LONGEST_JUMP = 86_400

BELIEVED, AHEAD, BEHIND = 0, 1, 2
#: State in the ledger of records with such a time, by code.
TIME_STATES = {AHEAD: "ahead", BEHIND: "behind"}


@dataclass(frozen=True)
class EventClock:
    """Event time of one pipeline in one partition, between two slices.

    Attributes:
        newest: Latest believed bucket of 30 s since the epoch; None before the first.
        lowest: Earliest bucket of the records that are ahead and not yet confirmed.
        ahead: Number of these records.
        against: Number of believed records since the first of them.
        behind: Number of records behind since the last believed one.
        had_wrong: True once a record ahead was contradicted by others.
    """

    newest: int | None = None
    lowest: int = 0
    ahead: int = 0
    against: int = 0
    behind: int = 0
    had_wrong: bool = False


@dataclass(frozen=True)
class SliceClocks:
    """Event clocks of a partition before or after a slice.

    Attributes:
        clocks: Clock by pipeline.
        now: Bucket of the time at which the slice was read, where all records up to then are read; None in a file, and
            while a backlog is read.
        is_end: No record is known after this slice.
    """

    clocks: Mapping[str, EventClock] = field(default_factory=dict)
    now: int | None = None
    is_end: bool = False

    @classmethod
    def after(cls, newest: Mapping[str, int]) -> SliceClocks:
        """Return the clocks of a partition from the newest stored bucket of each pipeline."""
        return cls({pipeline: EventClock(bucket) for pipeline, bucket in newest.items()})

    def judge(self, pipeline: str, buckets: IntArray) -> tuple[npt.NDArray[np.uint8], EventClock]:
        """Judge the times of a pipeline's records; see `judge_times`."""
        return judge_times(buckets, self.clocks.get(pipeline, EventClock()), now=self.now, is_end=self.is_end)


def judge_times(
    buckets: IntArray, clock: EventClock, *, now: int | None = None, is_end: bool = False
) -> tuple[npt.NDArray[np.uint8], EventClock]:
    """Judge the times of some records by those of their neighbours.

    A time up to half an hour beyond the newest believed one is believed. Later times wait: they are believed once 32
    more records have come at or after them than before them, such as after a night without traffic, and are `AHEAD`
    where that does not happen within the slice. A time two hours or more before the newest is `BEHIND`. A record of the
    present is believed at once.

        believed  ....|                     |....|      a night: the later time is confirmed, nothing is lost
        believed  ....|....|....|....|                  one host an hour ahead: most records contradict its time
        ahead          x      x      x

    Args:
        buckets: Bucket of each record of one pipeline, in the order of arrival.
        clock: State before these records.
        now: Bucket of the present, where the records come from there; None elsewhere.
        is_end: No more records are known: later times are believed where no time was wrong before.

    Returns:
        `BELIEVED`, `AHEAD` or `BEHIND` for each record, and the state after them.
    """
    codes = np.zeros(len(buckets), np.uint8)
    if not len(buckets):
        return codes, clock
    if _is_in_order(buckets, clock):
        return codes, replace(clock, newest=max(clock.newest or 0, int(buckets.max())), behind=0)
    judge = _Judge(buckets.tolist(), clock, now)
    judge.read(CONFIRMING, range(len(buckets)))
    if is_end:
        judge.settle()
    codes[[*judge.held, *judge.rejected]] = AHEAD
    codes[judge.left_behind] = BEHIND
    return codes, judge.clock


def _is_in_order(buckets: IntArray, clock: EventClock) -> bool:
    """Return True where every record is near its neighbours, as nearly always; `_Judge` would say the same."""
    if clock.newest is None or clock.ahead:
        return False
    newest = np.maximum.accumulate(np.concatenate([[clock.newest], buckets]))[:-1]
    return bool(((buckets <= newest + AHEAD_BUCKETS) & (buckets >= newest - BEHIND_BUCKETS)).all())


class _Judge:
    """Reads records one by one.

    Attributes:
        clock: State so far.
        held: Positions of the records ahead that wait to be confirmed.
        rejected: Positions of the records ahead whose time is wrong.
        left_behind: Positions of the records behind.
    """

    def __init__(self, buckets: list[int], clock: EventClock, now: int | None) -> None:
        self.clock = clock
        self.held: list[int] = []
        self.rejected: list[int] = []
        self.left_behind: list[int] = []
        self._buckets, self._now, self._last = buckets, now, 0

    def read(self, confirming: int, positions: Iterable[int]) -> None:
        """Judge records; where a later time is confirmed, judge the records that waited for it again."""
        waiting = deque(positions)
        while waiting:
            self._take(waiting.popleft())
            if self.clock.ahead - self.clock.against >= confirming:
                waiting.extendleft(reversed(self._jump()))

    def settle(self) -> None:
        """Believe the records that wait at the end of a source, unless a time was wrong before."""
        while self.held and not self.clock.had_wrong and self._is_near_enough():
            self.read(CONFIRMING, self._jump())
        if self.clock.behind >= _FEWEST_BEHIND:
            self._fall_back()

    def _is_near_enough(self) -> bool:
        if self._now is not None:
            return self.clock.lowest <= self._now + AHEAD_BUCKETS
        return self.clock.newest is None or self.clock.lowest <= self.clock.newest + _LONGEST_JUMP

    def _take(self, at: int) -> None:
        bucket, clock, self._last = self._buckets[at], self.clock, at
        newest = clock.newest
        if self._now is not None and abs(bucket - self._now) <= AHEAD_BUCKETS and not _is_near(bucket, newest):
            self.clock = EventClock(bucket, had_wrong=clock.had_wrong)
        elif newest is None or bucket > newest + AHEAD_BUCKETS:
            self.held.append(at)
            is_lower = clock.ahead == 0 or (newest is not None and bucket < clock.lowest - AHEAD_BUCKETS)
            self.clock = replace(
                clock,
                lowest=bucket if is_lower else min(bucket, clock.lowest),
                ahead=1 if is_lower else clock.ahead + 1,
                against=0 if is_lower else clock.against,
            )
        elif bucket < newest - BEHIND_BUCKETS:
            # Where all records are behind, the clock was wrong: from now on they are late data, and count as such.
            self.left_behind.append(at)
            self.clock = replace(clock, behind=clock.behind + 1)
            if self.clock.behind >= 2 * CONFIRMING:
                self._fall_back()
        elif clock.ahead > clock.against + 1:
            self.clock = replace(clock, newest=max(newest, bucket), against=clock.against + 1, behind=0)
        else:  # as many against as for it: the later time is wrong
            self.clock = EventClock(max(newest, bucket), had_wrong=clock.had_wrong or clock.ahead > 0)
            self.rejected += self.held
            self.held = []

    def _fall_back(self) -> None:
        """Move back to the time of the last records, all of them behind, and believe those of this slice."""
        del self.left_behind[-self.clock.behind :]
        self.clock = EventClock(self._buckets[self._last], had_wrong=True)

    def _jump(self) -> list[int]:
        """Move to the confirmed time; return the positions that waited for it."""
        held, self.held = self.held, []
        newest = self.clock.lowest
        if self.clock.newest is None:  # one record far before all others begins no stream
            ticks = sorted(self._buckets[at] for at in held)
            near = (one for one, later in pairwise(ticks) if later - one <= _LONGEST_JUMP)
            newest = next(near, newest)
        self.clock = EventClock(newest, had_wrong=self.clock.had_wrong)
        return held


def _is_near(bucket: int, newest: int | None) -> bool:
    return newest is not None and newest - BEHIND_BUCKETS <= bucket <= newest + AHEAD_BUCKETS
