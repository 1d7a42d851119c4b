"""Ratios of sums from ticks: exact if every trace is evaluated, estimated otherwise, with an interval that covers."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from gapwatch.sinks.reading.ratio_sums import Ratio, ratio_sql
from tests.gapwatch_command import gapwatch

PORTFOLIO = """
gapwatch: 1
portfolio: support
version: 1
pipeline: support
components: [{id: answer, role: ai_core, kind: llm}]
edges: []
metrics:
  - {name: parses, component: answer, claim: {form: check, field: output, json: {required: [/answer]}}}
  - {name: tokens, component: answer, per_trace: sum, claim: {form: measure, field: usage.output_tokens, unit: tokens}}
  - {name: tokens_per_answer, component: answer, claim: {form: ratio, numerator: tokens, denominator: parses}}
"""


def _trace(number: int, output: str) -> str:
    at = 1774166400 + 600 * number
    span = {"component": "answer", "kind": "llm", "started_at": at, "ended_at": at + 1}
    spans = [
        span | {"span_id": str(i), "output": output, "usage": {"input_tokens": 1, "output_tokens": 10 + number}}
        for i in range(2)
    ]
    return json.dumps({"trace_id": f"t{number}", "pipeline": "support", "spans": spans})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(PORTFOLIO)
    (tmp_path / "t.jsonl").write_text("\n".join(_trace(i, '{"answer": 1}' if i % 3 else "sorry") for i in range(12)))
    path = tmp_path / "s.duckdb"
    ran = gapwatch("replay", tmp_path / "t.jsonl", "--portfolio", tmp_path / "p.yaml", "--store", path, "--quiet")
    assert ran.status == 0
    return path


def test_the_numbers_of_all_traces_by_the_good_ones(store: Path) -> None:
    ran = gapwatch("rates", "--store", store, "--ratios", "--per", "all", "--format", "json")

    (row,) = json.loads(ran.out)
    assert (row["component"], row["metric"]) == ("answer", "tokens_per_answer")
    assert (row["numerator"], row["denominator"]) == (sum(2 * (10 + i) for i in range(12)), 8)
    assert row["ratio"] == row["numerator"] / 8
    assert row["lower"] < row["ratio"] < row["upper"]


def test_each_hour_has_its_own_and_filters_hold(store: Path) -> None:
    ran = gapwatch("rates", "--store", store, "--ratios", "--format", "json")
    assert [row["denominator"] for row in json.loads(ran.out)] == [4, 4]

    for option in ("--metric", "--component"):
        unknown = gapwatch("rates", "--store", store, "--ratios", option, "x", "--format", "json")
        assert (unknown.status, unknown.out) == (2, "")
    assert "tokens_per_answer" in gapwatch("rates", "--store", store, "--ratios").out


def _ask(rows: list[tuple[object, ...]], *, measures_below: bool = False) -> list[tuple[float | None, ...]]:
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE ticks (lane VARCHAR, pipeline VARCHAR, environment VARCHAR, metric VARCHAR, bucket TIMESTAMP,
        level VARCHAR, facet VARCHAR, outcome VARCHAR, p DOUBLE, n BIGINT, score_sum DOUBLE,
        score_sum_squares DOUBLE)"""
    )
    con.executemany("INSERT INTO ticks VALUES ('live', 'p', ?, ?, NULL, 'unit', 'all', ?, ?, ?, ?, ?)", rows)
    sql, values = ratio_sql(Ratio("p", None, "r", "top", "bottom", True, measures_below), None)
    return con.execute(f'SELECT ratio, "lower", "upper" FROM ({sql}) ORDER BY environment', values).fetchall()


def test_each_trace_counts_as_often_as_it_stands_for() -> None:
    rows = [("e", "top", "good", 0.5, 100, 200.0, 400.0), ("e", "top", "good", 1.0, 100, 100.0, 100.0)]
    ((ratio, *_),) = _ask([*rows, ("e", "bottom", "good", 0.5, 100, None, None)])

    assert ratio == (2 * 200 + 100) / 200


def test_what_has_no_price_is_not_free() -> None:
    known = [("e", "top", "good", 1.0, 90, 90.0, 90.0), ("e", "bottom", "good", 1.0, 100, None, None)]

    ((ratio, *_),) = _ask([*known, ("e", "top", "unknown", 1.0, 4, None, None)])
    assert ratio == 0.9
    assert _ask([*known, ("e", "top", "unknown", 1.0, 10, None, None)]) == [(None, None, None)]


def test_nothing_good_is_one_below_the_line_and_has_no_limits() -> None:
    assert _ask([("e", "top", "good", 1.0, 2, 6.0, 20.0), ("e", "bottom", "bad", 1.0, 2, None, None)]) == [
        (6.0, None, None)
    ]


def test_no_numbers_below_the_line_are_no_ratio() -> None:
    top = ("e", "top", "good", 1.0, 2, 6.0, 20.0)

    assert _ask([top], measures_below=True) == [(None, None, None)]


def test_the_interval_holds_the_ratio_of_the_process() -> None:
    random = np.random.default_rng(7)
    rows: list[tuple[object, ...]] = []
    for world in range(400):
        traces = random.poisson(300)
        cost, good = random.exponential(2.0, traces), random.random(traces) < 0.7
        seen = random.random(traces) < 0.5
        costs = cost[seen]
        name = f"{world:03}"
        rows.append((name, "top", "good", 0.5, costs.size, float(costs.sum()), float((costs**2).sum())))
        rows.append((name, "bottom", "good", 0.5, int(good[seen].sum()), None, None))
    answers = _ask(rows)

    held = np.mean([low <= 2.0 / 0.7 <= high for _, low, high in answers if low is not None and high is not None])
    assert len(answers) == 400
    assert held >= 0.95
