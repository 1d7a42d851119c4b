"""Closed sets of label values: names from the portfolios, a few environments, and `other` for everything else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gapwatch.scorers.portfolio.claim import UNSCORED_CLAIMS, Claim, CompositeClaim, JudgedClaim, MeasureClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.facet_names import OTHER

NO_TIER = "none"

#: Largest number of environments with a label of their own. More: the number of series multiplies. A pipeline usually
#: has three or four.
ENVIRONMENT_LIMIT = 16
#: Largest number of characters of an environment's name. A longer text is not a name.
_NAME_LIMIT = 100
#: Largest number of tiers of a component with a label of their own.
TIER_LIMIT = 16

#: Upper bounds of the histogram buckets by unit of the measure. They must not change while a series exists.
_BOUNDS: dict[str, tuple[float, ...]] = {
    "seconds": (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900),
    "milliseconds": (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000),
    "usd": (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
    "tokens": (10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 300000, 1000000),
    "share": (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
}
_UNIT_WORDS = {
    "s": "seconds", "second": "seconds", "ms": "milliseconds", "$": "usd", "dollars": "usd", "token": "tokens",
    "ratio": "share",
}  # fmt: skip
_ANY_UNIT = tuple(float(f"{step}e{power}") for power in range(-3, 7) for step in (1, 3))


def value_bounds(claim: Claim) -> tuple[float, ...]:
    """Return the upper bounds of the histogram buckets for the numbers of a claim, ascending."""
    if isinstance(claim, MeasureClaim):
        unit = claim.unit.lower()
        return _BOUNDS.get(_UNIT_WORDS.get(unit, unit), _ANY_UNIT)
    if isinstance(claim, CompositeClaim):
        return _BOUNDS["share"]
    if isinstance(claim, JudgedClaim):
        scale = claim.rubric.scale
        bands = scale.values() if isinstance(scale, dict) else scale
        numbers = sorted({float(band) for band in bands if isinstance(band, int | float)})
        return tuple(numbers[:20]) or _BOUNDS["share"]
    return _ANY_UNIT


@dataclass(frozen=True)
class NamedMetric:
    """Label values of one metric.

    Attributes:
        component: Id of its component; empty for a metric of the whole trace.
        version: Version in force. No rate counts ticks of another version.
        judges: Names of its judges.
        bounds: Bucket bounds of its histogram.
        position: Position in the order of the portfolios.
    """

    component: str
    version: str
    judges: frozenset[str]
    bounds: tuple[float, ...]
    position: int


@dataclass
class LabelSets:
    """All label values. They grow with every portfolio that takes effect and never shrink.

    Attributes:
        metrics: Metrics by pipeline and name.
        tiers: Tiers with a label of their own, by pipeline and component.
        tier_metrics: The metric that counts the spans of tiers, by pipeline and component.
        environments: Environments with a label of their own, in the order in which they came.
    """

    metrics: dict[tuple[str, str], NamedMetric] = field(default_factory=dict)
    tiers: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    tier_metrics: dict[tuple[str, str], str] = field(default_factory=dict)
    environments: list[str] = field(default_factory=lambda: ["production"])

    def add(self, portfolio: Portfolio) -> None:
        """Add the names of a portfolio. Of two portfolios of one pipeline, the later one counts."""
        pipeline = portfolio.pipeline
        for metric in portfolio.metrics:
            before = self.metrics.get((pipeline, metric.name))
            self.metrics[pipeline, metric.name] = _named(metric, before.position if before else len(self.metrics))
        for component in portfolio.components:
            ids = [tier.id for tier in component.tiers][:TIER_LIMIT]
            self.tiers[pipeline, component.id] = frozenset(ids)
            if ids and (chosen := _tier_metric(portfolio.metrics, component.id)):
                self.tier_metrics[pipeline, component.id] = chosen

    def meet_environments(self, names: Iterable[str | None]) -> None:
        """Give new environments a label of their own, up to `ENVIRONMENT_LIMIT`."""
        for name in sorted(name for name in names if name):
            if (
                name not in self.environments
                and len(self.environments) < ENVIRONMENT_LIMIT
                and len(name) <= _NAME_LIMIT
                and name != OTHER
            ):
                self.environments.append(name)

    def pipeline(self, name: str | None) -> str:
        """Return the label of a record's pipeline: its own name, or `other`."""
        if name is None:
            return ""
        return name if any(pipeline == name for pipeline, _ in self.tiers) else OTHER


def _named(metric: Metric, position: int) -> NamedMetric:
    claim = metric.claim
    judges = frozenset(judge.name or judge.model for judge in claim.judges) if isinstance(claim, JudgedClaim) else ()
    return NamedMetric(metric.component or "", metric.version, frozenset(judges), value_bounds(claim), position)


def _tier_metric(metrics: Iterable[Metric], component: str) -> str | None:
    """Return the metric that counts the most spans of a component: one without `when` and without a model."""
    own = [
        metric for metric in metrics if metric.component == component and not isinstance(metric.claim, UNSCORED_CLAIMS)
    ]
    own.sort(key=lambda metric: (isinstance(metric.claim, JudgedClaim), metric.when is not None))
    return own[0].name if own else None
