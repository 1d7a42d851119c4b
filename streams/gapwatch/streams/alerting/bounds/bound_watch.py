"""Check of one series against one bound, over a sliding window."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from gapwatch.streams.alerting.bounds.quantity import QuantityOfWindow
from gapwatch.streams.alerting.bounds.window_units import TOP, WindowUnits
from gapwatch.streams.alerting.rules.bound import Bound
from gapwatch.streams.alerting.rules.breach import Breach
from gapwatch.streams.detectors.change import Interval
from gapwatch.streams.detectors.contexts import TICKS_A_DAY

#: Probability that a bound breaks in a month in which the quantity sits exactly on it.
FALSE_ALARMS_A_MONTH = 0.05
# Parts of a window that leave it together. More make its begin finer, and each break needs more evidence, because each
# begin of a window is one more chance of a false alarm.
_PARTS = 12
_MONTH_TICKS = 30 * TICKS_A_DAY

#: States of a bound, the most urgent last.
STATES = ("too_few", "held", "undecided", "broken")


def part_ticks(bound: Bound) -> int:
    """Return the ticks of each part of a bound's window."""
    return -(-bound.window_ticks // _PARTS)


def limit_level(bound: Bound) -> float:
    """Return ln(1 / alpha) of a confidence limit, so that all windows of a month together are wrong with 5 %.

    A window begins at one of the month's parts. From each begin a limit holds at all looks with probability 1 - alpha,
    so the chance of any false one is at most the number of begins times alpha (Boole).
    """
    begins = max(_MONTH_TICKS / part_ticks(bound), 1.0)
    return math.log(begins / FALSE_ALARMS_A_MONTH)


@dataclass(frozen=True)
class BoundStanding:
    """Present state of a bound.

    Attributes:
        state: `broken`; else `held` (surely within), `undecided`, or `too_few` (fewer units than `min_units`).
        measured: Quantity of the window with its confidence limits; NaN and infinite where not known.
        units: Decided units in the window.
        newest: Tick of the last unit.
    """

    state: str
    measured: Interval
    units: int
    newest: int


@dataclass
class BoundWatch:
    """Check of one series against one bound. It needs no baseline and works from the first units on.

        parts      |0|1|2|3|4|5|6|7|8|9|a|b|      each a twelfth of the window; the oldest leaves as a new one begins
        window      ------------------------      the quantity, with its limits

    A bound is broken when the quantity is surely beyond it: the confidence limit of the window lies beyond the bound.
    The breach is over when the quantity is surely within the bound, or when it was measured within the bound for the
    length of a whole window, at every tick with units: until then nobody can say that it is over.

    Promise: a stream whose quantity sits exactly on its bound breaks it in at most 5 % of months (`limit_level`;
    measured in docs/figures/alerting.md). A broken bound does not count against the false-alarm budget.

    Attributes:
        bound: The bound.
        parts: Parts of the window, oldest first: first tick, and units.
        is_broken: True while the bound is broken.
        within_since: First tick since which a broken quantity is measured within the bound; None where it is not.
        newest: Tick of the last units.
    """

    bound: Bound
    parts: deque[tuple[int, WindowUnits]] = field(default_factory=deque)
    is_broken: bool = False
    within_since: int | None = None
    newest: int = 0

    def __post_init__(self) -> None:
        self._window = WindowUnits()
        self._standing: tuple[int, Bound, BoundStanding] | None = None
        for _, units in self.parts:
            self._window.join(units)

    def add(self, tick: int, units: WindowUnits) -> Breach | None:
        """Add the units of one closed tick; return a breach where the bound breaks or the breach is over, else None."""
        self._slide(tick, units)
        if self._window.units(TOP) < self.bound.min_units:
            return None
        quantity = QuantityOfWindow(self.bound, self._window)
        value = quantity.value
        if math.isnan(value):
            return None
        is_within = self.bound.is_within(value)
        if self.is_broken:
            return self._end(tick, quantity) if self._is_over(tick, quantity, is_within=is_within) else None
        if is_within or not self._is_sure(quantity, exceeds=self.bound.is_ceiling):
            return None
        self.is_broken, self.within_since = True, None
        return self._breach(quantity, "surely beyond the bound")

    def _slide(self, tick: int, units: WindowUnits) -> None:
        width = part_ticks(self.bound)
        first = tick // width * width
        if not self.parts or self.parts[-1][0] != first:
            self.parts.append((first, WindowUnits()))
        self.parts[-1][1].join(units)
        self._window.join(units)
        self.newest = tick
        while self.parts[0][0] <= tick - self.bound.window_ticks:
            _, old = self.parts.popleft()
            self._window.leave(old, (part.sums for _, part in self.parts))

    def _is_sure(self, quantity: QuantityOfWindow, *, exceeds: bool) -> bool:
        return quantity.evidence(self.bound.value, exceeds=exceeds) >= limit_level(self.bound)

    def _is_over(self, tick: int, quantity: QuantityOfWindow, *, is_within: bool) -> bool:
        if not is_within:
            self.within_since = None
            return False
        if self.within_since is None:
            self.within_since = tick
        return tick - self.within_since >= self.bound.window_ticks or self._is_sure(
            quantity, exceeds=not self.bound.is_ceiling
        )

    def _end(self, tick: int, quantity: QuantityOfWindow) -> Breach:
        assert self.within_since is not None
        is_long = tick - self.within_since >= self.bound.window_ticks
        self.is_broken, self.within_since = False, None
        return self._breach(
            quantity, "within the bound for a whole window" if is_long else "surely back within the bound"
        )

    def _breach(self, quantity: QuantityOfWindow, why: str) -> Breach:
        return Breach(
            bound=self.bound,
            is_broken=self.is_broken,
            since=self.parts[0][0],
            measured=self._measured(quantity),
            units=self._window.units(TOP),
            moved=quantity.moved,
            why=why,
        )

    def _measured(self, quantity: QuantityOfWindow) -> Interval:
        return Interval(quantity.value, *quantity.limits(limit_level(self.bound)))

    def standing(self) -> BoundStanding:
        """Return the present state, as of the last tick with units; it is computed once for each tick."""
        if self._standing is None or self._standing[:2] != (self.newest, self.bound):
            self._standing = self.newest, self.bound, self._stand()
        return self._standing[2]

    def _stand(self) -> BoundStanding:
        quantity = QuantityOfWindow(self.bound, self._window)
        units, measured = self._window.units(TOP), self._measured(quantity)
        if self.is_broken:
            state = "broken"
        elif units < self.bound.min_units:
            state = "too_few"
        else:
            end = measured.upper if self.bound.is_ceiling else measured.lower
            state = "held" if self.bound.is_within(end) else "undecided"
        return BoundStanding(state, measured, units, self.newest)

    def as_json(self) -> dict[str, Any]:
        """Return the state as JSON values; the bound is that of the rule."""
        parts = [[first, units.as_json()] for first, units in self.parts]
        return {
            "parts": parts, "is_broken": self.is_broken, "within_since": self.within_since, "newest": self.newest,
        }  # fmt: skip

    @classmethod
    def from_json(cls, bound: Bound, value: dict[str, Any]) -> BoundWatch:
        """Return the check from `as_json`, against a bound whose value may have changed since."""
        parts = deque((first, WindowUnits.from_json(units)) for first, units in value["parts"])
        return cls(bound, parts, value["is_broken"], value["within_since"], value["newest"])
