"""Number of examples that a test tries (all by default, a fifth every day, more on request), and how many must hold."""

from __future__ import annotations

import os
from math import comb

#: Times as many examples as the full depth has: `tests/run` sets 0.2, a long search 20.
DEPTH = float(os.environ.get("GAPWATCH_TEST_DEPTH", "1"))


def examples(full: int) -> int:
    """Return how many examples are tried where the full depth has so many; a few are always tried."""
    return max(min(full, 3), round(full * DEPTH))


def fewest(share: float, tries: int) -> int:
    """Return how many of independent tries must hold where each holds with a probability of at least `share`.

    A program that keeps the law falls below in at most 2.5 % of all sets of seeds (the lower tail of the binomial
    distribution). Of 20 tries, 15 must hold for a share of 0.9; a program of share 0.5 reaches that in 2 %.

    Args:
        share: Probability that the law promises, in (0, 1).
        tries: Number of tries, at least 1.
    """
    below = 0.0
    for held in range(tries + 1):
        below += comb(tries, held) * share**held * (1 - share) ** (tries - held)
        if below > 0.025:
            return held
    return tries
