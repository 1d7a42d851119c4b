"""Scores of judges, composites and Python scorers are monitored as numbers; unmonitored series say why."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.verdict_ticks import VerdictTicks
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.rules.alert_rule import rules_of
from tests.builders import scored_slice
from tests.gapwatch_command import gapwatch
from tests.streams.alerting.breaking_stream import DAY, HOURS, STEP
from tests.streams.alerting.builders import MONDAY, at, kept_at
from tests.streams.alerting.value_builders import OF_THE_MEAN, numbers_slice
from tests.streams.alerting.value_builders import portfolio as with_a_measure
from tests.streams.replayed import written

HIGHER_MEAN = "direction: {better: higher, of: mean, verdict: verified, evidence: 'a.py:1'}"
FEWER_FAILURES = "direction: {better: lower, verdict: verified, evidence: 'a.py:1'}"
RUBRIC = "rubric: {{criterion: helpful, scale: {scale}, inputs: [output]}}, judges: [{{model: a/b}}]"
TEXT = """
gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
volume: {{traces_per_day: 2880}}
components: [{{id: agent, role: ai_core, kind: llm}}]
metrics:
  - {{name: long, component: agent, concern: quality, claim: {{form: check, field: output, present: true}}}}
  - name: m
    component: agent
    concern: quality
    claim: {{{claim}}}
    {direction}
    alert: {{severity: page}}
    {more}
"""


def portfolio(claim: str, direction: str = "", more: str = "") -> Portfolio:
    return parse_portfolio(TEXT.format(claim=claim, direction=direction, more=more))


def judged(scale: str = "[5, 4, 3, 2, 1]") -> str:
    return f"form: judge, {RUBRIC.format(scale=scale)}"


@pytest.mark.parametrize(
    ("claim", "direction", "side", "pages"),
    [
        (judged(), HIGHER_MEAN, -1, True),
        (judged(), FEWER_FAILURES, -1, False),
        (judged("[1, 2, 3]"), FEWER_FAILURES, -1, False),
        (judged("{bad: 0, good: 10}"), FEWER_FAILURES, -1, False),
        (judged(), "", -1, False),  # a scale is written best first
        ("form: composite, parts: {long: 1.0}, pass_at: 0.5", FEWER_FAILURES, -1, False),
        ("form: composite, parts: {long: 1.0}", FEWER_FAILURES, 0, False),
        ("form: python, scorer: s, fields: [output]", FEWER_FAILURES, 0, False),
        ("form: python, scorer: s, fields: [output]", HIGHER_MEAN, -1, True),
    ],
)
def test_the_bad_direction_of_a_score(claim: str, direction: str, side: int, pages: bool) -> None:
    (rule,) = rules_of([portfolio(claim, direction)])

    assert "numbers" in rule.kinds
    assert (rule.number_side, rule.pages_on("numbers")) == (side, pages)


def verdicts(number: int, ticks: dict[int, list[float]]) -> ScoredSlice:
    """Build the slice of some verdicts, all of which pass, counted as those of a judge are."""
    made = VerdictTicks(datetime(2026, 3, 20))
    series = ("m", "v1", "a/b", "e1")
    for tick, scores in ticks.items():
        request = JudgeRequest(
            lane="live", source_topic="traces", source_partition=0, source_offset=0, span_index=0, metric="m",
            metric_version="v1", portfolio_sha="", pipeline="shop", component="agent", trace_id="t", span_id=None,
            environment=None, release="r1", session_id=None, tier=None, model=None, p_evaluated=1.0, stratum=None,
            policy="", inputs={}, event_at=None, bucket=tick, epoch="e1", members=("a/b",), quorum=1, composites=(),
            judge="a/b",
        )  # fmt: skip
        for score in scores:
            made.add_unit(request, series, "good", score, 1.0)
    return scored_slice(number, number + 1, topic="judge-verdicts", ticks=made.table().to_pylist())


def test_a_judge_whose_passing_scores_sink_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    before, after = [0.6, 0.3, 0.1], [0.3, 0.4, 0.3]
    steps = [before] * (DAY + 4 * HOURS) + [after] * HOURS
    scores = [rng.choice([5.0, 4.0, 3.0], 20, p=p).tolist() for p in steps]
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store:
        watch = ShiftWatch.open(store, [portfolio(judged(), HIGHER_MEAN)])
        for n, start in enumerate(range(0, len(steps), 24)):
            chosen = {MONDAY + STEP * i: scores[i] for i in range(start, min(start + 24, len(steps)))}
            moment = kept_at(n)
            taken = watch.take(verdicts(n, chosen), moment)
            store.write_slice(taken.scored, moment, also=taken.steps)
        shifts = store.query("SELECT metric, judge, verdict, change_from, change_to FROM shifts")
        alerts = store.query("SELECT severity, attribution->>'watched', attribution->>'number_unit' FROM alerts")

    assert [shift[:3] for shift in shifts] == [("m", "a/b", "worse")]
    change = at(MONDAY + STEP * (DAY + 4 * HOURS))
    assert shifts[0][3] <= change <= shifts[0][4]
    assert alerts[0] == ("page", "numbers", "points")
    assert alerts[-1][:2] == ("page", "numbers")


OWN_SCORER = """
from gapwatch.scorers.scoring.python_scorer import Scored, scorer

@scorer(name="warmth", fields=["output"])
def warmth(spans):
    return [Scored("pass", score=len(span["output"]) / 100) for span in spans]
"""
BOTH = """  - {name: warm, component: agent, concern: quality, claim: {form: python, scorer: warmth, fields: [output]},
     direction: {better: higher, of: mean, verdict: verified, evidence: "a.py:1"}, alert: {severity: page}}
"""


def test_scores_of_a_python_scorer_and_of_a_composite_of_it_are_found_in_real_traces(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines, change = [], 3600
    for i in range(3900):
        at_second = MONDAY * 30.0 + 30.0 * i
        length = int(np.clip(rng.normal(60 if i < change else 45, 8), 10, 99))
        span = {"span_id": "s", "component": "agent", "kind": "llm", "output": "w" * length, "ended_at": at_second}
        lines.append({"trace_id": f"t{i}", "pipeline": "shop", "ended_at": at_second, "spans": [span]})
    own, traces = written(tmp_path / "own.py", [OWN_SCORER]), written(tmp_path / "t.jsonl", map(json.dumps, lines))
    composite = TEXT.format(claim="form: composite, parts: {warm: 0.5, long: 0.5}", direction=HIGHER_MEAN, more="")
    said = written(tmp_path / "p.yaml", [composite.rstrip() + "\n" + BOTH])
    store = tmp_path / "s.duckdb"
    ran = gapwatch("replay", traces, "--portfolio", said, "--store", store, "--alerts", "--scorers", own)
    assert ran.status == 0, ran.err
    told = gapwatch("alerts", "--store", store, "--format", "json", "--all").json()

    assert {(one["metric"], one["watched"], one["verdict"]) for one in told} == {
        ("m", "numbers", "worse"),
        ("warm", "numbers", "worse"),
    }
    begins = [datetime.fromisoformat(one["change_at"].removesuffix("Z")) for one in told]
    assert all(abs((begin - at(MONDAY + change)).total_seconds()) <= 1200 for begin in begins)


def kept(path: Path, made: list[ScoredSlice], said: Portfolio) -> ShiftWatch:
    with Store.open(path, create=True) as store:
        store.register(said, [])
        watch = ShiftWatch.open(store, [said])
        for scored in made:
            moment = kept_at(scored.from_offset)
            taken = watch.take(scored, moment)
            store.write_slice(taken.scored, moment, also=taken.steps)
        watch.save(store)
        again = ShiftWatch.open(store, [said])
        assert again.packed() == watch.packed()
    return watch


def words(store: Path, *more: Any) -> str:
    return " ".join(gapwatch("alerts", "--store", store, *more).out.split())


def test_numbers_of_sessions_are_not_monitored_and_say_why(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    made = [numbers_slice(n, {MONDAY + STEP * n: [1.0, 2.0]}, sessions=True) for n in range(30)]
    kept(path, made, with_a_measure(OF_THE_MEAN))

    listed = words(path)
    assert "numbers of seconds of agent (its traces are in sessions" in listed
    assert "not monitored" not in listed.split("series monitored:")[1].split(";")[0]
    assert "none: in sessions" in words(path, "--watched")
