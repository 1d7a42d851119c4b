"""Metric of a component or of a whole trace, as a type."""

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
        name: Stable and unique; a metric with another meaning needs a new name.
        component: Id of the component whose spans it is about; absent for a metric of the trace.
        scope: `trace` for a metric of the whole trace.
        purpose: Purpose in words, for people.
        concern: The kind of quality it is about.
        claim: The claim that is checked on each span or trace.
        when: Condition on the spans it applies to; without it all spans of the component.
        valid_when: The same in words, for people.
        per_trace: Rule that folds the spans of a trace to one unit.
        direction: The better direction; absent where the claim's own words give it (a check, a bad label, a limit), or
            while it is not known.
        threshold: Bound on a statistic of the metric.
        sample: Shares of the spans that are evaluated and of the rows that are stored.
        alert: Alert settings; without them the metric never alerts.
        targets: Places where the metric is used.
        monitors: Counterparts of the other kind; a computed metric stands for a judged one between judgements.
        runbook_url: URL of its runbook, before that of the portfolio; `{metric}` and the like are filled in.
        evidence: Lines of code and other sources that it was made from.
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
    runbook_url: Prose | None = None
    evidence: tuple[Prose, ...] = ()

    _version: str = PrivateAttr("")

    @property
    def version(self) -> str:
        """12 hex digits of a digest of the metric's meaning: its claim, when and per_trace as written."""
        return self._version

    @property
    def is_trace(self) -> bool:
        """True if it is about the whole trace."""
        return self.scope == "trace"
