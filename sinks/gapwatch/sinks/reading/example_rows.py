"""Finds the rows behind an alert: example traces, and the SQL by which a person finds all of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from gapwatch.sinks.reading.alert_query import AlertRow
from gapwatch.sinks.store.series_columns import SeriesNames, series_condition
from gapwatch.sinks.store.store_reader import StoreReader

_VALUE_OUTCOMES = "outcome IN ('pass', 'warn', 'fail')"


@dataclass(frozen=True)
class ValuePart:
    """The part of a series' values that rows are wanted of.

    Attributes:
        labels: The labels in it, empty for any label; None for numbers.
        above: The numbers in it are larger than this; None without a lower end.
        below: They are at most this; None without an upper end.
        outside: It is what lies above `above` or below `below`, not between them.
        inside: The rows in it are wanted; else those that are not in it.
    """

    labels: tuple[str, ...] | None
    above: float | None = None
    below: float | None = None
    outside: bool = False
    inside: bool = True

    @property
    def ends(self) -> list[tuple[str, float]]:
        """The comparisons of numbers that it asks for, and the number of each."""
        ends = [("score >", self.above), ("score <=", self.below)]
        return [(text, end) for text, end in ends if end is not None]

    @property
    def joint(self) -> str:
        """By which word the ends are joined."""
        return " OR " if self.outside else " AND "


class ExampleRow(NamedTuple):
    """One trace that shows what moved; `at` is naive UTC, `release` None where the trace names none."""

    trace_id: str
    at: datetime
    observed: str | None
    release: str | None


def outcome_examples(
    con: StoreReader, lane: str, series: SeriesNames, outcome: str, begin: datetime, end: datetime,
    limit: int, *, is_last: bool = False,
) -> list[ExampleRow]:  # fmt: skip
    """Return the first traces of a series with an outcome.

    Args:
        con: In the transaction that holds the rows.
        lane: Of the series.
        series: Its names; the epoch is not asked for.
        outcome: Of a row.
        begin: Naive UTC.
        end: Naive UTC, exclusive.
        limit: How many at most.
        is_last: The last traces, latest first, in place of the first.
    """
    return _examples(con, lane, series, "outcome = ?", [outcome], begin, end, limit, is_last=is_last)


def value_examples(
    con: StoreReader, lane: str, series: SeriesNames, part: ValuePart, begin: datetime, end: datetime,
    limit: int,
) -> list[ExampleRow]:  # fmt: skip
    """Return the first traces of a series with a value in a part; see `outcome_examples`."""
    inside, bounds = _bound_condition(part)
    which = f"{_VALUE_OUTCOMES} AND {inside}" if part.inside else f"{_VALUE_OUTCOMES} AND NOT ({inside})"
    return _examples(con, lane, series, which, bounds, begin, end, limit)


def _bound_condition(part: ValuePart) -> tuple[str, list[Any]]:
    """Return the condition that rows of a part meet, and its parameters."""
    if part.labels is not None:
        return ("label IN (SELECT unnest(?))", [list(part.labels)]) if part.labels else ("true", [])
    ends = part.ends
    text = part.joint.join(f"{comparison} ?" for comparison, _ in ends)
    return f"({text})" if ends else "true", [end for _, end in ends]


def _examples(
    con: StoreReader, lane: str, series: SeriesNames, which: str, bounds: list[Any], begin: datetime,
    end: datetime, limit: int, *, is_last: bool = False,
) -> list[ExampleRow]:  # fmt: skip
    where, values = series_condition(lane, series)
    rows = con.execute(
        f"""SELECT trace_id, min(event_at), arg_min(coalesce(observed, reason), (event_at, span_index)),
            arg_min("release", event_at)
        FROM gaps WHERE {where} AND {which} AND event_at >= ? AND event_at < ?
        GROUP BY trace_id ORDER BY 2 {"DESC" if is_last else ""}, 1 LIMIT ?""",
        [*values, *bounds, begin, end, limit],
    ).fetchall()
    return [ExampleRow(*row) for row in rows]


def rows_sql(row: AlertRow, which: str | ValuePart, since: datetime) -> str:
    """Return the SQL that shows the rows behind an alert, with every value escaped.

    Args:
        row: The alert.
        which: The outcome of the rows, or the part of the values that they lie in.
        since: Their earliest event time, naive UTC.
    """
    conditions = [
        f"lane = {_literal(row.lane)}",
        f"pipeline = {_literal(row.pipeline)}",
        f"environment = {_literal(row.environment)}",
        f"metric = {_literal(row.metric)}",
        f"outcome = {_literal(which)}" if isinstance(which, str) else _literal_condition(which),
        f"event_at >= {_literal(since.isoformat())}",
    ]
    return (
        f"SELECT event_at, trace_id, release, model, tier, observed FROM gaps WHERE {' AND '.join(conditions)} "
        "ORDER BY event_at"
    )


def _literal_condition(part: ValuePart) -> str:
    if part.labels is not None:
        labels = ", ".join(_literal(label) for label in part.labels)
        inside = f"label IN ({labels})" if labels else "label IS NOT NULL"
    else:
        ends = part.joint.join(f"{comparison} {end!r}" for comparison, end in part.ends)
        inside = f"({ends})" if ends else "score IS NOT NULL"
    return inside if part.inside else f"NOT ({inside})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
