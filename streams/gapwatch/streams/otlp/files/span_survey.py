"""`SpanSurvey`: numbers of what whole traces have that can be watched, by pipeline and component."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class SurveyedComponent:
    """Steps of one component and kind.

    Attributes:
        spans: Number of steps.
        errors: Number that failed.
        with_input: Number with an input.
        with_output: Number with an output; a failed step has none.
        with_tokens: Number with tokens.
        with_cost: Number with a cost.
        models: Number by model.
        tiers: Number by tier.
        names: Number by the name of the span.
        attributes: Number by key of an attribute.
        absent: Number by field and the reason why it is absent.
    """

    spans: int = 0
    errors: int = 0
    with_input: int = 0
    with_output: int = 0
    with_tokens: int = 0
    with_cost: int = 0
    models: Counter[str] = field(default_factory=Counter)
    tiers: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    attributes: Counter[str] = field(default_factory=Counter)
    absent: Counter[str] = field(default_factory=Counter)


@dataclass
class SurveyedPipeline:
    """Traces of one pipeline.

    Attributes:
        traces: Number of traces.
        incomplete: Number without their root, or with a parent that never came.
        with_session: Number with a session.
        with_release: Number with a release.
        components: Steps by component and kind.
    """

    traces: int = 0
    incomplete: int = 0
    with_session: int = 0
    with_release: int = 0
    components: dict[tuple[str, str], SurveyedComponent] = field(default_factory=dict)


class SpanSurvey:
    """Counts of whole traces.

    Attributes:
        pipelines: Counts by pipeline.
    """

    def __init__(self) -> None:
        self.pipelines: dict[str, SurveyedPipeline] = {}

    def add(self, envelope: dict[str, Any]) -> None:
        """Count one whole trace.

        Args:
            envelope: As a mapper writes it.
        """
        pipeline = self.pipelines.setdefault(envelope["pipeline"], SurveyedPipeline())
        pipeline.traces += 1
        pipeline.incomplete += not envelope["attributes"].get("complete", True)
        pipeline.with_session += "session_id" in envelope
        pipeline.with_release += "release" in envelope
        for span in envelope["spans"]:
            _add_span(pipeline.components.setdefault((span["component"], span["kind"]), SurveyedComponent()), span)


def _add_span(component: SurveyedComponent, span: dict[str, Any]) -> None:
    usage = span.get("usage", {})
    component.spans += 1
    component.errors += span["status"] == "error"
    component.with_input += "input" in span
    component.with_output += "output" in span
    component.with_tokens += "input_tokens" in usage or "output_tokens" in usage
    component.with_cost += "cost_usd" in usage
    component.names[span["name"]] += 1
    if "model" in span:
        component.models[span["model"]] += 1
    if "tier" in span:
        component.tiers[span["tier"]] += 1
    for key, value in span.get("attributes", {}).items():
        if key.startswith("absent."):
            component.absent[f"{key.removeprefix('absent.')}: {value}"] += 1
        elif not key.startswith("reported_"):
            component.attributes[key] += 1


def portfolio_start(pipeline: str, survey: SurveyedPipeline) -> str:
    """Return the YAML of a portfolio for a pipeline: its components, and a failure rate for each model and tool.

    Args:
        pipeline: Name of the pipeline.
        survey: What was found of it.
    """
    by_component: dict[str, tuple[str, SurveyedComponent]] = {}
    for (component, kind), found in survey.components.items():
        known = by_component.get(component)
        if known is None or _importance(kind, found) > _importance(*known):
            by_component[component] = (kind, found)
    lines = [
        "gapwatch: 1",
        f"portfolio: {json.dumps(pipeline)}",
        "version: 1",
        f"pipeline: {json.dumps(pipeline)}",
        "components:",
    ]
    for component, (kind, found) in by_component.items():
        lines.append(f"  - {{id: {json.dumps(component)}, kind: {kind}}}  # {found.spans:,} spans")
    lines.append("metrics:")
    used: set[str] = set()
    for component, (kind, _) in by_component.items():
        if kind in ("llm", "tool", "retrieval", "agent"):
            name = _metric_name(component, used)
            lines += [
                f"  - name: {name}",
                f"    component: {json.dumps(component)}",
                f"    when: {{field: kind, one_of: [{kind}]}}",
                "    claim: {form: check, field: status, one_of: [ok]}",
                "    direction: {better: lower, of: failure_rate, verdict: unverified}",
            ]
    return "\n".join(lines) + "\n"


_KINDS = ("llm", "tool", "retrieval", "agent", "rerank", "guardrail", "embedding", "chain")


def _importance(kind: str, found: SurveyedComponent) -> tuple[int, int]:
    return (-_KINDS.index(kind) if kind in _KINDS else -len(_KINDS), found.spans)


def _metric_name(component: str, used: set[str]) -> str:
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in component.lower())
    stem = "_".join(part for part in letters.split("_") if part)[:80] or "step"
    stem = f"step_{stem}" if not stem[0].isalpha() else stem
    name, number = f"{stem}_ok", 2
    while name in used:
        name, number = f"{stem}_{number}_ok", number + 1
    used.add(name)
    return name
