"""Types of metrics: claims, which are scored as production's are, and scores over the set of all examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata, MetricResult

#: Direction of a claim of a Python function, which does not say its own.
PASSING_IS_BETTER = {
    "better": "lower",
    "of": "failure_rate",
    "verdict": "verified",
    "evidence": "the function passes what is right",
}


@dataclass(frozen=True)
class ClaimMetric:
    """Metric of a portfolio: scored on each example by the plan, the judges and the store of production.

    Attributes:
        metadata: Description; its id is the name of the metric in the portfolio.
        claim: The claim as a portfolio writes it; the judges of a judge's claim are filled in by the run.
        concern: Concern of the metric in a portfolio.
        reports: Score of a run: share of examples that pass, share that fail, or mean of the values.
        on: The evaluated function (`app`), or the tools that it calls (`tools`).
        direction: Direction as a portfolio writes it, for claims that do not say it; None for others.
        library: Importable name of the library that computes it, of the extra `text`; None for none.
    """

    metadata: MetricMetadata
    claim: Mapping[str, Any]
    concern: str
    reports: Literal["pass_rate", "failure_rate", "mean"] = "pass_rate"
    on: Literal["app", "tools"] = "app"
    direction: Mapping[str, Any] | None = None
    library: str | None = None

    @property
    def is_judge(self) -> bool:
        """True if a model gives the verdict."""
        return self.claim["form"] in ("judge", "compare")

    @property
    def is_exportable(self) -> bool:
        """True if production can score it: it needs no reference answer and no other run."""
        return not {"reference", "baseline"} & set(self.metadata.needs)

    @property
    def better(self) -> str:
        """Better direction of its score: higher, or lower for failures and what a direction says so of."""
        if self.reports == "mean" and self.direction is not None:
            return str(self.direction["better"])
        return "lower" if self.reports == "failure_rate" else "higher"

    def written(self, component: str, judge: str | None) -> dict[str, Any]:
        """Return the metric as a portfolio writes it.

        Args:
            component: Id of its component.
            judge: Model of a judge's claim, `vendor/name`.
        """
        claim = dict(self.claim)
        if self.is_judge:
            claim["judges"] = [{"model": judge, "params": {"temperature": 0}}]
        written: dict[str, Any] = {
            "name": self.metadata.id,
            "component": component,
            "purpose": self.metadata.description,
            "concern": self.concern,
            "claim": claim,
        }
        if self.direction is not None:
            written["direction"] = dict(self.direction)
        return written


@runtime_checkable
class SetMetric(Protocol):
    """Metric over the set of all examples, such as a macro F1, which no single example has."""

    @property
    def metadata(self) -> MetricMetadata:
        """Description of the metric."""
        ...

    def compute(self, examples: Sequence[Example]) -> MetricResult:
        """Return the result over the examples; those with an error have no output."""
        ...


@dataclass(frozen=True)
class ComputedSetMetric:
    """`SetMetric` from a function.

    Attributes:
        metadata: Description.
        function: Returns the score and its details over the examples.
        library: Importable name of the library that computes it, of the extra `text`; None for none.
    """

    metadata: MetricMetadata
    function: Callable[[Sequence[Example]], tuple[float | None, Mapping[str, Any]]]
    library: str | None = None

    def compute(self, examples: Sequence[Example]) -> MetricResult:
        """Return the result over the examples."""
        score, details = self.function(examples)
        return MetricResult(self.metadata.id, score, details)


EvaluationMetric = ClaimMetric | SetMetric
