"""Evidence on the first day: a change in an hour that was never seen is told, a day's season is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gapwatch.streams.detectors.bets import category_bets, rate_bets
from gapwatch.streams.detectors.budgets.budget import threshold
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, hour_of_week
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.local_level import USUAL_SEASON, level_increments, level_of, season_of
from gapwatch.streams.detectors.watch import advance_phases
from tests.depth import examples
from tests.streams.detectors.builders import same_margin

_MONDAY = 4 * TICKS_A_DAY
_STATISTIC = np.array([0.0, 1.0])


def told_after(before: int, rates: tuple[float, float], streams: int, after: int, start: int = 9) -> list[float]:
    """Return after how many units of a change each stream is told; one unit every 30 s, inf where it is not."""
    fleet = Fleet(FleetConfig(rate_bets()), streams)
    fleet.state["bad_side"][:] = 1
    # Four series that share ten tickets and one page a month.
    fleet.state["ticket_threshold"][:] = threshold(86_400, 4, 8)
    fleet.state["page_threshold"][:] = threshold(86_400, 4, 0.8)
    rng, told, false, allowed = np.random.default_rng(3), [math.inf] * streams, 0, 0.0
    for i in range(before + after):
        tick = _MONDAY + start * 120 + i
        bad = (rng.random(streams) < rates[i >= before]).astype(np.float64)
        fleet.fold(tick, np.stack([1.0 - bad, bad]), None, hour_of_week(tick, "UTC"))
        for step in advance_phases(fleet, tick):
            if step.event in (Event.TICKETED, Event.PAGED):
                false += i < before
                told[step.row] = min(told[step.row], i - before) if i >= before else told[step.row]
        if i == before:
            allowed = float((fleet.state["expected_tickets"] + fleet.state["expected_pages"]).sum())
    assert false <= allowed + 3.0 * math.sqrt(allowed)
    return told


@pytest.mark.parametrize(
    ("before", "share"), [(300, 0.8), *(pytest.param(n, 0.95, marks=pytest.mark.slow) for n in (1000, 3000))]
)
def test_a_shift_on_the_first_day_is_told_within_200_units(before: int, share: float) -> None:
    told = told_after(before, (0.067, 0.26), streams=60, after=200)

    assert np.mean(np.isfinite(told)) >= share


@pytest.mark.slow
def test_a_doubled_rate_on_the_first_day_is_told_within_3000_units() -> None:
    told = told_after(1000, (0.05, 0.10), streams=40, after=3000)

    assert np.mean(np.isfinite(told)) >= 0.6


def test_one_hour_proves_little_however_many_units_it_has() -> None:
    """The evidence of one hour at 1.4 times the odds is bounded; that of the same units in six hours is not."""
    rest = np.array([[9500.0], [500.0]])
    width, shared = level_of(_STATISTIC, rest, np.array([USUAL_SEASON]), np.array([4.0]))
    table, none = rate_bets(), np.zeros((2, 1))

    def evidence(units: float) -> float:
        bad = units * 0.0686
        counts = np.array([[units - bad], [bad]])
        return float(
            level_increments(
                table,
                rest,
                none,
                counts,
                width[0] + same_margin(table, 0.0)[None],
                shared * same_margin(table, 1.0)[None],
            ).max()
        )

    assert evidence(1e3) < 5.0
    assert evidence(1e6) < 5.0


def test_factors_have_mean_one_for_levels_that_differ_as_the_width_says() -> None:
    draws = examples(20_000)
    rng = np.random.default_rng(1)
    rest = np.repeat(np.array([[950.0], [50.0]]), draws, axis=1)
    width = np.full(draws, 0.1)
    precision = 1.0 / (0.1 * 0.05 * 0.95) - 1.0
    levels = rng.beta(precision * 0.05, precision * 0.95, draws)
    own, now = (rng.binomial(60, levels).astype(np.float64) for _ in range(2))

    factors = np.exp(
        level_increments(
            rate_bets(),
            rest,
            np.stack([60 - own, own]),
            np.stack([60 - now, now]),
            width + same_margin(rate_bets(), 0.0, draws)[None],
            same_margin(rate_bets(), 0.0, draws)[None],
        )[0]
    )

    mild = np.abs(rate_bets().deltas) < 1.0  # the mean of a large bet is made by draws that do not come
    error = factors[mild].std(axis=1) / math.sqrt(draws)
    assert np.all(np.abs(factors[mild].mean(axis=1) - 1.0) <= 4 * error)


def test_the_season_grows_with_what_is_seen() -> None:
    rng, whole = np.random.default_rng(2), np.ones((168, 3), np.bool_)
    wave = np.sin(2 * np.pi * np.arange(24) / 24)
    swing, units = np.array([0.0, 0.6, 0.0]), np.array([0.0, 0.0, 0.7])
    n = np.round(500 * np.exp(np.outer(wave, units)))
    hours = np.zeros((168, 2, 3))
    hours[:24, 1] = rng.binomial(n.astype(np.int64), 0.2 * np.exp(np.outer(wave, swing)) / 1.1)
    hours[:24, 0] = n - hours[:24, 1]

    season, seen = season_of(_STATISTIC, hours, whole)

    assert season[0] < USUAL_SEASON < season[1]
    assert season[2] > 1.5 * USUAL_SEASON
    assert np.allclose(seen, 24 / 6, rtol=0.3)


def test_a_series_gets_the_same_bits_alone_and_among_others() -> None:
    rng = np.random.default_rng(5)
    table = category_bets(("a", "b", "c"))
    rest, own, counts = (rng.integers(low, 90, (4, 700)).astype(np.float64) for low in (1, 0, 0))
    each = (2, len(table.shapes), 2, 700)
    width, margins = rng.uniform(0.01, 0.3, each), rng.uniform(0.0, 0.4, each)

    together = level_increments(table, rest, own, counts, width, margins)
    for column in (0, 399, 699):
        one = slice(column, column + 1)
        alone = level_increments(table, rest[:, one], own[:, one], counts[:, one], width[..., one], margins[..., one])
        assert alone[..., 0].tobytes() == together[..., column].tobytes()


@pytest.mark.slow
def test_an_alert_ends_when_the_rate_is_back_on_the_first_days() -> None:
    """One unit a minute: 1,500 at 5 %, 400 at 30 %, then 2,000 at 5 %, where 1.25 times the odds took 10,000."""
    fleet, rng = Fleet(FleetConfig(rate_bets()), 10), np.random.default_rng(8)
    fleet.state["bad_side"][:] = 1
    fleet.state["ticket_threshold"][:], fleet.state["page_threshold"][:] = (
        threshold(43_200, 4, 8),
        threshold(43_200, 4, 0.8),
    )
    events: dict[Event, set[int]] = {event: set() for event in Event}
    for i in range(1500 + 400 + 2000):
        tick = _MONDAY + 2 * i
        bad = (rng.random(10) < (0.3 if 1500 <= i < 1900 else 0.05)).astype(np.float64)
        fleet.fold(tick, np.stack([1.0 - bad, bad]), None, hour_of_week(tick, "UTC"))
        for step in advance_phases(fleet, tick):
            events[step.event].add(step.row)

    assert events[Event.PAGED] == set(range(10))
    assert len(events[Event.RECOVERED]) >= 5
