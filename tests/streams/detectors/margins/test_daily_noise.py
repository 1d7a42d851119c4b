"""Days: what they differ by widens the margin, a weekday that repeats moves it, and a day of a change says nothing."""

from __future__ import annotations

import numpy as np
import pytest

from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, hour_of_week
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.margins.daily_noise import baseline_days
from tests.streams.detectors.builders import plain

_MONDAY = 4 * TICKS_A_DAY


def after_days(fleet: Fleet, levels: np.ndarray, units: int, seed: int = 1, first: int = 0) -> None:
    """Fold days of one bucket each, at a fifth with log odds that are `levels` higher; shape (days, series)."""
    rng = np.random.default_rng(seed)
    for day, level in enumerate(levels, first):
        odds = 0.25 * np.exp(level)
        for part in range(2):
            k = rng.binomial(units // 2, odds / (1 + odds))
            tick = _MONDAY + day * TICKS_A_DAY + 1440 * part
            fleet.fold(tick, np.stack([units // 2 - k, k]).astype(np.float64), None, hour_of_week(tick, "UTC"))


def test_daily_noise_widens_the_margin_and_quiet_days_narrow_it() -> None:
    fleet = Fleet(plain(margins=True, ring_buckets=0), 200)
    noise = np.random.default_rng(15).normal(0.0, 1.0, (29, 200)) * np.repeat([0.0, 0.3], 100)
    after_days(fleet, noise, 20_000)

    margin = fleet.state["margin"]
    assert np.median(margin[:100]) < 0.13
    # Two deviations of 0.3, shrunk a little towards those of 0.1 that are usual.
    assert np.median(margin[100:]) == pytest.approx(0.54, rel=0.1)


def test_on_its_first_day_a_series_has_no_margin_of_days_and_on_its_second_that_of_two_days() -> None:
    fleet = Fleet(plain(margins=True, ring_buckets=0), 1)
    after_days(fleet, np.zeros((1, 1)), 1000)
    assert fleet.state["margin"].tolist() == [0.0]

    fleet.fold(_MONDAY + TICKS_A_DAY, np.array([[80.0], [20.0]]))
    assert fleet.state["margin"] == pytest.approx([2.0 * np.hypot(0.1, 0.1)])


def test_the_days_of_a_baseline_are_the_earlier_ones_of_its_kind() -> None:
    """Against a calendar that is walked through day by day; day 4 is a Monday."""
    for first in range(4, 11):
        for day in range(first + 1, first + 40):
            weekday = [(d - 4) % 7 for d in range(first, day)]
            alike = sum((d < 5) == ((day - 4) % 7 < 5) for d in weekday) or len(weekday)
            expected = alike if day - first < 28 else (day - first) // 7
            assert baseline_days(np.array([first]), day, seasonal=True).tolist() == [expected]
            assert baseline_days(np.array([first]), day, seasonal=False).tolist() == [day - first]


def test_a_first_monday_is_held_against_two_days_more_loosely_than_a_later_one_against_ten() -> None:
    margins = []
    for days in (5, 12):
        fleet = Fleet(FleetConfig(rate_bets(), ring_buckets=0, ring_hours=0), 20)
        after_days(fleet, np.zeros((days, 20)), 20_000, first=3)
        margins.append(float(np.median(fleet.state["margin"])))

    unknown = 0.136**2 * 1.5
    assert margins[0] == pytest.approx(2.0 * np.sqrt(0.1**2 * 1.5 + unknown), rel=0.1)
    assert margins[1] < 0.85 * margins[0]


def test_days_with_few_units_leave_the_margin_where_it_is() -> None:
    fleet = Fleet(plain(margins=True, ring_buckets=0), 100)
    after_days(fleet, np.zeros((30, 100)), 60)

    assert np.median(fleet.state["margin"]) == pytest.approx(0.2, rel=0.2)


def test_a_weekday_that_repeats_is_expected_to_and_is_no_noise() -> None:
    fleet = Fleet(FleetConfig(rate_bets(), ring_buckets=0, ring_hours=0), 20)
    levels = np.zeros((22, 20))
    levels[::7] = 0.3
    after_days(fleet, levels, 20_000)

    # On the fourth Monday; two of them were seen against a baseline of a whole week.
    up, down = fleet.state["weekday_margins"]
    assert np.median(up) == pytest.approx(0.3 * 0.6, abs=0.1)
    assert np.all(down < 0.0)
    other = Fleet(FleetConfig(rate_bets(), ring_buckets=0, ring_hours=0), 20)
    after_days(other, np.roll(levels, 1, axis=0), 20_000)  # the last day is a Monday again
    assert np.all(other.state["weekday_margins"][0] < 0.0)


def test_days_of_an_open_alert_do_not_count() -> None:
    fleet = Fleet(plain(margins=True, ring_buckets=0), 2)
    levels = np.zeros((12, 2))
    after_days(fleet, levels[:6], 20_000)
    fleet.state["fired_bucket"][1] = 1
    fleet.fold(_MONDAY + 6 * TICKS_A_DAY, np.array([[80.0, 80.0], [20.0, 20.0]]))
    before = fleet.state["noise"].copy()
    after_days(fleet, levels[7:] + 2.0, 20_000, first=7)

    assert fleet.state["noise"][1] == before[1]
