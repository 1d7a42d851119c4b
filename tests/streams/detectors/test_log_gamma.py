from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.detectors.log_gamma import log_gamma_excess

#: Largest absolute error, besides 1e-15 of the value.
ERROR_BOUND = 2e-12


def exact(a: float, k: int) -> float:
    return math.fsum(math.log1p(i / a) for i in range(k))


@pytest.mark.parametrize("a", [0.5, 0.75, 1.0, 2.5, 7.9, 8.0, 123.5, 1e4, 1e9])
def test_excess_agrees_with_the_sum_of_logarithms(a: float) -> None:
    ks = [0, 1, 2, 3, 10, 100, 3000, 10_000]

    found = log_gamma_excess(np.full(len(ks), a), np.array(ks, np.float64))

    for value, k in zip(found.tolist(), ks, strict=True):
        assert abs(value - exact(a, k)) <= ERROR_BOUND + 1e-15 * exact(a, k)


@given(st.floats(0.5, 1e9), st.integers(0, 2000))
def test_excess_stays_within_its_bound(a: float, k: int) -> None:
    assert abs(
        float(log_gamma_excess(np.array([a]), np.array([float(k)]))[0]) - exact(a, k)
    ) <= ERROR_BOUND + 1e-15 * exact(a, k)


def test_nothing_new_and_an_impossible_bin_add_exactly_nothing() -> None:
    assert log_gamma_excess(np.array([0.0, 0.5, 3.0, 1e9]), np.zeros(4)).tolist() == [0.0] * 4
