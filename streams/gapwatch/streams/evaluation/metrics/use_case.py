"""Use case of an evaluation, and metadata and results of its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: Kinds of metrics: computed from the example; a verdict of a model; a property of the run, such as latency.
MetricKind = Literal["objective", "llm_judge", "system"]
TASKS = ("classification", "chat", "rag_qa", "tool_calling")


@dataclass(frozen=True)
class UseCase:
    """Use case of an evaluated function.

    Attributes:
        task_type: One of `TASKS`, or the task of a metric of another package.
        io_schema: Names of the inputs, and the type of the output.
        has_reference: Whether an example has a reference answer.
        latency_sensitive, safety_critical, cost_sensitive: Importance of these for the use case, for people.
        domain: Field of the use case, such as finance.
        notes: Further remarks, for people.
    """

    task_type: str
    io_schema: Mapping[str, Any] = field(default_factory=dict)
    has_reference: bool = False
    latency_sensitive: bool = False
    safety_critical: bool = False
    cost_sensitive: bool = False
    domain: str = "general"
    notes: str | None = None


@dataclass(frozen=True)
class MetricMetadata:
    """Description of a metric of evaluations.

    Attributes:
        id: Stable and unique; also the name of the metric in a portfolio.
        name: Name for people.
        task_types: Tasks it is made for.
        metric_type: objective, llm_judge or system.
        requires: What it needs: of an example `reference`, `context`, `tool_trace`; `baseline` is an earlier run. True
            for those it needs.
        cost_estimate: low, medium or high; only a metric that costs money is above low.
        description: What it measures, in a sentence.
    """

    id: str
    name: str
    task_types: tuple[str, ...]
    metric_type: MetricKind
    requires: Mapping[str, bool] = field(default_factory=dict)
    cost_estimate: Literal["low", "medium", "high"] = "low"
    description: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Parts of an example that it needs, by name."""
        return tuple(name for name, is_needed in self.requires.items() if is_needed)


@dataclass(frozen=True)
class MetricResult:
    """Result of a metric over the examples of a run.

    Attributes:
        metric_id: Id of the metric.
        score: A rate from 0 to 1, or a mean; None where no example has a value.
        details: Further numbers: `lower` and `upper` of the 95 % interval, `n` examples that count, values by class or
            by example.
    """

    metric_id: str
    score: float | None
    details: Mapping[str, Any] = field(default_factory=dict)
