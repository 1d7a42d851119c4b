"""Decides when to skip judging: while records wait longer than `after` seconds to be stored (load shedding).

    end of the topic   ──────────e0━━━━━━━━━━━━━e1──▶      a mark is set at the end: how long until it is stored?
    stored             ──k──────────────────────e0──▶      longer than `after`: skip; less than half of it: resume

The decision depends on the clock, not on the records. Each change is therefore stored as a selection with the offset
from which it holds, so that a backfill repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Judging resumes when the wait falls below this share of the limit; the gap prevents oscillation.
_CALM = 0.5


@dataclass
class _Mark:
    """The end of a partition at one moment.

    Attributes:
        at: That moment, in seconds of the clock of `see`.
        end: The offset; the mark is reached when all records before it are stored.
        waited: Seconds until the mark before was reached.
    """

    at: float
    end: int
    waited: float = 0.0


class Shedding:
    """Measures how long records wait to be stored; `see` is for one thread, `is_on` for any.

    Args:
        after: Seconds that a record may wait; None: judging is never skipped.

    Attributes:
        is_on: True while judging is skipped.
    """

    def __init__(self, after: float | None) -> None:
        self._after = after
        self._marks: dict[int, _Mark] = {}
        self.is_on = False

    def see(self, positions: Mapping[int, tuple[int, int, int]], now: float) -> None:
        """Measure the wait; call it about once a second.

        Args:
            positions: By partition: next offset to be stored, next to be fetched, end of the readable records.
            now: Seconds of a monotonic clock.
        """
        if self._after is None:
            return
        waits = [self._wait(number, kept, end, now) for number, (kept, _, end) in positions.items()]
        self._marks = {number: mark for number, mark in self._marks.items() if number in positions}
        longest = max(waits, default=0.0)
        self.is_on = longest > self._after * (_CALM if self.is_on else 1.0)

    def _wait(self, number: int, kept: int, end: int, now: float) -> float:
        """Return the seconds that the records of a partition wait."""
        if kept >= end:
            self._marks.pop(number, None)
            return 0.0
        mark = self._marks.setdefault(number, _Mark(now, end))
        if kept >= mark.end:
            mark = self._marks[number] = _Mark(now, end, now - mark.at)
        return max(mark.waited, now - mark.at)
