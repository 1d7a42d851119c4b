"""Block of the query: the metrics of one component, with their columns in the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio


@dataclass(frozen=True)
class PlannedMetric:
    """Columns of one metric in the query's result.

    Attributes:
        metric: The metric.
        portfolio: Its portfolio.
        slot: Number of its `c` column.
        score: Number of its `x` column, or None.
        label: Number of its `l` column, or None.
        stratum: Number of its `t` column, or None.
        observed: Column with the value that a row shows; None where it shows the score or the label.
        inputs: Column of each input field, for Python scorers (numbers as numbers) and judges (all as texts).
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
    """Rows of one component of a portfolio, or of the portfolio's traces.

    Attributes:
        portfolio: The portfolio.
        component: Id of the component; "" for the traces.
        metrics: Metrics in the order of the portfolio, without ratios.
    """

    portfolio: Portfolio
    component: str
    metrics: tuple[PlannedMetric, ...]

    @cached_property
    def sha(self) -> str:
        """Sha of the portfolio."""
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
        """True if the rows are traces."""
        return self.component == ""
