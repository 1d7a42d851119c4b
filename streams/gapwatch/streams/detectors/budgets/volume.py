"""Observed volume of each series: where nobody declared one, the busiest day so far gives the threshold.

A = 30 days x busiest day x 1.25 / false alarms allowed in 30 days
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Floats, Ints, Rows, positions
from gapwatch.streams.detectors.budgets.budget import threshold
from gapwatch.streams.detectors.contexts import TICKS_A_DAY

LEAST_UNITS_A_DAY = 300.0
"""Units that the busiest day counts for at least. With fewer, a single series with ten tickets a month alarms at an
evidence of 375; with more, the first hours of a series are compared with a threshold of later days."""
VOLUME = ("tickets_allowed", "pages_allowed", "units_today", "units_seen", "busiest_day")
"""Arrays of the state that hold the volume."""
_PERIOD_DAYS = 30.0
# Room for a volume that grows. With less, 30 days in which it grows more than 1,800 times spend more than the budget.
_GROWTH = 1.25


def observed_threshold(busiest: Floats, allowed: Floats) -> Floats:
    """Return the threshold A of series of undeclared volume.

    Args:
        busiest: Units of the busiest day so far, today included.
        allowed: False alarms allowed in 30 days, > 0.

    Source:
        Spending of the budget by units as they come. The evidence less the units is a supermartingale; with a threshold
        that never falls, so is evidence / A less the sum of units / A (Shin, Ramdas, Rinaldo 2024, with A predictable).
        So the expected number of false alarms is at most that sum, whatever the volume. A day of d units after a
        busiest day of b <= d spends allowed / (30 x 1.25) x (1 + ln(d / b)), a quieter day at most allowed / (30 x
        1.25). Over 30 days that is allowed x (1 + ln(growth) / 30) / 1.25, at most `allowed` for a growth of up to
        exp(7.5) in these days.
    """
    result: Floats = _PERIOD_DAYS * _GROWTH * np.maximum(busiest, LEAST_UNITS_A_DAY) / allowed
    return result


def set_allowed(s: dict[str, Array], rows: Ints, tickets: float, pages: float, units: float | None = None) -> None:
    """Set the thresholds of series from their false-alarm budget.

    Args:
        s: State arrays of the fleet, by name.
        rows: Series.
        tickets: False tickets allowed for each series in 30 days; 0 for none.
        pages: False pages allowed for each series in 30 days; 0 for none.
        units: Declared units of each series in 30 days, > 0; None where the observed volume counts.
    """
    for name, allowed in (("ticket", tickets), ("page", pages)):
        is_fixed = units is not None and allowed > 0.0
        s[f"{name}_threshold"][rows] = threshold(units or 0.0, 1.0, allowed) if is_fixed else np.inf
        s[f"{name}s_allowed"][rows] = 0.0 if units is not None else allowed
    _set_thresholds(s, rows)


def observe_units(s: dict[str, Array], rows: Rows, units: Floats) -> None:
    """Count the units of a fold, and raise the thresholds of series whose busiest day is today.

    Call it after `daily_noise.close_days`, which begins a day, and before the units are compared with a threshold.
    """
    today = s["units_today"][rows] + units
    s["units_today"][rows] = today
    s["units_seen"][rows] += units
    grown = today > s["busiest_day"][rows]
    if not grown.any():
        return
    index = positions(rows)[grown]
    s["busiest_day"][index] = today[grown]
    _set_thresholds(s, index)


def _set_thresholds(s: dict[str, Array], rows: Ints) -> None:
    for name in ("ticket", "page"):
        allowed = s[f"{name}s_allowed"]
        chosen = rows[allowed[rows] > 0.0]
        if len(chosen):
            s[f"{name}_threshold"][chosen] = observed_threshold(s["busiest_day"][chosen], allowed[chosen])


def units_a_day(s: dict[str, Array]) -> Floats:
    """Return the mean number of units a day of each series so far, shape (series,); in the first day all of its units.

    Args:
        s: State arrays of the fleet, by name.
    """
    age = s["last_bucket"].astype(np.float64) - s["first_bucket"]
    result: Floats = s["units_seen"] / np.maximum(age / TICKS_A_DAY, 1.0)
    return result
