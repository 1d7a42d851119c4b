"""Words of the page on a broken bound: its origin of the bound, how sure it is, which side is worse."""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.printable import shown
from gapwatch.streams.alerting.incidents.alert_facts import PromisedBound

#: How sure a broken bound is.
BOUND_IS_SURE = (
    "the whole interval of the window lies beyond the bound; it is so wide that a quantity exactly on its bound breaks "
    "it in at most 5 % of months"
)


def bound_origin(metric: Metric | None) -> Iterator[str]:
    """Yield where a bound comes from, as the portfolio says."""
    if metric is not None and metric.threshold is not None and metric.threshold.justification:
        yield f"origin of the bound: {shown(metric.threshold.justification, 300)}"


def promised_side(bound: PromisedBound) -> str:
    """Return the sentence that says which side of a bound is worse."""
    side = "at most" if bound.operator in ("<", "<=") else "at least"
    return f"the portfolio wants {side} this bound, so beyond it is worse"
