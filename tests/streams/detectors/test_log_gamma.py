from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.detectors.log_gamma import log_gamma_excess, log_polya

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


@given(st.data())
def test_the_probability_of_a_bucket_is_the_product_over_its_units(data: st.DataObject) -> None:
    values = data.draw(st.integers(2, 5))
    parameter, unit = st.floats(0.01, 1e6), st.integers(0, 12)
    alpha = np.array(data.draw(st.lists(parameter, min_size=values, max_size=values)))
    counts = [np.array(data.draw(st.lists(unit, min_size=values, max_size=values))) for _ in range(3)]
    expected = []
    for k in counts:
        ratios = [(a + j) for a, n in zip(alpha, k, strict=True) for j in range(n)]
        below = [alpha.sum() + j for j in range(k.sum())]
        expected.append(math.fsum(map(math.log, ratios)) - math.fsum(map(math.log, below)))

    # Columns of few and of many units, in one call and each alone: the same bytes.
    both = np.stack(counts, axis=1)[:, None, :].astype(np.float64)
    parameters = np.repeat(np.repeat(alpha[:, None, None], 2, axis=1), 3, axis=2)
    found = log_polya(parameters, both)
    alone = [log_polya(parameters[..., [i]], both[..., [i]])[:, 0] for i in range(3)]

    assert found.shape == (2, 3)
    for i, value in enumerate(expected):
        assert found[0, i] == found[1, i]
        assert found[:, i].tolist() == alone[i].tolist()
        assert found[0, i] == pytest.approx(value, abs=1e-9, rel=1e-9)


def test_parts_of_units_take_gamma_functions() -> None:
    parameters, parts = np.full((2, 1, 2), 3.0), np.array([[[0.5, 2.0]], [[1.5, 3.0]]])
    found = log_polya(parameters, parts)[0]
    gamma = math.lgamma
    of_parts = gamma(3.5) + gamma(4.5) - 2 * gamma(3.0) - gamma(8.0) + gamma(6.0)

    assert found[0] == pytest.approx(of_parts, abs=1e-11)
    assert found[1] == pytest.approx(math.log((3 * 4) * (3 * 4 * 5) / (6 * 7 * 8 * 9 * 10)), abs=1e-12)


def test_a_law_that_is_known_to_a_million_million_units_does_not_overflow() -> None:
    parameters = np.array([1e-3, 1e12])[:, None, None]
    counts = np.array([29.0, 1.0])[:, None, None]
    each = [(1e-3 + j) / (1e12 + 1e-3 + j) for j in range(29)]

    found = log_polya(parameters, counts)

    assert found[0, 0] == pytest.approx(sum(math.log(p) for p in each), rel=1e-6)


def test_a_law_beyond_the_product_beside_one_within_it_warns_of_nothing() -> None:
    parameters = np.array([1e-3, 1e8])[:, None, None] * np.array([1.0, 1e5])[:, None]
    counts = np.array([29.0, 1.0])[:, None, None]

    with np.errstate(all="raise"):
        found = log_polya(parameters, counts)

    for tilt in (0, 1):
        assert log_polya(parameters[:, [tilt]], counts)[0, 0] == found[tilt, 0]
