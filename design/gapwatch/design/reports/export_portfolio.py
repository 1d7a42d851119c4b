"""Writes the portfolio as YAML that `gapwatch run` loads: the metrics that passed the critic, with their evidence."""

from __future__ import annotations

from typing import Any

import yaml

from gapwatch.design.architecture.component_names import title_of
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.shared_metrics import shared_components
from gapwatch.design.stage import Design
from gapwatch.scorers.portfolio.direction import is_cascade_name

#: Symbols and files of one component that the portfolio lists; design.duckdb holds all of them.
_MAX_LISTED = 40
#: Longest name that a portfolio allows, in characters.
_MAX_NAME = 200


def portfolio_data(design: Design, pipeline: str | None = None, number: int = 1) -> dict[str, Any]:
    """Return the portfolio as plain data.

    Args:
        design: The design.
        pipeline: Pipeline name in the records; None takes the folder's name.
        number: Version of the portfolio, counted by its owner.
    """
    name = pipeline or _slug(design.name)
    out: dict[str, Any] = {"gapwatch": 1, "portfolio": name, "version": number, "pipeline": name}
    if design.goal:
        out["goal"] = design.goal
    out["components"] = [_component(c) for c in design.architecture.components]
    exported = {m.name for m in design.metrics if m.is_exported}
    out["components"] += [
        {"id": group, "name": title_of(group), "kind": kind, "members": members}
        for group, (kind, members) in shared_components(m for m in design.metrics if m.is_exported).items()
    ]
    out["edges"] = [
        {"from": e.src, "to": e.dst, "status": e.verification, "evidence": e.evidence}
        for e in design.architecture.edges
    ]
    if spans := _spans(design):
        out["spans"] = spans
    out["facts"] = [f.model_dump(mode="json", exclude_none=True) for f in design.facts if f not in design.stale_facts]
    out["questions"] = [
        q.as_yaml() | {"decides": [d for d in q.decides if d in exported]} for q in design.open_questions
    ]
    out["metrics"] = [_metric(m, exported) for m in design.metrics if m.is_exported]
    return out


def _spans(design: Design) -> dict[str, Any]:
    rules = [{"component": r.component, **r.conditions, "evidence": r.evidence} for r in design.present.rules]
    prices = [price.as_data() for price in design.prices]
    return {name: part for name, part in (("components", rules), ("prices", prices)) if part}


def portfolio_yaml(data: dict[str, Any], design: Design) -> str:
    """Return the portfolio as YAML text.

    Args:
        data: Made by `portfolio_data`.
        design: Names the repository and version in the head comment.
    """
    head = (
        f"# Designed from {design.name} ({design.version}); every metric cites its evidence in the code.\n"
        "# To verify directions, answer the open questions (gapwatch design questions) and run gapwatch design again.\n"
    )
    body: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return head + body


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes no anchors, so that each part can be read and moved by itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _slug(name: str) -> str:
    from gapwatch.design.architecture.component_names import snake

    return snake(name).replace("_", "-") or "pipeline"


def _end(symbol: str) -> str:
    """Cut a symbol that is longer than a portfolio allows; the end stays, because it holds the function's name."""
    return symbol if len(symbol) <= _MAX_NAME else f"…{symbol[1 - _MAX_NAME :]}"


def _component(c: ComponentDraft) -> dict[str, Any]:
    out: dict[str, Any] = {"id": c.id, "name": c.name, "role": c.role, "kind": c.kind}
    if c.stage:
        out["stage"] = c.stage
    out |= {"pattern": c.pattern, "priority": c.priority, "silent_failure": c.silent_failure}
    if c.semantics:
        out["semantics"] = c.semantics
    out["files"] = c.files[:_MAX_LISTED]
    out["symbols"] = [_end(s) for s in c.symbols[:_MAX_LISTED]]
    if c.tiers:
        out["tiers"] = [{"id": t.id, "by": t.by, "symbols": [_end(t.symbol)]} for t in c.tiers]
    return out


def _metric(m: MetricDesign, exported: set[str]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": m.name,
        **({"scope": "trace"} if m.is_of_trace else {"component": m.group or m.component}),
        "purpose": m.purpose,
        "concern": m.concern,
        "claim": m.claim,
    }
    if m.when is not None and m.claim["form"] != "ratio":
        out["when"] = m.when
    if m.valid_when:
        out["valid_when"] = m.valid_when
    if m.per_trace != "any":
        out["per_trace"] = m.per_trace
    direction: dict[str, Any] = {"better": m.better, "of": m.of, "verdict": m.direction_verdict}
    if m.fact is not None and m.direction_verdict == "verified":
        direction["fact"] = m.fact
    if m.direction_evidence:
        direction["evidence"] = m.direction_evidence
    out["direction"] = direction
    if m.threshold is not None:
        out["threshold"] = m.threshold
    if m.severity:
        out["alert"] = {"severity": m.severity}
        if m.is_cascade and not is_cascade_name(m.name):
            out["alert"]["cascade"] = True
    if m.targets:
        out["targets"] = m.targets
    monitors = [name for name in m.monitors if name in exported]
    if monitors:
        out["monitors"] = monitors
    out["evidence"] = m.evidence
    return out
