"""Portfolio of metrics of evaluations: for a run of an evaluation, and for watching the same metrics online."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gapwatch.streams.evaluation.metrics.metric import ClaimMetric, EvaluationMetric

#: Ids of the components of a portfolio that nobody named: the function, and its tools.
APP, TOOLS = "app", "tools"


def portfolio_document(
    name: str, pipeline: str, metrics: Iterable[ClaimMetric], component: str = APP, judge: str | None = None
) -> dict[str, Any]:
    """Return a portfolio, as YAML has it.

    Args:
        name: Name of the portfolio.
        pipeline: Pipeline of the traces.
        metrics: Metrics in their order.
        component: Id of the component of the function.
        judge: Model of the judges, `vendor/name`; required by metrics that a model judges.
    """
    written = [metric.written(TOOLS if metric.on == "tools" else component, judge) for metric in metrics]
    components = [{"id": component, "role": "ai_core", "kind": "llm"}]
    if any(metric["component"] == TOOLS for metric in written):
        components.append({"id": TOOLS, "role": "supporting", "kind": "tool"})
    return {
        "gapwatch": 1,
        "portfolio": name,
        "version": 1,
        "pipeline": pipeline,
        "components": components,
        "metrics": written,
    }


def exportable(metrics: Sequence[EvaluationMetric]) -> list[ClaimMetric]:
    """Return the metrics that production can score: claims that need no reference answer."""
    return [metric for metric in metrics if isinstance(metric, ClaimMetric) and metric.is_exportable]
