"""Stories of docs/decisions/alerting.md that need more than one pipeline, lane or decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.gapwatch_command import gapwatch
from tests.streams.alerting.breaking_stream import HOURS, keep, slices, stream
from tests.streams.alerting.builders import PORTFOLIO, portfolio, units_slice
from tests.streams.alerting.incidents.test_incident_steps import story

#: Hours of calm before the change: the watch needs no day.
CALM = 4 * HOURS
BROKEN = stream([(CALM, 0.02), (HOURS, 0.3)])
FALLBACK = stream([(CALM, 0.1), (HOURS, 0.6), (4 * HOURS, 0.1)])


def opened(path: Path, said: list[Portfolio], lane: str = "live") -> tuple[Store, ShiftWatch]:
    store = Store.open(path, create=True)
    for one in said:
        store.register(one, [])
    return store, ShiftWatch.open(store, said, lane)


def test_two_pipelines_that_break_together_are_two_incidents_of_their_own_members(tmp_path: Path) -> None:
    bakery = parse_portfolio(PORTFOLIO.format(facts="", threshold="").replace(": shop", ": bakery"))
    store, watch = opened(tmp_path / "s.duckdb", [portfolio(), bakery])
    with store:
        for number, begin in enumerate(range(0, len(BROKEN), HOURS)):
            units = BROKEN[begin : begin + HOURS]
            for partition, pipeline in enumerate(("shop", "bakery")):
                keep(store, watch, units_slice(number, units, pipeline=pipeline, partition=partition))
        told = story(store)
        incidents = store.query("SELECT incident_id, pipeline, severity FROM incidents_open ORDER BY pipeline")
        members = store.query("SELECT DISTINCT pipeline, incident_id FROM alerts_open ORDER BY ALL")

    assert [(pipeline, severity) for _, pipeline, severity in incidents] == [("bakery", "page"), ("shop", "page")]
    assert members == sorted((pipeline, incident) for incident, pipeline, _ in incidents)
    assert sorted(one["pipeline"] for one in told.messages if one["news"] in ("opened", "grew")) == ["bakery", "shop"]
    (one, _, _), (other, _, _) = incidents
    assert other in gapwatch("explain", one, "--store", tmp_path / "s.duckdb").out


def test_a_replayed_file_gives_the_same_incidents_and_sends_nothing(tmp_path: Path) -> None:
    def played(lane: str) -> tuple[list[Any], int]:
        path = tmp_path / f"{lane[:4]}.duckdb"
        store, watch = opened(path, [portfolio()], lane)
        with store:
            for scored in slices(BROKEN, HOURS, lane=lane):
                keep(store, watch, scored)
            told = story(store)
        return [(why, state, severity, name) for why, state, severity, _, name in told.steps], len(told.messages)

    live, sent = played("live")
    replayed, silent = played("file:traces.jsonl")
    assert live == replayed and live[0][0] == "opened"
    assert (sent > 0, silent) == (True, 0)


def test_an_answer_keeps_an_acknowledged_incident_open_under_its_new_name_until_it_is_over(tmp_path: Path) -> None:
    """Store, topic and webhook: the webhook is called by the messages that are not quiet."""
    path = tmp_path / "s.duckdb"
    made = slices(FALLBACK, HOURS, metric="fallback_rate")
    broken = CALM // HOURS + 1
    store, watch = opened(path, [portfolio()])
    with store:
        for scored in made[:broken]:
            keep(store, watch, scored)
        watch.save(store)
        ((incident,),) = store.query("SELECT incident_id FROM incidents_open")
    assert gapwatch("ack", incident, "--store", path, "--by", "maria", "--why", "on it").status == 0
    answered = gapwatch("answer", "q-fallback", "lower", "--store", path, "--by", "maria")
    assert answered.status == 0, answered.err
    store, watch = opened(path, [portfolio()])
    with store:
        ((state, what),) = store.query("SELECT state, told->>'what' FROM incidents_open")
        for scored in made[broken:]:
            keep(store, watch, scored)
        told = story(store)
        left = store.query("SELECT count(*) FROM incidents_open")

    assert (state, what) == ("acknowledged", "CASCADE worse")
    whats = [one["told"]["what"] for one in told.messages]
    assert whats[0] == "CASCADE polarity unknown" and whats[-1] == "CASCADE worse"
    assert {one["incident_id"] for one in told.messages} == {incident}
    assert [news for news, _ in told.heard] == ["opened", "acknowledged", "resolved"]
    assert (told.steps[-1][0], told.steps[-1][1]) == ("resolved", "resolved") and left == [(0,)]
