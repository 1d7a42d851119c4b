"""Questions to the store about annotations: what people noted near a time, and when of each pipeline last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb


@dataclass(frozen=True)
class NotedEvent:
    """What somebody noted; `at` is naive UTC, `by` None where nobody is named."""

    at: datetime
    text: str
    by: str | None


def noted_events(
    con: duckdb.DuckDBPyConnection, pipeline: str, begin: datetime, end: datetime, limit: int
) -> list[NotedEvent]:
    """Return what was noted of a pipeline, or of all, from `begin` on and before `end` (naive UTC), first `limit`."""
    rows = con.execute(
        """SELECT "at", "text", "by" FROM annotations WHERE (pipeline = ? OR pipeline IS NULL)
            AND "at" >= ? AND "at" < ? ORDER BY "at", "text" LIMIT ?""",
        [pipeline, begin, end, limit],
    ).fetchall()
    return [NotedEvent(*row) for row in rows]


def last_noted_seconds(con: duckdb.DuckDBPyConnection) -> dict[str | None, float]:
    """Return by pipeline, None for all, the second since the epoch of the last annotation that is not ahead of now."""
    rows = con.execute(
        """SELECT pipeline, epoch(max("at")) FROM annotations WHERE "at" <= now()::TIMESTAMP GROUP BY ALL"""
    ).fetchall()
    return {pipeline: float(at) for pipeline, at in rows}
