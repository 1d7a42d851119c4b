"""Thresholds that follow the observed volume: the budget holds for any volume, and a young series is not held to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.budgets.budget import threshold
from gapwatch.streams.detectors.budgets.volume import set_allowed, units_a_day
from gapwatch.streams.detectors.contexts import TICKS_A_DAY
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig

_FLAT = FleetConfig(rate_bets(), seasonal=False, ring_buckets=0)


def _folded(days: list[list[int]], tickets: float = 0.5, pages: float = 0.05) -> Fleet:
    """Return a fleet of one series with these units, in evenly spaced ticks of each day."""
    fleet = Fleet(_FLAT, 1)
    set_allowed(fleet.state, np.array([0]), tickets, pages)
    for day, ticks in enumerate(days):
        for i, n in enumerate(ticks):
            fleet.fold((day + 10) * TICKS_A_DAY + i * TICKS_A_DAY // len(ticks), np.array([[n], [0]]))
    return fleet


@given(st.lists(st.lists(st.integers(0, 5000), min_size=1, max_size=4), min_size=1, max_size=30))
def test_no_month_of_any_volume_spends_more_than_its_budget(days: list[list[int]]) -> None:
    """A tick that holds many times the busiest day so far counts in its own threshold."""
    state = _folded(days).state

    assert state["expected_tickets"][0] <= 0.5
    assert state["expected_pages"][0] <= 0.05


@given(st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=3), min_size=2, max_size=8))
def test_a_threshold_never_falls(days: list[list[int]]) -> None:
    limits = [_folded(days[:n]).state["ticket_threshold"][0] for n in range(1, len(days) + 1)]

    assert limits == sorted(limits)


def test_a_steady_volume_gets_the_threshold_of_a_declared_one_with_room_to_grow() -> None:
    state = _folded([[700] * 4] * 5).state

    assert state["ticket_threshold"][0] == pytest.approx(1.25 * threshold(30 * 2800, 1, 0.5))
    assert state["page_threshold"][0] == pytest.approx(10 * state["ticket_threshold"][0])
    assert units_a_day(state)[0] == pytest.approx(2800, rel=0.1)


def test_a_declared_volume_is_used_from_the_first_unit_on() -> None:
    fleet = _folded([[10]])
    set_allowed(fleet.state, np.array([0]), 0.5, 0.0, units=60_000.0)
    fleet.fold(20 * TICKS_A_DAY, np.array([[9000], [0]]))

    assert fleet.state["ticket_threshold"][0] == threshold(60_000, 1, 0.5)
    assert np.isinf(fleet.state["page_threshold"][0])


def test_a_new_epoch_keeps_the_volume() -> None:
    fleet = _folded([[4000]])
    before = fleet.state["ticket_threshold"][0]
    fleet.start_epoch(np.array([0]))
    fleet.fold(12 * TICKS_A_DAY, np.array([[5], [0]]))

    assert fleet.state["ticket_threshold"][0] == before
