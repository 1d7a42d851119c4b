"""Between-day variance of a series (daily noise), and the paging margin (log odds) made from it."""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Ints, Rows, add_up, positions
from gapwatch.streams.detectors.fleet_config import FleetConfig

# Units that a day needs to count, and days that the margin needs.
_LEAST_DAY_UNITS = 100
_DAYS_TO_A_MARGIN = 14


def close_days(config: FleetConfig, s: dict[str, Array], rows: Rows, day: int, seen: Bools) -> None:
    """Add the days that have ended to the daily noise of the series, and set the paging margin from it.

    Source: between-day variance less the variance that sampling alone gives (DerSimonian and Laird 1986, moments).
    The margin is twice its square root, in log odds, and at least `least_margin`; until 14 days are measured it is
    `first_margin`. Weekends count as daily noise: seasons make it larger, never smaller.

    Args:
        config: Configuration of the fleet.
        s: State arrays of the fleet, by name.
        rows: Series of the fold.
        day: Number of the current day, UTC.
        seen: True for the series with a unit in the fold.
    """
    ended = seen & (s["day"][rows] < day)
    if not ended.any():
        return
    index = positions(rows)[ended]
    full = index[s["day_units"][index] >= _LEAST_DAY_UNITS]
    if len(full):
        mean = s["day_sum"][full] / s["day_units"][full]
        s["days"][full] += 1
        step = mean - s["days_mean"][full]
        s["days_mean"][full] += step / s["days"][full]
        s["days_squares"][full] += step * (mean - s["days_mean"][full])
        s["days_noise"][full] += 1.0 / s["day_units"][full]
        _set_margin(config, s, full[s["days"][full] >= _DAYS_TO_A_MARGIN])
    s["day"][index] = day
    s["units_today"][index] = 0.0
    s["day_units"][index] = 0.0
    s["day_sum"][index] = 0.0


def _set_margin(config: FleetConfig, s: dict[str, Array], rows: Ints) -> None:
    yard = config.table.noise_statistic[:, None]
    whole = s["prior"][:, rows] + add_up(s["pooled"][:, :, rows])
    shares = whole / add_up(whole)
    mean = add_up(shares * yard)
    variance = np.maximum(add_up(shares * yard * yard) - mean * mean, 1e-12)
    days = s["days"][rows].astype(np.float64)
    between = s["days_squares"][rows] / (days - 1.0) / variance**2 - s["days_noise"][rows] / days / variance
    s["margin"][rows] = np.maximum(config.least_margin, 2.0 * np.sqrt(np.maximum(between, 0.0)))
