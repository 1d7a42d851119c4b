"""Update of the evidence of each bet by one bucket of counts: the core arithmetic of the detectors.

R_c <- (R_c + n) exp(inc_c)      Shiryaev-Roberts: a sum over all starts, n of them in this bucket
C_c <- max(0, C_c + inc_c)       companion CUSUM, which dates the begin of the rise
M    = mean of R_c               alarm when M >= A
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats, add_up
from gapwatch.streams.detectors.bets import AlikeShapes, BetTable
from gapwatch.streams.detectors.log_gamma import log_gamma_excess

# Evidence is a plain number, not a logarithm, for speed. Larger values mean "certain" and stay finite.
MOST_EVIDENCE = 1e300
# A baseline may be plugged in, without growing inside the bucket, where it has this many times the units of the bucket.
PLUG_IN_RATIO = 4.0
# Below this many products the overhead of a call of numpy is larger than its work.
_NARROW = 8192


def _weighted(weights: Floats, rows: Floats) -> Floats:
    """Return the sums over values of weight[c, v] * rows[v, c], shape (bets, series), in fixed order; see `add_up`."""
    if weights.shape[1] > 2 and weights.size * rows.shape[2] < _NARROW:
        running: Floats = np.add.accumulate(weights.T[:, :, None] * rows, axis=0)
        last: Floats = running[-1]
        return last
    total: Floats = weights[:, 0][:, None] * rows[0]
    for value in range(1, len(rows)):
        weight = weights[:, value]
        total += rows[value] if (weight == 1.0).all() else weight[:, None] * rows[value]
    return total


def increments(table: BetTable, alpha: Floats, counts: Floats) -> Floats:
    """Return the log factor of each bet for one bucket, against a baseline that learns inside the bucket.

        inc_c = sum_b k_b ln(q_b exp(delta_c g_c(b)) / Z_c) - ln Polya(k; alpha)      q = alpha / sum alpha

    Args:
        table: The bets.
        alpha: Counts so far with their prior, shape (bins, series); all bins that can receive a unit > 0.
        counts: Units of this bucket, same shape.

    Returns:
        Shape (bets, series), natural logs; 0 for a series without a unit.

    Source:
        Bets: Shin, Ramdas, Rinaldo (2024). Denominator: Dirichlet-multinomial predictive of the ordered bucket (as in
        Lindon and Malek 2022). Promise: the numerator is a probability given the past and the denominator is the
        predictive law of the bucket, so the factor's mean is 1 on average over the prior. For one fixed rate that is
        a measured fact, not a theorem. It does not hold when units depend on each other (for sessions see `sessions`)
        or when the baseline has daily noise (use the margin form).
    """
    units = add_up(counts)
    total = add_up(alpha)
    growth = log_gamma_excess(total, units) - add_up(log_gamma_excess(alpha, counts))
    shares = alpha / total
    result = np.empty((table.count, units.shape[0]))
    for some in table.alike:
        weights = np.exp(some.deltas[:, None] * some.values)
        bets: Floats = np.log(_weighted(weights, some.masses(shares)[:, some.shape_at]))
        bets *= -units
        bets += some.deltas[:, None] * _moved(some, counts)[some.shape_at]
        bets += growth
        result[some.bets] = bets
    return result


def _moved(some: AlikeShapes, counts: Floats) -> Floats:
    """Return the sum of g over the units of a bucket, shape (shapes, series)."""
    return _weighted(np.broadcast_to(some.values, (len(some.shapes), len(some.values))), some.masses(counts))


def margin_increments(table: BetTable, alpha: Floats, counts: Floats, margin: Floats) -> Floats:
    """Return the log factor of each bet for one bucket, against every baseline within a margin of the learned one.

        inc_c = delta_c sum_b k_b g_c(b) - n [ln Z_c(mu_c + delta_c) - ln Z_c(mu_c)]      mu_c = sign(delta_c) margin

    Args:
        table: The bets.
        alpha: As in `increments`.
        counts: As in `increments`.
        margin: Tilts that do not count as a change, in log odds per unit of g, >= 0; for each shape upwards and
            downwards, shape (shapes, 2, series).

    Returns:
        Shape (bets, series), natural logs.

    Source:
        Shin, Ramdas, Rinaldo (2024), exponential baselines with a composite null: ln Z is convex, so the factor's mean
        is at most 1 for every tilt up to the margin. Promise: holds for a true law that is a tilt of the learned one by
        at most the margin in the bet's direction. The learned shares are plugged in, so call it only where
        sum(alpha) >= 4 n (`PLUG_IN_RATIO`): otherwise there were ten times as many false alarms.
    """
    units = add_up(counts)
    shares = alpha / add_up(alpha)
    result = np.empty((table.count, units.shape[0]))
    for some in table.alike:
        masses, moved = some.masses(shares), _moved(some, counts)
        # Null hypothesis of each shape and direction, and the bets against it.
        way = np.array([1.0, -1.0])[:, None]
        tilted = masses[:, :, None] * np.exp(some.values[:, None, None, None] * way * margin[some.shapes])
        null = add_up(tilted)
        side = np.where(some.deltas > 0.0, 0, 1)
        ratio = _weighted(np.exp(some.deltas[:, None] * some.values), tilted[:, some.shape_at, side])
        ratio /= null[some.shape_at, side]
        result[some.bets] = some.deltas[:, None] * moved[some.shape_at] - units * np.log(ratio)
    return result


def fold_sum(evidence: Floats, log_factors: Floats, starts: Floats) -> Floats:
    """Return (R + starts) exp(log factor), kept finite: one Shiryaev-Roberts step.

    Args:
        evidence: R_c, shape (bets, series).
        log_factors: From `increments`, `margin_increments` or `sessions.increments`.
        starts: Units of the bucket; each one may be the first after a change.

    Source:
        Shiryaev-Roberts as a sum of e-processes over starts (Shin, Ramdas, Rinaldo 2024). Promise: R - units is a
        supermartingale when the factors' means are at most 1, so the mean number of units to a false alarm at A is at
        least A. A factor that overflows counts as `MOST_EVIDENCE`.
    """
    with np.errstate(over="ignore", under="ignore"):
        result: Floats = np.exp(log_factors)
        result *= evidence + starts
    np.minimum(result, MOST_EVIDENCE, out=result)
    return result


def fold_rise(rise: Floats, log_factors: Floats) -> tuple[Floats, Bools]:
    """Return max(0, C + log factor), and True where it fell to 0: one CUSUM step (Page 1954).

    Only the change point uses it; no promise depends on it.
    """
    result: Floats = rise + log_factors
    fell: Bools = result <= 0.0
    np.maximum(result, 0.0, out=result)
    return result, fell


def mean_evidence(table: BetTable, evidence: Array, side: int | None) -> Floats:
    """Return M: the mean of R over the bets of one side, or over all bets where `side` is None.

    An average of e-detectors is an e-detector whatever their dependence (Shin, Ramdas, Rinaldo 2024). A table without
    bets on that side gives 0 and never alarms on it.
    """
    chosen = table.bets_of[side]
    if not len(chosen):
        return np.zeros(evidence.shape[1])
    total: Floats = evidence[chosen[0]].astype(np.float64)
    for bet in chosen[1:]:
        total += evidence[bet]
    total /= len(chosen)
    return total
