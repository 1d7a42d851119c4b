"""Dates of changes in sessions: a session is folded when it ends, and its change is dated by its traces."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_status import series_states
from gapwatch.streams.alerting.rules.alert_rule import budget_of, rules_of
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceContent
from gapwatch.streams.detectors.sessions import OpenSession, SessionTimes
from tests.depth import fewest
from tests.streams.alerting.builders import MONDAY, portfolio, units_slice
from tests.streams.alerting.session_streams import SHAPES, dates


def test_a_shift_in_sessions_is_dated_by_their_traces() -> None:
    for name in ("dense", "busy"):
        shape = replace(SHAPES[name], shift=1800.0)
        found = dates(shape, range(3))

        assert found.held == 3
        assert found.median_error < 1 + shape.ticks_to_a_failure


@pytest.mark.slow
def test_the_interval_of_the_date_holds_the_shift() -> None:
    """Each shape keeps the level of 95 %, and so do all together. Figures: `python -m tests.benchmarks.incidents`."""
    # Errors of two sparse days differ from 0 to 40 ticks: ten tell nothing of their median.
    seeds = {name: 40 if name == "sparse" else 10 for name in SHAPES}
    found = {name: dates(shape, range(seeds[name])) for name, shape in SHAPES.items()}

    assert [name for name, one in found.items() if one.held < fewest(0.95, seeds[name])] == []
    assert sum(one.held for one in found.values()) >= fewest(0.95, sum(seeds.values()))
    assert [name for name, one in found.items() if one.median_error >= 1 + SHAPES[name].ticks_to_a_failure] == []
    assert sum(one.early for one in found.values()) == 0


def test_a_series_is_monitored_from_the_first_trace_of_a_session_on() -> None:
    said = portfolio()
    lane = LaneDetectors(rules_of([said]), {said.pipeline: budget_of(said)})
    scored = units_slice(0, [(MONDAY, 1, 0, 0)], sessions=[(MONDAY, "s", 1, 0)])
    lane.add(SliceContent(scored.tables["ticks"], scored.tables["session_ticks"]), OpenTicks.between(MONDAY - 1, None))
    lane.close(MONDAY + 9)

    phases = {state.watched.kind: state.phase for state in series_states(lane)}
    assert phases["sessions"] == "learning"


def test_old_traces_are_summed_by_five_minutes_and_restored_as_they_were() -> None:
    times = SessionTimes()
    for tick in range(2_000):
        times.add(OpenSession.from_json([[tick, 1, 0], [tick + 1, 1, 1]]))
    units = times.with_open([OpenSession.from_json([[3_000, 2, 1]])])
    again = SessionTimes.from_json(json.loads(json.dumps(times.as_json())))

    assert (units.good.sum(), units.bad.sum()) == pytest.approx((1_000.5, 1_000.5))
    assert units.last[0] - units.first[0] == 9
    assert (units.first[-1], units.good[-1], units.bad[-1]) == (3_000, 0.5, 0.5)
    assert again == times
