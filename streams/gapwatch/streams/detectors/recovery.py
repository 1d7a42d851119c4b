"""Recovery detector: closes an open alert on evidence that the change is over, not on missing evidence."""

from __future__ import annotations

import math

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, add_up

STILL_MOVED = math.log(1.25)
"""Smallest tilt, in log odds per unit of g, that still counts as moved: 1.25 times the baseline odds."""
RECOVERY_DELTAS = (0.12, 0.22, 0.45, 0.9, 2.0)
MOST_MOVED = 1.0
"""Default of the largest tilt to which half of a change counts: a rate that was 20 times as high is not over at 4."""


def still_moved(growth: float, most: float) -> float:
    """Return the tilt, in log odds, at which a rate still counts as moved: half of what its change surely was.

    With 1.25 times the odds alone, a rate that went from 5 % to 28 % and back to 5 % needs 10,000 units to be called
    recovered; with half of the change about 1,000. What is not worth telling (`alert.min_change`) is not moved either,
    so a rate of one in 10,000 has recovered where it is surely below one point.

    Args:
        growth: Lower bound of the odds after / before.
        most: Largest tilt to return.
    """
    half = 0.5 * math.log(growth) if growth > 1.0 else 0.0
    return min(max(STILL_MOVED, half), most)


def recovery_increments(g: Floats, alpha: Floats, counts: Floats, still: Floats) -> Floats:
    """Return the log factors of the bets that a moved series has recovered, shape (5, series).

        inc = -delta sum_b k_b g(b) - n [ln Z(t - delta) - ln Z(t)]      t = still

    Args:
        g: Statistic that moved, one value for each bin, positive in the direction of the move.
        alpha: Frozen baseline of the context, shape (bins, series).
        counts: Units of this bucket, same shape.
        still: Smallest tilt of each series, in log odds per unit of g, that counts as moved.

    Source:
        The margin form of `evidence` turned round: ln Z is convex, so the factor's mean is at most 1 for every tilt of
        t or more. Promise: a series that is still at the tilt t or above is called recovered after at least as many
        units, on average, as the threshold says. It does not hold where the baseline was wrong. A series between the
        baseline and t may stay open until a person closes it.
    """
    shares = alpha / add_up(alpha)
    units = add_up(counts)
    moved = add_up(counts * g[:, None])
    null = add_up(shares * np.exp(g[:, None] * still))
    rows = [
        -delta * moved - units * np.log(add_up(shares * np.exp(g[:, None] * (still - delta))) / null)
        for delta in RECOVERY_DELTAS
    ]
    return np.stack(rows)
