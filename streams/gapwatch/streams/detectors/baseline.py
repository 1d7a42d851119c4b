"""Baseline of a series: counts by bin for each stratum and hour of the week, shrunk towards all hours."""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Rows, add_up
from gapwatch.streams.detectors.contexts import HOURS, day_group

# Weight of the wider group, in units. With less, a quiet hour has no baseline; with more, a real season is flattened
# (50 gave ten times the promised alarms on the second day of a strong season, and x2 was detected no sooner).
PSEUDO_UNITS = 20.0
# Units that an hour of the week needs before it is told apart from the same hour of other weekdays. With fewer a series
# of 100 units a day had no baseline in its fifth week, after it had one in the fourth.
_WEEKDAY_UNITS = 50.0
# An hour's counts are halved before 32 bits overflow; 1e9 units are as precise as 2e9.
_FULL = 2**31


def shrink(counts: Floats, shares: Floats) -> Floats:
    """Return Dirichlet parameters: own counts plus `PSEUDO_UNITS` spread by the shares of the wider group."""
    result: Floats = counts + PSEUDO_UNITS * shares
    return result


def alpha_of(prior: Floats, pooled: Floats, group: Floats | None, hour: Floats | None, old: Bools | None) -> Floats:
    """Return the Dirichlet parameters of one context, shape (bins, series).

    Args:
        prior: Parameters before any unit: 1/2 a bin for rates and categories, spacings for numbers.
        pooled: Units so far, all hours.
        group: Units so far in the same hour of the day, by weekday or weekend; None for a series without seasons.
        hour: Units so far in the same hour of the week; None for a series without seasons.
        old: True for series of at least four weeks, whose days of the week are told apart where they have enough units;
            None without seasons.

    Source:
        Two-level shrinkage by pseudo-counts (a Dirichlet whose mean is the wider group's estimate). It makes no
        promise of its own. The baseline is wrong where seasons are finer than an hour or follow no week.
    """
    whole = prior + pooled
    if group is None or hour is None or old is None:
        return whole
    wide = shrink(group, whole / add_up(whole))
    own = tells_weekdays(hour, old)
    if not own.any():
        return wide
    fine = shrink(hour, wide / add_up(wide))
    return np.where(own, fine, wide)


def tells_weekdays(hour: Floats, old: Bools) -> Bools:
    """Return True for each series that has a baseline for an hour of the week, not only for its hour of the day.

    Args:
        hour: Units so far in the hour of the week, shape (bins, series).
        old: True for series of at least four weeks.
    """
    result: Bools = old & (add_up(hour) >= _WEEKDAY_UNITS)
    return result


def units_of_context(group: Floats, hour: Floats, old: Bools) -> Floats:
    """Return the units of the context itself: of the hour of the week where it is told apart, else of the hour's group.

    Args:
        group: As in `alpha_of`.
        hour: As in `alpha_of`.
        old: As in `alpha_of`.
    """
    units = add_up(group)
    return np.where(tells_weekdays(hour, old), add_up(hour), units) if old.any() else units


class Baseline:
    """Counts by bin of many series; the counts of one hour are contiguous in memory.

    Attributes:
        prior: Shape (bins, series).
        pooled: Shape (strata, bins, series); exact up to 2**53 units.
        hours: Shape (strata, 168, bins, series), 32 bits each; (strata, 0, ...) for series without seasons.
    """

    def __init__(self, prior: Floats, pooled: Floats, hours: Array) -> None:
        self.prior = prior
        self.pooled = pooled
        self.hours = hours

    @property
    def seasonal(self) -> bool:
        """True where each hour of the week has counts of its own."""
        return bool(self.hours.shape[1] == HOURS)

    def alpha(self, rows: Rows, stratum: int, hour: int, old: Bools) -> tuple[Floats, Floats]:
        """Return the Dirichlet parameters of a context, and the units of the context itself."""
        pooled = self.pooled[stratum][:, rows]
        if not self.seasonal:
            return alpha_of(self.prior[:, rows], pooled, None, None, None), add_up(pooled)
        hours = self.hours[stratum]
        group = np.zeros_like(pooled)
        for member in day_group(hour):
            group += hours[member][:, rows]
        own = hours[hour][:, rows].astype(np.float64)
        return alpha_of(self.prior[:, rows], pooled, group, own, old), units_of_context(group, own, old)

    def elsewhere(self, rows: Rows, stratum: int, hour: int) -> Floats:
        """Return the Dirichlet parameters of all units outside this hour of the day."""
        group = np.zeros_like(self.pooled[stratum][:, rows])
        for member in day_group(hour) if self.seasonal else ():
            group += self.hours[stratum][member][:, rows]
        result: Floats = self.prior[:, rows] + np.maximum(self.pooled[stratum][:, rows] - group, 0.0)
        return result

    def add(self, rows: Rows, stratum: int, hour: int, counts: Floats) -> None:
        """Add the units of one bucket."""
        self.pooled[stratum][:, rows] += counts
        if not self.seasonal:
            return
        cells = self.hours[stratum, hour]
        new = cells[:, rows] + counts
        if new.size and new.max() >= _FULL:
            new = np.where(new.max(axis=0) >= _FULL, np.floor(new / 2), new)
        cells[:, rows] = new.astype(cells.dtype)

    def take(self, row: int, stratum: int, hour: int, counts: Floats) -> None:
        """Subtract units of one series; counts stay at least 0."""
        pooled = self.pooled[stratum, :, row]
        pooled[:] = np.maximum(pooled - counts, 0.0)
        if self.seasonal:
            cells = self.hours[stratum, hour, :, row]
            cells[:] = np.maximum(cells.astype(np.float64) - counts, 0.0).astype(cells.dtype)

    def reset(self, row: int) -> None:
        """Drop all units of one series; bins that can receive a unit get the plain prior of 1/2."""
        self.pooled[:, :, row] = 0.0
        self.hours[:, :, :, row] = 0
        self.prior[:, row] = np.where(self.prior[:, row] > 0.0, 0.5, 0.0)

    def one(self, row: int) -> Baseline:
        """Return a copy of the baseline of one series."""
        return Baseline(
            self.prior[:, row : row + 1].copy(),
            self.pooled[:, :, row : row + 1].copy(),
            self.hours[..., row : row + 1].copy(),
        )
