"""Detectors of numbers and labels: shifts within the limits are found, dated, named, and given a direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.evaluation.value_detectors import one_each
from gapwatch.streams.detectors.snapshot import snapshot_headed
from tests.streams.alerting.breaking_stream import HOURS, STEP, forget_snapshots, keep
from tests.streams.alerting.builders import MONDAY, at, kept_at
from tests.streams.alerting.value_builders import (
    CHANGE,
    LOWER_IS_BETTER,
    NOT_KNOWN,
    OF_THE_LIMIT,
    OF_THE_MEAN,
    intents,
    numbered,
    numbers_slice,
    portfolio,
    seconds,
    together,
)

_TOLD = """SELECT metric, attribution->>'watched', severity, state, attribution->>'verdict', attribution->>'went_up'
    FROM alerts ORDER BY rowid"""


def kept(path: Path, made: list[ScoredSlice], said: Portfolio) -> ShiftWatch:
    with Store.open(path, create=True) as store:
        watch = ShiftWatch.open(store, [said])
        for scored in made:
            keep(store, watch, scored)
    return watch


def told(path: Path, sql: str = _TOLD) -> list[Any]:
    with Store.open(path) as store:
        return store.query(sql)


def test_latencies_that_double_within_their_limit_page_where_larger_is_confirmed_as_worse(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    kept(path, seconds(2.0), portfolio(OF_THE_MEAN))
    rows = told(path)
    ((since, first, last, example, before, after),) = told(
        path,
        """SELECT change_at, change_from, change_to, attribution->'examples'->0->>'observed',
            (attribution->'values'->>'before')::DOUBLE, (attribution->'values'->>'after')::DOUBLE
        FROM shifts JOIN alerts USING (shift_id) WHERE severity = 'page'""",
    )

    assert ("seconds", "numbers", "page", "open", "worse", "true") in rows
    assert first <= at(CHANGE) <= last
    assert abs((since - at(CHANGE)).total_seconds()) <= 600
    assert before < after and float(example) > before


@pytest.mark.parametrize(
    ("said", "severity", "verdict"),
    [
        pytest.param(portfolio(OF_THE_LIMIT), "ticket", "worse", id="by the limit"),
        pytest.param(portfolio(), "ticket", "worse", id="by the claim", marks=pytest.mark.slow),
        pytest.param(portfolio(NOT_KNOWN), "ticket", "unknown", id="nobody knows", marks=pytest.mark.slow),
        pytest.param(portfolio(facts=LOWER_IS_BETTER), "ticket", "worse", id="by a fact", marks=pytest.mark.slow),
    ],
)
def test_the_bad_direction_of_numbers(tmp_path: Path, said: Portfolio, severity: str, verdict: str) -> None:
    kept(tmp_path / "s.duckdb", seconds(2.0), said)

    assert told(tmp_path / "s.duckdb") == [("seconds", "numbers", severity, "open", verdict, "true")]


def test_numbers_that_get_better_are_a_note(tmp_path: Path) -> None:
    kept(tmp_path / "s.duckdb", seconds(0.5), portfolio(OF_THE_MEAN))

    assert told(tmp_path / "s.duckdb") == [("seconds", "numbers", "note", "noted", "better", "false")]


def test_an_answer_relabels_a_past_shift_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    kept(path, seconds(2.0), portfolio(NOT_KNOWN))
    with Store.open(path) as store:
        ShiftWatch.open(store, [portfolio(NOT_KNOWN)]).save(store)
        ShiftWatch.open(store, [portfolio(NOT_KNOWN, facts=LOWER_IS_BETTER)])
        labels = store.query("SELECT kind, verdict FROM shifts ORDER BY rowid")
        states = store.query("SELECT state FROM alerts ORDER BY rowid")

    assert labels == [("shift", "unknown"), ("shift", "worse")]
    assert states == [("open",)]


def test_steady_numbers_are_silent(tmp_path: Path) -> None:
    kept(tmp_path / "s.duckdb", seconds(1.0, steps=3 * HOURS), portfolio())

    assert told(tmp_path / "s.duckdb") == []


def test_numbers_of_sessions_are_skipped(tmp_path: Path) -> None:
    watch = kept(tmp_path / "s.duckdb", seconds(2.0, sessions=True), portfolio(OF_THE_MEAN))

    assert told(tmp_path / "s.duckdb") == []
    assert watch.detectors[0].rows.watched["numbers"] == []


def test_a_mix_of_labels_that_moves_is_a_ticket_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    kept(path, intents({"billing": 0.35, "refund": 0.3, "outage": 0.35}), portfolio())
    sql = "SELECT attribution->>'$.moved_labels[0]', attribution->>'$.labels[0].value' FROM alerts"

    assert told(path) == [("intent", "labels", "ticket", "open", "unknown", told(path)[0][5])]
    assert set(told(path, sql)[0]) <= {"billing", "outage"}


def test_ten_equal_labels_a_trace_are_one_observation(tmp_path: Path) -> None:
    one = kept(tmp_path / "a.duckdb", intents({"billing": 0.5, "refund": 0.3, "outage": 0.2}), portfolio())
    ten = kept(tmp_path / "b.duckdb", intents({"billing": 0.5, "refund": 0.3, "outage": 0.2}, 10), portfolio())

    assert snapshot_headed(ten.detectors[0].values.labels) == snapshot_headed(one.detectors[0].values.labels)


def test_one_good_and_one_bad_label_are_a_failure_rate() -> None:
    kinds = {metric.name: metric for metric in portfolio().metrics}

    assert set(kinds) == {"seconds", "intent", "tier"}
    assert one_each(10, {"a": 3, "b": 4}) == {"a": 3, "b": 4}
    assert one_each(3, {"a": 5, "b": 5, "c": 1}) == {"a": 2, "b": 1}
    assert one_each(1, {"a": 1, "b": 2}) == {"b": 1}


@pytest.mark.slow
def test_values_refolded_give_the_same_state_and_alerts(tmp_path: Path) -> None:
    """Two slices of one five minutes, one of them late; stopped after every fourth, and once without its snapshots."""
    rng = np.random.default_rng(3)
    made = seconds(3.0, steps=2 * HOURS)
    late = numbers_slice(0, {MONDAY + STEP * 20: (2 * rng.lognormal(0, 0.5, 30)).tolist()})
    mixed = intents({"billing": 0.35, "refund": 0.3, "outage": 0.35})
    every = [together(*pair) for pair in zip(made, mixed, strict=True)]
    every.insert(11, late)
    paths = [tmp_path / "whole.duckdb", tmp_path / "killed.duckdb"]
    states = []
    for path in paths:
        number = 0
        while number < len(every):
            with Store.open(path, create=True) as store:
                watch = ShiftWatch.open(store, [portfolio()])
                for _ in range(len(every) if path is paths[0] else 4):
                    if number == len(every):
                        break
                    moment = kept_at(number)
                    slice_ = numbered(every[number], number)
                    taken = watch.take(slice_, moment)
                    store.write_slice(taken.scored, moment, also=taken.steps)
                    number += 1
        states.append(watch.packed())
    with Store.open(paths[0]) as store:
        store.record("forgetting", forget_snapshots)
        refolded = ShiftWatch.open(store, [portfolio()])

    assert len(told(paths[0])) >= 2
    assert states[1] == states[0] == refolded.packed()
    same = "SELECT * EXCLUDE (seq) FROM alerts ORDER BY rowid"
    assert told(paths[1], same) == told(paths[0], same)
