"""Questions to the store about alerts: how each stands, its life, what was written of it, how many there were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.alert_tables import ShiftLabel
from gapwatch.sinks.store.series_columns import SERIES_COLUMNS
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.sinks.store.utc_text import parse_utc

#: States in which an alert wants something of somebody.
OPEN_STATES = ("open", "acknowledged", "silenced")

_LAST = f"""
    SELECT alert_id, {", ".join(SERIES_COLUMNS)},
        arg_max(shift_id, rowid) AS shift_id, arg_max(group_id, rowid) AS group_id,
        arg_max(state, rowid) AS state, arg_max(severity, rowid) AS severity,
        min("at") AS found_at, max("at") AS changed_at, arg_min(attribution, rowid) AS attribution,
        arg_max(attribution->>'until', rowid) AS until
    FROM alerts WHERE {{where}} GROUP BY ALL"""
# The last label of a shift counts: an answer that came later labels it anew.
_LABELS = """
    SELECT shift_id, arg_max(kind, rowid) AS kind, arg_max(verdict, rowid) AS verdict, max(question) AS question
    FROM shifts GROUP BY shift_id"""


@dataclass(frozen=True)
class AlertRow:
    """One alert, as its rows say that it stands. Times are naive UTC.

    Attributes:
        alert_id: Its id.
        lane: Of the series.
        pipeline: Of the series.
        environment: Of the series.
        component: Of the series; None for the trace.
        metric: Of the series.
        metric_version: Of the series.
        judge: Of the series; None without one.
        epoch: Of the series.
        shift_id: Of the shift that it speaks of.
        group_id: `alert_id` of the first alert of its group.
        state: The last one; `open` where a silence is over.
        severity: The last one: page, ticket or note.
        found_at: When it was opened.
        changed_at: When its last step came.
        group_at: When the first alert of its group was opened.
    """

    alert_id: str
    lane: str
    pipeline: str
    environment: str
    component: str | None
    metric: str
    metric_version: str
    judge: str | None
    epoch: str
    shift_id: str
    group_id: str
    state: str
    severity: str
    found_at: datetime
    changed_at: datetime
    group_at: datetime


@dataclass(frozen=True)
class AlertEntry:
    """One alert with what was stored of its cause.

    Attributes:
        row: How it stands.
        attribution: JSON values that were stored when it was opened.
        label: The last label of its shift; None where the shift is not known.
    """

    row: AlertRow
    attribution: Mapping[str, Any]
    label: ShiftLabel | None


@dataclass(frozen=True)
class LifeStep:
    """One step in an alert's life; `at` is naive UTC."""

    at: datetime
    state: str
    severity: str
    by: str
    why: str


@dataclass(frozen=True)
class AlertFilter:
    """Which alerts are asked for; None for any.

    Attributes:
        lane: Of the series.
        pipeline: Of the series.
        metric: Of the series.
        group_id: Of the group.
        since: Only alerts whose last step is not earlier, naive UTC.
    """

    lane: str | None = None
    pipeline: str | None = None
    metric: str | None = None
    group_id: str | None = None
    since: datetime | None = None

    @property
    def is_any(self) -> bool:
        """Whether it lets all alerts through."""
        return self == AlertFilter()


def alert_entries(con: StoreReader, wanted: AlertFilter, now: datetime) -> list[AlertEntry]:
    """Return alerts, groups together: first those that page somebody now, then the latest; in a group the first found.

    Args:
        con: Reading.
        wanted: Which alerts.
        now: Naive UTC: a silence that is over by then is no state.

    Raises:
        JobError: The store cannot be read.
    """
    asked = {name: getattr(wanted, name) for name in ("lane", "pipeline", "metric", "group_id")}
    conditions = {name: value for name, value in asked.items() if value is not None}
    where = " AND ".join(["true", *(f"{name} = ?" for name in conditions)])
    having = "" if wanted.since is None else "WHERE changed_at >= ?"
    values = [*conditions.values(), *([] if wanted.since is None else [wanted.since])]
    sql = f"""
        SELECT a.*, s.kind, s.verdict, s.question, min(found_at) OVER (PARTITION BY group_id) AS group_at,
            bool_or(severity = 'page' AND state IN {OPEN_STATES}) OVER (PARTITION BY group_id) AS pages
        FROM ({_LAST.format(where=where)}) a LEFT JOIN ({_LABELS}) s ON s.shift_id = a.shift_id {having}
        ORDER BY pages DESC, group_at DESC, group_id, found_at, alert_id"""
    rows = ask(con, sql, values).objects()
    return [_entry(row, now) for row in rows]


def _entry(row: dict[str, Any], now: datetime) -> AlertEntry:
    attribution = json.loads(row.pop("attribution") or "{}")
    del row["pages"]
    kind, verdict, question = (row.pop(name) for name in ("kind", "verdict", "question"))
    row["state"] = _state(row["state"], row.pop("until"), now)
    return AlertEntry(AlertRow(**row), attribution, None if kind is None else ShiftLabel(kind, verdict, question))


def alert_states(con: StoreReader, lane: str, now: datetime) -> dict[str, str]:
    """Return the state of each alert of a lane by its id; a silence that is over is no state.

    Args:
        con: Reading.
        lane: Of the alerts.
        now: Naive UTC.
    """
    rows = con.execute(
        """SELECT alert_id, arg_max(state, rowid), arg_max(attribution->>'until', rowid) FROM alerts WHERE lane = ?
            GROUP BY ALL""",
        [lane],
    ).fetchall()
    return {alert_id: _state(state, until, now) for alert_id, state, until in rows}


def _state(state: str, until: str | None, now: datetime) -> str:
    is_over = state == "silenced" and until is not None and parse_utc(until) <= now
    return "open" if is_over else state


def alert_life(con: StoreReader, alert_id: str) -> list[LifeStep]:
    """Return all steps of an alert, oldest first.

    Raises:
        JobError: The store cannot be read.
    """
    sql = 'SELECT "at", state, severity, "by", why FROM alerts WHERE alert_id = ? ORDER BY rowid'
    return [LifeStep(**row) for row in ask(con, sql, [alert_id]).objects()]


def written_steps(con: StoreReader, lane: str) -> set[tuple[str, str, str, datetime]]:
    """Return alert id, state, severity and time (naive UTC) of each step that the store holds of a lane."""
    sql = 'SELECT alert_id, state, severity, "at" FROM alerts WHERE lane = ?'
    return set(con.execute(sql, [lane]).fetchall())


def alert_counts(con: StoreReader, lane: str) -> list[tuple[str, str, str, str, float]]:
    """Return pipeline, environment, kind and severity of the alerts of a lane as they were opened, and how many."""
    return con.execute(
        """SELECT pipeline, environment, kind, severity, count(*)::DOUBLE FROM (
            SELECT alert_id, pipeline, environment, arg_min(attribution->>'kind', rowid) AS kind,
                arg_min(severity, rowid) AS severity
            FROM alerts WHERE lane = ? AND severity <> 'note' GROUP BY ALL) GROUP BY ALL""",
        [lane],
    ).fetchall()
