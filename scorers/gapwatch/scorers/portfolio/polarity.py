"""Finds the fact that decides a metric's direction, and the metrics that need one (the cascade family)."""

from __future__ import annotations

from collections.abc import Iterable

from gapwatch.scorers.portfolio.direction import is_cascade_name
from gapwatch.scorers.portfolio.fact import Fact
from gapwatch.scorers.portfolio.metric import Metric


def is_cascade(metric: Metric) -> bool:
    """Return whether a metric is of the cascade family: by its name, or by its key `alert.cascade`."""
    return is_cascade_name(metric.name) or (metric.alert is not None and metric.alert.cascade)


def direction_fact(metric: Metric, facts: Iterable[Fact]) -> Fact | None:
    """Return the latest fact about a metric's direction, or None where there is none."""
    mine = [
        fact for fact in facts if fact.kind == "direction" and fact.metric == metric.name and same_owner(fact, metric)
    ]
    return max(mine, key=lambda fact: fact.moment, default=None)


def same_owner(fact: Fact, metric: Metric) -> bool:
    """Return whether a fact and a metric can be about one component; one without a component fits any."""
    return fact.component is None or metric.component is None or fact.component == metric.component
