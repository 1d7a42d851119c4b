"""Writes shifts and alerts: each step of an alert's life, and each label that a shift was given, is one more row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from gapwatch.sinks.store.series_columns import SeriesNames, series_values


@dataclass(frozen=True)
class AlertStepRow:
    """One step in an alert's life, a row of `alerts`.

    Attributes:
        alert_id: Of the alert.
        shift_id: Of the shift that it speaks of.
        group_id: `alert_id` of the first alert of its group.
        lane: Of the series.
        series: What moved.
        state: That the alert is in from now on.
        severity: page, ticket or note.
        at: Naive UTC.
        by: Who brought the step.
        why: In words.
        attribution: JSON values: the facts of the alert, or until when a silence lasts; None for neither.
    """

    alert_id: str
    shift_id: str
    group_id: str
    lane: str
    series: SeriesNames
    state: str
    severity: str
    at: datetime
    by: str
    why: str
    attribution: Mapping[str, Any] | None


@dataclass(frozen=True)
class ShiftRow:
    """One shift, a row of `shifts`. Times are naive UTC.

    Attributes:
        shift_id: Its id.
        lane: Of the series.
        series: What moved.
        kind: cascade, shift, unknown or bound.
        found_at: When it was found.
        change_at: The likeliest begin of the change.
        change_from: Earliest likely begin.
        change_to: Latest likely begin.
        moved: up or down.
        verdict: worse, better or unknown; None where nothing is said.
        question: Id of the question that would settle the direction.
        evidence_log10: log10 of the evidence.
        rate_before: Share before the change.
        rate_after: Share since.
        lower: Lower end of the interval of `rate_after`.
        upper: Its upper end.
        units: Units since.
    """

    shift_id: str
    lane: str
    series: SeriesNames
    kind: str
    found_at: datetime
    change_at: datetime
    change_from: datetime
    change_to: datetime
    moved: str
    verdict: str | None
    question: str | None
    evidence_log10: float | None
    rate_before: float | None
    rate_after: float | None
    lower: float | None
    upper: float | None
    units: int | None


@dataclass(frozen=True)
class ShiftLabel:
    """The last label of a shift.

    Attributes:
        kind: cascade or shift.
        verdict: worse, better or unknown.
        question: Id of the question that would settle the direction.
    """

    kind: str
    verdict: str | None
    question: str | None


@dataclass(frozen=True)
class LabelledShift:
    """A past shift and its last label.

    Attributes:
        shift_id: Its id.
        moved: up or down.
        watched: What of the series moved: rate, sessions, numbers, labels.
        label: The last one.
    """

    shift_id: str
    moved: str
    watched: str
    label: ShiftLabel


def insert_alert_step(con: duckdb.DuckDBPyConnection, seq: int, row: AlertStepRow) -> None:
    """Insert one step of an alert's life, in a transaction; `seq` is the number of its commit."""
    values = [
        seq,
        row.alert_id,
        row.shift_id,
        *series_values(row.lane, row.series),
        row.state,
        row.severity,
        row.at,
        row.by,
        row.why,
        row.group_id,
        None if row.attribution is None else json.dumps(row.attribution),
    ]
    con.execute(f"INSERT INTO alerts VALUES ({', '.join('?' * len(values))})", values)


def insert_shift(con: duckdb.DuckDBPyConnection, seq: int, row: ShiftRow) -> None:
    """Insert a shift, in a transaction; `seq` is the number of its commit."""
    values = [
        seq,
        row.shift_id,
        *series_values(row.lane, row.series),
        row.kind,
        row.found_at,
        row.change_at,
        row.change_from,
        row.change_to,
        row.moved,
        row.verdict,
        row.question,
        row.evidence_log10,
        row.rate_before,
        row.rate_after,
        row.lower,
        row.upper,
        row.units,
    ]
    con.execute(f"INSERT INTO shifts VALUES ({', '.join('?' * len(values))})", values)


def labelled_shifts(con: duckdb.DuckDBPyConnection, lane: str, pipeline: str, metric: str) -> list[LabelledShift]:
    """Return the past shifts of a metric whose direction matters, each with its last label, by their ids."""
    rows = con.execute(
        """SELECT shift_id, moved, (
                SELECT any_value(attribution->>'watched') FROM alerts a WHERE a.shift_id = shifts.shift_id
            ), kind, verdict, question FROM shifts
            WHERE lane = ? AND pipeline = ? AND metric = ? AND kind IN ('cascade', 'shift')
            QUALIFY row_number() OVER (PARTITION BY shift_id ORDER BY rowid DESC) = 1 ORDER BY shift_id""",
        [lane, pipeline, metric],
    ).fetchall()
    return [LabelledShift(shift, moved, watched, ShiftLabel(*label)) for shift, moved, watched, *label in rows]


def relabel_shift(con: duckdb.DuckDBPyConnection, seq: int, shift_id: str, label: ShiftLabel) -> None:
    """Insert a further label of a shift; the earlier ones stay as history."""
    con.execute(
        """INSERT INTO shifts SELECT * REPLACE (?::BIGINT AS seq, ? AS kind, ? AS verdict, ?::VARCHAR AS question)
            FROM shifts WHERE shift_id = ? ORDER BY rowid DESC LIMIT 1""",
        [seq, label.kind, label.verdict, label.question, shift_id],
    )
