"""When a tick is over: event time of a lane, from the slices that came."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.detectors.contexts import TICK_SECONDS

LATENESS_TICKS = 4
"""Two minutes: a tick is closed when event time is this far beyond its end. What comes later joins the current tick."""
_IDLE_SECONDS = 120.0
# A tick t ends at t + 1; the newest unit of a slice lies somewhere in its own tick.
_BEHIND = LATENESS_TICKS + 1


@dataclass
class LaneClock:
    """Event time of one lane: as far as the slowest of its active partitions.

        partition 0   ....|newest          idle for two minutes: does not count
        partition 1   ............|newest
                          |<- 2 min ->|
        closed  ---------^ every tick up to here is folded

    It moves with slices only: in a lane where nothing comes the last two minutes stay open. A partition is idle when
    no unit of it came for two minutes before this slice was kept, so a backlog on one partition holds the lane back
    while it is read, and a silent one does not.

    Attributes:
        closed: Last tick that is closed; 0 before the first unit.
        newest: Partition to [newest tick, second since the epoch at which its last unit was kept].
    """

    closed: int = 0
    newest: dict[str, list[float]] = field(default_factory=dict)

    def move(self, partition: str, newest: int | None, kept_at: float, *, is_live: bool) -> int:
        """Take note of a slice, and return the last tick that is closed now.

        Args:
            partition: Topic and partition.
            newest: Latest tick of the units in it; None where there was none.
            kept_at: When it is kept, seconds since the epoch.
            is_live: Event times after `kept_at` are wrong clocks, and count as now; a file may tell of any time.
        """
        if newest is not None:
            if is_live:
                newest = min(newest, int(kept_at // TICK_SECONDS))
            before = self.newest.get(partition, [0, 0])[0]
            self.newest[partition] = [max(newest, before), kept_at]
        active = [tick for tick, at in self.newest.values() if kept_at - at <= _IDLE_SECONDS]
        if active:
            self.closed = max(self.closed, int(min(active)) - _BEHIND)
        return self.closed
