from __future__ import annotations

import numpy as np
import pytest

from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.contexts import TICKS_A_DAY, hour_of_week
from gapwatch.streams.detectors.evidence import mean_evidence
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.fleet_config import FleetConfig
from gapwatch.streams.detectors.lifecycle import Event, Evidence, Phase, advance, event_of
from gapwatch.streams.detectors.watch import Transition, accept, advance_phases, turn
from tests.streams.detectors.builders import plain, rates, ticks


def fold(fleet: Fleet, first: int, counts: np.ndarray) -> list[Transition]:
    events = []
    for bucket, tick in enumerate(counts, first):
        fleet.fold(bucket, tick)
        events += advance_phases(fleet, bucket)
    return [e for e in events if e.event not in (Event.SUSPECTED, Event.CLEARED)]


def names(events: list[Transition]) -> list[str]:
    return [e.event.value for e in events]


def calm(series: int = 1, bad_side: int = 1, page: float = np.inf, **more: object) -> Fleet:
    """A series at 10 % for 300 ticks of 20 units."""
    fleet = rates(plain(ring_buckets=64, ring_hours=64, **more), series, 1e6, bad_side)
    fleet.state["page_threshold"][:] = page
    assert fold(fleet, 1, ticks(0.1, 20, 300, series, 1)) == []
    return fleet


def test_an_incident_fires_once_and_resolves_once() -> None:
    #  10 %      30 %          10 %
    #  |--------|^ticket------|------^recovered---|
    fleet = calm(20)
    during = fold(fleet, 301, ticks(0.3, 20, 300, 20, 2))
    after = fold(fleet, 601, ticks(0.1, 20, 600, 20, 3))

    assert names(during) == ["ticketed"] * 20
    assert names(after) == ["recovered"] * 20


def test_the_baseline_does_not_learn_an_incident() -> None:
    fleet = calm(20)
    fold(fleet, 301, ticks(0.4, 20, 300, 20, 4))

    pooled = fleet.state["pooled"][0]
    assert pooled[1] / pooled.sum(axis=0) == pytest.approx(np.full(20, 0.1), abs=0.015)
    assert pooled.sum(axis=0) == pytest.approx(np.full(20, 6000), rel=0.02)


def test_a_second_incident_takes_nothing_out_that_was_never_in() -> None:
    fleet = calm(10)
    fold(fleet, 301, ticks(0.3, 20, 100, 10, 20))
    fold(fleet, 401, ticks(0.1, 20, 500, 10, 21))
    before = fleet.state["pooled"].sum(axis=(0, 1))
    second = fold(fleet, 901, ticks(0.3, 20, 60, 10, 22))

    assert names(second) == ["ticketed"] * 10
    assert np.all(np.abs(fleet.state["pooled"].sum(axis=(0, 1)) - before) <= 20 * 130)
    pooled = fleet.state["pooled"][0]
    assert pooled[1] / pooled.sum(axis=0) == pytest.approx(np.full(10, 0.1), abs=0.02)


def test_a_success_rate_that_falls_pages_as_a_failure_that_grew() -> None:
    fleet = rates(plain(ring_buckets=64, ring_hours=64, margins=True), 10, 1e6, -1)
    fleet.state["page_threshold"][:] = 1e7
    assert fold(fleet, 1, ticks(0.95, 20, 300, 10, 23)) == []
    events = fold(fleet, 301, ticks(0.8, 20, 200, 10, 24))

    assert {e.row for e in events if e.event is Event.PAGED} == set(range(10))
    first = next(e.change for e in events if e.change is not None)
    assert first.ratio.upper < 1.0 < first.growth_lower
    assert first.bad_per_hour > 0


def test_accepting_makes_the_new_level_the_baseline() -> None:
    fleet = calm()
    fold(fleet, 301, ticks(0.3, 20, 200, 1, 5))
    said = accept(fleet, 0, 500)
    after = fold(fleet, 501, ticks(0.3, 20, 300, 1, 6))

    assert said.event is Event.ACCEPTED
    assert after == []
    pooled = fleet.state["pooled"][0, :, 0]
    assert pooled[1] / pooled.sum() == pytest.approx(0.3, abs=0.03)
    # The hour in which it changed is mixed and does not count.
    assert 8_000 <= pooled.sum() <= 10_000
    with pytest.raises(ValueError, match="no open alert"):
        accept(fleet, 0, 900)


def test_an_improvement_is_a_note_and_never_an_alert() -> None:
    fleet = calm(50)
    events = fold(fleet, 301, ticks(0.03, 20, 300, 50, 7))

    assert set(names(events)) == {"improved"}
    assert {e.row for e in events} == set(range(50))
    assert all(e.change is not None and e.change.side == -1 for e in events)
    assert np.all(fleet.state["phase"] < Phase.TICKET)


@pytest.mark.parametrize("rate", [0.3, 0.01])
def test_an_unverified_direction_is_ticketed_either_way_and_never_paged(rate: float) -> None:
    fleet = calm(10, 0, 1e6, margins=True)
    events = fold(fleet, 301, ticks(rate, 20, 300, 10, 8))

    assert set(names(events)) == {"ticketed"}
    assert len(events) == 10


def test_a_large_verified_change_pages_and_a_small_one_stays_a_ticket() -> None:
    fleet = calm(20, 1, 1e7, margins=True)
    fleet.state["min_ratio"][:] = 1.25
    fleet.state["min_bad_per_hour"][:] = 1
    events = fold(fleet, 301, ticks(np.repeat([0.4, 0.12], 10), 20, 400, 20, 9))

    paged = {e.row for e in events if e.event is Event.PAGED}
    assert paged == set(range(10))


def test_on_the_first_day_of_a_season_what_is_large_still_pages() -> None:
    fleet = rates(plain(seasonal=True, context_units=50, ring_buckets=128, ring_hours=32, margins=True), 10, 1e6)
    fleet.state["page_threshold"][:] = 1e7
    start = 4 * TICKS_A_DAY
    events = []
    for i, tick in enumerate(np.concatenate([ticks(0.05, 40, 400, 10, 27), ticks(0.4, 40, 100, 10, 28)])):
        fleet.fold(start + i, tick, hour=hour_of_week(start + i, "UTC"))
        events += advance_phases(fleet, start + i)

    assert {e.row for e in events if e.event is Event.PAGED} == set(range(10))
    assert all(abs(e.change.change_bucket - start - 400) <= 2 for e in events if e.change is not None)


def test_too_few_bad_units_an_hour_do_not_page() -> None:
    fleet = calm(5, 1, 1e7, margins=True)
    fleet.state["min_bad_per_hour"][:] = 1e6
    events = fold(fleet, 301, ticks(0.4, 20, 200, 5, 10))

    assert set(names(events)) == {"ticketed"}


def test_a_question_comes_after_seven_days_and_once() -> None:
    fleet = calm()
    fold(fleet, 301, ticks(0.4, 20, 50, 1, 11))
    later = fold(fleet, 350 + 7 * TICKS_A_DAY, ticks(0.4, 20, 30, 1, 12))

    assert names(later) == ["asked"]


def test_turning_the_direction_closes_and_keeps_what_was_learned() -> None:
    fleet = calm()
    fold(fleet, 301, ticks(0.3, 20, 100, 1, 13))
    learned = fleet.state["pooled"].copy()

    turn(fleet, np.array([0]), -1)

    assert fleet.state["phase"][0] == Phase.CALM
    assert fleet.state["evidence"].max() == 0.0
    assert np.array_equal(fleet.state["pooled"], learned)
    assert names(fold(fleet, 401, ticks(0.3, 20, 100, 1, 14)))[0] == "improved"


@pytest.mark.parametrize(("before", "after"), [(0.05, 0.1), (0.05, 0.15), (0.2, 0.3), (0.01, 0.04)])
def test_a_ticket_comes_with_the_evidence_and_not_later(before: float, after: float) -> None:
    fleet = rates(plain(ring_buckets=256, ring_hours=16), 20)
    fold(fleet, 1, ticks(before, 50, 140, 20, 25))
    late, reached = 0, np.zeros(20, np.bool_)
    for bucket, tick in enumerate(ticks(after, 10, 100, 20, 26), 141):
        fleet.fold(bucket, tick)
        reached |= mean_evidence(fleet.config.table, fleet.state["evidence"], 1) >= 1e6
        advance_phases(fleet, bucket)
        late += int((reached & (fleet.state["phase"] < Phase.TICKET)).sum())

    assert reached.sum() >= 15
    assert late == 0


def test_a_series_that_never_fails_is_never_suspect() -> None:
    fleet = rates(plain(burn_in_units=100), 1, 1e3, 0)
    for bucket in range(1, 1000):
        fleet.fold(bucket, np.array([[100.0], [0.0]]))
        assert advance_phases(fleet, bucket) == []


def test_learning_series_have_no_baseline_yet() -> None:
    fleet = rates(plain(burn_in_units=100), 2)
    fleet.fold(1, np.array([[99.0, 100.0], [0.0, 1.0]]))

    assert fleet.has_baseline(np.zeros(2, np.int64)).tolist() == [False, True]


def evidence(seen: float, bad: float = 0.0, large: bool = True, recovery: float = 0.0, units: float = 99.0) -> Evidence:
    values = (np.array([x]) for x in (seen, bad, 1e6, 1e8))
    return Evidence(*values, np.array([large]), np.array([recovery]), np.array([units]))


@pytest.mark.parametrize(
    ("before", "seen", "after"),
    [
        (Phase.CALM, evidence(1e3), Phase.CALM),
        (Phase.CALM, evidence(1e4), Phase.SUSPECT),
        (Phase.CALM, evidence(1e4, units=5e3), Phase.CALM),
        (Phase.SUSPECT, evidence(1e3), Phase.CALM),
        (Phase.SUSPECT, evidence(1e9), Phase.SUSPECT),
        (Phase.SUSPECT, evidence(1e6, 1e6), Phase.TICKET),
        (Phase.CALM, evidence(1e9, 1e9), Phase.PAGE),
        (Phase.CALM, evidence(1e9, 1e9, large=False), Phase.TICKET),
        (Phase.TICKET, evidence(0.0), Phase.TICKET),
        (Phase.TICKET, evidence(1e9, 1e8), Phase.PAGE),
        (Phase.PAGE, evidence(0.0), Phase.PAGE),
        (Phase.PAGE, evidence(1e9, 1e9, recovery=1e6), Phase.CALM),
        (Phase.CALM, evidence(0.0, recovery=1e9), Phase.CALM),
    ],
)
def test_phases_follow_the_evidence(before: Phase, seen: Evidence, after: Phase) -> None:
    assert advance(np.array([before], np.int8), seen).tolist() == [after]


def test_every_step_has_a_name() -> None:
    assert event_of(Phase.CALM, Phase.CALM) is None
    assert event_of(Phase.CALM, Phase.SUSPECT) is Event.SUSPECTED
    assert event_of(Phase.SUSPECT, Phase.CALM) is Event.CLEARED
    assert event_of(Phase.PAGE, Phase.CALM) is Event.RECOVERED
    assert event_of(Phase.TICKET, Phase.PAGE) is Event.PAGED
    assert event_of(Phase.SUSPECT, Phase.TICKET) is Event.TICKETED


def first_morning(rate_later: float) -> list[Transition]:
    """One unit a tick from Monday 00:00; 1 % until 05:00, then another rate, in an hour that was never seen."""
    fleet = Fleet(FleetConfig(rate_bets()), 20)
    fleet.state["bad_side"][:], fleet.state["ticket_threshold"][:], fleet.state["page_threshold"][:] = 1, 1e5, 1e6
    monday = 4 * TICKS_A_DAY
    events = []
    for i, tick in enumerate(np.concatenate([ticks(0.01, 1, 600, 20, 40), ticks(rate_later, 1, 100, 20, 41)])):
        fleet.fold(monday + i, tick, None, hour_of_week(monday + i, "UTC"))
        events += advance_phases(fleet, monday + i)
    return [e for e in events if e.event in (Event.TICKETED, Event.PAGED)]


def test_a_change_far_beyond_any_season_pages_on_the_first_morning() -> None:
    events = first_morning(0.5)

    paged = [e for e in events if e.event is Event.PAGED]
    assert sorted(e.row for e in paged) == list(range(20))
    off = [abs(e.change.change_bucket - 4 * TICKS_A_DAY - 600) for e in events if e.change is not None]
    assert len(off) == 20
    assert np.median(off) <= 3


def test_a_possible_season_raises_no_alarm_on_the_first_morning() -> None:
    assert first_morning(0.03) == []


def test_a_series_that_recovers_to_better_than_ever_does_both_in_turn() -> None:
    """Its evidence of being better reaches the threshold while the alert is open, in the tick that closes it too."""
    fleet = calm(30)
    fold(fleet, 301, ticks(0.25, 20, 60, 30, 31))
    events = fold(fleet, 361, ticks(0.01, 20, 400, 30, 32))

    assert names(events).count("recovered") == 30
    for row in range(30):
        mine = [e for e in events if e.row == row]
        assert mine[0].event is Event.RECOVERED
        assert all(e.bucket > mine[0].bucket for e in mine[1:])


def test_a_series_that_never_fails_is_calm_however_many_units_it_has() -> None:
    """M of Shiryaev and Roberts is about n under no change, so its size alone is no evidence."""
    fleet = rates(plain(ring_buckets=64, ring_hours=64), 1, 1e5)
    never = np.zeros((2_000, 2, 1))
    never[:, 0] = 50.0
    phases = set()
    for bucket, tick in enumerate(never, 1):
        fleet.fold(bucket, tick)
        advance_phases(fleet, bucket)
        phases.add(int(fleet.state["phase"][0]))
    assert mean_evidence(fleet.config.table, fleet.state["evidence"], 1)[0] > 1e5 / 100
    assert phases == {Phase.CALM}


def test_a_series_that_began_to_fail_is_suspect_before_its_ticket() -> None:
    fleet = rates(plain(ring_buckets=64, ring_hours=64), 1, 1e6)
    fold(fleet, 1, ticks(0.0, 20, 300, 1, 1))
    phases = []
    for bucket, tick in enumerate(ticks(0.02, 20, 60, 1, 2), 301):
        fleet.fold(bucket, tick)
        advance_phases(fleet, bucket)
        phases.append(int(fleet.state["phase"][0]))
    assert phases == sorted(phases) and {Phase.CALM, Phase.SUSPECT, Phase.TICKET} <= set(phases)
