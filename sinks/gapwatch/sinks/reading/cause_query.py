"""Queries about the cause of an alert: counts before and since a change, by release, model or label."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import duckdb

from gapwatch.scorers.slices.facet_names import OTHER
from gapwatch.sinks.store.series_columns import SeriesNames, series_condition
from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class ChangeSpan:
    """Ticks of a series before and since a change. Times are naive UTC, ends are exclusive.

    Attributes:
        lane: Lane of the series.
        series: Names of the series.
        begin: Start of the ticks before the change.
        change: Time of the change.
        end: End of the ticks since the change.
    """

    lane: str
    series: SeriesNames
    begin: datetime
    change: datetime
    end: datetime


class PartCounts(NamedTuple):
    """Counts of one release, model, tier or stratum: units, and the number or sum in question among them."""

    value: str
    before: float
    wanted_before: float
    since: float
    wanted_since: float


class LabelCounts(NamedTuple):
    """Spans with one label before and since a change."""

    label: str
    before: float
    since: float


class FirstSeen(NamedTuple):
    """First time at which a release or model was seen, naive UTC."""

    facet: str
    value: str
    at: datetime


def outcome_counts(
    con: duckdb.DuckDBPyConnection, span: ChangeSpan, facet: str, *, is_unknown: bool
) -> list[PartCounts]:
    """Return the units of each part and the number of failed or undecided ones, ordered by the part's name.

    Args:
        con: Connection with the transaction that holds the ticks.
        span: Ticks to count.
        facet: release, model, tier or stratum.
        is_unknown: Count undecided units among all; otherwise failed units among the decided ones.
    """
    wanted = "outcome IN ('unknown', 'skip', 'error')" if is_unknown else "outcome IN ('bad', 'fail')"
    known = "true" if is_unknown else "outcome NOT IN ('unknown', 'skip', 'error')"
    return _part_counts(con, span, facet, f"sum(n) FILTER (fold_bucket {{}} ? AND {wanted})", known)


def score_sums(con: duckdb.DuckDBPyConnection, span: ChangeSpan, facet: str) -> list[PartCounts]:
    """Return the units with a number of each part and the sum of their numbers, ordered by the part's name."""
    return _part_counts(con, span, facet, "sum(score_sum) FILTER (fold_bucket {} ?)", "score_sum IS NOT NULL")


def _part_counts(
    con: duckdb.DuckDBPyConnection, span: ChangeSpan, facet: str, wanted: str, known: str
) -> list[PartCounts]:
    where, values = series_condition(span.lane, span.series)
    # Releases are counted in units. Models and tiers are counted in spans, because a trace may have several.
    level = "unit" if facet == "release" else "span"
    rows = con.execute(
        f"""SELECT coalesce(value, ''),
            coalesce(sum(n) FILTER (fold_bucket < ?), 0)::DOUBLE,
            coalesce({wanted.format("<")}, 0)::DOUBLE,
            coalesce(sum(n) FILTER (fold_bucket >= ?), 0)::DOUBLE,
            coalesce({wanted.format(">=")}, 0)::DOUBLE
        FROM ticks WHERE {where} AND epoch = ? AND level = ? AND facet = ? AND {known}
            AND fold_bucket >= ? AND fold_bucket < ?
        GROUP BY ALL ORDER BY 1""",
        [*[span.change] * 4, *values, span.series.epoch, level, facet, span.begin, span.end],
    ).fetchall()
    return [PartCounts(*row) for row in rows]


def label_counts(con: StoreReader, span: ChangeSpan) -> list[LabelCounts]:
    """Return the number of spans with each label, ordered by label."""
    where, values = series_condition(span.lane, span.series)
    rows = con.execute(
        f"""SELECT value, coalesce(sum(n) FILTER (fold_bucket < ?), 0)::DOUBLE,
            coalesce(sum(n) FILTER (fold_bucket >= ?), 0)::DOUBLE
        FROM ticks WHERE {where} AND epoch = ? AND level = 'span' AND facet = 'label' AND value IS NOT NULL
            AND fold_bucket >= ? AND fold_bucket < ?
        GROUP BY ALL ORDER BY 1""",
        [*[span.change] * 2, *values, span.series.epoch, span.begin, span.end],
    ).fetchall()
    return [LabelCounts(*row) for row in rows]


def counted_cells(con: StoreReader, span: ChangeSpan) -> tuple[dict[int, int], dict[int, int]]:
    """Return the counts of the histogram before and since the change, by cell."""
    where, values = series_condition(span.lane, span.series)
    rows = con.execute(
        f"""SELECT fold_bucket >= ? AS since, e.key AS cell, sum(e.value)::BIGINT FROM (
            SELECT fold_bucket, unnest(map_entries(histogram)) AS e FROM ticks
            WHERE {where} AND epoch = ? AND level = 'unit' AND facet = 'all' AND histogram IS NOT NULL
                AND fold_bucket >= ? AND fold_bucket < ?)
        GROUP BY ALL ORDER BY 2""",
        [span.change, *values, span.series.epoch, span.begin, span.end],
    ).fetchall()
    before = {cell: n for is_since, cell, n in rows if not is_since}
    return before, {cell: n for is_since, cell, n in rows if is_since}


def first_seen(
    con: duckdb.DuckDBPyConnection, lane: str, series: SeriesNames, change: datetime, end: datetime
) -> list[FirstSeen]:
    """Return the first time of each release and model of a pipeline before `end`, those nearest to `change` first.

    Args:
        con: Connection with the transaction that holds the ticks.
        lane: Lane of the ticks.
        series: Series that names pipeline and environment.
        change: Time of the change, naive UTC.
        end: End of the ticks, naive UTC, exclusive.
    """
    rows = con.execute(
        f"""SELECT facet, value, min(fold_bucket) AS first_seen FROM ticks
        WHERE lane = ? AND pipeline = ? AND environment = ? AND facet IN ('release', 'model') AND value IS NOT NULL
            AND value <> '{OTHER}' AND fold_bucket < ?
        GROUP BY ALL ORDER BY abs(epoch(min(fold_bucket)) - epoch(?::TIMESTAMP)), 1 DESC, 2""",
        [lane, series.pipeline, series.environment, end, change],
    ).fetchall()
    return [FirstSeen(*row) for row in rows]
