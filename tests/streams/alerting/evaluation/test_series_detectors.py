"""Contract of both families of detectors: rates, and values (numbers and labels)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_detectors import SeriesDetectors
from gapwatch.streams.alerting.evaluation.series_status import series_states
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, rules_of
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceContent
from gapwatch.streams.detectors.snapshot import SnapshotError
from tests.streams.alerting.builders import MONDAY, units_slice
from tests.streams.alerting.value_builders import labels_slice, numbers_slice, portfolio

#: Of both families, in ticks of two windows and of an hour later.
TICKS = (MONDAY + 3, MONDAY + 4, MONDAY + 12, MONDAY + 130)
Family = Callable[[LaneDetectors], SeriesDetectors[Any]]
FAMILIES = pytest.mark.parametrize(
    "family", [lambda lane: lane.rates, lambda lane: lane.values], ids=["rates", "values"]
)


def content(scored: ScoredSlice) -> SliceContent:
    return SliceContent(scored.tables["ticks"], scored.tables["session_ticks"])


def contents() -> list[SliceContent]:
    """Units, some of them in a session; numbers; labels."""
    units = units_slice(0, [(tick, 30, 2, 1) for tick in TICKS], metric="seconds", sessions=[(TICKS[0], "s", 2, 1)])
    numbers = numbers_slice(1, {tick: [1.0 + 0.1 * i for i in range(25)] for tick in TICKS[1:]})
    labels = labels_slice(2, {tick: {"billing": 12, "refund": 8} for tick in TICKS}, 20)
    return [content(one) for one in (units, numbers, labels)]


def lane(*slices: SliceContent) -> LaneDetectors:
    said = portfolio()
    made = LaneDetectors(rules_of([said]), {said.pipeline: AlarmBudget(1.0, 10.0)})
    for one in slices:
        made.add(one, OpenTicks.between(MONDAY, None))
    return made


def state(of: LaneDetectors) -> tuple[Any, dict[str, bytes]]:
    return of.as_json(), of.snapshots()


def again(of: LaneDetectors) -> LaneDetectors:
    return LaneDetectors.from_json(*state(of))


@FAMILIES
def test_a_folded_tick_is_no_longer_pending_and_others_are(family: Family) -> None:
    detectors = family(lane(*contents()))
    ready = sorted(detectors.ready(MONDAY + 60))
    waiting = set(detectors.sizes()) - set(ready)
    for tick in ready:
        detectors.fold([tick])

    assert ready and max(ready) <= MONDAY + 60
    assert set(detectors.sizes()) == waiting != set()
    assert all(size > 0 for size in detectors.sizes().values())
    assert list(detectors.ready(MONDAY + 60)) == []


def test_decided_traces_of_sessions_count_in_the_share_of_undecided_ones() -> None:
    sessions = [(MONDAY, f"s{i}", 3, 1) for i in range(50)]
    whole = lane(content(units_slice(0, [(MONDAY, 100, 50, 10)], metric="seconds", sessions=sessions)))
    saved = again(whole)
    for detectors in (whole, saved):
        detectors.close(MONDAY + 10)
        states = {state.watched.kind: state for state in series_states(detectors)}

        assert (states["unknown"].units, states["unknown"].phase) == (160.0, "calm")
        assert states["unknown"].rate == pytest.approx(10 / 160, rel=0.05)
        assert states["sessions"].units == 0
        assert math.isnan(states["sessions"].rate), "no unit, no baseline"


@FAMILIES
def test_an_empty_tick_gives_no_finding(family: Family) -> None:
    whole = lane(*contents())
    before = state(whole)

    assert family(whole).fold([MONDAY + 7]) == []
    assert state(whole) == before


@FAMILIES
def test_each_row_has_one_baseline(family: Family) -> None:
    whole = lane(*contents())
    whole.close(MONDAY + 200)
    detectors = family(whole)

    for name, fleet in detectors.fleets.items():
        learned = detectors.learned(name)
        assert len(learned.units) == fleet.series == len(whole.rows.watched[name])
        assert learned.rates is None or len(learned.rates) == fleet.series


def test_the_families_share_no_fleet_and_no_field() -> None:
    made = lane(*contents())
    parts = [made.rows.as_json(), *(family.as_json() for family in made.families)]
    fleets = [name for family in made.families for name in family.fleets]

    assert len(set().union(*parts)) == sum(map(len, parts))
    assert len(set(fleets)) == len(fleets) and list(made.rows.watched) == fleets


def test_a_lane_goes_on_from_its_state_as_if_nothing_had_happened() -> None:
    one = lane(*contents())
    found: list[list[Finding]] = []
    for closed in (MONDAY + 4, MONDAY + 60, MONDAY + 200):
        other = again(one)
        found.append(one.close(closed))

        assert other.close(closed) == found[-1]
        assert state(other) == state(one) == state(again(one))


def test_the_order_of_slices_within_a_tick_changes_nothing() -> None:
    units, numbers, labels = contents()
    one, other = (lane(*order) for order in ((units, numbers, labels), (units, labels, numbers)))
    for made in (one, other):
        made.close(MONDAY + 200)

    assert one.snapshots() == other.snapshots()


def test_fleets_of_another_version_are_refused() -> None:
    value, snapshots = state(lane(*contents()))

    with pytest.raises(SnapshotError, match="other fleets"):
        LaneDetectors.from_json(value, {**snapshots, "durations": b""})


def test_slices_without_monitored_units_do_not_move_event_time() -> None:
    made = lane()
    empty = content(units_slice(0, []))

    assert made.add(empty, OpenTicks.between(MONDAY, None)) is None
    assert made.close(MONDAY + 200) == []
