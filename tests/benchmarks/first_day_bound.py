"""Computes what any detector can tell on a first day: `python -m tests.benchmarks.first_day_bound`.

Oracles that know more than a detector does, in the cells of `first_day`: both sizes of the change, and that there is no
season. They do not know the rate, and a change up to the smallest worth telling is a false alarm.
"""

from __future__ import annotations

import math

import numpy as np

from gapwatch.streams.detectors.arrays import Floats
from gapwatch.streams.detectors.contexts import TICKS_A_DAY
from tests.benchmarks.first_day import CELLS, PAGES, TICKETS

#: Smallest change worth telling: a factor and a difference of the rate.
FACTOR, SHARE = 1.25, 0.01
_STREAMS = 4_000
# Units that are counted together where the moment is not known.
_BLOCK = 20
_LEAST_BEFORE = 100


def log_choose(n: int) -> Floats:
    """Return ln C(n, k) for k from 0 to n."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    result: Floats = logs[n] - logs - logs[::-1]
    return result


def odds_of(rate: float) -> float:
    return rate / (1.0 - rate)


def known_moment(rates: tuple[float, float], units: tuple[int, int], level: float) -> float:
    """Return the power of the best test that knows the moment of the change.

    Args:
        rates: Rate before and after.
        units: Units before and after.
        level: Probability of a false alarm, for every rate and every change up to the smallest worth telling.

    Source:
        Uniformly most powerful unbiased test of the odds ratio of two binomials: the law of the failures after, given
        their total, is a noncentral hypergeometric one; randomised at its bound (Lehmann and Romano, Testing
        Statistical Hypotheses, ch. 4.4 and 4.5). No test that holds the level at every rate has more power.
    """
    (before, after), (n, m) = rates, units
    least = odds_of(max(before * FACTOR, before + SHARE)) / odds_of(before)
    ways_before, ways_after = log_choose(n), log_choose(m)
    x, y = np.arange(n + 1), np.arange(m + 1)
    real_before = ways_before + x * math.log(before) + (n - x) * math.log1p(-before)
    real_after = ways_after + y * math.log(after) + (m - y) * math.log1p(-after)
    power = 0.0
    for total in range(n + m + 1):
        few = np.arange(max(0, total - m), min(n, total) + 1)
        real = np.exp(real_before[few] + real_after[total - few])
        if real.sum() < 1e-12:
            continue
        null = ways_before[few] + ways_after[total - few] + (total - few) * math.log(least)
        null = np.exp(null - null.max())
        null /= null.sum()
        below = np.cumsum(null)
        at = int(np.searchsorted(below, level))
        part = (level - (below[at - 1] if at else 0.0)) / null[at]
        power += float(real[:at].sum() + part * real[at])
    return power


def unknown_moment(rates: tuple[float, float], units: tuple[int, int], level: float, seed: int = 7) -> float:
    """Return the power of the best test on average over all moments, for a change at one of them, by simulation.

    Args:
        rates: As in `known_moment`.
        units: As in `known_moment`; the test is made once, at the end.
        level: Probability of a false alarm, on average over the moments of a smallest change.
        seed: Seed of the generator.

    Source:
        Neyman and Pearson: likelihood of a change of the known factor against that of a smallest one, each averaged
        over the moments, given the number of failures (Poisson). The bound is a quantile of simulated smallest changes.
    """
    rng, (before, after), whole = np.random.default_rng(seed), rates, sum(units)
    least = max(before * FACTOR, before + SHARE) / before
    blocks = whole // _BLOCK
    moments = np.arange(_LEAST_BEFORE, whole - _BLOCK, _BLOCK)

    def statistic(moment: Floats, rate: float) -> Floats:
        begun = np.arange(blocks) * _BLOCK >= moment[:, None]
        failures = rng.binomial(_BLOCK, np.where(begun, rate, before))
        so_far = np.concatenate([np.zeros((len(moment), 1)), np.cumsum(failures, axis=1)], axis=1)
        total = so_far[:, -1:]
        since = total - so_far[:, moments // _BLOCK]
        return likelihood(since, total, after / before) - likelihood(since, total, least)

    def likelihood(since: Floats, total: Floats, factor: float) -> Floats:
        logs = since * math.log(factor) - total * np.log((moments + (whole - moments) * factor) / whole)
        most = logs.max(axis=1)
        result: Floats = most + np.log(np.exp(logs - most[:, None]).mean(axis=1))
        return result

    null = statistic(rng.choice(moments, _STREAMS).astype(np.float64), before * least)
    real = statistic(np.full(_STREAMS, float(units[0])), after)
    return float(np.mean(real > np.quantile(null, 1.0 - level)))


def main() -> None:
    """Print the bounds of each cell, with an even part of the month's alarms and with those that a first day spends."""
    for before, after, learned, units, goal in CELLS:
        days = (learned + units) / TICKS_A_DAY
        even = (TICKETS + PAGES) / 30.0 * days
        # See `volume.observed_threshold`: the first 300 units, then ln(growth of the busiest day), then by the day.
        busiest = min(learned + units, TICKS_A_DAY)
        first = (TICKETS + PAGES) / 37.5 * (1.0 + math.log(busiest / 300.0) + max(days - 1.0, 0.0))
        for name, level in (("an even part of the month", even), ("what a first day may spend", first)):
            known = known_moment((before, after), (learned, units), level)
            unknown = unknown_moment((before, after), (learned, units), level)
            print(
                f"{before:.1%} to {after:.0%} after {learned:,} within {units:,} units, {level:.3f} false alarms"
                f" ({name}): moment known {known:.1%}, unknown {unknown:.1%} (goal {goal:.0%})",
                flush=True,
            )


if __name__ == "__main__":
    main()
