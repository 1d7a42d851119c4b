"""The closed sets that labels come from: what the portfolios name, a few environments, and `other` for all else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gapwatch.scorers.portfolio.claim import Claim, CompositeClaim, JudgedClaim, MeasureClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.schema import OTHER

NO_TIER = "none"

#: Environments that have a name of their own. More make every series as many; a pipeline has three or four.
ENVIRONMENT_LIMIT = 16
#: Characters of an environment's name. A longer one is no name but somebody's text.
_NAME_LIMIT = 100
#: Tiers of a component that have a name of their own.
TIER_LIMIT = 16

#: Upper bounds of the buckets of values, by the unit of the measure: they never change while a series lives.
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
    """Return the upper bounds of the buckets that suit the numbers of a claim, ascending."""
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
    """What the labels of a metric may be.

    Attributes:
        component: Its component's id; empty for a metric of the trace.
        version: The version in force; ticks of another are in no rate.
        judges: Names of its judges.
        bounds: Of the histogram of its values.
        position: In the order of the portfolios.
    """

    component: str
    version: str
    judges: frozenset[str]
    bounds: tuple[float, ...]
    position: int


@dataclass
class LabelSets:
    """All that labels may say; grows with every portfolio that takes effect, and never shrinks.

    Attributes:
        metrics: By pipeline and metric.
        tiers: By pipeline and component, the tiers with a name of their own.
        tier_metrics: By pipeline and component, the metric whose spans tell the shares of tiers.
        environments: Those with a name of their own, in the order in which they came.
    """

    metrics: dict[tuple[str, str], NamedMetric] = field(default_factory=dict)
    tiers: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    tier_metrics: dict[tuple[str, str], str] = field(default_factory=dict)
    environments: list[str] = field(default_factory=lambda: ["production"])

    def add(self, portfolio: Portfolio) -> None:
        """Take in a portfolio; of two of one pipeline the later one counts."""
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
        """Give names to environments that have none yet, as far as there are names left."""
        for name in sorted(name for name in names if name):
            if (
                name not in self.environments
                and len(self.environments) < ENVIRONMENT_LIMIT
                and len(name) <= _NAME_LIMIT
                and name != OTHER
            ):
                self.environments.append(name)

    def pipeline(self, name: str | None) -> str:
        """Return the label of a record's pipeline."""
        if name is None:
            return ""
        return name if any(pipeline == name for pipeline, _ in self.tiers) else OTHER


def _named(metric: Metric, position: int) -> NamedMetric:
    claim = metric.claim
    judges = frozenset(judge.name or judge.model for judge in claim.judges) if isinstance(claim, JudgedClaim) else ()
    return NamedMetric(metric.component or "", metric.version, frozenset(judges), value_bounds(claim), position)


def _tier_metric(metrics: Iterable[Metric], component: str) -> str | None:
    """Choose the metric that counts the most of a component's spans: one without `when` and without a model."""
    own = [metric for metric in metrics if metric.component == component and metric.claim.form != "ratio"]
    own.sort(key=lambda metric: (isinstance(metric.claim, JudgedClaim), metric.when is not None))
    return own[0].name if own else None
