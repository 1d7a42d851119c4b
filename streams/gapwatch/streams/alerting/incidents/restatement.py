"""Removes from a cause what the claim of the metric says by itself: that a fallback rate rose in the tier `fallback`.

A release, a tier or a label is a likely cause only where a trace could fail without it.
"""

from __future__ import annotations

from dataclasses import replace

from gapwatch.scorers.portfolio.claim import CheckClaim, LabelClaim, MeasureClaim
from gapwatch.scorers.portfolio.field import Field
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.streams.alerting.incidents.alert_cause import Cause

_FIELDS = {"model": "model", "tier": "tier", "error type": "error_type", "tool": "name"}
#: Begin of a facet that is an attribute of the trace.
DIMENSION = "dimension "


def restates(metric: Metric | None, facet: str) -> bool:
    """Return whether the claim of a metric reads the field that a facet shows.

    Args:
        metric: The metric; None where it is not known.
        facet: model, tier, error type, tool, or `dimension NAME` for an attribute of the trace.
    """
    field = None if metric is None else _field(metric)
    if facet.startswith(DIMENSION):
        return field == f"trace.attributes.{facet.removeprefix(DIMENSION)}"
    return field is not None and field == _FIELDS.get(facet)


def without_restatement(cause: Cause, metric: Metric | None, *, is_rate: bool) -> Cause:
    """Return a cause without the parts that repeat the claim of the metric.

    Args:
        cause: The cause.
        metric: The metric; None where it is not known.
        is_rate: The alert is on a rate, not on values. Then only labels that fail are left, where there are several.
    """
    shares = {facet: parts for facet, parts in cause.shares.items() if not restates(metric, facet)}
    labels = cause.labels
    if is_rate and metric is not None and isinstance(metric.claim, LabelClaim):
        bad = metric.claim.bad
        labels = tuple(part for part in labels if part.value in bad) if len(bad) > 1 else ()
    return replace(cause, shares=shares, labels=labels)


def _field(metric: Metric) -> str | None:
    """Return the field that decides whether a span fails, without a pointer; None where several do."""
    claim = metric.claim
    if isinstance(claim, LabelClaim | MeasureClaim):
        return claim.field.base
    if isinstance(claim, CheckClaim):
        field: Field | None = getattr(claim.predicate, "field", None)  # a combination of predicates has none
        return None if field is None else field.base
    return None
