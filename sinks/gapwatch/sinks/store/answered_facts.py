"""What people answered while a store was kept: facts besides those of the portfolio and its file of facts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import duckdb

from gapwatch.scorers.loading.facts_file import merge_facts
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.fact import Fact
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.row_inserts import insert_row

_COLUMNS = ("id", "question", "component", "kind", "metric", "better", "value", "by", "at")


def insert_fact(con: duckdb.DuckDBPyConnection, pipeline: str, fact: Fact, now: datetime) -> None:
    """Record a fact.

    Args:
        con: In a transaction.
        pipeline: Whose portfolio asked.
        fact: The answer.
        now: Naive, UTC.
    """
    told = {name: None if (value := getattr(fact, name)) is None else str(value) for name in _COLUMNS}
    row = {"fact_id": told.pop("id"), **told, "pipeline": pipeline, "recorded_at": now}
    insert_row(con, "facts", row)


def stored_facts(con: duckdb.DuckDBPyConnection, pipeline: str) -> list[Fact]:
    """Return the facts that were recorded for a pipeline, in the order in which they were."""
    rows = con.execute(
        """SELECT fact_id, question, component, kind, metric, better, "value", "by", "at" FROM facts
            WHERE pipeline = ? ORDER BY rowid""",
        [pipeline],
    ).fetchall()
    return [Fact.model_validate(dict(zip(_COLUMNS, row, strict=True))) for row in rows]


def answered(portfolio: Portfolio, facts: Iterable[Fact]) -> Portfolio:
    """Return a portfolio with further facts in force: of those with one id, the latest `at` counts.

    Raises:
        PortfolioError: It says the opposite of a fact that is later than its own.
    """
    facts = tuple(facts)
    if not facts:
        return portfolio
    return parse_portfolio(portfolio.text, portfolio.portfolio, merge_facts(portfolio.facts, facts))
