"""Writes `spans.json`: the spans that there are, whether they answer each metric, and the spans to emit."""

from __future__ import annotations

from typing import Any

import orjson

from gapwatch.design.emission.client_calls import client_calls
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.stage import Design


def spans_data(design: Design, pipeline: str) -> dict[str, Any]:
    """Return the spans of a design as plain data.

    Args:
        design: The design.
        pipeline: Name of the pipeline in the records.
    """
    rules = [(r.evidence, r.conditions.get("span"), r.component) for r in design.present.rules]
    return {
        "gapwatch_spans": 1,
        "design": design.version,
        "pipeline": pipeline,
        "present": [
            {
                "name": s.names[0],
                "names": list(s.names),
                "kind": s.kind,
                "library": s.library,
                "symbol": s.symbol,
                "at": str(s.place),
                "fields": list(s.fields),
                "component": s.literal if s.is_native else _component(rules, str(s.place)),
            }
            for s in design.instrumentation.spans
        ],
        "instrumented": [
            {"by": one.by, "libraries": list(one.libraries), "at": str(one.place), "fields": one.fields}
            for one in design.instrumentation.libraries
        ],
        "metrics": {m.name: _metric(m) for m in design.metrics if m.is_exported},
        "emit": [p.as_data() for p in design.planned],
        "clients": client_calls(),
        "files": {r.path: r.sha for r in design.readings if r.path in {p.path for p in design.planned}},
    }


def spans_json(data: dict[str, Any]) -> str:
    """Return the spans as text."""
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode() + "\n"


def _component(rules: list[tuple[str, str | None, str]], place: str) -> str | None:
    return next((component for at, span, component in rules if at == place and span is not None), None)


def _metric(m: MetricDesign) -> dict[str, Any]:
    return {"answered": m.is_answered, "by": list(m.answered), "not_by": dict(m.unanswered)}
