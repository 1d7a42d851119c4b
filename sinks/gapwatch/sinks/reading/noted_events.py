"""Queries of annotations: those near a time, and the last one of each pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb


@dataclass(frozen=True)
class NotedEvent:
    """One annotation; `at` is naive UTC, `by` is None if no author is named."""

    at: datetime
    text: str
    by: str | None


def noted_events(
    con: duckdb.DuckDBPyConnection, pipeline: str, begin: datetime, end: datetime, limit: int
) -> list[NotedEvent]:
    """Return the first `limit` annotations of a pipeline, or of all, from `begin` to before `end` (naive UTC)."""
    rows = con.execute(
        """SELECT "at", "text", "by" FROM annotations WHERE (pipeline = ? OR pipeline IS NULL)
            AND "at" >= ? AND "at" < ? ORDER BY "at", "text" LIMIT ?""",
        [pipeline, begin, end, limit],
    ).fetchall()
    return [NotedEvent(*row) for row in rows]


def last_noted_seconds(con: duckdb.DuckDBPyConnection) -> dict[str | None, float]:
    """Return the time of the last past annotation by pipeline (None: about all), in seconds since 1970."""
    rows = con.execute(
        """SELECT pipeline, epoch(max("at")) FROM annotations WHERE "at" <= now()::TIMESTAMP GROUP BY ALL"""
    ).fetchall()
    return {pipeline: float(at) for pipeline, at in rows}
