"""Bounds that a portfolio sets: the rate of a sliding window against them, by the bound of its interval."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gapwatch.streams.alerting.rules.alert_rule import RateBound
from gapwatch.streams.detectors.change import Interval, rate_interval

# A window is kept in this many cells at most: more cost memory, fewer make its begin coarse (1/360 of the window).
_CELLS = 360


@dataclass(frozen=True)
class Breach:
    """A bound that is broken, or kept again.

    Attributes:
        is_broken: False: kept again.
        since: First tick of the window.
        rate: Of the window, with its interval.
        units: In the window.
        bad: Of these.
    """

    is_broken: bool
    since: int
    rate: Interval
    units: int
    bad: int


@dataclass
class BoundWatch:
    """One series against one bound; it needs no baseline and speaks from the first hour on.

    It is broken when the whole 95 % interval of the window lies beyond the bound, and kept again when the rate itself
    is back within it. The interval is `change.rate_interval`, valid at all times for a fixed start; for a window that
    slides it is not: a rate that sits exactly on its bound breaks it now and then (measured in the README). It does
    not count against the false-alarm budget: a bound is a promise of the portfolio, not of a detector.

    Attributes:
        bound: As the portfolio sets it.
        cells: [first tick, good, bad], oldest first.
        is_broken: Whether it is, now.
    """

    bound: RateBound
    cells: deque[list[int]] = field(default_factory=deque)
    is_broken: bool = False

    def __post_init__(self) -> None:
        self._good = sum(cell[1] for cell in self.cells)
        self._bad = sum(cell[2] for cell in self.cells)

    def add(self, tick: int, good: int, bad: int) -> Breach | None:
        """Take in the units of one closed tick, and say whether the bound is newly broken or newly kept."""
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
            return None  # as before: a rate within its bound breaks nothing, whatever its interval
        rate = rate_interval(bad_units, units)
        if not self.is_broken and self._is_within(rate.lower if self.bound.is_ceiling else rate.upper):
            return None
        self.is_broken = not self.is_broken
        return Breach(self.is_broken, self.cells[0][0], rate, units, bad_units)

    def _is_within(self, rate: float) -> bool:
        value = self.bound.value
        return {"<": rate < value, "<=": rate <= value, ">": rate > value, ">=": rate >= value}[self.bound.operator]

    def as_json(self) -> dict[str, Any]:
        """Return what it remembers as JSON values."""
        return {"cells": list(self.cells), "is_broken": self.is_broken}

    @classmethod
    def from_json(cls, bound: RateBound, value: dict[str, Any]) -> BoundWatch:
        """Return what `as_json` gave, held against a bound that may be another by now."""
        return cls(bound, deque(value["cells"]), value["is_broken"])


def hold_to_bounds(
    watches: dict[int, BoundWatch],
    bounds: Mapping[int, RateBound | None],
    tick: int,
    units: Mapping[int, Sequence[int]],
) -> list[tuple[int, Breach]]:
    """Hold the units of one closed tick against the bounds of their series.

    Args:
        watches: By number of the series; those that are missing are made.
        bounds: The bound of each series; None for none.
        tick: The tick.
        units: Good and bad ones by series.

    Returns:
        Number of the series and what is newly broken or kept, by number.
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
