"""Logarithms of ratios of Gamma functions on arrays, for the Polya probability of a bucket.

numpy has no Gamma function, and scipy is too heavy a dependency for this one. `math.lgamma` takes single numbers only,
and `lgamma(a + k) - lgamma(a)` loses all digits for a large `a`.
"""

from __future__ import annotations

import numpy as np

from gapwatch.streams.detectors.arrays import Floats, Ints, add_up

# Terms B_2n / (2n (2n-1)) of Stirling's series. With five terms and arguments of at least 8 the rest is below 1.9e-13.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_SHIFT = 8.0
# Stands for 0 in a bin that no unit can fall into (a = 0, k = 0): adds nothing, and does not underflow.
_NOTHING = 1e-300
# Units of a bucket whose probability is a product of so many factors. With more, parameters of 1e9 overflow, and the
# series of the Gamma function is cheaper.
_FEW = 30.0
# Sum of parameters up to which thirty factors do not overflow: an hour of a series that never or always fails is known
# so well that it has more.
_MOST_PARAMETER = 1e9


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


def log_polya(parameters: Floats, counts: Floats) -> Floats:
    """Return ln of the Dirichlet-multinomial probability of an ordered bucket.

    Buckets of up to thirty whole units, with parameters up to a thousand million, are the product over their
    units, (p + j) / (T + j), which is exact and costs a quarter of Gamma functions; all others, such as means of
    sessions, by `log_gamma_excess`. Each value is computed in the same way whatever stands beside it.

    Args:
        parameters: Dirichlet parameters, shape (values, tilts, series), >= 0; where one is 0, its count must be 0.
        counts: Units, same shape, or with one tilt where they are the same for all.

    Returns:
        Shape (tilts, series).

    Source:
        Gamma(a + k) / Gamma(a) = a (a + 1) ... (a + k - 1) for whole k (Abramowitz and Stegun 6.1.22).
    """
    total, units = add_up(parameters), add_up(counts)
    is_few = (units <= _FEW) & (counts == np.floor(counts)).all(axis=0) & (total <= _MOST_PARAMETER)
    if is_few.all():
        return _log_product(parameters, counts, total, units)
    result: Floats = np.empty(total.shape)
    for chosen, formula in ((is_few, _log_product), (~is_few, _log_ratio)):
        some = np.flatnonzero(chosen.any(axis=0))
        if len(some):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not chosen may overflow
                values = formula(*(array[..., some] for array in (parameters, counts, total, units)))
            result[:, some] = np.where(chosen[:, some], values, result[:, some])
    return result


def _log_product(parameters: Floats, counts: Floats, total: Floats, units: Floats) -> Floats:
    above, below = np.ones_like(total), np.ones_like(total)
    _rise(below, total, units)
    if len(parameters) > 2 and counts.shape[1] == 1:
        above = _rises(parameters, counts[:, 0].astype(np.int64))
    else:
        for a, k in zip(parameters, counts, strict=True):
            _rise(above, a, k)
    result: Floats = np.log(above / below)
    return result


def _rises(parameters: Floats, counts: Ints) -> Floats:
    """Return the product over many values of a (a + 1) ... (a + k - 1), where most k are 0.

    Args:
        parameters: Shape (values, tilts, series).
        counts: Shape (values, series).
    """
    result: Floats = np.ones(parameters.shape[1:])
    # One entry for each unit, ordered by series, then by value.
    series, value = np.nonzero(counts.T)
    each = counts.T[series, value]
    j = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
    factors = parameters[np.repeat(value, each), :, np.repeat(series, each)] + j[:, None]
    units = counts.sum(axis=0)
    there = np.flatnonzero(units)
    if len(there):
        result[:, there] = np.multiply.reduceat(factors, (np.cumsum(units) - units)[there], axis=0).T
    return result


def _rise(product: Floats, a: Floats, k: Floats) -> None:
    """Multiply by a (a + 1) ... (a + k - 1), in place."""
    if not k.any():
        return
    least, most = int(k.min()), int(k.max())
    for j in range(most):
        np.multiply(product, a + j, out=product, where=True if j < least else k > j)


def _log_ratio(parameters: Floats, counts: Floats, total: Floats, units: Floats) -> Floats:
    bins = log_gamma_excess(parameters, counts) + counts * np.log(np.maximum(parameters, 1e-300))
    result: Floats = add_up(bins) - log_gamma_excess(total, units) - units * np.log(total)
    return result
