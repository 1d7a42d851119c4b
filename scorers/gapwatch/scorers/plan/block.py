"""The metrics of one component, and where the query's answer about each stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio


@dataclass(frozen=True)
class PlannedMetric:
    """Where the query's answer about one metric stands.

    Attributes:
        metric: As in the portfolio.
        portfolio: The portfolio that it belongs to.
        slot: Number of its `c` column.
        score: Number of its `x` column, or None.
        label: Number of its `l` column, or None.
        stratum: Number of its `t` column, or None.
        observed: Column whose value a row shows; None where score or label says it.
        inputs: Field to the column with its value, for Python scorers (numbers as numbers) and judges (all as texts).
    """

    metric: Metric
    portfolio: Portfolio
    slot: int
    score: int | None = None
    label: int | None = None
    stratum: int | None = None
    observed: str | None = None
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """The rows of one component of one portfolio, or of its traces.

    What every slice asks for is asked of the models once.

    Attributes:
        portfolio: Whose component.
        component: Its id; "" for the traces.
        metrics: In the order of the portfolio, without ratios.
    """

    portfolio: Portfolio
    component: str
    metrics: tuple[PlannedMetric, ...]

    @cached_property
    def sha(self) -> str:
        """Of the portfolio."""
        return self.portfolio.sha

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each metric."""
        return tuple(planned.metric.name for planned in self.metrics)

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """Version of each metric."""
        return tuple(planned.metric.version for planned in self.metrics)

    @property
    def is_trace(self) -> bool:
        """Whether the rows are traces."""
        return self.component == ""
