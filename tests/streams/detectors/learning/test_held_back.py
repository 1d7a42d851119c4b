"""Units under a suspicion: out of the baseline while it lasts, and all of them back where it is over."""

from __future__ import annotations

import numpy as np
import pytest

from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, TICKS_AN_HOUR, hour_of_week
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.learning.held_back import LONGEST_HOLD, hold, release
from gapwatch.streams.detectors.lifecycle import Event, Phase
from gapwatch.streams.detectors.watch import advance_phases
from tests.streams.detectors.builders import plain, rates

_MONDAY = 4 * TICKS_A_DAY


def folded(fleet: Fleet, ticks: range, rate: float, units: int = 10, seed: int = 1) -> list[Event]:
    rng, events = np.random.default_rng(seed), []
    for tick in ticks:
        k = rng.binomial(units, rate, fleet.series).astype(np.float64)
        fleet.fold(tick, np.stack([units - k, k]), None, hour_of_week(tick, "UTC"))
        events += [step.event for step in advance_phases(fleet, tick)]
    return events


@pytest.mark.parametrize("since", [_MONDAY + 3 * TICKS_AN_HOUR, _MONDAY + 3 * TICKS_AN_HOUR + 77])
def test_a_hold_that_is_released_changes_no_count(since: int) -> None:
    fleet = rates(plain(seasonal=True, ring_buckets=64, ring_hours=64), 1, 1e12)
    folded(fleet, range(_MONDAY, _MONDAY + 4 * TICKS_AN_HOUR), 0.1)
    other = rates(plain(seasonal=True, ring_buckets=64, ring_hours=64), 1, 1e12)
    folded(other, range(_MONDAY, _MONDAY + 4 * TICKS_AN_HOUR), 0.1)

    hold(fleet, 0, since)
    assert fleet.state["pooled"].sum() == 3 * TICKS_AN_HOUR * 10
    more = np.array([[7.0], [3.0]])
    for tick in range(200):
        for one in (fleet, other):
            at = _MONDAY + 4 * TICKS_AN_HOUR + tick
            one.fold(at, more, None, hour_of_week(at, "UTC"))
    assert fleet.state["pooled"].sum() == 3 * TICKS_AN_HOUR * 10
    release(fleet, 0)

    for name in ("pooled", "hours", "own"):
        assert fleet.state[name].tobytes() == other.state[name].tobytes(), name


def test_a_hold_that_would_empty_the_baseline_is_none() -> None:
    fleet = rates(plain(burn_in_units=100), 1, 1e12)
    folded(fleet, range(_MONDAY, _MONDAY + 100), 0.1)

    hold(fleet, 0, _MONDAY)
    assert fleet.state["held_since"][0] == 0
    assert fleet.state["pooled"].sum() == 1000


def test_a_suspected_change_is_not_learned_and_a_small_one_is_in_the_end() -> None:
    fleet = rates(plain(ring_buckets=256, ring_hours=256), 1, 1e30)  # nothing is ever told
    folded(fleet, range(_MONDAY, _MONDAY + 1000), 0.1)
    folded(fleet, range(_MONDAY + 1000, _MONDAY + 1400), 0.1, seed=2)
    fleet.state["ticket_threshold"][:] = 1e8
    fleet.state["phase"][:], fleet.state["evidence"][:4] = Phase.SUSPECT, 1e7
    fleet.state["rise_bucket"][:] = _MONDAY + 1000
    fleet.state["rise_units"][:], fleet.state["rise"][:] = 10, 9.0
    advance_phases(fleet, _MONDAY + 1400)
    assert fleet.state["held_since"][0] > 0
    fleet.state["evidence"][:4] = 1e7
    advance_phases(fleet, _MONDAY + 1000 + LONGEST_HOLD + 1)
    assert fleet.state["held_since"][0] == 0
    assert fleet.state["pooled"].sum() == 1400 * 10


def test_an_alert_takes_the_incident_out_of_the_baseline_once() -> None:
    fleet = rates(plain(ring_buckets=256, ring_hours=256), 20, 1e9)
    folded(fleet, range(_MONDAY, _MONDAY + 600), 0.1)
    events = folded(fleet, range(_MONDAY + 600, _MONDAY + 700), 0.3, seed=3)

    assert events.count(Event.TICKETED) == 20
    assert np.all(fleet.state["held_since"] == 0)
    pooled = fleet.state["pooled"][0]
    assert pooled.sum(axis=0) == pytest.approx(np.full(20, 6000.0), rel=0.02)
    assert pooled[1] / pooled.sum(axis=0) == pytest.approx(np.full(20, 0.1), abs=0.02)


def test_a_bad_release_after_98_conversations_is_told_within_48() -> None:
    """One conversation a minute, 5 % failing and then 45 %, with the configuration of a run."""
    fleet, rng = rates(FleetConfig(rate_bets()), 20, 11_250.0), np.random.default_rng(4)
    told: list[set[int]] = [set(), set()]
    for i in range(146):
        tick = _MONDAY + 2 * i
        bad = (rng.random(20) < (0.05 if i < 98 else 0.45)).astype(np.float64)
        fleet.fold(tick, np.stack([1.0 - bad, bad]), None, hour_of_week(tick, "UTC"))
        told[i >= 98] |= {step.row for step in advance_phases(fleet, tick) if step.event is Event.TICKETED}

    assert told[0] == set()
    assert len(told[1]) >= 16
