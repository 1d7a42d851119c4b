"""Growth that a page needs: more than the level of a day takes by itself, as often as the budget allows pages.

least tilt = effect + sqrt(t^2 noise^2 / days + z^2 unknown^2)    days: age of the change, at least one
t, z       = quantiles of a Student law with 7 + w degrees of freedom and of the normal law, exceeded as often as a day
             may have false pages; w: days that the noise is estimated from

On the day of the change, which had a level L with an information I before it:
common     = unknown^2 + noise^2 / 2            what both parts of the day share
told       = common / (common + noise^2 / 2 + 1 / I)
least tilt = effect + told (L - effect) + sqrt(t^2 noise^2 / 2 + z^2 common (1 - told))
"""

from __future__ import annotations

import math
from statistics import NormalDist

from gapwatch.streams.detectors.arrays import Array
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, TICKS_TO_A_WEEK_BASELINE
from gapwatch.streams.detectors.margins.daily_noise import DEVIATIONS, USUAL_DAYS

# Part of the variance of the noise that each part of a day has to itself. With 0 a series whose quality wanders within
# the day would page; with 1 the day before a change tells nothing.
_OF_PARTS = 0.5
# Most false pages that a day may have: with more the quantile would be below the median.
_MOST_PAGES_A_DAY = 0.5


def student_quantile(upper: float, freedom: float) -> float:
    """Return the value that a Student law exceeds with a probability.

    Args:
        upper: The probability, in (0, 0.5].
        freedom: Degrees of freedom, >= 5.

    Source:
        Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), four terms. From 7 degrees of freedom on and down to a
        probability of 1e-5 it is within 3 % of the exact value (a test).
    """
    z = -NormalDist().inv_cdf(upper)
    terms = (
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
        (79.0 * z**9 + 776.0 * z**7 + 1482.0 * z**5 - 1920.0 * z**3 - 945.0 * z) / 92160.0,
    )
    return z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))


def least_tilt(
    s: dict[str, Array], row: int, ticks: tuple[int, int, int], way: int, earlier: tuple[float, float] = (0.0, 0.0)
) -> float:
    """Return the log odds, per unit of g, by which the mean level since a change must exceed the expected one.

    Args:
        s: State arrays of the fleet, by name.
        row: Row of the series.
        ticks: First tick of the change, first tick that its size is taken from, and tick of now.
        way: 0 where the change is of g upwards, 1 downwards.
        earlier: Level and information of the day of the change before it, from `change_point.day_before`.

    Returns:
        0 on the first day of a series, which is compared with itself.

    Source:
        Predictive law of the mean of several days in a model of normal random effects (Gelman et al., Bayesian Data
        Analysis, ch. 3.2 and 5.4). The variance of the noise is estimated, so its part follows a Student law; the usual
        noise counts for seven days, which are seven degrees of freedom. The part of the weekday and that of a young
        baseline are normal, and last as long as the change. Quantiles of independent parts add up by their squares,
        nearly. A day's false pages are the units of the busiest day over A.
        So the levels of days make about as many pages as the budget allows, and fewer, since the lower bound of the
        growth must exceed them. It does not hold for days that depend on each other, or that have heavier tails.
        A change within a day is held against the part of that day before it: the law of one part given the other in a
        model with effects of the day and of its parts, half of the variance of the noise each. That half is assumed.
    """
    whole = float(s["margin"][row]) / DEVIATIONS
    if whole <= 0.0:
        return 0.0
    pages = min(float(s["busiest_day"][row]) / float(s["page_threshold"][row]), _MOST_PAGES_A_DAY)
    if pages <= 0.0:
        return math.inf
    is_old = int(s["last_bucket"][row]) - int(s["first_bucket"][row]) >= TICKS_TO_A_WEEK_BASELINE
    effect = 0.0 if is_old else float(s["weekday_margins"][way, row])
    noise = float(s["noise"][row]) ** 2
    unknown = max(whole * whole - noise, 0.0)
    t, z = student_quantile(pages, USUAL_DAYS + float(s["days_weight"][row])), -NormalDist().inv_cdf(pages)
    changed, begun, now = ticks
    level, information = earlier
    if information > 0.0 and changed // TICKS_A_DAY == now // TICKS_A_DAY:
        part = noise * _OF_PARTS
        common = unknown + noise - part
        told = common / (common + part + 1.0 / information)
        expected = effect + told * ((level if way == 0 else -level) - effect)
        return expected + math.sqrt(t * t * part + z * z * common * (1.0 - told))
    return effect + math.sqrt(t * t * noise / max((now - begun) / TICKS_A_DAY, 1.0) + z * z * unknown)


def growth_of(share: float, tilt: float) -> float:
    """Return the factor by which a share grows when its log odds grow by `tilt`.

    Args:
        share: The share, in [0, 1].
        tilt: Log odds.
    """
    odds = math.exp(min(tilt, 700.0))
    return odds / (1.0 - share + share * odds)
