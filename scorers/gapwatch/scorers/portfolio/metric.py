"""What is measured on a component or on a whole trace."""

from __future__ import annotations

from typing import Literal

from pydantic import PrivateAttr

from gapwatch.scorers.portfolio.claim import Claim
from gapwatch.scorers.portfolio.direction import Alert, Direction, Threshold
from gapwatch.scorers.portfolio.predicate import WrittenPredicate
from gapwatch.scorers.portfolio.sampling import Sample
from gapwatch.scorers.portfolio.schema_types import MetricName, Prose, Text, WrittenModel

Concern = Literal[
    "quality",
    "groundedness",
    "safety",
    "drift",
    "reliability",
    "latency",
    "cost_per_quality",
    "tool_use",
    "judge_alignment",
]
PerTrace = Literal["any", "max", "sum", "mean", "last", "worst"]


class Metric(WrittenModel):
    """One metric of a portfolio.

    Attributes:
        name: Stable and unique; to change what a metric means is to give it a new name.
        component: Id of the component whose spans it is about; None for a metric of the trace.
        scope: `trace` for a metric of the whole trace.
        purpose: What it is good for.
        concern: The kind of quality it is about.
        claim: What it states.
        when: The spans it applies to; None: all of the component's.
        valid_when: In words, for people.
        per_trace: How the spans of a trace make one unit.
        direction: Which way is better; None: nobody said.
        threshold: Bound for the metric as a whole.
        sample: Selection.
        alert: When to wake somebody; None: never.
        targets: Where it is to be used.
        monitors: Metrics of the other kind that this one stands for.
        evidence: Lines of code and the like that it was made from.
    """

    name: MetricName
    component: Text | None = None
    scope: Literal["trace"] | None = None
    purpose: Prose = ""
    concern: Concern | None = None
    claim: Claim
    when: WrittenPredicate | None = None
    valid_when: Prose | None = None
    per_trace: PerTrace = "any"
    direction: Direction | None = None
    threshold: Threshold | None = None
    sample: Sample = Sample()
    alert: Alert | None = None
    targets: tuple[Literal["in_process", "langfuse", "dashboard", "alert", "ci_gate"], ...] = ()
    monitors: tuple[MetricName, ...] = ()
    evidence: tuple[Prose, ...] = ()

    _version: str = PrivateAttr("")

    @property
    def version(self) -> str:
        """12 hex digits over what the metric means: its claim, when and per_trace as written."""
        return self._version

    @property
    def is_trace(self) -> bool:
        """Whether it is about the whole trace."""
        return self.scope == "trace"
