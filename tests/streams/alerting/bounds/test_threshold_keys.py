"""Each key and value that the schema allows in a threshold is refused at its line, or changes an outcome."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.slices.value_histogram import histogram_cells
from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.rules.alert_rule import budget_of, rules_of
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceContent
from gapwatch.streams.detectors.contexts import TICK_SECONDS
from tests.builders import scored_slice
from tests.paths import ROOT
from tests.streams.alerting.builders import MONDAY, at

SCHEMA = json.loads((ROOT / "deploy/schemas/portfolio.schema.json").read_text(encoding="utf-8"))["$defs"]["Threshold"]
CLAIMS = {
    "check": "form: check, field: output, format: json",
    "measure": "form: measure, field: latency, unit: seconds, limit: {max: 9}",
    "unlimited": "form: measure, field: latency, unit: seconds",
    "label": "form: label, field: attributes.intent, labels: [a, b, c], bad: [c]",
    "judge": "form: judge, rubric: {criterion: Good?, inputs: [output]}, judges: [{model: v/m}]",
    "composite": "form: composite, parts: {n: 1.0}",
    "ratio": "form: ratio, numerator: n, denominator: d",
    "turned": "form: ratio, numerator: d, denominator: n",
}
QUANTITIES = ("failure_rate", "share", "p50", "p95", "p99_9", "mean", "sum", "ratio")
TEXT = """
gapwatch: 1
portfolio: p
version: 1
pipeline: shop
components: [{{id: agent, role: ai_core, kind: llm}}]
metrics:
  - {{name: n, component: agent, claim: {{form: measure, field: latency, unit: seconds}}}}
  - {{name: d, component: agent, claim: {{form: check, field: output, present: true}}}}
  - name: m
    component: agent
    claim: {{{claim}}}
    alert: {{severity: ticket}}
    threshold: {threshold}
"""
LINE = len(TEXT.splitlines())


def detectors(claim: str, threshold: dict[str, Any]) -> LaneDetectors:
    portfolio = parse_portfolio(TEXT.format(claim=CLAIMS[claim], threshold=json.dumps(threshold)))
    return LaneDetectors(rules_of([portfolio]), {"shop": budget_of(portfolio)})


def tick_content(tick: int, n: int, high: bool) -> SliceContent:
    """Build `n` traces of one tick: of a high stream 90 % fail, carry the label a, and have numbers of 0.9."""
    series = {"lane": "live", "pipeline": "shop", "component": "agent", "bucket": at(tick), "fold_bucket": at(tick)}
    many, value = (round(0.9 * n), 0.9) if high else (round(0.1 * n), 0.1)
    cells = list(Counter(histogram_cells(np.full(n, value)).tolist()).items())
    rows = [
        {**series, "metric": "n", "outcome": "good", "histogram": cells, "score_sum": n * value, "n": n},
        {**series, "metric": "m", "outcome": "bad", "n": many, "histogram": cells, "score_sum": n * value},
        {**series, "metric": "m", "outcome": "good", "n": n - many},
        {**series, "metric": "d", "outcome": "good", "n": n // 2},
        {**series, "metric": "d", "outcome": "bad", "n": n - n // 2},
        {**series, "metric": "m", "level": "span", "facet": "label", "value": "a", "outcome": "pass", "n": many},
        {**series, "metric": "m", "level": "span", "facet": "label", "value": "b", "outcome": "pass", "n": n - many},
    ]
    content = scored_slice(0, 1, ticks=rows)
    return SliceContent(content.tables["ticks"], content.tables["session_ticks"])


def broken_at(claim: str, threshold: dict[str, Any], *, high: bool, ticks: int = 3, n: int = 100) -> int | None:
    """Return the tick at which the bound breaks; None where it does not."""
    lane = detectors(claim, threshold)
    for tick in range(MONDAY, MONDAY + ticks):
        lane.add(tick_content(tick, n, high), OpenTicks.between(tick - 1, None))
        if any(one.breach is not None and one.breach.is_broken for one in lane.bounds.fold([tick])):
            return tick - MONDAY
    return None


def middle(of: str, claim: str) -> dict[str, Any]:
    """Return a bound between the low and the high stream."""
    value = {"sum": 10_000.0, "ratio": 1.0}.get(of, 0.5)
    more = {"label": "a"} if of == "share" else {}
    return {"of": of, "value": value, "window": "5m", **more}


@pytest.mark.parametrize(
    "claim",
    [one if one in ("check", "ratio", "judge") else pytest.param(one, marks=pytest.mark.slow) for one in CLAIMS],
)
def test_each_quantity_with_each_operator_is_refused_at_its_line_or_held(claim: str) -> None:
    held = 0
    for of in QUANTITIES:
        for operator in SCHEMA["properties"]["operator"]["enum"]:
            threshold = {**middle(of, claim), "operator": operator}
            beyond = (operator[0] == "<") != (claim == "turned")
            try:
                detectors(claim, threshold)
            except PortfolioError as refused:
                assert [one.line for one in refused.problems] == [LINE], (of, operator)
                assert all("metrics[2].threshold" in one.key and one.expected for one in refused.problems)
                continue
            held += 1
            assert broken_at(claim, threshold, high=beyond, n=10_000, ticks=2) is not None, (of, operator)
            assert broken_at(claim, threshold, high=not beyond, n=10_000, ticks=2) is None, (of, operator)

    assert held >= 2


def test_no_key_of_a_threshold_is_without_effect() -> None:
    """For each key of the schema there is a change of it that changes an outcome; the walk fails for a new key."""
    basis = {"of": "p95", "operator": "<=", "value": 0.5, "window": "5m", "min_units": 100}
    first = broken_at("measure", basis, high=True)
    share = {"of": "share", "label": "a", "operator": "<=", "value": 0.5, "window": "5m"}
    other = {
        "of": broken_at("measure", {**basis, "of": "sum"}, high=True, ticks=2, n=3) != first,
        "operator": broken_at("measure", {**basis, "operator": ">="}, high=True) is None,
        "value": broken_at("measure", {**basis, "value": 0.95}, high=True) is None,
        "window": broken_at("measure", {**basis, "window": "30s"}, high=True, n=50) is None
        and broken_at("measure", basis, high=True, n=50) is not None,
        "min_units": broken_at("measure", {**basis, "min_units": 300}, high=True) != first,
        "label": broken_at("label", share, high=True) is not None
        and broken_at("label", {**share, "label": "b"}, high=True) is None,
        "justification": True,  # words of `gapwatch explain`: bound_words.bound_origin
    }

    assert first is not None
    assert other == dict.fromkeys(SCHEMA["properties"], True)


@pytest.mark.parametrize("window", ["45s", "31d", "1w", "30s"])
def test_a_window_is_held_as_written_or_refused(window: str) -> None:
    seconds = int(window[:-1]) * {"s": 1, "d": 86_400, "w": 604_800}[window[-1]]
    threshold = {**middle("p95", "measure"), "operator": "<=", "window": window}
    try:
        (rule,) = (one for one in detectors("measure", threshold).rows.rules.values() if one.limit is not None)
    except PortfolioError as refused:
        assert seconds % TICK_SECONDS or seconds > 30 * 86_400
        assert refused.problems[0].key == "metrics[2].threshold.window"
        return
    assert rule.limit is not None and rule.limit.window_seconds == seconds
