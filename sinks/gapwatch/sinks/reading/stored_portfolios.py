"""Reads the portfolios that a store has recorded, as their YAML."""

from __future__ import annotations

from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

#: Query of the YAML of one portfolio, by its sha.
PORTFOLIO_BY_SHA = "SELECT yaml FROM portfolios WHERE portfolio_sha = ?"


def portfolio_texts(con: StoreReader) -> list[str]:
    """Return the YAML of every portfolio in the store."""
    return [text for (text,) in con.execute("SELECT yaml FROM portfolios").fetchall()]


def portfolio_text(con: StoreReader, sha: str) -> str | None:
    """Return the YAML of one portfolio; None if the store does not have it."""
    found: list[tuple[str]] = con.execute(PORTFOLIO_BY_SHA, [sha]).fetchall()
    return found[0][0] if found else None


def latest_portfolio_texts(con: StoreReader) -> list[str]:
    """Return the YAML of the latest portfolio of each pipeline, ordered by pipeline.

    Raises:
        JobError: The store cannot be read.
    """
    sql = "SELECT arg_max(yaml, first_seen_at) AS yaml FROM portfolios GROUP BY pipeline ORDER BY pipeline"
    return [row["yaml"] for row in ask(con, sql).objects()]


def latest_portfolio_text(con: StoreReader, pipeline: str) -> str | None:
    """Return the YAML of the latest portfolio of a pipeline; None if there is none.

    Raises:
        JobError: The store cannot be read.
    """
    sql = "SELECT yaml FROM portfolios WHERE pipeline = ? ORDER BY first_seen_at DESC LIMIT 1"
    return next((row["yaml"] for row in ask(con, sql, [pipeline]).objects()), None)


def fact_author(con: StoreReader, pipeline: str, fact_id: str) -> tuple[str, str] | None:
    """Return who gave an answer, and when; None where the store has no answer of this id."""
    sql = """SELECT "by", "at"::VARCHAR AS "at" FROM facts WHERE pipeline = ? AND fact_id = ?
        ORDER BY recorded_at DESC LIMIT 1"""
    return next(((row["by"], row["at"]) for row in ask(con, sql, [pipeline, fact_id]).objects()), None)
