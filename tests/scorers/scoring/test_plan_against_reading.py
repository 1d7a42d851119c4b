"""Compiled plan and reference agree on generated portfolios and records.

`tests/depth.py` says how many: GAPWATCH_TEST_DEPTH=20 tries twenty times as many.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.contracts.claim_cases import SKELETON
from tests.depth import examples
from tests.reference.slice_reading import Reading, read_slice
from tests.reference.strategies import DrawnPortfolio, DrawnSlice, slices
from tests.scorers.scored_slice import Product, record_slice
from tests.scorers.scored_view import differences, rows_of

_FORMS = {
    "check": ("pass", "warn", "fail", "skip", "unknown"),
    "measure": ("pass", "warn", "fail", "skip", "unknown"),
    "label": ("pass", "fail", "skip", "unknown"),
    "composite": ("pass", "fail", "unknown"),
    "unit": ("good", "bad", "unknown"),
}
_TWO_VALUED = ("present", "absent", "sibling")
_WITH_WARN = ("range", "length", "count")
_PREDICATES = (
    *(*_TWO_VALUED, *_WITH_WARN, "one_of", "matches", "not_matches", "format", "json", "substring_of", "each"),
    *("cited_in", "compares", "all_of", "any_of", "not"),
)
#: Examples that each claim form and each predicate must have come to, of every outcome that it can have.
_ENOUGH = 50


def wanted_outcomes() -> set[tuple[str, str]]:
    forms = {(form, outcome) for form, outcomes in _FORMS.items() for outcome in outcomes}
    decided = {(name, outcome) for name in _PREDICATES for outcome in ("pass", "fail")}
    undecided = {(name, "unknown") for name in _PREDICATES if name not in _TWO_VALUED}
    return forms | decided | undecided | {(name, "warn") for name in _WITH_WARN}


def kinds_of(metric: dict[str, Any]) -> list[str]:
    """Return the claim's form, and for a check the name of its predicate."""
    claim = metric["claim"]
    return [
        claim["form"],
        *(name for name in _PREDICATES if name in claim and not (name == "substring_of" and "each" in claim)),
    ]


def count_outcomes(drawn: DrawnSlice, reading: Reading) -> Counter[tuple[str, str]]:
    kinds = {
        (portfolio["pipeline"], metric["name"]): kinds_of(metric)
        for portfolio in drawn.portfolios
        for metric in portfolio["metrics"]
    }
    seen: Counter[tuple[str, str]] = Counter()
    for outcome in reading.outcomes:
        for kind in kinds[outcome.pipeline, outcome.metric]:
            seen[kind, outcome.outcome.state] += 1
    for unit in reading.units:
        seen["unit", unit.unit.state] += 1
    return seen


def compare(drawn: DrawnSlice) -> Reading:
    """Assert that the plan and the reference agree on one slice."""
    reading = read_slice(drawn.values, drawn.portfolios, timestamps=drawn.timestamps)

    scored = Product(drawn.portfolios).score(record_slice(drawn.values, drawn.timestamps))

    assert differences(scored, reading, drawn.values) == [], drawn
    return reading


@pytest.mark.slow
def test_plan_says_what_the_reading_says_of_every_claim_and_outcome() -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for salt in range(max(30, examples(30))):
        stamps: list[float | None] | None = [1_774_166_400.0 + record for record in range(40)] if salt % 2 else None
        portfolios = [DrawnPortfolio("p", list(range(24)), list(range(24, 28)))]
        drawn = DrawnSlice(salt, portfolios, list(range(28, 68)), stamps)
        seen += count_outcomes(drawn, compare(drawn))

    assert {kind: seen[kind] for kind in wanted_outcomes() if seen[kind] < _ENOUGH} == {}


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(slices())
def test_plan_says_what_the_reading_says(drawn: DrawnSlice) -> None:
    compare(drawn)


def span_record(**fields: Any) -> bytes:
    """Return a record with one span of component c."""
    span = {"span_id": "s", "component": "c", **fields}
    return json.dumps({"trace_id": "t", "pipeline": "p", "spans": [span]}).encode()


def check_alone(claim: dict[str, Any], record: bytes, **metric: Any) -> None:
    """Assert that the plan and the reference agree on one claim and one record."""
    place = {} if metric.get("scope") == "trace" else {"component": "c"}
    keep = {"sample": {"keep": {"pass": 1.0}}}
    portfolio = {**SKELETON, "metrics": [{"name": "m", **place, "claim": claim, **keep, **metric}]}
    scored = Product([portfolio]).score(record_slice([record]))

    assert differences(scored, read_slice([record], [portfolio]), [record]) == []


@pytest.mark.parametrize("depth", [200, 201, 1_000, 20_000])
@pytest.mark.parametrize(
    "claim",
    [
        {"field": "output", "format": "json"},
        {"field": "output#", "count": {"min": 1}},
        {"field": "output", "json": {"types": {"/0": "array"}}},
        {"field": "output#/0/0/0", "present": True},
    ],
    ids=lambda claim: next(reversed(claim)),
)
def test_deep_json_in_a_text_is_json(claim: dict[str, Any], depth: int) -> None:
    check_alone({"form": "check", **claim}, span_record(output="[" * depth + "]" * depth))


_HUGE = 1.7e308
_TOO_LARGE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "latency": ({"field": "latency"}, {"started_at": -_HUGE, "ended_at": _HUGE}),
    "total_tokens": (
        {"field": "usage.total_tokens"},
        {"usage": {"input_tokens": _HUGE, "output_tokens": _HUGE}},
    ),
}


@pytest.mark.parametrize("name", _TOO_LARGE)
def test_a_number_too_large_for_a_double_is_no_score(name: str) -> None:
    claim, fields = _TOO_LARGE[name]
    check_alone({"form": "measure", "unit": "seconds", **claim}, span_record(**fields))


_HUGE_TRACES: dict[str, dict[str, Any]] = {
    "trace.cost_usd": {"spans": [{"usage": {"cost_usd": _HUGE}}] * 2},
    "trace.total_tokens": {"spans": [{"usage": {"input_tokens": -_HUGE, "output_tokens": 0}}] * 2},
    "trace.duration": {"spans": [], "started_at": _HUGE, "ended_at": -_HUGE},
}


@pytest.mark.parametrize("field", _HUGE_TRACES)
def test_a_number_of_a_trace_too_large_for_a_double_is_no_score(field: str) -> None:
    trace = {"trace_id": "t", "pipeline": "p", **_HUGE_TRACES[field]}
    spans = [{"span_id": "s", "component": "c", **span} for span in trace["spans"]]
    record = json.dumps({**trace, "spans": spans}).encode()
    limited = {"form": "measure", "field": field, "unit": "usd", "limit": {"max": 1}}

    check_alone(limited, record, scope="trace")
    check_alone({"form": "check", "field": field, "range": {"min": 0}}, record, scope="trace")


def test_a_number_too_large_for_a_double_is_unknown_for_its_type() -> None:
    record = span_record(started_at=-_HUGE, ended_at=_HUGE)
    metric = {"name": "m", "component": "c", "claim": {"form": "measure", "field": "latency", "unit": "s"}}

    [row] = rows_of(Product([{**SKELETON, "metrics": [metric]}]).score(record_slice([record])))

    assert (row.outcome, row.score, row.reason) == ("unknown", None, "wrong_type")


@pytest.mark.parametrize("fold", ["sum", "mean"])
@pytest.mark.parametrize("limit", [{}, {"limit": {"max": 1}}, {"limit": {"min": 1}}], ids=["none", "max", "min"])
def test_a_fold_too_large_for_a_double_is_held_against_the_limit(fold: str, limit: dict[str, Any]) -> None:
    spans = [{"span_id": "s", "component": "c", "attributes": {"x": _HUGE}}] * 3
    record = json.dumps({"trace_id": "t", "pipeline": "p", "spans": spans}).encode()

    check_alone({"form": "measure", "field": "attributes.x", "unit": "usd", **limit}, record, per_trace=fold)


@pytest.mark.parametrize("inside", ['"\\ud83d"', '",]"'], ids=["lone-surrogate", "comma-in-a-string"])
def test_deep_json_that_needs_an_exact_look_is_json(inside: str) -> None:
    check_alone(
        {"form": "check", "field": "output", "format": "json"}, span_record(output="[" * 3_000 + inside + "]" * 3_000)
    )
