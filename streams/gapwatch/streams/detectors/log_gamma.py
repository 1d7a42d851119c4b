"""Logarithms of ratios of Gamma functions on arrays, for the Polya probability of a bucket.

numpy has no Gamma function, and scipy is too heavy a dependency for this one. `math.lgamma` takes single numbers only,
and `lgamma(a + k) - lgamma(a)` loses all digits for a large `a`.
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Floats

# Terms B_2n / (2n (2n-1)) of Stirling's series. With five terms and arguments of at least 8 the rest is below 1.9e-13.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_SHIFT = 8.0
# Stands for 0 in a bin that no unit can fall into (a = 0, k = 0): adds nothing, and does not underflow.
_NOTHING = 1e-300


def _tail(x: Floats) -> Floats:
    """Return Stirling's correction ln Gamma(x) - [(x - 1/2) ln x - x + ln(2 pi)/2] for x >= 8."""
    inverse = 1.0 / x
    square = inverse * inverse
    value = np.full_like(x, _STIRLING[-1])
    for term in _STIRLING[-2::-1]:
        value *= square
        value += term
    value *= inverse
    return value


def _rising_8(x: Floats) -> Floats:
    """Return x (x+1) ... (x+7), by pairs: x (x+7) = y, (x+1)(x+6) = y+6, (x+2)(x+5) = y+10, (x+3)(x+4) = y+12."""
    pairs = x * (x + 7.0)
    value: Floats = pairs * (pairs + 6.0)
    value *= pairs + 10.0
    value *= pairs + 12.0
    return value


def log_gamma_excess(a: Floats, k: Floats) -> Floats:
    """Return ln[Gamma(a + k) / Gamma(a)] - k ln a: the gain of a growing count over a fixed one.

    Args:
        a: Counts so far, including the prior, >= 0. Where a is 0, k must be 0, and the result is 0.
        k: New units, >= 0, whole or not; same shape as `a`.

    Returns:
        Values >= 0 for k >= 1; exactly 0 where k is 0.

    Source:
        Stirling's series with the argument shifted by 8 (Abramowitz and Stegun 6.1.41, 6.1.16). The leading terms
        are cancelled by hand, because floating point would lose digits. Promise: absolute error below 2e-12 + 1e-15
        of the value, for 0.5 <= a <= 1e9. It is not tested for 0 < a < 0.5.
    """
    base = np.maximum(a, _NOTHING)
    low = base + _SHIFT
    high = low + k
    result: Floats = (high - 0.5) * np.log1p(k / low)
    result += k * np.log1p(_SHIFT / base)
    result -= k
    result += _tail(high)
    result -= _tail(low)
    result -= np.log(_rising_8(base + k) / _rising_8(base))
    return result
