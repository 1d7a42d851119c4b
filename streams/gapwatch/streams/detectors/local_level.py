"""Evidence in an hour of the day that is not known yet: the level may differ from hour to hour, as in a usual day.

level of an hour ~ Dirichlet(kappa q)                 q: all other hours together
kappa = 1 / (width v(q)),  width = 0.7 season (1 + 1 / hours) + 1 / (N v(q))
inc_c = ln Polya(k; kappa_c tilt(q, mu_c + delta_c) + own) - ln Polya(k; kappa_0 tilt(q, mu_c) + own)
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, Ints, add_up
from gapwatch.streams.detectors.bets import BetTable
from gapwatch.streams.detectors.log_gamma import log_polya

# Variance between the hours of a usual day, in squared log odds: that of a rate that swings by 30 %.
# A smaller one takes a day's season for a change, a larger one a change for a season: with 0.07 a rate that goes from
# 6.7 % to 26 % after 300 units was told within 200 units in 77 of 100 streams, with this one in 90.
USUAL_SEASON = 0.045
# Hours that the usual season counts for, against those of the series itself.
_USUAL_HOURS = 8.0
# Hours of a day that move together; so many count as one.
_HOURS_TOGETHER = 6.0
# Season, in squared log odds, for each squared log of traffic between hours. Where traffic has a day and a night, the
# quality may have them as well: at a swing of 4 to 1 (variance 0.25) a rate may swing by 45 %.
_SEASON_OF_TRAFFIC = 0.4
# Part of the season's variance that each hour has to itself, and deviations of it that a run of hours may share. With
# 1 deviation 5 of 30 series with a season of 30 % raised a ticket in two days where one is allowed, with 1.25 one.
_HOURLY_PART = 0.7
_SHARED_DEVIATIONS = 1.25
_LEAST_VARIANCE = 1e-9
# Numbers of an array of one value of g that are computed at once, so that all of them stay in the cache.
_AT_ONCE = 32_000


def season_of(statistic: Floats, hours: Array, whole: Bools) -> tuple[Floats, Floats]:
    """Return the variance between the hours of each series, in squared log odds, and how many hours it has seen.

    Args:
        statistic: One value for each bin, whose mean moves with the hour, shape (bins,).
        hours: Units by hour of the week, shape (168, bins, series).
        whole: False for the hours that were seen in part, which say nothing about the traffic; shape (168, series).

    Returns:
        Variances > 0, and numbers of independent hours >= 1, shape (series,).

    Source:
        Moment estimate of the variance between groups (DerSimonian and Laird 1986), shrunk towards `USUAL_SEASON`. An
        hour counts for as much as its units tell about its level: season / (season + 1 / (n v)). Neighbours of a
        smooth season move together, so six hours count as one. The usual season grows with the variance of the
        logarithm of the hourly traffic.
    """
    # Hours without a unit add nothing; one is left where there is no other. Bins first: the additions of all hours are
    # made in one call, in the same order.
    there: Bools = np.asarray(hours.any(axis=(1, 2)))
    there[0] = True
    counts, whole = hours[there].swapaxes(0, 1).astype(np.float64), whole[there]
    yard = statistic[:, None, None]
    n, sums, squares = add_up(counts), add_up(counts * yard), add_up(counts * (yard * yard))
    units = np.maximum(add_up(n), 1.0)
    mean = add_up(sums) / units
    v = np.maximum((add_up(squares) + 0.25) / (units + 1.0) - mean * mean, _LEAST_VARIANCE)
    gaps = np.where(n > 0.0, sums / np.maximum(n, 1.0) - mean, 0.0)
    excess = add_up(n * gaps * gaps) / v - (add_up((n > 0.0).astype(np.float64)) - 1.0)
    together = add_up(n * n) / units
    between = np.maximum(excess / np.maximum((units - together) * v, _LEAST_VARIANCE), 0.0)
    usual = USUAL_SEASON + _SEASON_OF_TRAFFIC * _traffic_variance(n, whole)
    told = np.where(n > 0.0, USUAL_SEASON / (USUAL_SEASON + 1.0 / np.maximum(n * v, _LEAST_VARIANCE)), 0.0)
    own = add_up(told) / _HOURS_TOGETHER
    season = (_USUAL_HOURS * usual + own * between) / (_USUAL_HOURS + own)
    return season, np.maximum(units / np.maximum(together, 1.0) / _HOURS_TOGETHER, 1.0)


def _traffic_variance(n: Floats, whole: Bools) -> Floats:
    """Return the variance of the log units of an hour, less that of a Poisson law.

    An hour counts by its units: late units leave hours with a few of them, which are no nights.
    """
    counted = np.where(whole, n, 0.0)
    units = np.maximum(add_up(counted), 1.0)
    logs = np.log(np.maximum(n, 1.0))
    mean = add_up(counted * logs) / units
    hours = add_up((counted > 0.0).astype(np.float64))
    result: Floats = np.maximum((add_up(counted * (logs - mean) ** 2) - hours) / units, 0.0)
    return result


def level_of(statistic: Floats, rest: Floats, season: Floats, hours: Floats) -> tuple[Floats, Floats]:
    """Return how far the level of an unknown hour may lie from all other hours.

    Args:
        statistic: As in `season_of`.
        rest: Units of all other hours with their prior, shape (bins, series).
        season: Variance between hours, from `season_of`.
        hours: Number of independent hours, from `season_of`.

    Returns:
        The variance of the hour's own part of the level, in squared log odds, with a season and without one, shape (2,
        series); and the part that a whole run of hours may share, in log odds, which does not count as a change.

    Source:
        The second part keeps the promise where hours are rich in units: a smooth season puts six hours on one side, and
        each of them alone would count as new evidence. It is 1.25 deviations of the season times the reliability of an
        hour, season / (season + 1 / (n v)), and so about 0 where an hour has few units.
    """
    total = add_up(rest)
    v = _variance(statistic, rest / total)
    reliability = season / (season + 1.0 / (total / (hours * _HOURS_TOGETHER) * v))
    uncertain = 1.0 / (total * v)
    widths = np.stack([_HOURLY_PART * season * (1.0 + 1.0 / hours) + uncertain, uncertain])
    return widths, _SHARED_DEVIATIONS * np.sqrt(season) * reliability


def level_increments(
    table: BetTable, rest: Floats, own: Floats, counts: Floats, width: Floats, margins: Floats
) -> Floats:
    """Return the log factor of each bet for one bucket of an hour that is not known yet.

    Args:
        table: The bets.
        rest: Units of all other hours with their prior, shape (bins, series); all bins that can receive a unit > 0.
        own: Units of this hour so far, same shape.
        counts: Units of this bucket, same shape; sessions may give parts of units.
        width: Variance of the level of the hour, in squared log odds, same shape as `margins`.
        margins: Tilts that do not count as a change, in log odds per unit of g, >= 0; for each shape upwards and
            downwards, shape (margins, shapes, 2, series).

    Returns:
        Shape (margins, bets, series), natural logs; 0 for a series without a unit.

    Source:
        A random effect of the hour with a conjugate prior (Beta-binomial; Gelman et al., Bayesian Data Analysis, ch. 5)
        under both hypotheses; the bet of Shin, Ramdas, Rinaldo (2024) is on the centre of that prior. Both are
        probabilities of the bucket given the past: the factor has mean 1 on average over the prior, for a level that
        moves between hours as the width says, and below 1 for means of sessions (convexity). An hour alone proves
        little, however many units it has; several hours on one side do. Bins with one value of g are one bin.
    """
    result = np.empty((len(margins), table.count, counts.shape[1]))
    for some in table.alike:
        masses, here, units = (some.masses(rows) for rows in (rest, own, counts))
        shares = masses / add_up(masses)
        to = some.tilts
        of_shape = some.shapes[to.shape_at]
        tilts = to.way[:, None] * margins[:, of_shape, to.side] + to.steps[:, None]
        flat, widths = tilts.reshape(-1, counts.shape[1]), width[:, of_shape, to.side].reshape(-1, counts.shape[1])
        shape_of = np.tile(to.shape_at, len(margins))
        logs = _log_probabilities(some.values, (shares, here, units), shape_of, flat, widths).reshape(tilts.shape)
        result[:, some.bets] = logs[:, len(to.way) - len(some.bets) :] - logs[:, to.null_of]
    return result


def _log_probabilities(
    values: Floats, buckets: tuple[Floats, Floats, Floats], shape_of: Ints, tilts: Floats, width: Floats
) -> Floats:
    """Return ln of the probability of a bucket under each tilt of the centre, shape (tilts, series).

    Few series are computed for many tilts at once, because a call of numpy has a fixed price; wide blocks for one tilt
    after the other, which stays in the cache.

    Args:
        values: Values of the statistic.
        buckets: Shares of the centre, units of the hour so far, units of the bucket; shape (values, shapes, series).
        shape_of: Shape of each tilt.
        tilts: Shape (tilts, series).
        width: Variance of the level under each tilt, same shape.
    """
    shares, here, units = buckets
    at_once = max(1, _AT_ONCE // max(len(values) * tilts.shape[1], 1))
    parts = []
    for first in range(0, len(tilts), at_once):
        some, shape = slice(first, first + at_once), shape_of[first : first + at_once]
        centre = _centre(values, shares[:, shape], tilts[some], width[some])
        parts.append(log_polya(centre + here[:, shape], units if units.shape[1] == 1 else units[:, shape]))
    return np.concatenate(parts)


def _centre(values: Floats, shares: Floats, tilts: Floats, width: Floats) -> Floats:
    """Return the Dirichlet parameters of the level, tilted; its variance in log odds stays.

    Args:
        values: Values of the statistic.
        shares: Shape (values, tilts, series).
        tilts: Shape (tilts, series).
        width: Shape (tilts, series).

    Returns:
        Shape (values, tilts, series).
    """
    tilted = shares * np.exp(values[:, None, None] * tilts)
    tilted /= add_up(tilted)
    result: Floats = tilted * np.maximum(1.0 / (width * _variance(values, tilted)) - 1.0, 0.5)
    return result


def _variance(values: Floats, shares: Floats) -> Floats:
    """Return the variance of a statistic; `shares` has the values as its first axis."""
    column = values.reshape(-1, *(1,) * (shares.ndim - 1))
    mean = add_up(shares * column)
    result: Floats = np.maximum(add_up(shares * (column * column)) - mean * mean, _LEAST_VARIANCE)
    return result
