from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.detectors.budgets.budget import Allowances, expected_false_alarms, smallest_rate_ratio, threshold


def test_the_threshold_is_arithmetic() -> None:
    assert threshold(1e6, 100, 1) == 1e8
    assert expected_false_alarms(np.array([5e5]), np.array([1e8])).tolist() == [0.005]


@pytest.mark.parametrize("arguments", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_budget_of_nothing_is_refused(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        threshold(*arguments)


@given(st.integers(0, 50), st.integers(0, 200), st.floats(0.1, 100))
def test_all_shares_together_stay_within_the_budget(present: int, coming: int, allowed: float) -> None:
    book = Allowances(allowed)
    book.open_period([f"s{i}" for i in range(present)])
    for i in range(coming):
        book.share(f"new{i}")

    assert sum(book.shares.values()) <= allowed * (1 + 1e-9)


def test_a_series_that_comes_back_spends_what_it_had() -> None:
    book = Allowances(1.0)
    book.open_period(["a", "b"])
    first = book.share("late")

    assert book.share("late") == first
    assert book.share("a") == pytest.approx(0.4)
    assert book.share("later") < first


def one(rate: float, learned: float, units: float, limit: float = 1e6, margin: float = 0.0) -> float:
    return float(smallest_rate_ratio(*(np.array([x]) for x in (rate, learned, units, limit, margin)))[0])


def test_more_units_see_smaller_changes_and_a_margin_sees_less() -> None:
    ratios = [one(0.05, 7000, units) for units in (10, 100, 500, 5000)]

    assert ratios == sorted(ratios, reverse=True)
    assert one(0.05, 1e9, 450) == pytest.approx(2.0, rel=0.1)
    assert one(0.05, 7000, 500, margin=0.2) > one(0.05, 7000, 500)
    assert one(0.05, 7000, 500) > one(0.05, 1e9, 500)
    assert one(0.05, 7000, 2) == math.inf


@pytest.mark.parametrize(
    ("rate", "units", "ratio"),
    [
        (0.01, 19_486, 1.5),
        (0.01, 2537, 2),
        (0.01, 401, 4),
        (0.05, 1744, 1.5),
        (0.05, 492, 2),
        (0.05, 85, 4),
        (0.2, 361, 1.5),
    ],
)
def test_it_is_the_change_that_half_of_the_streams_see_by_then(rate: float, units: float, ratio: float) -> None:
    """Median delays measured elsewhere with 600 streams each, baseline of 7,000 units, A = 1e6."""
    assert one(rate, 7000, units) - 1 == pytest.approx(ratio - 1, rel=0.15)


def test_it_says_blind_where_nothing_was_seen() -> None:
    assert one(0.5, 100, 0.0) == math.inf
