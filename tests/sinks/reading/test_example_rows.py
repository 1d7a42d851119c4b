"""Rows behind an alert, where its environment stands for many."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.scoring.score import score
from gapwatch.scorers.slices.facet_names import AT_ONCE
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.sinks.incidents.worst_rows import worst_rows
from gapwatch.sinks.reading.example_rows import outcome_examples, rows_sql
from gapwatch.sinks.store.store import Store
from tests.streams.run_process import portfolio, trace

TRACES = 2 * AT_ONCE
SINCE, UNTIL = datetime(2026, 3, 1), datetime(2026, 5, 1)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Each trace names an environment of its own; the last one names `other`."""
    loaded = parse_portfolio(portfolio())
    names = [f"e{n}" for n in range(TRACES)] + ["other"]
    values = [trace(7 * n, environment=name) for n, name in enumerate(names)]
    count = len(values)
    records = RecordSlice("live", "traces", 0, 0, count, np.arange(count), pa.array(values, pa.binary()))
    with Store.open(tmp_path_factory.mktemp("other") / "s.duckdb", create=True) as store:
        store.register(loaded, [])
        scored = score(compile_plan([loaded]), fixed_selection([loaded]), records)
        store.write_slice(scored, datetime(2026, 4, 1, tzinfo=UTC))
        yield store


def series(store: Store, environment: str) -> SimpleNamespace:
    found = store.query("SELECT any_value(metric_version) FROM gaps WHERE metric = 'parses'")
    return SimpleNamespace(
        lane="live", pipeline="support", environment=environment, component="answer", metric="parses",
        metric_version=found[0][0], judge="", epoch="1",
    )  # fmt: skip


def test_an_alert_of_other_environments_shows_the_traces_that_count_there(store: Store) -> None:
    beyond = {f"t-{7 * n:08d}" for n in range(AT_ONCE, TRACES + 1)}
    other = series(store, "other")
    counted = store.query(
        """SELECT sum(n) FROM ticks
        WHERE environment = 'other' AND metric = 'parses' AND level = 'unit' AND facet = 'all'"""
    )

    shown = outcome_examples(store.cursor(), "live", other, "fail", SINCE, UNTIL, 10_000)
    selected = store.query(rows_sql(other, "fail", SINCE))  # type: ignore[arg-type]
    assert counted == [(len(beyond),)]
    assert {row.trace_id for row in shown} == beyond
    assert {trace_id for _, trace_id, *_ in selected} == beyond


def test_an_alert_of_a_named_environment_shows_its_own_traces_only(store: Store) -> None:
    named = series(store, "e3")

    shown = outcome_examples(store.cursor(), "live", named, "fail", SINCE, UNTIL, 10_000)
    assert [row.trace_id for row in shown] == ["t-00000021"]
    assert len(store.query(rows_sql(named, "fail", SINCE))) == 1  # type: ignore[arg-type]


def test_a_worst_row_says_what_was_observed_before_its_text(store: Store) -> None:
    """The text of a trace alone does not tell what is wrong with it, such as the model that made it."""
    named, con = series(store, "e3"), store.cursor()
    (alone,) = worst_rows(con, "live", named, "fail", SINCE, UNTIL, 3, is_high=True)
    text = json.dumps({"spans": [{"component": "answer", "output": "a page"}]})
    con.execute("INSERT INTO samples (trace_id, record) VALUES (?, ?)", [alone.trace_id, text.encode()])
    (row,) = worst_rows(con, "live", named, "fail", SINCE, UNTIL, 3, is_high=True)

    assert alone.words and alone.words[:20] in row.words
    assert row.words.endswith(": a page")
