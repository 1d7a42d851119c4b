"""Quantity of a window: its value, its limits, and the evidence that it is beyond its bound.

Numbers are known by their cell of the grid, 1 % wide. A limit uses the end of a cell that makes it wider, so no bound
breaks by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gapwatch.sinks.reading.ratio_sums import MOST_UNKNOWN
from gapwatch.streams.alerting.bounds.betting import (
    Units,
    evidence_above,
    lower_limit,
    ratio_evidence,
    total_evidence,
    upper_limit,
)
from gapwatch.streams.alerting.bounds.window_units import BOTTOM, TOP, WindowUnits
from gapwatch.streams.alerting.rules.bound import Bound
from gapwatch.streams.detectors.arrays import Floats, Ints
from gapwatch.streams.detectors.grid import cell_end, cell_middle, cell_of


@dataclass(frozen=True)
class QuantityOfWindow:
    """Quantity of the units in one window.

    Attributes:
        bound: The bound.
        window: The units.
    """

    bound: Bound
    window: WindowUnits

    # ---- the value ----

    @property
    def is_known(self) -> bool:
        """True where the quantity has a value: there are units, and no numbers or parts are missing.

        A number below the smallest one that the metric can have makes it unknown: limits rest on that end.
        """
        if not len(self._codes(TOP)):
            return False
        parts = self.bound.parts
        if parts is not None:
            lacking = max(self.window.unknown_share(role) for role in (TOP, BOTTOM))
            if lacking > MOST_UNKNOWN or not len(self._codes(BOTTOM)):
                return False
            return all(self._is_in_range(role) for role in (TOP, BOTTOM) if parts.sums_numbers[role])
        return self.bound.of not in ("mean", "sum") or self._is_in_range(TOP)

    def _is_in_range(self, role: int) -> bool:
        _, high = self._ends(role)
        return bool(high.min() >= self.bound.least) and math.isfinite(self.window.sums[role])

    @property
    def value(self) -> float:
        """The quantity, weighted to all traces; NaN where it is not known."""
        of = self.bound.of
        if not self.is_known:
            return math.nan
        if self.bound.level is not None:
            return self._quantile(self.bound.level)
        if of == "sum":
            return self.window.sums[TOP]
        if of == "mean":
            return self.window.sums[TOP] / float(self._n(TOP) @ self._w(TOP))
        if self.bound.parts is not None:
            return self._total(TOP) / self._total(BOTTOM) if self._total(BOTTOM) > 0.0 else math.inf
        return self._share(self._codes(TOP) == 1).mean

    @property
    def moved(self) -> int | None:
        """Units that count for a share, or whose number is beyond the bound of a quantile; None for other quantities.

        For a bound from below these are the units below it.
        """
        if self.bound.level is not None:
            return round(float(self._n(TOP)[self._is_beyond()].sum()))
        if self.bound.of in ("mean", "sum", "ratio"):
            return None
        return round(float(self._n(TOP)[self._codes(TOP) == 1].sum()))

    # ---- evidence and limits ----

    def evidence(self, bound: float, *, exceeds: bool) -> float:
        """Return the log evidence that the quantity exceeds a bound, or that it is below it; -inf where none can be.

        Args:
            bound: The bound, in the unit of the quantity.
            exceeds: Look for a quantity above the bound; else for one below it.
        """
        of = self.bound.of
        if not self.is_known:
            return -math.inf
        if self.bound.level is not None:
            beyond, level = self._is_beyond_of(bound, exceeds=exceeds), self.bound.level
            return evidence_above(self._share(beyond), 1.0 - level if exceeds else level)
        if self.bound.parts is not None:
            return self._ratio_evidence(bound, exceeds=exceeds)
        if of == "sum":
            return total_evidence(self._numbers(TOP), bound) if exceeds else -math.inf
        if of == "mean":
            return self._mean_evidence(bound, exceeds=exceeds)
        counts = (self._codes(TOP) == 1) == exceeds
        return evidence_above(self._share(counts), bound if exceeds else 1.0 - bound)

    def limits(self, level: float) -> tuple[float, float]:
        """Return the lower and the upper confidence limit; infinite where none can be given.

        Args:
            level: ln(1 / alpha); each limit is wrong with probability alpha at most.
        """
        if not self.is_known:
            return -math.inf, math.inf
        if self.bound.level is not None:
            return self._quantile_limits(level)
        value = self.value
        least = self.bound.least if self.bound.of == "mean" else 0.0
        above = self._shifted(least, exceeds=True)
        low = least + lower_limit(above, value - least, level) if math.isfinite(value) else 0.0
        most = self._most
        if most is not None:  # what is missing to the largest value has a lower limit
            missing = lower_limit(lambda m: self.evidence(most - m, exceeds=False), most - value, level)
            return min(low, value), max(most - missing, value)
        if self.bound.parts is not None and not self.bound.parts.sums_numbers[TOP]:
            return low, upper_limit(lambda m: self.evidence(m, exceeds=False), value, level)
        return min(low, value), math.inf

    def _shifted(self, least: float, *, exceeds: bool) -> Callable[[float], float]:
        return lambda m: self.evidence(least + m, exceeds=exceeds)

    @property
    def _most(self) -> float | None:
        if self.bound.of == "mean":
            return self.bound.most
        return 1.0 if self.bound.of in ("failure_rate", "share") else None

    def _mean_evidence(self, bound: float, *, exceeds: bool) -> float:
        numbers = self._numbers(TOP)
        if exceeds:
            return evidence_above(numbers, bound - self.bound.least)
        most = self.bound.most
        if most is None:
            return -math.inf
        _, high = self._ends(TOP)
        short = Units(np.maximum(most - high, 0.0), numbers.n, numbers.w, numbers.unit_size)
        return evidence_above(short, most - bound)

    def _ratio_evidence(self, bound: float, *, exceeds: bool) -> float:
        assert self.bound.parts is not None
        if self.bound.parts.sums_numbers[BOTTOM if exceeds else TOP]:
            return -math.inf
        return ratio_evidence(self._summed(TOP), self._summed(BOTTOM), bound, exceeds=exceeds)

    def _quantile_limits(self, level: float) -> tuple[float, float]:
        assert self.bound.level is not None
        q, codes = self.bound.level, np.unique(self._codes(TOP))
        of = self._codes(TOP)
        # The share above a cell falls with the cell, the share up to it grows: both ends are found by bisection.
        last = _last_true(len(codes), lambda i: evidence_above(self._share(of > codes[i]), 1.0 - q) >= level)
        first = (
            len(codes)
            - 1
            - _last_true(len(codes), lambda i: evidence_above(self._share(of <= codes[len(codes) - 1 - i]), q) >= level)
        )
        low = -math.inf if last < 0 else _end(int(codes[last]))
        return low, math.inf if first >= len(codes) else _end(int(codes[first]))

    # ---- units as arrays ----

    @cached_property
    def _arrays(self) -> tuple[tuple[Ints, Floats, Floats], tuple[Ints, Floats, Floats]]:
        """Codes, numbers of units and weights of the decided units, by role."""
        return self._role_arrays(TOP), self._role_arrays(BOTTOM)

    def _role_arrays(self, role: int) -> tuple[Ints, Floats, Floats]:
        rows = [
            (group.code, n, 1.0 / group.p)
            for group, n in self.window.counts.items()
            if group.role == role and group.code is not None
        ]
        codes, n, w = zip(*rows, strict=True) if rows else ((), (), ())
        return np.array(codes, np.int64), np.array(n, np.float64), np.array(w, np.float64)

    def _codes(self, role: int) -> Ints:
        return self._arrays[role][0]

    def _n(self, role: int) -> Floats:
        return self._arrays[role][1]

    def _w(self, role: int) -> Floats:
        return self._arrays[role][2]

    def _share(self, counts: np.ndarray) -> Units:
        return Units(counts.astype(np.float64), self._n(TOP), self._w(TOP), self.window.session_size)

    def _is_beyond(self) -> np.ndarray:
        return self._is_beyond_of(self.bound.value, exceeds=self.bound.is_ceiling)

    def _is_beyond_of(self, bound: float, *, exceeds: bool) -> np.ndarray:
        cell = cell_of(bound)
        return self._codes(TOP) > cell if exceeds else self._codes(TOP) < cell

    def _ends(self, role: int) -> tuple[Floats, Floats]:
        """Return the lower and the upper end of the number of each group."""
        codes = self._codes(role).tolist()
        low = [_end(code - 1) if code > 0 else -_end(-code) if code < 0 else 0.0 for code in codes]
        return np.array(low), np.array([_end(code) for code in codes])

    def _numbers(self, role: int) -> Units:
        low, _ = self._ends(role)
        least = self.bound.least if self.bound.of == "mean" else 0.0
        return Units(np.maximum(low - least, 0.0), self._n(role), self._w(role), self.window.session_size)

    def _summed(self, role: int) -> Units:
        """Return the units of a part of a ratio: its numbers, or 1 for each good trace."""
        assert self.bound.parts is not None
        if self.bound.parts.sums_numbers[role]:
            return self._numbers(role)
        return Units(
            (self._codes(role) == 1).astype(np.float64), self._n(role), self._w(role), self.window.session_size
        )

    def _total(self, role: int) -> float:
        assert self.bound.parts is not None
        return self.window.sums[role] if self.bound.parts.sums_numbers[role] else self._summed(role).total

    def _quantile(self, level: float) -> float:
        order = np.argsort(self._codes(TOP), kind="stable")
        up_to = np.cumsum((self._n(TOP) * self._w(TOP))[order])
        position = min(int(np.searchsorted(up_to, level * up_to[-1])), len(order) - 1)
        return cell_middle(int(self._codes(TOP)[order[position]]))


def _end(cell: int) -> float:
    end = cell_end(cell)
    return math.copysign(math.inf, cell) if end is None else end


def _last_true(count: int, is_true: Callable[[int], bool]) -> int:
    """Return the last index for which a falling condition holds; -1 where it holds for none."""
    low, high = -1, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_true(middle) else (low, middle)
    return low
