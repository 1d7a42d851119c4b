"""From "at most so many false alarms a month" to thresholds, by arithmetic; and what could not have been seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gapwatch.streams.detectors.arrays import Bools, Floats

# Newcomers share this part of a period's budget; the series that are there at its start share the rest.
_RESERVE = 0.2
_STEPS = 60
_LARGEST_TILT = 30.0


def threshold(units_per_period: float, series: float, alarms_per_period: float) -> float:
    """Return A = N S / F: evidence at which a series alarms.

    Args:
        units_per_period: N, units of this series in a period, as declared; > 0.
        series: S, how many series share the budget.
        alarms_per_period: F, false alarms allowed in a period, over all of them; > 0.

    Source:
        Shin, Ramdas, Rinaldo (2024): the mean number of units to a false alarm is at least A; with resets the expected
        number of false alarms in n units is at most n / A, and sums over series add up whatever their dependence.
        It does not hold for a series with more units than declared: see `Allowances` and the counter
        `expected_false_alarms`.
    """
    if units_per_period <= 0 or series <= 0 or alarms_per_period <= 0:
        raise ValueError("units, series and alarms of a period must be positive; declare the pipeline's volume")
    return units_per_period * series / alarms_per_period


def expected_false_alarms(units: Floats, limits: Floats) -> Floats:
    """Return units / A: a bound on the false alarms to expect by now, for the counter that stands beside the alerts."""
    result: Floats = units / limits
    return result


@dataclass
class Allowances:
    """Who may spend how much of the budget of one period; series that come later spend from a reserve.

    Attributes:
        alarms_per_period: F.
        shares: Series key to its part of F. What a series got stays spent when it goes.
        newcomers: How many series have come since the period began.
    """

    alarms_per_period: float
    shares: dict[str, float] = field(default_factory=dict)
    newcomers: int = 0

    def open_period(self, keys: list[str]) -> None:
        """Deal 80 % of the budget evenly to the series that are there; keep 20 % for those that will come."""
        each = self.alarms_per_period * (1.0 - _RESERVE) / max(len(keys), 1)
        self.shares = dict.fromkeys(sorted(keys), each)
        self.newcomers = 0

    def share(self, key: str) -> float:
        """Return a series' part; the j-th newcomer gets 1 / (j (j + 1)) of the reserve, which sums to less than 1."""
        if key not in self.shares:
            self.newcomers += 1
            self.shares[key] = self.alarms_per_period * _RESERVE / (self.newcomers * (self.newcomers + 1))
        return self.shares[key]

    def limit(self, key: str, units_per_period: float) -> float:
        """Return A for a series. Promise: over all series of the period at most F false alarms are expected."""
        return threshold(units_per_period, 1.0, self.share(key))


def _divergence(p: Floats, q: Floats) -> Floats:
    """Kullback-Leibler divergence of Bernoulli(p) from Bernoulli(q); p in [0, 1], q in (0, 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = np.where(p > 0.0, p * np.log(p / q), 0.0)
        no = np.where(p < 1.0, (1.0 - p) * np.log((1.0 - p) / (1.0 - q)), 0.0)
    result: Floats = np.maximum(yes + no, 0.0)
    return result


def _is_seen(before: Floats, after: Floats, learned: Floats, units: Floats, limits: Floats, null: Floats) -> Bools:
    """Whether the evidence of `units` after a change reaches A, on average, with a baseline that grows meanwhile."""
    pooled = (learned * before + units * after) / (learned + units)
    information = np.where(
        null > 0.0,
        units * _divergence(after, np.maximum(_tilted(before, null), pooled)),
        learned * _divergence(before, pooled) + units * _divergence(after, pooled),
    )
    needed = np.log(limits) + np.log(np.maximum(information, 1e-12) / units)
    result: Bools = (information >= needed) & (information > 0.0)
    return result


def _tilted(rate: Floats, tilt: Floats) -> Floats:
    grown = rate * np.exp(tilt)
    result: Floats = grown / (1.0 - rate + grown)
    return result


def smallest_rate_ratio(rate: Floats, learned: Floats, units: Floats, limits: Floats, margin: Floats) -> Floats:
    """Return the smallest rise of a rate that would have been seen by now, as after / before.

    Args:
        rate: Baseline rate, in (0, 1); a rate of 0 is to be passed as (k + 1/2) / (n + 1).
        learned: Units of the baseline.
        units: Units in which it should have been seen: since the last change of the baseline, or of the period that
            an operator would wait.
        limits: A.
        margin: Paging margin in log odds, 0 for tickets.

    Returns:
        Ratios >= 1; infinite where not even a rate of 1 would have been seen. A series is `blind` where this exceeds
        its `blind_above_ratio`.

    Source:
        Lorden's delay (1971), (ln A + ln KL) / KL units, with the information of a two-sample comparison,
        n0 KL(p0, pool) + n KL(p1, pool), because the baseline learns the change as well. A median, not a bound: half of
        the changes of this size take longer. It does not cover changes that come slowly, nor seasons.
    """
    rate, learned, units, limits, margin = np.broadcast_arrays(rate, learned, units, limits, margin)
    low, high = np.zeros(rate.shape), np.full(rate.shape, _LARGEST_TILT)
    some = np.maximum(units.astype(np.float64), 1e-9)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        seen = _is_seen(rate, _tilted(rate, middle), learned, some, limits, margin)
        low, high = np.where(seen, low, middle), np.where(seen, middle, high)
    return np.where(high > _LARGEST_TILT - 1e-6, math.inf, _tilted(rate, high) / rate)
