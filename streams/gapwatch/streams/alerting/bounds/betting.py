"""Evidence that a quantity is beyond a bound, and confidence limits of it, by betting; no shape is assumed.

A bet that is fair while the bound holds multiplies its stake with each unit. The stake is a nonnegative supermartingale
from a fixed start on, so it ever reaches 1 / alpha with probability alpha at most, at any number of looks (Ville 1939).
The bound at which the stake would just reach 1 / alpha is a confidence limit.

    Sources: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024), whose
    lower limit needs a smallest number only; Howard and Ramdas, Sequential estimation of quantiles, Bernoulli 28
    (2022): a quantile is beyond a bound exactly where a share is. Sessions: a geometric mean of stakes is at most
    their arithmetic mean, which is fair under any dependence inside a session.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Floats

# Bets on a mean: part of the stake that is lost on a unit of value 0. Each doubles the next. The mixture of all 16
# costs at most ln 16 nats against the best of them. Fewer miss small excesses, or slow down large ones.
_BETS = 0.99 * 0.5 ** np.arange(16)
# Bets on a total: jump of the log stake by a number as large as the total of a whole window. The windows hold from one
# unit to some millions.
_JUMPS = 0.5 * 2.0 ** np.arange(24)
# Steps of a bisection: each halves the error, so limits are exact to 1e-7 of the estimate.
_STEPS = 24
# Doublings in the search for an upper limit.
_DOUBLINGS = 60


@dataclass(frozen=True)
class Units:
    """Weighted units of a window, grouped.

    Attributes:
        y: Value of the units of each group, at least 0.
        n: Number of units of each group.
        w: Weight of each unit of the group: traces that it stands for.
        unit_size: Mean size of a session, in units that count as one; 1 where units do not depend on each other.
    """

    y: Floats
    n: Floats
    w: Floats
    unit_size: float = 1.0

    @property
    def mean(self) -> float:
        """Weighted mean; NaN without units."""
        whole = float(self.n @ self.w)
        return float((self.n * self.w) @ self.y) / whole if whole else math.nan

    @property
    def total(self) -> float:
        """Weighted sum."""
        return float((self.n * self.w) @ self.y)

    @property
    def heaviest(self) -> float:
        """Largest weight; 1 without units."""
        return float(self.w.max()) if len(self.w) else 1.0


def evidence_above(units: Units, bound: float) -> float:
    """Return the log evidence (nats) that the weighted mean of nonnegative values exceeds a bound.

    Promise: from a fixed start on, over all looks, it reaches ln(1 / alpha) with probability alpha at most where the
    mean of w (y - bound) given the past is at most 0. Values need no upper end. It does not hold where units depend on
    each other in another way than by sessions of about equal size.
    """
    if bound <= 0.0:
        return math.inf if np.any(units.y[units.n > 0] > 0.0) else 0.0
    stakes = np.log1p(np.multiply.outer(_BETS, units.w / units.heaviest * (units.y / bound - 1.0))) @ units.n
    return _mixed(stakes / units.unit_size)


def total_evidence(units: Units, bound: float) -> float:
    """Return the log evidence (nats) that the expected weighted sum of nonnegative values exceeds a bound.

    The expectation is that of the arrivals and of their values: Prod(1 + s w y) exp(-s bound) is the stochastic
    exponential of the sum less its compensator, for arrivals of any kind.

    Promise: as `evidence_above`, where the expected sum of the window given the past is at most the bound.
    """
    if bound <= 0.0:
        return math.inf if np.any(units.y[units.n > 0] > 0.0) else 0.0
    stakes = np.log1p(np.multiply.outer(_JUMPS, units.w * units.y / bound)) @ units.n - _JUMPS
    return _mixed(stakes / units.unit_size)


def ratio_evidence(top: Units, bottom: Units, bound: float, *, exceeds: bool) -> float:
    """Return the log evidence (nats) that the ratio of two weighted sums exceeds a bound, or falls below it.

    The traces of the two sums are the same, but which value of one belongs to which of the other is not known. So the
    stake is the geometric mean of a stake on each sum: sqrt((1 + c x) (1 - c b y)) <= 1 + c (x - b y) / 2.

    Args:
        top: Numerator; values 0 or 1 where `exceeds` is False.
        bottom: Denominator; values 0 or 1 where `exceeds` is True.
        bound: The bound b.
        exceeds: Look for a ratio above the bound; else for one below it.

    Promise: as `evidence_above`, where x - b y given the past is at most 0 on average (at least 0 for `exceeds` False).
    """
    if bound <= 0.0:
        return math.inf if exceeds and np.any(top.y[top.n > 0] > 0.0) else 0.0
    if exceeds:
        won, lost, scale = top, bottom, 1.0 / bound
    else:
        won, lost, scale = bottom, top, bound
    gains = np.log1p(np.multiply.outer(_BETS, scale * won.w / lost.heaviest * won.y)) @ won.n
    losses = np.log1p(-np.multiply.outer(_BETS, lost.w / lost.heaviest * lost.y)) @ lost.n
    return _mixed(0.5 * (gains + losses) / max(top.unit_size, bottom.unit_size))


def _mixed(log_stakes: Floats) -> float:
    """Return the logarithm of the mean of some stakes."""
    most = float(log_stakes.max())
    return most + math.log(float(np.exp(log_stakes - most).mean()))


def lower_limit(evidence: Callable[[float], float], estimate: float, level: float) -> float:
    """Return the largest bound that the quantity surely exceeds; 0 where it surely exceeds none.

    Args:
        evidence: Log evidence that the quantity exceeds a bound; falls with the bound.
        estimate: The quantity as measured, at least 0: an upper end of the search.
        level: ln(1 / alpha).
    """
    low, high = 0.0, estimate
    if not estimate > 0.0 or evidence(estimate * 1e-9) < level:
        return 0.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if evidence(middle) >= level else (low, middle)
    return low


def upper_limit(evidence: Callable[[float], float], estimate: float, level: float) -> float:
    """Return the smallest bound that the quantity is surely below; inf where it is surely below none.

    Args:
        evidence: Log evidence that the quantity is below a bound; grows with the bound.
        estimate: The quantity as measured, at least 0: a lower end of the search.
        level: ln(1 / alpha).
    """
    low, high = estimate, max(2.0 * estimate, 1e-9)
    for _ in range(_DOUBLINGS):
        if evidence(high) >= level:
            break
        low, high = high, 2.0 * high
    else:
        return math.inf
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if evidence(middle) >= level else (middle, high)
    return high
