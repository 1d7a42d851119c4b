"""Examples of claims for the documents: a claim as a portfolio writes it, and spans with their outcomes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gapwatch.scorers.portfolio.claim import CLAIM_FORMS
from gapwatch.scorers.portfolio.field import (
    SPAN_NUMBER_FIELDS,
    SPAN_TEXT_FIELDS,
    TRACE_NUMBER_FIELDS,
    TRACE_TEXT_FIELDS,
)
from gapwatch.scorers.portfolio.predicate import PREDICATE_KINDS

FILE = Path(__file__).with_name("claims.yaml")
RECIPES = FILE.with_name("cookbook_claims.yaml")
#: Every name that needs an example. A new form, predicate or field without one fails the test.
SECTIONS: dict[str, tuple[str, ...]] = {
    "forms": CLAIM_FORMS,
    "predicates": tuple(PREDICATE_KINDS),
    "fields": (
        *SPAN_TEXT_FIELDS,
        "output#/answer",
        "attributes.<key>",
        *SPAN_NUMBER_FIELDS,
        *TRACE_TEXT_FIELDS,
        *TRACE_NUMBER_FIELDS,
        "trace.attributes.<key>",
        "trace.count(<component>)",
    ),
}


@dataclass(frozen=True)
class Case:
    """Span or trace with the outcome of a claim on it.

    Attributes:
        trace: The whole record.
        shown: The members that matter, of its span or of the trace.
        is_trace: Whether the claim is about the whole trace.
        outcome: Outcome of the metric; `no rows` for a ratio.
        reason: Reason of an unknown.
    """

    trace: dict[str, Any]
    shown: dict[str, Any]
    is_trace: bool
    outcome: str
    reason: str | None

    @property
    def record(self) -> bytes:
        """The record, JSON."""
        return json.dumps(self.trace).encode()


@dataclass(frozen=True)
class ClaimExample:
    """Claim with cases.

    Attributes:
        name: Form, predicate or field that it is an example of.
        claim: The claim, YAML.
        metric: Further keys of the metric, such as `when`.
        cases: Spans or traces with their outcomes.
        unknown: Condition of an unknown outcome, in words.
        note: Further words.
        meaning: Meaning of a field.
        metrics: Further metrics that the claim needs, YAML.
        scorer: Python module that the claim needs.
    """

    name: str
    claim: str
    metric: dict[str, Any]
    cases: tuple[Case, ...]
    unknown: str = ""
    note: str = ""
    meaning: str = ""
    metrics: str = ""
    scorer: str = ""

    def portfolio(self) -> dict[str, Any]:
        """Return a portfolio whose last metric, `example`, has the claim."""
        is_trace = any(case.is_trace for case in self.cases)
        owner = {"scope": "trace"} if is_trace else {"component": "answer"}
        metric = {"name": "example", **owner, **self.metric, "claim": yaml.safe_load(self.claim)}
        return _portfolio([*(yaml.safe_load(self.metrics) if self.metrics else ()), metric])


@dataclass(frozen=True)
class Recipe:
    """Claim for a need of a pipeline.

    Attributes:
        need: The need, in words.
        metrics: The metric, YAML, and others that it reads.
        cases: Spans or traces with the outcomes of the first metric.
    """

    need: str
    metrics: str
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        """Name of the metric."""
        return str(yaml.safe_load(self.metrics)[0]["name"])

    def portfolio(self) -> dict[str, Any]:
        """Return a portfolio with its metrics."""
        return _portfolio(yaml.safe_load(self.metrics))


def read_examples(file: Path = FILE) -> dict[str, dict[str, ClaimExample]]:
    """Return the examples of a file by section and name."""
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {section: {name: read_example(name, raw) for name, raw in of.items()} for section, of in written.items()}


def read_recipes(file: Path = RECIPES) -> dict[str, list[Recipe]]:
    """Return the recipes of a file by the title of their section."""
    return {
        section["title"]: [
            Recipe(raw["need"], raw["metrics"].strip(), tuple(_case(i, case) for i, case in enumerate(raw["cases"])))
            for raw in section["recipes"]
        ]
        for section in yaml.safe_load(file.read_text(encoding="utf-8"))
    }


def read_example(name: str, raw: dict[str, Any]) -> ClaimExample:
    """Return one example from its YAML."""
    own = {key: value.strip() for key, value in raw.items() if key in _TEXTS}
    metric = {key: value for key, value in raw.items() if key not in (*_TEXTS, "cases")}
    return ClaimExample(name, metric=metric, cases=tuple(_case(i, case) for i, case in enumerate(raw["cases"])), **own)


_TEXTS = ("claim", "unknown", "note", "meaning", "metrics", "scorer")


def _portfolio(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    kinds = {"answer": "llm", "retrieve": "retrieval", "tools": "tool"}
    return {
        "gapwatch": 1,
        "portfolio": "examples",
        "version": 1,
        "pipeline": "support",
        "components": [{"id": component, "role": "ai_core", "kind": kind} for component, kind in kinds.items()],
        "edges": [],
        "metrics": metrics,
    }


def _case(position: int, raw: dict[str, Any]) -> Case:
    shown = raw["trace"] if "trace" in raw else raw["span"]
    trace = dict(shown) if "trace" in raw else {"spans": [shown]}
    spans = trace.get("spans", [])
    trace["spans"] = [{"span_id": str(i), "component": "answer", **span} for i, span in enumerate(spans)]
    record = {"trace_id": f"t{position}", "pipeline": "support", **trace}
    return Case(record, shown, "trace" in raw, raw["is"], raw.get("because"))
