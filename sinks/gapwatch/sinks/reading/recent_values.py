"""Queries of the numbers and labels in a range of time, by series."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import duckdb

_SERIES = (
    "pipeline",
    "environment",
    "coalesce(component, '')",
    "metric",
    "metric_version",
    "coalesce(judge, '')",
    "epoch",
)
_SPAN = "lane = ? AND fold_bucket >= ? AND fold_bucket < ?"

#: pipeline, environment, component, metric, metric_version, judge, epoch; empty texts for null.
Names = tuple[str, ...]


def recent_cells(
    con: duckdb.DuckDBPyConnection, lane: str, begin: datetime, end: datetime
) -> Iterator[tuple[Names, int, int]]:
    """Yield the names of a series, a cell of its histogram, and the number of values in it.

    Args:
        con: Connection that reads the store.
        lane: Lane of the series.
        begin: Start of the range, naive UTC.
        end: End of the range, naive UTC, exclusive.
    """
    sql = f"""SELECT {", ".join(_SERIES)}, e.key, sum(e.value)::BIGINT
    FROM (SELECT * EXCLUDE (histogram), unnest(map_entries(histogram)) AS e FROM ticks
        WHERE {_SPAN} AND level = 'unit' AND facet = 'all' AND histogram IS NOT NULL)
    GROUP BY ALL ORDER BY ALL"""
    for *names, cell, n in _rows(con, sql, lane, begin, end):
        yield tuple(names), cell, n


def recent_labels(
    con: duckdb.DuckDBPyConnection, lane: str, begin: datetime, end: datetime
) -> Iterator[tuple[Names, str, str, int]]:
    """Yield the names of a series, the level (unit, span), a label, and its count. Arguments as in `recent_cells`."""
    sql = f"""SELECT {", ".join(_SERIES)}, level, "value", sum(n)::BIGINT FROM ticks
    WHERE {_SPAN} AND facet = 'label' AND "value" IS NOT NULL GROUP BY ALL ORDER BY ALL"""
    for *names, level, label, n in _rows(con, sql, lane, begin, end):
        yield tuple(names), level, label, n


def _rows(con: duckdb.DuckDBPyConnection, sql: str, lane: str, begin: datetime, end: datetime) -> list[tuple[Any, ...]]:
    return con.execute(sql, [lane, begin, end]).fetchall()
