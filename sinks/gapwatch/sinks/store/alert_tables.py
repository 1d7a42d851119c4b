"""Writes shifts and alerts. Each step of an alert's life, and each label of a shift, is one more row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.series_columns import SeriesNames, series_row


@dataclass(frozen=True)
class AlertStepRow:
    """One step in an alert's life, a row of `alerts`.

    Attributes:
        alert_id: Id of the alert.
        shift_id: Id of the shift that the alert reports.
        incident_id: Id of its incident; None for a note on an improvement.
        lane: Lane of the series.
        series: The series that moved.
        state: State of the alert from this step on.
        severity: page, ticket or note.
        at: Time of the step, naive UTC.
        by: Who caused the step: a person, or Gapwatch.
        why: Reason, in words.
        attribution: JSON values: the facts of the alert, or the end of a silence; None if the step has neither.
    """

    alert_id: str
    shift_id: str
    incident_id: str | None
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
        lane: Lane of the series.
        series: The series that moved.
        kind: cascade (of a step from one way to another), shift, unknown or bound.
        found_at: When the detectors found it.
        change_at: Most likely start of the change.
        change_from: Earliest likely start.
        change_to: Latest likely start.
        moved: up or down.
        verdict: worse, better or unknown; None if the shift has no direction.
        question: Id of the question whose answer would decide the direction.
        evidence_log10: log10 of the evidence.
        rate_before: Failure rate before the change.
        rate_after: Failure rate since the change.
        lower: Lower limit of the confidence interval of `rate_after`.
        upper: Upper limit of the confidence interval of `rate_after`.
        units: Number of units since the change.
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
    """The label of a shift: its kind and its direction.

    Attributes:
        kind: cascade or shift.
        verdict: worse, better or unknown.
        question: Id of the question whose answer would decide the direction.
    """

    kind: str
    verdict: str | None
    question: str | None


@dataclass(frozen=True)
class LabelledShift:
    """A past shift and its latest label.

    Attributes:
        shift_id: Its id.
        moved: up or down.
        watched: The monitored quantity that moved: rate, sessions, numbers or labels.
        label: The latest label.
    """

    shift_id: str
    moved: str
    watched: str
    label: ShiftLabel


def insert_alert_step(con: duckdb.DuckDBPyConnection, seq: int, row: AlertStepRow) -> None:
    """Insert one step of an alert's life, in a transaction; `seq` is the number of the commit."""
    insert_row(
        con,
        "alerts",
        {
            "seq": seq,
            "alert_id": row.alert_id,
            "shift_id": row.shift_id,
            **series_row(row.lane, row.series),
            "state": row.state,
            "severity": row.severity,
            "at": row.at,
            "by": row.by,
            "why": row.why,
            "incident_id": row.incident_id,
            "attribution": None if row.attribution is None else json.dumps(row.attribution),
        },
    )


def insert_shift(con: duckdb.DuckDBPyConnection, seq: int, row: ShiftRow) -> None:
    """Insert a shift, in a transaction; `seq` is the number of the commit."""
    insert_row(
        con,
        "shifts",
        {
            "seq": seq,
            "shift_id": row.shift_id,
            **series_row(row.lane, row.series),
            "kind": row.kind,
            "found_at": row.found_at,
            "change_at": row.change_at,
            "change_from": row.change_from,
            "change_to": row.change_to,
            "moved": row.moved,
            "verdict": row.verdict,
            "question": row.question,
            "evidence_log10": row.evidence_log10,
            "rate_before": row.rate_before,
            "rate_after": row.rate_after,
            "lower": row.lower,
            "upper": row.upper,
            "units": row.units,
        },
    )


def labelled_shifts(con: duckdb.DuckDBPyConnection, lane: str, pipeline: str, metric: str) -> list[LabelledShift]:
    """Return the past shifts of a metric that have a direction, each with its latest label, ordered by id."""
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
    """Insert a new label of a shift. The earlier labels stay as history."""
    con.execute(
        """INSERT INTO shifts BY NAME
            SELECT * REPLACE (?::BIGINT AS seq, ? AS kind, ? AS verdict, ?::VARCHAR AS question) FROM shifts
            WHERE shift_id = ? ORDER BY rowid DESC LIMIT 1""",
        [seq, label.kind, label.verdict, label.question, shift_id],
    )
