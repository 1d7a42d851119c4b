"""Claim cases as portfolios and records, each alone and all in one slice."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import yaml

from tests.paths import ROOT

SKELETON: dict[str, Any] = {
    "gapwatch": 1,
    "portfolio": "cases",
    "version": 1,
    "pipeline": "p",
    "components": [
        {
            "id": "c",
            "role": "ai_core",
            "kind": "llm",
            "tiers": [{"id": "primary", "by": "llm"}, {"id": "rules", "by": "rule"}],
        },
        {"id": "d", "role": "supporting", "kind": "tool"},
    ],
    "edges": [],
    "metrics": [],
}
_TRACE_DEFAULTS = {"pipeline": "p", "started_at": 1774166400.0, "ended_at": 1774166410.0}
_FOLDER = ROOT / "tests" / "contracts"


class SeenRow(NamedTuple):
    """Row of a scored slice, with the values that a case can expect."""

    trace_id: str
    metric: str
    span: int
    outcome: str
    score: float | None
    label: str | None
    reason: str | None


@dataclass(frozen=True)
class ClaimCase:
    """Claim case.

    Attributes:
        id: Says the behaviour.
        metrics: As they stand in the portfolio, with their component or scope and keeping every row.
        components: Components that the portfolio must have.
        record: The raw record.
        rows: Every row there must be.
        trace_unit: good, bad or unknown; None where the case does not say.
    """

    id: str
    metrics: list[dict[str, Any]]
    components: list[dict[str, Any]]
    record: bytes
    rows: list[dict[str, Any]]
    trace_unit: str | None

    @property
    def portfolio(self) -> dict[str, Any]:
        """Portfolio with the metrics of this case alone."""
        return portfolio_of([self])

    def check_rows(self, seen: Sequence[SeenRow]) -> None:
        """Assert that this case's trace has exactly the expected rows."""
        expected = sorted(self.rows, key=lambda row: (row["span"], row["metric"]))
        found = sorted(seen, key=lambda row: (row.span, row.metric))

        assert [(row["metric"], row["span"], row["outcome"]) for row in expected] == [
            (row.metric, row.span, row.outcome) for row in found
        ]
        for row, seen_row in zip(expected, found, strict=True):
            for key in ("label", "reason"):
                assert key not in row or row[key] == getattr(seen_row, key)
            if "score" in row:
                assert seen_row.score is not None
                assert math.isclose(row["score"], seen_row.score, rel_tol=1e-9)


def portfolio_of(cases: Sequence[ClaimCase]) -> dict[str, Any]:
    """Return the skeleton with the metrics and components of these cases."""
    components = {component["id"]: component for case in cases for component in case.components}
    return {
        **copy.deepcopy(SKELETON),
        "components": list(components.values()),
        "metrics": [metric for case in cases for metric in case.metrics],
    }


def claim_cases() -> list[ClaimCase]:
    """Return all cases, each for its own portfolio."""
    return [_case(written, "") for written in _written_cases()]


def claim_cases_for_one_slice() -> list[ClaimCase]:
    """Return all cases with unique names, so that one portfolio can have them all."""
    return [_case(written, f"_{number}") for number, written in enumerate(_written_cases())]


@cache
def _written_cases() -> list[dict[str, Any]]:
    """Return the contract's cases and further ones."""
    files = ("claim_cases.yaml", "more_claim_cases.yaml")
    # libyaml's loader reads the same a tenth of the time, in each process that collects the tests.
    texts = [(_FOLDER / file).read_text(encoding="utf-8") for file in files]
    return [case for text in texts for case in yaml.load(text, Loader=yaml.CSafeLoader)]


def _case(written: dict[str, Any], mark: str) -> ClaimCase:
    metrics = written["metrics"] if "metrics" in written else [written["metric"]]
    names = {metric["name"] for metric in metrics}
    expect = written["expect"] if isinstance(written["expect"], list) else []
    first = next(iter(metrics))["name"]
    return ClaimCase(
        id=written["id"],
        metrics=[_metric(metric, mark, names, written["id"]) for metric in metrics],
        components=[{**component, "id": component["id"] + mark} for component in SKELETON["components"]],
        record=_record(written, mark).encode(),
        rows=[{**row, "metric": row.get("metric", first) + mark} for row in expect],
        trace_unit=written.get("trace_unit"),
    )


def _metric(written: dict[str, Any], mark: str, names: set[str], case_id: str) -> dict[str, Any]:
    metric = {"sample": {"keep": {"fail": 1.0, "pass": 1.0}}, **copy.deepcopy(written)}
    metric = _renamed(metric, mark, names)
    if metric.get("scope") == "trace":
        if mark:
            of_case = {"field": "trace.attributes.case", "one_of": [case_id]}
            metric["when"] = {"all_of": [of_case, metric["when"]]} if "when" in metric else of_case
    else:
        metric["component"] = metric.get("component", "c") + mark
    return metric


def _renamed(metric: dict[str, Any], mark: str, names: set[str]) -> dict[str, Any]:
    metric["name"] += mark
    claim = metric["claim"]
    if "parts" in claim:
        claim["parts"] = {name + mark: weight for name, weight in claim["parts"].items()}
    for side in ("numerator", "denominator"):
        if claim.get(side) in names:
            claim[side] += mark
    for part in (claim, metric.get("when", {})):
        if str(part.get("field", "")).startswith("trace.count("):
            part["field"] = part["field"].removesuffix(")") + mark + ")"
    return metric


def _record(written: dict[str, Any], mark: str) -> str:
    trace = written.get("trace", {"spans": [written.get("span", {})]})
    spans = [_span(span, index, mark) for index, span in enumerate(trace["spans"])]
    if "span_json" in written:
        head = json.dumps(_span({}, 0, mark))
        spans = [head.removesuffix("}") + "," + written["span_json"].strip().removeprefix("{")]
    rest = {"trace_id": written["id"], **_TRACE_DEFAULTS, **{key: trace[key] for key in trace if key != "spans"}}
    if mark:
        rest["attributes"] = {**rest.get("attributes", {}), "case": written["id"]}
    return json.dumps(rest, ensure_ascii=False).removesuffix("}") + ', "spans": [' + ", ".join(map(_text, spans)) + "]}"


def _span(span: dict[str, Any], index: int, mark: str) -> Any:
    return {"span_id": f"s{index}", **span, "component": span.get("component", "c") + mark}


def _text(span: Any) -> str:
    return span if isinstance(span, str) else json.dumps(span, ensure_ascii=False)
