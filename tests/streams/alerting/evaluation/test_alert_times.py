"""How long after a shift its alert opens, and how long after its end the alert is resolved."""

from __future__ import annotations

import math

import numpy as np

from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_status import series_states
from gapwatch.streams.alerting.rules.alert_rule import budget_of, rules_of
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SeriesKey, SessionUnits, SliceUnits
from tests.streams.alerting.builders import MONDAY, portfolio

_SERIES = SeriesKey("shop", "production", "agent", "parses", "v1", "", "e1")
#: Shift and end of it, in ticks.
BEGIN, END = 100, 140


def rate_at(tick: int, before: float, during: float) -> float:
    return during if BEGIN <= tick < END else before


def told(ticks: list[SliceUnits]) -> list[tuple[int, str, str]]:
    """Fold units tick by tick; return the tick, quantity and event of each finding."""
    said = portfolio()
    lane, found = LaneDetectors(rules_of([said]), {said.pipeline: budget_of(said)}), []
    for units in ticks:
        lane.rates.add(units, OpenTicks.between(MONDAY - 1, None))
        for one in lane.close(int(units.ticks[0]) - 1):
            assert one.transition is not None
            found.append((one.tick - MONDAY, one.watched.kind, one.transition.event.value))
    return found


def units_at(tick: int, counts: tuple[int, int, int, int], sessions: list[SessionUnits]) -> SliceUnits:
    which, at = np.zeros(1, np.int64), np.array([MONDAY + tick])
    return SliceUnits([_SERIES], which, at, np.array(counts, np.int64)[:, None], sessions)


def calls(seed: int) -> list[SliceUnits]:
    """Sessions of one call with six traces, 100 in a tick; 6.7 % fail, 26 % during the shift."""
    rng = np.random.default_rng(seed)
    return [
        units_at(
            tick, (0, 0, 0, 600),
            [
                SessionUnits(_SERIES, MONDAY + tick, f"s{tick}-{i}", 6, int(bad))
                for i, bad in enumerate(rng.binomial(6, rate_at(tick, 0.067, 0.26), 100))
            ],
        )
        for tick in range(220)
    ]  # fmt: skip


def test_a_shift_in_short_sessions_is_told_within_minutes_and_resolved_within_ten() -> None:
    for seed in range(2):
        (opened, *_, began), (closed, *_, ended) = told(calls(seed))

        assert (began, ended) == ("paged", "recovered")
        assert BEGIN <= opened <= BEGIN + 6
        assert END < closed <= END + 20


def test_an_alert_on_undecided_traces_is_resolved_when_traces_are_decided_again() -> None:
    rng = np.random.default_rng(3)
    units = []
    for tick in range(220):
        unknown, bad = (int(rng.binomial(30, rate)) for rate in (rate_at(tick, 0.0, 1.0), 0.05))
        bad = min(bad, 30 - unknown)
        units.append(units_at(tick, (30 - unknown - bad, bad, unknown, 0), []))

    (opened, *blind), (closed, *decided) = told(units)

    assert (blind, decided) == (["unknown", "ticketed"], ["unknown", "recovered"])
    assert opened <= BEGIN + 3
    assert END < closed <= END + 15


def test_an_alert_stays_open_while_half_of_the_traces_are_undecided() -> None:
    units = [units_at(tick, (30, 0, 0, 0) if tick < BEGIN else (15, 0, 15, 0), []) for tick in range(600)]

    assert [event for *_, event in told(units)] == ["ticketed"]


def test_a_metric_that_never_failed_shows_no_evidence_however_many_traces_it_has() -> None:
    """M sums over the starts of a change: without a failure it only counts them."""
    said = portfolio()
    lane = LaneDetectors(rules_of([said]), {said.pipeline: budget_of(said)})
    for tick in range(100):
        lane.rates.add(units_at(tick, (600, 0, 0, 0), []), OpenTicks.between(MONDAY - 1, None))
        lane.close(MONDAY + tick - 1)

    states = {one.watched.kind: one for one in series_states(lane)}

    assert {one.phase for one in states.values()} == {"calm"}
    assert {one.evidence_log10 for one in states.values()} == {-math.inf}
