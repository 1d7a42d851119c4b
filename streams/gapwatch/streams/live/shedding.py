"""When judges are shed: what comes waits for longer than it may, as this process sees it.

    end of the topic   ──────────e0━━━━━━━━━━━━━e1──▶      a mark is set at the end; how long until it is kept?
    kept               ──k──────────────────────e0──▶      longer than `after`: shed; less than half of it: no more

The moment is none of the records' own; so each change is recorded as a policy step, with the offset it holds from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Shedding ends where the wait is below this share of the limit, lest steps come and go.
_CALM = 0.5


@dataclass
class _Mark:
    """An offset that is waited for.

    Attributes:
        at: When it was seen; of the clock that `see` is told.
        end: The offset: all below is to be kept.
        waited: How long it took to keep the one before.
    """

    at: float
    end: int
    waited: float = 0.0


class Shedding:
    """Whether judges are to be shed; told of the source on one thread, asked on any.

    Args:
        after: Seconds that a record may wait to be kept; None: nothing is ever shed.

    Attributes:
        is_on: Whether judges are shed now.
    """

    def __init__(self, after: float | None) -> None:
        self._after = after
        self._marks: dict[int, _Mark] = {}
        self.is_on = False

    def see(self, positions: Mapping[int, tuple[int, int, int]], now: float) -> None:
        """Note how the source stands, about once a second.

        Args:
            positions: By partition: next offset to be kept, next to be fetched, end of what may be read.
            now: Seconds of a clock that never goes back.
        """
        if self._after is None:
            return
        waits = [self._wait(number, kept, end, now) for number, (kept, _, end) in positions.items()]
        self._marks = {number: mark for number, mark in self._marks.items() if number in positions}
        longest = max(waits, default=0.0)
        self.is_on = longest > self._after * (_CALM if self.is_on else 1.0)

    def _wait(self, number: int, kept: int, end: int, now: float) -> float:
        """Return how long the records of a partition wait."""
        if kept >= end:
            self._marks.pop(number, None)
            return 0.0
        mark = self._marks.setdefault(number, _Mark(now, end))
        if kept >= mark.end:
            mark = self._marks[number] = _Mark(now, end, now - mark.at)
        return max(mark.waited, now - mark.at)
