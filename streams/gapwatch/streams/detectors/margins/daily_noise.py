"""Days of a series: their noise, the effect of their weekday, and the margins made from both, in log odds.

level of a day = (observed - expected) / information        expected by the baseline of each hour
noise^2        = (7 usual^2 + w between) / (7 + w)          between: variance of level - effect
effect         = unknown^2 sum of levels / noise^2          of a weekday, from w earlier ones, by what they tell
unknown^2      = 1 / (1 / weekdays^2 + w / noise^2)
deviation^2    = (noise^2 + unknown^2) (1 + 1 / m)          of the level of a day to come, from a baseline of m days
margin         = 2 deviations; and by the weekday: up + effect, down - effect
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Ints, Rows, add_up, positions
from gapwatch.streams.detectors.contexts import DAYS, TICKS_A_DAY, TICKS_TO_A_WEEK_BASELINE
from gapwatch.streams.detectors.fleet_config import FleetConfig

# Days that the usual noise counts for. With fewer, a chance of the first days sets the margin; with more, a noisy
# series raises tickets for weeks.
USUAL_DAYS = 7.0
# Deviations of the noise that do not count as a change.
DEVIATIONS = 2.0
# Noise, in log odds, below which a day is taken for exact. A smaller one divides by 0.
_LEAST_NOISE = 0.01
# Information (units times variance) that a day needs to count: with less its level is known to no more than 0.45.
_LEAST_INFORMATION = 5.0
# Standard deviation between the weekdays of a usual series, log odds: 9 of 10 weekdays lie within a factor of 1.25. A
# smaller one takes worse Mondays for a change when they come for the first time; with a larger one, a change in
# the second week is told later.
_USUAL_WEEKDAYS = 0.136

# Days after a Thursday, as day 0 of the epoch was, that are weekend; and weekdays before each day from Thursday on.
_WEEKEND = (2, 3)
_WEEKDAYS_BEFORE = np.array([0, 1, 2, 2, 2, 3, 4])


def day_terms(statistic: Floats, alpha: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return what the units of a fold add to the gap and to the information of the day of each series.

    Args:
        statistic: One value for each bin, whose mean moves with the day, shape (bins,).
        alpha: Baseline of their context, shape (bins, series).
        counts: Units of the series that learn; 0 for a series with an open alert; same shape.
    """
    yard = statistic[:, None]
    shares = alpha / add_up(alpha)
    mean = add_up(shares * yard)
    units = add_up(counts)
    return add_up(counts * yard) - units * mean, units * (add_up(shares * (yard * yard)) - mean * mean)


def close_days(config: FleetConfig, s: dict[str, Array], rows: Rows, day: int, seen: Bools) -> None:
    """Add the days that have ended to the noise and the weekdays of the series, and set the margins of the new day.

    On its first day a series is compared with the same day: it has no such margin. That day does not count as noise
    either, nor does a day with an open alert. Days are those of UTC.

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
    first = s["first_bucket"][index] // TICKS_A_DAY
    full = index[(s["day"][index] > first) & (s["day_information"][index] >= _LEAST_INFORMATION)]
    if config.margins and len(full):
        _add_days(config, s, full)
    s["day"][index] = day
    s["units_today"][index] = 0.0
    forget_today(s, index)
    if config.margins:
        _set_margins(config, s, index[first < day], day)


def forget_today(s: dict[str, Array], rows: Ints) -> None:
    """Drop what the day has told so far: a day with a change says nothing about the noise."""
    s["day_gap"][rows] = 0.0
    s["day_information"][rows] = 0.0


def start_noise(config: FleetConfig, s: dict[str, Array], rows: Ints) -> None:
    """Set the noise of series without a day to the usual one, and their weekdays to unknown."""
    for name in ("days", "days_mean", "days_squares", "days_noise", "days_weight"):
        s[name][rows] = 0
    s["weekday_levels"][:, rows] = 0.0
    s["weekday_weights"][:, rows] = 0.0
    s["noise"][rows] = config.usual_noise


def _add_days(config: FleetConfig, s: dict[str, Array], rows: Ints) -> None:
    """Add the days of some series to their noise and to their weekdays.

    Source: between-day variance less the variance that sampling alone gives (DerSimonian and Laird 1986, moments),
    shrunk towards the usual noise; effects of weekdays as the means of a random effect with the variance of the noise
    (Gelman et al., Bayesian Data Analysis, ch. 5). A day counts by its reliability, usual^2 / (usual^2 + 1 /
    information). From the fifth week on the baseline tells hours of the week apart, and the effects stay as they are.
    """
    usual, sampling = config.usual_noise, 1.0 / s["day_information"][rows]
    level, tells = s["day_gap"][rows] * sampling, usual**2 / (usual**2 + sampling)
    weekday = s["day"][rows] % DAYS
    age = s["day"][rows] * np.int64(TICKS_A_DAY) - s["first_bucket"][rows]
    counts = (age >= DAYS * TICKS_A_DAY) & (age < TICKS_TO_A_WEEK_BASELINE) & config.seasonal
    own = level - np.where(age < TICKS_TO_A_WEEK_BASELINE, _effect(s, rows, weekday)[0], 0.0)
    s["weekday_levels"][weekday, rows] += np.where(counts, level * tells, 0.0)
    s["weekday_weights"][weekday, rows] += np.where(counts, tells, 0.0)
    s["days"][rows] += 1
    step = own - s["days_mean"][rows]
    s["days_mean"][rows] += step / s["days"][rows]
    s["days_squares"][rows] += step * (own - s["days_mean"][rows])
    s["days_noise"][rows] += sampling
    s["days_weight"][rows] += tells
    days = s["days"][rows].astype(np.float64)
    between = np.maximum(s["days_squares"][rows] / np.maximum(days - 1.0, 1.0) - s["days_noise"][rows] / days, 0.0)
    weight = np.where(days > 1.0, s["days_weight"][rows], 0.0)
    s["noise"][rows] = np.sqrt((USUAL_DAYS * usual**2 + weight * between) / (USUAL_DAYS + weight))


def _effect(s: dict[str, Array], rows: Ints, weekday: Ints | int) -> tuple[Floats, Floats]:
    """Return the effect of a weekday on the level of each series, and the variance of what is not known of it.

    Source: normal random effects with known variances (Gelman et al., Bayesian Data Analysis, ch. 5.4): the posterior
    mean and variance of an effect with the variance of usual weekdays, from days with the noise of the series.
    """
    precision = 1.0 / np.maximum(s["noise"][rows], _LEAST_NOISE) ** 2
    unknown: Floats = 1.0 / (1.0 / _USUAL_WEEKDAYS**2 + s["weekday_weights"][weekday, rows] * precision)
    effect: Floats = unknown * precision * s["weekday_levels"][weekday, rows]
    return effect, unknown


def _set_margins(config: FleetConfig, s: dict[str, Array], rows: Ints, day: int) -> None:
    """Set the margins of a day: of its deviation, and from the third day on of its weekday upwards and downwards.

    On the second day the baseline is one day old, and tells weekdays from daily noise in no way.

    Source:
        Predictive variance of a new observation about the mean of m earlier ones (Gelman et al., Bayesian Data
        Analysis, ch. 3.2): what m days have in common with no other day is an error of the baseline. In the first week
        the weekdays of these days are others than that of the new day, so their effects are part of that error.
    """
    begun = s["first_bucket"][rows] // TICKS_A_DAY
    of_baseline = 1.0 / baseline_days(begun, day, config.seasonal)
    noise = s["noise"][rows] ** 2
    s["margin"][rows] = DEVIATIONS * np.sqrt(noise * (1.0 + of_baseline))
    is_third = begun + 1 < day
    mine = rows[is_third]
    if config.seasonal and len(mine):
        effect, unknown = _effect(s, mine, day % DAYS)
        unknown *= np.where(begun + DAYS > day, 1.0 + of_baseline, 1.0)[is_third]
        s["margin"][mine] = DEVIATIONS * np.sqrt((noise * (1.0 + of_baseline))[is_third] + unknown)
        s["weekday_margins"][0, mine] = effect
        s["weekday_margins"][1, mine] = -effect


def baseline_days(begun: Array, day: int, seasonal: bool) -> Floats:
    """Return the number of days that the baseline of a day consists of, >= 1.

    Args:
        begun: Number of the first day of each series, before `day`; shape (series,).
        day: Number of the day, UTC; 0 is a Thursday.
        seasonal: True where weekdays and weekends have baselines of their own, and later each day of the week.

    Returns:
        Earlier weekdays of a weekday and weekend days of a weekend's day; all earlier days where there was none of its
        kind. From the fifth week on the earlier days of the same weekday.
    """
    first = begun.astype(np.int64)
    days = day - first
    if not seasonal:
        return days.astype(np.float64)
    weekdays = _weekdays_until(np.int64(day)) - _weekdays_until(first)
    alike = np.where(day % DAYS in _WEEKEND, days - weekdays, weekdays)
    same = np.where(days * TICKS_A_DAY >= TICKS_TO_A_WEEK_BASELINE, days // DAYS, alike)
    result: Floats = np.where(same > 0, same, days).astype(np.float64)
    return result


def _weekdays_until(day: Ints | np.int64) -> Ints:
    """Return the number of days from Monday to Friday before a day, from day 0 on."""
    result: Ints = 5 * (day // DAYS) + _WEEKDAYS_BEFORE[day % DAYS]
    return result
