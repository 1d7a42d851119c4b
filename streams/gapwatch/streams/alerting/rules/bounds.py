"""Checks the failure rate of a sliding window, with its interval, against the bound of a portfolio."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gapwatch.streams.alerting.rules.alert_rule import RateBound
from gapwatch.streams.detectors.change import Interval, rate_interval

# Most cells of a window: more cost memory, fewer make the begin of the window coarse (1/360 of its length).
_CELLS = 360


@dataclass(frozen=True)
class Breach:
    """A bound that has just been broken, or that holds again.

    Attributes:
        is_broken: True where the bound has been broken; False where it holds again.
        since: First tick of the window.
        rate: Failure rate of the window, with its interval.
        units: Units in the window.
        bad: Failing units among them.
    """

    is_broken: bool
    since: int
    rate: Interval
    units: int
    bad: int


@dataclass
class BoundWatch:
    """Check of one series against one bound. It needs no baseline and works from the first hour on.

    The bound is broken when the whole 95 % interval of the window lies beyond it. It holds again when the rate itself
    is back within it. The interval is `change.rate_interval`, which is valid at all times for a fixed start. For a
    sliding window it is not: a rate that sits exactly on its bound breaks it now and then. A broken bound does not
    count against the false-alarm budget: it is a promise of the portfolio, not of a detector.

    Attributes:
        bound: Bound of the portfolio.
        cells: [first tick, good units, bad units], oldest first.
        is_broken: True while the bound is broken.
    """

    bound: RateBound
    cells: deque[list[int]] = field(default_factory=deque)
    is_broken: bool = False

    def __post_init__(self) -> None:
        self._good = sum(cell[1] for cell in self.cells)
        self._bad = sum(cell[2] for cell in self.cells)

    def add(self, tick: int, good: int, bad: int) -> Breach | None:
        """Add the units of one closed tick; return a breach where the bound breaks or holds again, else None."""
        width = max(self.bound.window_ticks // _CELLS, 1)
        first = tick // width * width
        if self.cells and self.cells[-1][0] == first:
            self.cells[-1][1] += good
            self.cells[-1][2] += bad
        else:
            self.cells.append([first, good, bad])
        self._good += good
        self._bad += bad
        while self.cells[0][0] <= tick - self.bound.window_ticks:
            _, old_good, old_bad = self.cells.popleft()
            self._good -= old_good
            self._bad -= old_bad
        bad_units = self._bad
        units = bad_units + self._good
        if units < self.bound.min_units:
            return None
        if self._is_within(bad_units / units) == (not self.is_broken):
            return None  # unchanged: a rate within the bound breaks nothing, whatever its interval
        rate = rate_interval(bad_units, units)
        if not self.is_broken and self._is_within(rate.lower if self.bound.is_ceiling else rate.upper):
            return None
        self.is_broken = not self.is_broken
        return Breach(self.is_broken, self.cells[0][0], rate, units, bad_units)

    def _is_within(self, rate: float) -> bool:
        value = self.bound.value
        return {"<": rate < value, "<=": rate <= value, ">": rate > value, ">=": rate >= value}[self.bound.operator]

    def as_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"cells": list(self.cells), "is_broken": self.is_broken}

    @classmethod
    def from_json(cls, bound: RateBound, value: dict[str, Any]) -> BoundWatch:
        """Return the check from `as_json`, against a bound that may have changed since."""
        return cls(bound, deque(value["cells"]), value["is_broken"])


def hold_to_bounds(
    watches: dict[int, BoundWatch],
    bounds: Mapping[int, RateBound | None],
    tick: int,
    units: Mapping[int, Sequence[int]],
) -> list[tuple[int, Breach]]:
    """Check the units of one closed tick against the bounds of their series.

    Args:
        watches: Number of the series to its check; missing checks are added.
        bounds: Number of the series to its bound; None for a series without one.
        tick: The tick.
        units: Number of the series to its good and bad units.

    Returns:
        (Number of the series, breach), by number.
    """
    found = []
    for number, (good, bad) in sorted(units.items()):
        bound = bounds[number]
        if bound is None or not good + bad:
            continue
        breach = watches.setdefault(number, BoundWatch(bound)).add(tick, good, bad)
        if breach is not None:
            found.append((number, breach))
    return found
