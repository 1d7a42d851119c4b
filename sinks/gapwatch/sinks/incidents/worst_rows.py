"""Worst rows of an incident: the traces that an engineer reads first."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from gapwatch.sinks.reading.example_rows import ValuePart, row_condition
from gapwatch.sinks.reading.failing_excerpt import first_words
from gapwatch.sinks.store.series_columns import SeriesNames, series_condition
from gapwatch.sinks.store.store_reader import StoreReader

#: Characters of a text that a message carries, and of what was observed before it.
WORDS = 80
_OBSERVED = 30


class WorstRow(NamedTuple):
    """One trace; `at` is naive UTC, `words`: what was observed, then the first words of its text; may be empty."""

    trace_id: str
    at: datetime
    words: str


def worst_rows(
    con: StoreReader, lane: str, series: SeriesNames, which: str | ValuePart, begin: datetime, end: datetime,
    limit: int, *, is_high: bool,
) -> list[WorstRow]:  # fmt: skip
    """Return the worst traces of a series since a change: the most extreme numbers, then the most failing metrics.

    Args:
        con: Connection that reads the store, in the transaction that holds the rows.
        lane: Lane of the series.
        series: Names of the series; rows of all epochs count.
        which: Outcome of the rows, or part of the values.
        begin: Earliest event time, naive UTC.
        end: End of event time, naive UTC, exclusive.
        limit: Largest number of traces.
        is_high: The highest numbers are the worst, else the lowest; of no account for outcomes.
    """
    where, values = series_condition(lane, series)
    inside, bounds = row_condition(which)
    extreme = "0" if isinstance(which, str) else f"{'-max' if is_high else 'min'}(score)"
    rows = con.execute(
        f"""WITH mine AS (
            SELECT trace_id, min(event_at) AS first_at, {extreme} AS place,
                arg_min(coalesce(observed, reason), (event_at, span_index)) AS observed
            FROM gaps WHERE {where} AND {inside} AND event_at >= ? AND event_at < ? GROUP BY trace_id
        ), failing AS (
            SELECT trace_id, count(DISTINCT metric) AS n FROM gaps
            WHERE lane = ? AND pipeline = ? AND outcome = 'fail' AND event_at >= ? AND event_at < ? GROUP BY trace_id
        )
        SELECT m.trace_id, m.first_at, m.observed FROM mine m LEFT JOIN failing f ON f.trace_id = m.trace_id
        ORDER BY m.place, coalesce(f.n, 0) DESC, m.first_at, m.trace_id LIMIT ?""",
        [*values, *bounds, begin, end, lane, series.pipeline, begin, end, limit],
    ).fetchall()
    component = series.component or None
    return [
        WorstRow(trace_id, at, _words(observed or "", first_words(con, trace_id, component, WORDS)))
        for trace_id, at, observed in rows
    ]


def _words(observed: str, text: str) -> str:
    """Return what was observed, then the text; what was observed once, where the text begins with it."""
    begin = observed[:_OBSERVED]
    return ": ".join(filter(None, ("" if text.startswith(begin) else begin, text)))[:WORDS]
