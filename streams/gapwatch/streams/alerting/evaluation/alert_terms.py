"""Terms of the detectors: portfolios with the answers of people, and the alert rules and budgets that follow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.answered_facts import answered, stored_facts
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule, budget_of, rules_of


def with_answers(store: Store, portfolios: Sequence[Portfolio]) -> list[Portfolio]:
    """Return the portfolios with the facts that people have answered.

    Raises:
        UsageError: A portfolio contradicts the answer of a person.
    """
    with closing(store.cursor()) as cursor:
        return [answered(one, stored_facts(cursor, one.pipeline)) for one in portfolios]


def rules_and_budgets(portfolios: Sequence[Portfolio]) -> tuple[list[AlertRule], dict[str, AlarmBudget]]:
    """Return all alert rules of some portfolios, and the false-alarm budget of each pipeline."""
    return rules_of(portfolios), {portfolio.pipeline: budget_of(portfolio) for portfolio in portfolios}
