"""Dates of changes in sessions: a session is folded when it ends, and its change is dated by its traces."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_status import series_states
from gapwatch.streams.alerting.rules.alert_rule import budget_of, rules_of
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceContent
from gapwatch.streams.detectors.sessions import OpenSession, SessionTimes
from tests.streams.alerting.builders import MONDAY, portfolio, units_slice
from tests.streams.alerting.session_streams import SHAPES, Shape, first_change, sessions_of


def dates(shape: Shape, seeds: range) -> tuple[float, float]:
    """Return the share of 95 % intervals that hold the shift, and the median error of the date in ticks."""
    holds, errors = [], []
    for seed in seeds:
        shift, units = sessions_of(shape, seed)
        found = first_change(units)
        assert found is not None
        tick, change = found
        truth = MONDAY + shift / 30
        assert tick >= truth, "a false alarm"
        holds.append(change.from_bucket <= truth <= change.to_bucket + 1)
        errors.append(abs(change.change_bucket - truth))
    return float(np.mean(holds)), float(np.median(errors))


def test_a_shift_in_sessions_is_dated_by_their_traces() -> None:
    for name in ("dense", "busy"):
        coverage, error = dates(replace(SHAPES[name], shift=1800.0), range(3))

        assert coverage == 1.0
        assert error < 1 + SHAPES[name].ticks_to_a_failure


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SHAPES))
def test_the_interval_of_the_date_holds_the_shift(name: str) -> None:
    coverage, error = dates(SHAPES[name], range(40))

    assert coverage >= 0.88
    assert error < 1 + SHAPES[name].ticks_to_a_failure


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
