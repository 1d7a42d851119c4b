"""When a tick is over: event time of a lane, from the slices that came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gapwatch.streams.detectors.contexts import TICK_SECONDS

LATENESS_TICKS = 4
"""Two minutes: a tick is closed when event time is this far beyond its end. What comes later joins the current tick."""
PATIENCE_SECONDS = 600.0
"""Ten minutes: so long a partition whose records are not read is waited for while others are."""
_IDLE_SECONDS = 120.0
# Of the time between two slices this much counts as waiting: while the process was down, nothing could have come.
_LONGEST_GAP = 60.0
# A tick t ends at t + 1; the newest unit of a slice lies somewhere in its own tick.
_BEHIND = LATENESS_TICKS + 1


@dataclass
class LaneClock:
    """Event time of one lane: as far as the slowest of the partitions that count.

        partition 0   ....|newest              read to its end, nothing for two minutes: does not count
        partition 1   ............|newest
        partition 2   .....................|newest
        partition 3   |newest     unread       waited for, up to ten minutes
                      |
                      closed: two minutes before it, every tick up to there is folded

    It moves with slices only: in a lane where nothing comes the last two minutes stay open. A partition counts while
    units of it come, until two minutes before a slice is kept; and, beyond that, while it is known to have records
    that are not read: what they hold would be late. One that was never read holds back all.

    Attributes:
        closed: Last tick that is closed; 0 before the first unit.
        newest: Partition to [newest tick, second since the epoch at which its last unit was kept].
        waited: Partition to the seconds that it was waited for since its last unit, while others came.
        last: Second at which the last slice was kept.
    """

    watermark: int = 0
    newest: dict[str, list[float]] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    last: float = 0.0

    def silent(self, partitions: Iterable[str], kept_at: float) -> list[str]:
        """Return those of some partitions that do not count by themselves, sorted."""
        return sorted(one for one in partitions if not self._is_active(one, kept_at))

    def _is_active(self, partition: str, kept_at: float) -> bool:
        return partition in self.newest and kept_at - self.newest[partition][1] <= _IDLE_SECONDS

    def move(
        self, partition: str, newest: int | None, kept_at: float, *, is_live: bool, unread: Iterable[str] = ()
    ) -> int:
        """Take note of a slice, and return the last tick that is closed now.

        Args:
            partition: Topic and partition.
            newest: Latest tick of the units in it; None where there was none.
            kept_at: When it is kept, seconds since the epoch.
            is_live: Event times after `kept_at` are wrong clocks, and count as now; a file may tell of any time.
            unread: Partitions with records that will come after this slice. `silent` of them are enough.
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
        """Count how long each is waited for, and return those that are not given up.

        Only a unit begins the count anew: a partition of which nothing is watched has unread records now and then.
        """
        gap = min(max(kept_at - self.last, 0.0), _LONGEST_GAP)
        self.waited = {one: seconds for one, seconds in self.waited.items() if not self._is_active(one, kept_at)}
        self.waited |= {one: self.waited[one] + gap if one in self.waited else 0.0 for one in unread}
        self.last = kept_at
        return [one for one in unread if self.waited[one] < PATIENCE_SECONDS]

    def as_json(self) -> list[Any]:
        """Return it as JSON values."""
        return [self.watermark, self.newest, self.waited, self.last]

    @classmethod
    def from_json(cls, value: list[Any]) -> LaneClock:
        """Return what `as_json` gave."""
        return cls(*value)
