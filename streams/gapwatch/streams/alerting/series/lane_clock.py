"""Watermark of a pipeline in a lane: the last tick that no unit can join any more, from the event times of slices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gapwatch.streams.detectors.contexts import TICK_SECONDS

LATENESS_TICKS = 4
"""Allowed lateness, in ticks (two minutes): a tick closes when event time is this far beyond its end. Late data joins
the current tick."""
PATIENCE_SECONDS = 600.0
"""Ten minutes: longest time that a partition with unread records holds the watermark back while others are read."""
# A partition without a unit for this long is idle.
_IDLE_SECONDS = 120.0
# Most seconds between two slices that count as waiting: while the process was down, no record could be read.
_LONGEST_GAP = 60.0
# A tick t ends at t + 1; the newest unit of a slice lies somewhere in its own tick.
_BEHIND = LATENESS_TICKS + 1


@dataclass
class LaneClock:
    """Watermark of one pipeline in a lane: two minutes behind the slowest partition that counts.

        partition 0   ....|newest              read to its end, idle for two minutes: does not count
        partition 1   ............|newest
        partition 2   .....................|newest
        partition 3   |newest     unread       holds the watermark back, up to ten minutes
                      |
                      watermark: two minutes before it; every tick up to there is folded

    The watermark moves with slices of the lane only: without new slices the last two minutes stay open. A partition
    counts until it has been idle for two minutes. After that it counts while it has unread records, whose units would
    otherwise be late. A partition without units of the pipeline so far holds it back as well, up to ten minutes.

    Attributes:
        watermark: Last closed tick; 0 before the first unit.
        newest: Partition to [newest tick, second since the epoch at which its last unit was stored].
        waited: Partition to the seconds that it has held the watermark back since its last unit.
        last: Second since the epoch at which the last slice was stored.
    """

    watermark: int = 0
    newest: dict[str, list[float]] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    last: float = 0.0

    def silent(self, partitions: Iterable[str], kept_at: float) -> list[str]:
        """Return the idle ones among some partitions, sorted."""
        return sorted(one for one in partitions if not self._is_active(one, kept_at))

    def _is_active(self, partition: str, kept_at: float) -> bool:
        return partition in self.newest and kept_at - self.newest[partition][1] <= _IDLE_SECONDS

    def move(
        self, partition: str, newest: int | None, kept_at: float, *, is_live: bool, unread: Iterable[str] = ()
    ) -> int:
        """Count a slice, and return the new watermark.

        Args:
            partition: Topic and partition of the slice.
            newest: Latest tick of its units; None for a slice without units.
            kept_at: Time at which the slice is stored, seconds since the epoch.
            is_live: Event times after `kept_at` come from wrong clocks and count as `kept_at`. Files may hold any time.
            unread: Partitions with unread records after this slice; the idle ones of them are enough.
        """
        if newest is not None:
            if is_live:
                newest = min(newest, int(kept_at // TICK_SECONDS))
            before = self.newest.get(partition, [0, 0])[0]
            self.newest[partition] = [max(newest, before), kept_at]
        waited_for = self._wait(self.silent(unread, kept_at), kept_at)
        counting = [
            tick for one, (tick, _) in self.newest.items() if one in waited_for or self._is_active(one, kept_at)
        ]
        if counting and all(one in self.newest for one in waited_for):
            self.watermark = max(self.watermark, int(min(counting)) - _BEHIND)
        return self.watermark

    def _wait(self, unread: list[str], kept_at: float) -> list[str]:
        """Count how long each partition has held the watermark back; return those below the limit of ten minutes.

        Only a unit resets the count: a partition without monitored units may have unread records now and then.
        """
        gap = min(max(kept_at - self.last, 0.0), _LONGEST_GAP)
        self.waited = {one: seconds for one, seconds in self.waited.items() if not self._is_active(one, kept_at)}
        self.waited |= {one: self.waited[one] + gap if one in self.waited else 0.0 for one in unread}
        self.last = kept_at
        return [one for one in unread if self.waited[one] < PATIENCE_SECONDS]

    def as_json(self) -> list[Any]:
        """Return the clock as JSON values, equal for equal clocks."""
        return [self.watermark, dict(sorted(self.newest.items())), self.waited, self.last]

    @classmethod
    def from_json(cls, value: list[Any]) -> LaneClock:
        """Return the clock from `as_json`."""
        return cls(*value)
