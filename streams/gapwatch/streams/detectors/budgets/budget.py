"""Thresholds from a monthly false-alarm budget, and the minimum detectable change of a rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gapwatch.streams.detectors.arrays import Bools, Floats
from gapwatch.streams.detectors.lifecycle import LEAST_PER_UNIT

# Share of a period's budget for newcomers; the series that exist at its begin share the rest.
_RESERVE = 0.2
_STEPS = 24
#: Numbers of units after a change at which it is tried whether it is seen, as multiples of those learned before it.
_PARTS_LEARNED = (0.35, 0.7, 1.4, 4.0, math.inf)
_LARGEST_TILT = 30.0


def threshold(units_per_period: float, series: float, alarms_per_period: float) -> float:
    """Return the threshold A = N S / F: the evidence at which a series alarms.

    Args:
        units_per_period: N, declared units of this series in a period; > 0.
        series: S, number of series that share the budget; > 0.
        alarms_per_period: F, false alarms allowed in a period, over all series; > 0.

    Raises:
        ValueError: An argument is not positive.

    Source:
        Shin, Ramdas, Rinaldo (2024): the mean number of units to a false alarm is at least A; with resets the expected
        number of false alarms in n units is at most n / A, and sums over series add up whatever their dependence.
        It does not hold for a series with more units than declared: see `Allowances` and the counter
        `expected_false_alarms`.
    """
    if units_per_period <= 0 or series <= 0 or alarms_per_period <= 0:
        raise ValueError("units, series and alarms of a period must be positive; declare the volume of the pipeline")
    return units_per_period * series / alarms_per_period


def expected_false_alarms(units: Floats, limits: Floats) -> Floats:
    """Return units / A: the upper bound on expected false alarms so far, which is shown beside the alerts."""
    result: Floats = units / limits
    return result


@dataclass
class Allowances:
    """Shares of the false-alarm budget of one period by series; later series draw on a reserve.

    Attributes:
        alarms_per_period: F, false alarms allowed in the period.
        shares: Series key to its part of F; the part of a series that ends stays spent.
        newcomers: Number of series that were added since the period began.
    """

    alarms_per_period: float
    shares: dict[str, float] = field(default_factory=dict)
    newcomers: int = 0

    def open_period(self, keys: list[str]) -> None:
        """Split 80 % of the budget evenly over the present series; reserve 20 % for newcomers."""
        each = self.alarms_per_period * (1.0 - _RESERVE) / max(len(keys), 1)
        self.shares = dict.fromkeys(sorted(keys), each)
        self.newcomers = 0

    def share(self, key: str) -> float:
        """Return the part of a series; the j-th newcomer gets 1 / (j (j + 1)) of the reserve, a sum below 1.

        Promise: with the `threshold` of its part, at most F false alarms are expected over all series of the period.
        """
        if key not in self.shares:
            self.newcomers += 1
            self.shares[key] = self.alarms_per_period * _RESERVE / (self.newcomers * (self.newcomers + 1))
        return self.shares[key]


def _divergence(p: Floats, q: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of Bernoulli(p) from Bernoulli(q); p in [0, 1], q in (0, 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = np.where(p > 0.0, p * np.log(p / q), 0.0)
        no = np.where(p < 1.0, (1.0 - p) * np.log((1.0 - p) / (1.0 - q)), 0.0)
    result: Floats = np.maximum(yes + no, 0.0)
    return result


def _is_seen(before: Floats, after: Floats, learned: Floats, units: Floats, limits: Floats, null: Floats) -> Bools:
    """Return True where `units` after a change bring the evidence to A, on average, while the baseline learns them."""
    pooled = (learned * before + units * after) / (learned + units)
    held_against = np.maximum(_tilted(before, null), pooled)
    information = np.where(
        null > 0.0,
        np.where(after > held_against, units * _divergence(after, held_against), 0.0),
        learned * _divergence(before, pooled) + units * _divergence(after, pooled),
    )
    # Each unit must carry evidence as well (`is_carried`): without this, M of many units reaches A by their number.
    least = np.maximum(limits, LEAST_PER_UNIT * units)
    needed = np.log(least) + np.log(np.maximum(information, 1e-12) / units)
    # Below one the sum over the starts has no leading one, and the formula does not hold.
    result: Bools = (information >= needed) & (information >= 1.0)
    return result


def _tilted(rate: Floats, tilt: Floats) -> Floats:
    grown = rate * np.exp(tilt)
    result: Floats = grown / (1.0 - rate + grown)
    return result


def smallest_rate_ratio(rate: Floats, learned: Floats, units: Floats, limits: Floats, margin: Floats) -> Floats:
    """Return the minimum detectable change of a rate, as after / before.

    Args:
        rate: Baseline rate, in (0, 1); pass a rate of 0 as (k + 1/2) / (n + 1).
        learned: Units of the baseline.
        units: Units within which the change should be detected, such as those of one day.
        limits: Threshold A.
        margin: Paging margin in log odds, 0 for tickets.

    Returns:
        Ratios >= 1; infinite where not even a rate of 1 would be detected. A series is `blind` where the ratio is above
        its `blind_above_ratio`.

    Source:
        Lorden's delay (1971), (ln A + ln KL) / KL units, with the information of a two-sample comparison,
        n0 KL(p0, pool) + n KL(p1, pool), because the baseline learns the change as well. It is a median: half
        of the changes of this size take longer. It does not cover slow changes or seasons. A change is detected within
        n units if it is after some number m <= n of them: when far more units come than were learned before, the
        baseline has become the change by the last one, so numbers of the order of `learned` are tried as well.
    """
    rate, learned, units, limits, margin = np.broadcast_arrays(rate, learned, units, limits, margin)
    tried = np.stack([np.minimum(units, learned * part) for part in _PARTS_LEARNED])
    result: Floats = _ratio_after(rate, learned, tried, limits, margin).min(axis=0)
    return result


def _ratio_after(rate: Floats, learned: Floats, units: Floats, limits: Floats, margin: Floats) -> Floats:
    """Return the smallest ratio that is detected after exactly this many units; shape of `units`."""
    low, high = np.zeros(units.shape), np.full(units.shape, _LARGEST_TILT)
    some = np.maximum(units.astype(np.float64), 1e-9)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        seen = _is_seen(rate, _tilted(rate, middle), learned, some, limits, margin)
        low, high = np.where(seen, low, middle), np.where(seen, middle, high)
    return np.where(high > _LARGEST_TILT - 1e-6, math.inf, _tilted(rate, high) / rate)
