"""Growth that a page needs: the tail of the days of a series, by the pages that its budget allows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.change_point import day_before
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, hour_of_week
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.pages.page_growth import growth_of, least_tilt, student_quantile
from gapwatch.streams.detectors.watch import Transition, advance_phases
from tests.depth import examples
from tests.streams.detectors.builders import plain

_MONDAY = 4 * TICKS_A_DAY
#: Days, noise between them, deviation of a weekday that is not known, and information of half a day.
_DAY = (40_000, 0.1, 0.15, 400.0)


def student_tail(value: float, freedom: float) -> float:
    """Return the probability above a value, by the density of Student's law on a fine grid of angles."""
    start = math.atan(value / math.sqrt(freedom))
    angles = np.linspace(start, math.pi / 2, 20_001)
    middles = (angles[1:] + angles[:-1]) / 2
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return float(scale * np.sum(np.cos(middles) ** (freedom - 1)) * (angles[1] - angles[0]))


@settings(max_examples=examples(50))
@given(st.floats(1e-5, 0.5), st.floats(7.0, 300.0))
def test_the_quantile_is_that_of_the_law_of_student(upper: float, freedom: float) -> None:
    value = student_quantile(upper, freedom)

    assert student_tail(value * 1.03 + 1e-6, freedom) <= upper <= student_tail(value * 0.97 - 1e-6, freedom)


@settings(max_examples=examples(50))
@given(st.floats(0.001, 0.999), st.floats(0.0, 5.0))
def test_a_share_grows_by_the_odds(share: float, tilt: float) -> None:
    grown = share * growth_of(share, tilt)

    assert share <= grown * (1 + 1e-12) and grown < 1.0
    assert math.log(grown / (1 - grown)) - math.log(share / (1 - share)) == pytest.approx(tilt, abs=1e-6)


def test_a_page_needs_more_where_its_budget_is_small_days_are_few_or_the_change_is_young() -> None:
    fleet = Fleet(FleetConfig(rate_bets()), 2)
    s = fleet.state
    s["page_threshold"][:] = 1e6
    assert least_tilt(s, 0, (0, 0, 0), 0) == 0.0  # the first day

    s["margin"][:], s["busiest_day"][:] = 2.0 * math.hypot(0.1, 0.1), 1_000.0
    first = least_tilt(s, 0, (0, 0, TICKS_A_DAY), 0)
    assert first == pytest.approx(0.1 * math.hypot(student_quantile(1e-3, 7.0), 3.0902), rel=1e-3)
    assert (
        0.1 * 3.0902
        < least_tilt(s, 0, (0, 0, 100 * TICKS_A_DAY), 0)
        < least_tilt(s, 0, (0, 0, 4 * TICKS_A_DAY), 0)
        < first
    )

    s["days_weight"][1], s["page_threshold"][1] = 20.0, 1e4
    assert least_tilt(s, 1, (0, 0, TICKS_A_DAY), 0) < first
    s["weekday_margins"][:, 1] = 0.2, -0.2
    assert least_tilt(s, 1, (0, 0, TICKS_A_DAY), 0) - least_tilt(s, 1, (0, 0, TICKS_A_DAY), 1) == pytest.approx(0.4)


def test_a_part_of_a_day_exceeds_what_the_part_before_tells_as_often_as_the_budget_allows() -> None:
    """Days drawn with an effect of their own and one of each half, against the growth that the second half needs."""
    fleet, rng, days, noise, unknown, information = Fleet(FleetConfig(rate_bets()), 1), np.random.default_rng(21), *_DAY
    s = fleet.state
    s["busiest_day"][:], s["page_threshold"][:], s["days_weight"][:] = 1_000.0, 1e5, 10_000.0
    s["noise"][:], s["margin"][:] = noise, 2.0 * math.hypot(noise, unknown)
    s["weekday_margins"][:, 0] = 0.1, -0.1
    part = noise / math.sqrt(2.0)
    day = 0.1 + rng.normal(0.0, math.hypot(part, unknown), days)
    first = day + rng.normal(0.0, math.hypot(part, information**-0.5), days)
    second = day + rng.normal(0.0, part, days)
    ticks = (TICKS_A_DAY // 2, TICKS_A_DAY // 2, TICKS_A_DAY - 1)

    needed = np.array([least_tilt(s, 0, ticks, 0, (level, information)) for level in (0.0, 1.0)])
    above = second > needed[0] + first * (needed[1] - needed[0])

    assert np.mean(above) == pytest.approx(0.01, rel=0.15)
    assert needed[0] < least_tilt(s, 0, ticks, 0)
    assert least_tilt(s, 0, ticks, 0, (0.3, information)) > least_tilt(s, 0, ticks, 0, (0.0, information))
    # Downwards the level of the part before counts with the other sign; on the next day it counts no more.
    assert least_tilt(s, 0, ticks, 1, (0.3, information)) < least_tilt(s, 0, ticks, 1, (-0.3, information))
    tomorrow = (ticks[0], ticks[1], TICKS_A_DAY + 1)
    assert least_tilt(s, 0, tomorrow, 0, (0.3, information)) == least_tilt(s, 0, tomorrow, 0)


def test_the_day_before_a_change_is_known_in_hours_with_a_baseline_only() -> None:
    fleet, rng = Fleet(FleetConfig(rate_bets(), ring_buckets=64, ring_hours=64), 1), np.random.default_rng(22)
    for i in range(5 * 24 + 12):
        odds = 0.25 * math.exp(0.15 if i >= 24 * 4 else 0.0)
        k = rng.binomial(2_000, odds / (1.0 + odds), 1)
        tick = _MONDAY + 120 * i
        fleet.fold(tick, np.stack([2_000.0 - k, k]), None, hour_of_week(tick, "UTC"))

    friday = _MONDAY + 4 * TICKS_A_DAY
    level, information = day_before(fleet, 0, friday + 10 * 120)
    assert level == pytest.approx(0.15, abs=0.05)
    assert information == pytest.approx(10 * 2_000 * 0.16, rel=0.1)
    assert day_before(fleet, 0, friday) == (0.0, 0.0)
    assert day_before(fleet, 0, friday + TICKS_A_DAY + 10 * 120) == (0.0, 0.0)  # a first Saturday


@pytest.mark.parametrize(("level", "least", "most"), [(0.5, 0, 5), (1.5, 20, 25)])
def test_a_level_that_a_day_may_take_is_a_ticket_and_a_large_one_is_a_page(level: float, least: int, most: int) -> None:
    """With a noise of 0.2, where 0.1 is usual. Without the growth that a page needs each ticket would be a page."""
    fleet = Fleet(plain(margins=True, ring_buckets=64, ring_hours=64), 20)
    s, rng, events = fleet.state, np.random.default_rng(19), list[Transition]()
    s["bad_side"][:], s["ticket_threshold"][:], s["page_threshold"][:] = 1, 1e7, 1e8
    for i in range(21 * 8):
        if i % 8 == 0:
            noise = rng.normal(0.0, 0.2, 20) if i < 20 * 8 else level
        odds = 0.25 * np.exp(noise)
        k = rng.binomial(2_500, odds / (1 + odds), 20)
        fleet.fold(_MONDAY + 360 * i, np.stack([2_500.0 - k, k]))
        events += advance_phases(fleet, _MONDAY + 360 * i)

    assert sum(step.event in (Event.TICKETED, Event.PAGED) and step.change is not None for step in events) >= 15
    assert least <= sum(step.event is Event.PAGED for step in events) <= most


def test_the_growth_of_an_open_alert_is_that_of_its_hours() -> None:
    """A ticket in the worse half of the day is no page because of the season."""
    fleet = Fleet(FleetConfig(rate_bets(), ring_buckets=64, ring_hours=64), 1)
    s, rng = fleet.state, np.random.default_rng(20)
    s["bad_side"][:], s["ticket_threshold"][:] = 1, 1e12
    for i in range(8 * 24):
        rate = 0.3 if i % 24 >= 12 else 0.1
        if i == 7 * 24 + 12:
            s["phase"][0], s["fired_bucket"][0], s["cause"][0] = 2, _MONDAY + i * 120, 0
        k = rng.binomial(1_000, rate, 1)
        tick = _MONDAY + 120 * i
        fleet.fold(tick, np.stack([1_000.0 - k, k]), None, hour_of_week(tick, "UTC"))

    assert s["after_expected"][0] == pytest.approx(s["after"][1, 0], rel=0.05)
    assert s["after"][:, 0].sum() == 12_000
