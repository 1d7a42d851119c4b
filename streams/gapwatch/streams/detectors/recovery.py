"""Recovery detector: closes an open alert on evidence that the change is over, not on missing evidence."""

from __future__ import annotations

import math

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, add_up

STILL_MOVED = math.log(1.25)
"""Smallest tilt, in log odds per unit of g, that still counts as moved: 1.25 times the baseline odds."""
RECOVERY_DELTAS = (0.12, 0.22, 0.45, 0.9)


def recovery_increments(g: Floats, alpha: Floats, counts: Floats) -> Floats:
    """Return the log factors of the bets that a moved series has recovered, shape (4, series).

        inc = -delta sum_b k_b g(b) - n [ln Z(t - delta) - ln Z(t)]      t = ln 1.25

    Args:
        g: Statistic that moved, one value for each bin, positive in the direction of the move.
        alpha: Frozen baseline of the context, shape (bins, series).
        counts: Units of this bucket, same shape.

    Source:
        The margin form of `evidence` turned round: ln Z is convex, so the factor's mean is at most 1 for every tilt of
        t or more. Promise: a series that is still at 1.25 times the baseline odds or above is called recovered after
        at least as many units, on average, as the threshold says. It does not hold where the baseline was wrong. A
        series between the baseline and 1.25 times its odds may stay open until a person closes it.
    """
    shares = alpha / add_up(alpha)
    units = add_up(counts)
    moved = add_up(counts * g[:, None])
    still = add_up(shares * np.exp(STILL_MOVED * g)[:, None])
    rows = [
        -delta * moved - units * np.log(add_up(shares * np.exp((STILL_MOVED - delta) * g)[:, None]) / still)
        for delta in RECOVERY_DELTAS
    ]
    return np.stack(rows)
