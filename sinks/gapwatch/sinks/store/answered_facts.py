"""Writes and reads the facts that people gave as answers, besides those of the portfolio and its file of facts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import duckdb

from gapwatch.scorers.loading.facts_file import merge_facts
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.author import names_person
from gapwatch.scorers.portfolio.fact import Fact
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.row_inserts import insert_row

_COLUMNS = ("id", "question", "component", "kind", "metric", "better", "value", "by", "at")


def insert_fact(con: duckdb.DuckDBPyConnection, pipeline: str, fact: Fact, now: datetime) -> None:
    """Store a fact.

    Args:
        con: Connection with an open transaction.
        pipeline: Pipeline whose portfolio asked the question.
        fact: The answer.
        now: Current time, naive UTC.
    """
    values = {name: None if (value := getattr(fact, name)) is None else str(value) for name in _COLUMNS}
    row = {"fact_id": values.pop("id"), **values, "pipeline": pipeline, "recorded_at": now}
    insert_row(con, "facts", row)


def stored_facts(con: duckdb.DuckDBPyConnection, pipeline: str) -> list[Fact]:
    """Return the facts stored for a pipeline, in the order in which they were stored.

    Older versions stored facts whose author is a placeholder, such as `YOU`: nobody said them, so they do not count.
    """
    rows = con.execute(
        """SELECT fact_id, question, component, kind, metric, better, "value", "by", "at" FROM facts
            WHERE pipeline = ? ORDER BY rowid""",
        [pipeline],
    ).fetchall()
    return [
        Fact.model_validate(dict(zip(_COLUMNS, row, strict=True)))
        for row in rows
        if names_person(row[_COLUMNS.index("by")])
    ]


def answered(portfolio: Portfolio, facts: Iterable[Fact]) -> Portfolio:
    """Return a portfolio with further facts applied. Of several facts with the same id, the latest `at` counts.

    Raises:
        PortfolioError: The portfolio contradicts a fact that is later than its own.
    """
    facts = tuple(facts)
    if not facts:
        return portfolio
    return parse_stored_portfolio(portfolio.text, portfolio.portfolio, merge_facts(portfolio.facts, facts))
