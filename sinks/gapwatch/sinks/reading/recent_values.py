"""Recent values of a series: histograms and labels for `/metrics`, and the failure rate before its newest trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import duckdb

from gapwatch.sinks.catalog.rate_interval import rates_sql
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.series_columns import SeriesNames, series_condition
from gapwatch.sinks.store.store_reader import StoreReader

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


#: Length of a tick: the newest trace lies somewhere in the last one, and the first one somewhere in the first.
TICK = timedelta(seconds=30)


@dataclass(frozen=True)
class RateNow:
    """Failure rate of a window that ends with the newest trace. Times are naive UTC.

    Attributes:
        begin: Begin of the window, or of the change where that is later.
        end: End of the tick of the newest trace.
        units: Good and bad traces of the window.
        rate: Failure rate, 0 to 1; of undecided traces their share, without an interval.
        lower: Lower limit of its 95 % interval; None without one.
        upper: Upper limit of its 95 % interval; None without one.
    """

    begin: datetime
    end: datetime
    units: int
    rate: float | None
    lower: float | None
    upper: float | None


def newest_tick(con: StoreReader, lane: str, series: SeriesNames) -> datetime | None:
    """Return the end of the latest tick of a series, naive UTC; None where it has none."""
    where, values = series_condition(lane, series)
    sql = f"""SELECT max(bucket) AS newest FROM ticks
        WHERE level = 'unit' AND facet = 'all' AND outcome IN ('good', 'bad', 'unknown', 'error') AND {where}"""
    newest = ask(con, sql, values).objects()[0]["newest"]
    return None if newest is None else newest + TICK


def rate_until(
    con: StoreReader, lane: str, series: SeriesNames, end: datetime, span: timedelta, change: datetime | None,
    *, is_unknown: bool,
) -> RateNow:  # fmt: skip
    """Return the failure rate of a series before a time, as `gapwatch rates` computes it.

    Args:
        con: Connection for reading.
        lane: Lane of the series.
        series: Names of the series.
        end: End of the window, naive UTC.
        span: Length of the window.
        change: Begin of the change; the window does not begin before it. None for none.
        is_unknown: Return the share of undecided traces instead.
    """
    begin = end - span if change is None else max(end - span, change)
    where, values = series_condition(lane, series)
    # The condition stands once in the query, so the parameters do as well.
    sql = rates_sql("true AS every", f"{where} AND bucket >= ? AND bucket < ?")
    rows = ask(con, sql, [*values, begin, end]).objects()
    if not rows:
        return RateNow(begin, end, 0, None, None, None)
    row = rows[0]
    if is_unknown:
        return RateNow(begin, end, row["units"] + row["unknown"] + row["errors"], row["unknown_share"], None, None)
    return RateNow(begin, end, row["units"], row["rate"], row["lower"], row["upper"])
