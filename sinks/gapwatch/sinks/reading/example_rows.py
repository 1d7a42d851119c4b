"""Finds the rows behind an alert: example traces, their texts, and SQL with which a person finds all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from gapwatch.scorers.slices.facet_names import OTHER
from gapwatch.scorers.slices.sample_record import unpack_record
from gapwatch.sinks.reading.alert_query import AlertRow
from gapwatch.sinks.reading.json_values import read_json
from gapwatch.sinks.store.alert_samples import RowPlace
from gapwatch.sinks.store.series_columns import SeriesNames, series_condition
from gapwatch.sinks.store.store_reader import StoreReader

_VALUE_OUTCOMES = "outcome IN ('pass', 'warn', 'fail')"
# A row has the environment that its trace names, also where ticks count it as `other`: those that the partition had not
# counted apart on that day when it stored the row. Exact but for the commit in which a name comes to be counted apart,
# and for a trace that begins and ends on different days.
_IS_OTHER = """NOT EXISTS (SELECT 1 FROM internal.facet_names AS known WHERE known.facet = 'environment'
    AND known."value" = gaps.environment AND known.sightings = 2 AND known.seq <= gaps.seq AND known.lane = gaps.lane
    AND known.source_topic = gaps.source_topic AND known.source_partition = gaps.source_partition
    AND known.pipeline = gaps.pipeline AND coalesce(known."day" = date_trunc('day', gaps.event_at), true))"""


@dataclass(frozen=True)
class ValuePart:
    """A part of the values of a series.

    Attributes:
        labels: Labels in the part, empty for any label; None for numbers.
        above: Exclusive lower limit of numbers; None without one.
        below: Inclusive upper limit of numbers; None without one.
        outside: Whether the part lies above `above` or below `below`, instead of between them.
        inside: Whether rows in the part are wanted; otherwise rows outside it.
    """

    labels: tuple[str, ...] | None
    above: float | None = None
    below: float | None = None
    outside: bool = False
    inside: bool = True

    @property
    def ends(self) -> list[tuple[str, float]]:
        """SQL comparisons of the limits, each with its number."""
        ends = [("score >", self.above), ("score <=", self.below)]
        return [(text, end) for text, end in ends if end is not None]

    @property
    def joint(self) -> str:
        """SQL operator that joins the comparisons."""
        return " OR " if self.outside else " AND "


class ExampleRow(NamedTuple):
    """One trace that shows a change; `at` is naive UTC, `release` is None if the trace names none."""

    trace_id: str
    at: datetime
    observed: str | None
    release: str | None


def _gap_condition(lane: str, series: SeriesNames) -> tuple[str, list[Any]]:
    """Return the SQL condition that selects the rows of a series in `gaps`, and its parameters."""
    if series.environment != OTHER:
        return series_condition(lane, series)
    return series_condition(lane, series, environment=f"(environment = ? OR {_IS_OTHER})")


def outcome_examples(
    con: StoreReader, lane: str, series: SeriesNames, outcome: str, begin: datetime, end: datetime,
    limit: int, *, is_last: bool = False,
) -> list[ExampleRow]:  # fmt: skip
    """Return the first traces of a series with an outcome.

    Args:
        con: Connection with the transaction that holds the rows.
        lane: Lane of the series.
        series: Names of the series; rows of all epochs count.
        outcome: Outcome of the rows.
        begin: Earliest event time, naive UTC.
        end: End of event time, naive UTC, exclusive.
        limit: Largest number of traces.
        is_last: Return the last traces, latest first, instead of the first.
    """
    return _examples(con, lane, series, "outcome = ?", [outcome], begin, end, limit, is_last=is_last)


def value_examples(
    con: StoreReader, lane: str, series: SeriesNames, part: ValuePart, begin: datetime, end: datetime,
    limit: int,
) -> list[ExampleRow]:  # fmt: skip
    """Return the first traces of a series with a value in a part. Arguments as in `outcome_examples`."""
    which, bounds = row_condition(part)
    return _examples(con, lane, series, which, bounds, begin, end, limit)


def _bound_condition(part: ValuePart) -> tuple[str, list[Any]]:
    """Return the SQL condition for the values of a part, and its parameters."""
    if part.labels is not None:
        return ("label IN (SELECT unnest(?))", [list(part.labels)]) if part.labels else ("true", [])
    ends = part.ends
    text = part.joint.join(f"{comparison} ?" for comparison, _ in ends)
    return f"({text})" if ends else "true", [end for _, end in ends]


def _examples(
    con: StoreReader, lane: str, series: SeriesNames, which: str, bounds: list[Any], begin: datetime,
    end: datetime, limit: int, *, is_last: bool = False,
) -> list[ExampleRow]:  # fmt: skip
    where, values = _gap_condition(lane, series)
    rows = con.execute(
        f"""SELECT trace_id, min(event_at), arg_min(coalesce(observed, reason), (event_at, span_index)),
            arg_min("release", event_at)
        FROM gaps WHERE {where} AND {which} AND event_at >= ? AND event_at < ?
        GROUP BY trace_id ORDER BY 2 {"DESC" if is_last else ""}, 1 LIMIT ?""",
        [*values, *bounds, begin, end, limit],
    ).fetchall()
    return [ExampleRow(*row) for row in rows]


def rows_sql(row: AlertRow, which: str | ValuePart, since: datetime) -> str:
    """Return SQL that selects the rows behind an alert, with every value escaped.

    Args:
        row: The alert.
        which: Outcome of the rows, or part of the values.
        since: Earliest event time of the rows, naive UTC.
    """
    environment = f"environment = {_literal(row.environment)}"
    conditions = [
        f"lane = {_literal(row.lane)}",
        f"pipeline = {_literal(row.pipeline)}",
        f"({environment} OR {_IS_OTHER})" if row.environment == OTHER else environment,
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


#: Most texts of one group. More cost memory and time, fewer hide a value that few traces have.
MOST_TEXTS = 300
# Packed texts above this are left out: 300 of them are at most 30 MB.
_MOST_PACKED = 100_000
_AT_ONCE = 20


class BehindRow(NamedTuple):
    """Row behind an alert; `at` is naive UTC, `has_text` says whether the text of its trace is stored."""

    trace_id: str
    at: datetime
    observed: str | None
    release: str | None
    has_text: bool


_PLACE = ("seq", "source_topic", "source_partition", "source_offset", "trace_id", "portfolio_sha", "event_at")
_TEXT = """s.lane = g.lane AND s.source_topic = g.source_topic AND s.source_partition = g.source_partition
    AND s.source_offset = g.source_offset"""


def rows_with_text_first(
    con: StoreReader, lane: str, series: SeriesNames, which: str | ValuePart, begin: datetime, limit: int
) -> list[BehindRow]:
    """Return the first traces of a series behind an alert, those whose text is stored before the others.

    Args:
        con: Connection for reading.
        lane: Lane of the series.
        series: Names of the series.
        which: Outcome of the rows, or part of the values.
        begin: Earliest event time, naive UTC.
        limit: Largest number of traces.
    """
    where, values = _gap_condition(lane, series)
    inside, bounds = row_condition(which)
    rows = con.execute(
        f"""SELECT trace_id, min(event_at), arg_min(coalesce(observed, reason), (event_at, span_index)),
            arg_min("release", event_at), bool_or(EXISTS (SELECT 1 FROM samples s WHERE {_TEXT}
                AND s.record IS NOT NULL)) AS has_text
        FROM (SELECT * FROM gaps WHERE {where} AND {inside} AND event_at >= ?) g
        GROUP BY trace_id ORDER BY 5 DESC, 2, 1 LIMIT ?""",
        [*values, *bounds, begin, limit],
    ).fetchall()
    return [BehindRow(*row) for row in rows]


def first_rows_without_text(
    con: StoreReader, lane: str, series: SeriesNames, which: str | ValuePart, begin: datetime, limit: int
) -> list[RowPlace]:
    """Return the rows of the first `limit` traces of a series that have no entry in `samples`, in order of event time.

    Each trace counts by its first row. Arguments as in `rows_with_text_first`.
    """
    where, values = _gap_condition(lane, series)
    inside, bounds = row_condition(which)
    names = ", ".join(f"first_row.{name}" for name in _PLACE)
    rows = con.execute(
        f"""WITH firsts AS (
            SELECT trace_id, min(event_at) AS first_at, arg_min(
                {{{", ".join(f"'{name}': {name}" for name in _PLACE)}}},
                (event_at, source_partition, source_offset, span_index)) AS first_row
            FROM gaps WHERE {where} AND {inside} AND event_at >= ? GROUP BY trace_id
            ORDER BY first_at, trace_id LIMIT ?
        )
        SELECT {names} FROM firsts WHERE NOT EXISTS (
            SELECT 1 FROM samples s WHERE s.lane = ? AND s.source_topic = first_row.source_topic
                AND s.source_partition = first_row.source_partition AND s.source_offset = first_row.source_offset
        ) ORDER BY first_at, firsts.trace_id""",
        [*values, *bounds, begin, limit, lane],
    ).fetchall()
    return [RowPlace(*row) for row in rows]


def gone_texts(con: StoreReader, lane: str, series: SeriesNames, which: str | ValuePart, begin: datetime) -> int:
    """Return how many of the wanted texts behind an alert the source no longer held. Arguments as above."""
    where, values = _gap_condition(lane, series)
    inside, bounds = row_condition(which)
    rows = con.execute(
        f"""SELECT count(*) FROM (SELECT * FROM samples WHERE lane = ? AND record IS NULL) s WHERE EXISTS (
            SELECT 1 FROM (SELECT * FROM gaps WHERE {where} AND {inside} AND event_at >= ?) g WHERE {_TEXT})""",
        [lane, *values, *bounds, begin],
    ).fetchall()
    return int(rows[0][0])


def row_condition(which: str | ValuePart) -> tuple[str, list[Any]]:
    """Return the SQL condition for rows with an outcome or with values in a part, and its parameters."""
    if isinstance(which, str):
        return "outcome = ?", [which]
    inside, bounds = _bound_condition(which)
    return f"{_VALUE_OUTCOMES} AND {inside if which.inside else f'NOT ({inside})'}", bounds


def texts(
    con: StoreReader, lane: str, series: SeriesNames, outcome: str, begin: datetime | None, end: datetime | None
) -> Iterator[dict[str, Any]]:
    """Yield the stored texts of the traces of a series with an outcome, as JSON objects, at most `MOST_TEXTS`.

    Args:
        con: Connection for reading; it must not be used for anything else in the meantime.
        lane: Lane of the series.
        series: Names of the series.
        outcome: Outcome of the rows.
        begin: Earliest event time, naive UTC, the first come first; None for any time, the last come first.
        end: End of event time, exclusive; None for none.
    """
    where, values = _gap_condition(lane, series)
    bounds = [(text, at) for text, at in (("event_at >= ?", begin), ("event_at < ?", end)) if at is not None]
    found = con.execute(
        f"""SELECT any_value(s.record) FROM samples s JOIN (
            SELECT lane, source_topic, source_partition, source_offset, min(event_at) AS first_at FROM gaps
            WHERE {" AND ".join([where, "outcome = ?", *(text for text, _ in bounds)])} GROUP BY ALL
        ) g ON {_TEXT} WHERE octet_length(s.record) <= {_MOST_PACKED}
        GROUP BY s.record_sha256 ORDER BY min(g.first_at) {"DESC" if begin is None else ""}, s.record_sha256
        LIMIT {MOST_TEXTS}""",
        [*values, outcome, *(at for _, at in bounds)],
    )
    while some := found.fetchmany(_AT_ONCE):
        for (packed,) in some:
            value = read_json(unpack_record(packed).decode("utf-8", "replace"))
            if isinstance(value, dict):
                yield value
