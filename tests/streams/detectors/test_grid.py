from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.slices.value_histogram import histogram_cells
from gapwatch.streams.detectors.grid import (
    cell_end,
    cell_middle,
    count_bins,
    form_bins,
    quantiles_of_bins,
    quantiles_of_cells,
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_cells_follow_the_written_rule(x: float) -> None:
    expected = (
        0 if abs(x) < 1e-12 else int(math.copysign(1, x)) * (math.floor(math.log(abs(x)) / math.log(1.01)) + 2778)
    )

    assert abs(int(histogram_cells(np.array([x]))[0]) - expected) <= (1 if abs(x) > 1e-12 else 0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30))
def test_cells_keep_the_order_of_numbers(values: list[float]) -> None:
    assert np.all(np.diff(histogram_cells(np.sort(np.array(values)))) >= 0)


def test_the_ends_of_the_grid() -> None:
    assert histogram_cells(np.array([0.0, 1e-13, 1.0, -1.0, 1e-12])).tolist() == [0, 0, 2778, -2778, 1]


def histogram_of(values: np.ndarray) -> dict[int, int]:
    cells, counts = np.unique(histogram_cells(values), return_counts=True)
    return dict(zip(cells.tolist(), counts.tolist(), strict=True))


def test_bins_of_a_smooth_burn_in_hold_their_share() -> None:
    histogram = histogram_of(np.random.default_rng(0).lognormal(0, 2, 4000))

    bins = form_bins(histogram)

    shares = bins.prior / bins.prior.sum()
    assert bins.prior.sum() == 4001
    assert np.all(np.diff(bins.edges) > 0)
    assert shares[3:22] == pytest.approx(np.array([0.025, *[0.05] * 18]), abs=0.006)
    assert shares[-1] == pytest.approx(0.002, abs=0.0015)


@given(st.dictionaries(st.integers(-300, 300), st.integers(1, 400), min_size=1, max_size=40))
def test_any_burn_in_gives_bins_that_cover_every_number(histogram: dict[int, int]) -> None:
    bins = form_bins(histogram)

    cells = np.arange(-400, 401)
    counts = count_bins(bins.edges[None, :], np.zeros(801, np.int64), cells, np.ones(801, np.int64))[:, 0]
    assert np.all(np.diff(bins.edges) >= 0)
    assert counts.sum() == 801
    assert np.all(bins.prior[counts > 0] > 0)
    assert abs(bins.prior.sum() - sum(histogram.values()) - 1) <= 0.5 * 26


def test_a_constant_gets_a_bin_of_its_own_in_the_middle() -> None:
    bins = form_bins({2778: 500})

    counts = count_bins(
        bins.edges[None, :], np.zeros(3, np.int64), np.array([2777, 2778, 2779]), np.array([1, 10, 100])
    )
    middle = int(np.flatnonzero(counts[:, 0] == 10)[0])
    assert 9 <= middle <= 16
    assert bins.prior[middle] == 500
    assert np.count_nonzero(counts) == 3


def test_a_small_burn_in_drops_the_far_tails() -> None:
    small, large = (form_bins(histogram_of(np.random.default_rng(1).lognormal(0, 1, n))) for n in (100, 4000))

    assert np.flatnonzero(small.prior == 0).tolist() == [0, 1, 2, 23, 24, 25]
    assert np.all(large.prior > 0)


def test_an_empty_burn_in_is_refused() -> None:
    with pytest.raises(ValueError, match="without a unit"):
        form_bins({})


@given(st.floats(-1e12, 1e12))
def test_the_cells_of_ticks_end_where_detectors_think(x: float) -> None:
    """The grid stands in two places, for detectors need numpy alone; here they are one."""
    cell = int(histogram_cells(np.array([x]))[0])
    below, end = cell_end(cell - 1 if cell != 1 else 0), cell_end(cell)

    assert below is not None and end is not None
    assert below - 1e-9 * abs(below) <= x <= end + 1e-9 * abs(end) + 1e-12
    assert cell_middle(cell) == pytest.approx(x, rel=0.0051, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_of_cells_and_of_bins_are_those_of_the_numbers(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(0, 0.6, 4000)
    cells, counts = np.unique(histogram_cells(values), return_counts=True)
    histogram = dict(zip(cells.tolist(), counts.tolist(), strict=True))
    bins = form_bins(histogram)
    levels = (0.05, 0.5, 0.95)
    expected = np.quantile(values, levels)

    assert quantiles_of_cells(histogram, levels) == pytest.approx(expected, rel=0.01)
    assert quantiles_of_bins(bins.edges, bins.prior, levels) == pytest.approx(expected, rel=0.02)


def test_quantiles_of_nothing_and_of_one_value() -> None:
    assert quantiles_of_cells({}, (0.5,)) == [None]
    one = form_bins({2778: 1000})
    (median,) = quantiles_of_bins(one.edges, one.prior, (0.5,))
    assert median == pytest.approx(1.0, rel=0.0051)
