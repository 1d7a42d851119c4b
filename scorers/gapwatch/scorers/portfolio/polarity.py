"""Which way is better for a metric: whether only a fact may tell, and the fact that tells it."""

from __future__ import annotations

from collections.abc import Iterable

from gapwatch.scorers.portfolio.direction import is_cascade_name
from gapwatch.scorers.portfolio.fact import Fact
from gapwatch.scorers.portfolio.metric import Metric


def is_cascade(metric: Metric) -> bool:
    """Say whether a metric is of the cascade family: by its name, or because its alert says so."""
    return is_cascade_name(metric.name) or (metric.alert is not None and metric.alert.cascade)


def direction_fact(metric: Metric, facts: Iterable[Fact]) -> Fact | None:
    """Return the latest fact that says which way is better for a metric, or None where nobody said."""
    mine = [
        fact for fact in facts if fact.kind == "direction" and fact.metric == metric.name and same_owner(fact, metric)
    ]
    return max(mine, key=lambda fact: fact.moment, default=None)


def same_owner(fact: Fact, metric: Metric) -> bool:
    """Say whether a fact and a metric can be about one component; who names none is about any."""
    return fact.component is None or metric.component is None or fact.component == metric.component
