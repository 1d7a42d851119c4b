"""Block of a plan: the metrics of one component, with the functions that score its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from gapwatch.scorers.plan.block_function import BlockFunction
from gapwatch.scorers.plan.claim_outcomes import ClaimOutcome, Observed
from gapwatch.scorers.plan.row_values import RowInputs
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio


@dataclass(frozen=True)
class PlannedMetric:
    """Functions of one metric on the rows of its block.

    Attributes:
        metric: The metric.
        portfolio: Its portfolio.
        outcome: Its functions.
        inputs: Value of each input field, for Python scorers (numbers as numbers) and judges (all as texts).
    """

    metric: Metric
    portfolio: Portfolio
    outcome: ClaimOutcome
    inputs: dict[str, Observed] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Rows of one component of a portfolio, or of the portfolio's traces.

    Attributes:
        portfolio: The portfolio.
        component: Id of the component; "" for the traces.
        metrics: Metrics in the order of the portfolio, without ratios.
        inputs: Values that the metrics read of all rows at once.
        function: The function that scores the rows.
    """

    portfolio: Portfolio
    component: str
    metrics: tuple[PlannedMetric, ...]
    inputs: RowInputs
    function: BlockFunction

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

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Components whose spans are its rows, where its component stands for several."""
        return next((c.members for c in self.portfolio.components if c.id == self.component), ())

    @property
    def is_trace(self) -> bool:
        """True if the rows are traces."""
        return self.component == ""
