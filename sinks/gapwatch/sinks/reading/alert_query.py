"""Queries of alerts: current state, steps of an alert's life, counts."""

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

#: States of an alert that is not closed.
OPEN_STATES = ("open", "acknowledged", "silenced")

# Characters of a short id. Fewer are mistyped for one another.
_SHORTEST_ID = 4

_LAST = f"""
    SELECT alert_id, {", ".join(SERIES_COLUMNS)},
        arg_max(shift_id, rowid) AS shift_id, arg_max(incident_id, rowid) AS incident_id,
        arg_max(state, rowid) AS state, arg_max(severity, rowid) AS severity,
        min("at") AS found_at, max("at") AS changed_at, arg_min(attribution, rowid) AS attribution,
        arg_max(attribution->>'until', rowid) AS until
    FROM alerts WHERE {{where}} GROUP BY ALL"""
# The latest label of a shift counts: a later answer relabels it.
_LABELS = """
    SELECT shift_id, arg_max(kind, rowid) AS kind, arg_max(verdict, rowid) AS verdict, max(question) AS question
    FROM shifts GROUP BY shift_id"""


@dataclass(frozen=True)
class AlertRow:
    """Current state of one alert. Times are naive UTC.

    Attributes:
        alert_id: Id of the alert.
        lane: Lane of the series.
        pipeline: Pipeline of the series.
        environment: Environment of the series.
        component: Component of the series; None for the whole trace.
        metric: Metric of the series.
        metric_version: Version of the metric.
        judge: Judge of the series; None without one.
        epoch: Epoch of the series.
        shift_id: Id of the shift that the alert reports.
        incident_id: Id of its incident; None for a note on an improvement.
        state: Current state; `open` after the end of a silence.
        severity: Current severity: page, ticket or note.
        found_at: Time at which the alert was opened.
        changed_at: Time of its last step.
        incident_at: Time at which the first alert of its incident was opened.
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
    incident_id: str | None
    state: str
    severity: str
    found_at: datetime
    changed_at: datetime
    incident_at: datetime


@dataclass(frozen=True)
class AlertEntry:
    """One alert with its stored facts.

    Attributes:
        row: Current state.
        attribution: JSON values of the facts, stored when the alert was opened.
        label: Latest label of its shift; None if the shift is not known.
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
    """Selection of alerts. None selects all.

    Attributes:
        lane: Lane of the series.
        pipeline: Pipeline of the series.
        metric: Metric of the series.
        incident_id: Id of the incident.
        since: Earliest time of the last step, naive UTC.
    """

    lane: str | None = None
    pipeline: str | None = None
    metric: str | None = None
    incident_id: str | None = None
    since: datetime | None = None

    @property
    def is_any(self) -> bool:
        """True if it selects all alerts."""
        return self == AlertFilter()


def alert_entries(con: StoreReader, wanted: AlertFilter, now: datetime) -> list[AlertEntry]:
    """Return alerts by incident: those with an open page first, then the latest; in an incident the first found first.

    Args:
        con: Connection that reads the store.
        wanted: Selection of alerts.
        now: Current time, naive UTC. A silence that has ended by then does not count.

    Raises:
        JobError: The store cannot be read.
    """
    asked = {name: getattr(wanted, name) for name in ("lane", "pipeline", "metric", "incident_id")}
    conditions = {name: value for name, value in asked.items() if value is not None}
    where = " AND ".join(["true", *(f"{name} = ?" for name in conditions)])
    having = "" if wanted.since is None else "WHERE changed_at >= ?"
    values = [*conditions.values(), *([] if wanted.since is None else [wanted.since])]
    sql = f"""
        SELECT a.*, s.kind, s.verdict, s.question, min(found_at) OVER together AS incident_at,
            bool_or(severity = 'page' AND state IN {OPEN_STATES}) OVER together AS pages
        FROM ({_LAST.format(where=where)}) a LEFT JOIN ({_LABELS}) s ON s.shift_id = a.shift_id {having}
        WINDOW together AS (PARTITION BY coalesce(incident_id, alert_id))
        ORDER BY pages DESC, incident_at DESC, coalesce(incident_id, alert_id), found_at, alert_id"""
    rows = ask(con, sql, values).objects()
    return [_entry(row, now) for row in rows]


def _entry(row: dict[str, Any], now: datetime) -> AlertEntry:
    attribution = json.loads(row.pop("attribution") or "{}")
    del row["pages"]
    kind, verdict, question = (row.pop(name) for name in ("kind", "verdict", "question"))
    row["state"] = _state(row["state"], row.pop("until"), now)
    return AlertEntry(AlertRow(**row), attribution, None if kind is None else ShiftLabel(kind, verdict, question))


def alert_states(con: StoreReader, lane: str, now: datetime) -> dict[str, str]:
    """Return the state of each alert of a lane by its id. A silence that has ended does not count.

    Args:
        con: Connection that reads the store.
        lane: Lane of the alerts.
        now: Current time, naive UTC.
    """
    rows = con.execute(
        """SELECT alert_id, arg_max(state, rowid), arg_max(attribution->>'until', rowid) FROM alerts WHERE lane = ?
            GROUP BY ALL""",
        [lane],
    ).fetchall()
    return {alert_id: _state(state, until, now) for alert_id, state, until in rows}


def opened_alerts(con: StoreReader, lane: str) -> dict[str, bool]:
    """Return the ids of all alerts of a lane, the oldest first, and whether each is open."""
    rows = con.execute(
        """SELECT alert_id, arg_max(state, rowid) FROM alerts WHERE lane = ? GROUP BY alert_id ORDER BY min(rowid)""",
        [lane],
    ).fetchall()
    return {alert_id: state in OPEN_STATES for alert_id, state in rows}


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


def told_at(con: StoreReader, alert_id: str) -> datetime | None:
    """Return when the commit that opened an alert was stored, naive UTC; None where that is no longer known."""
    sql = """SELECT min(kept_at) AS told FROM offsets
        WHERE seq = (SELECT min(seq) FROM alerts WHERE alert_id = ?)"""
    told: datetime | None = ask(con, sql, [alert_id]).objects()[0]["told"]
    return told


def short_id(con: StoreReader, alert_id: str) -> str:
    """Return the shortest beginning of an id that no other alert of the store has, such as `a291`; it may grow."""
    rows = ask(con, "SELECT DISTINCT alert_id FROM alerts WHERE alert_id <> ?", [alert_id]).objects()
    others = [row["alert_id"] for row in rows]
    lengths = range(_SHORTEST_ID, len(alert_id))
    return next((alert_id[:n] for n in lengths if not any(one.startswith(alert_id[:n]) for one in others)), alert_id)


def opening_attribution(con: StoreReader, alert_id: str) -> dict[str, Any] | None:
    """Return the facts with which an alert was opened; None for an alert that is not stored."""
    sql = "SELECT attribution FROM alerts WHERE alert_id = ? ORDER BY rowid LIMIT 1"
    rows = con.execute(sql, [alert_id]).fetchall()
    return json.loads(rows[0][0]) if rows else None


def stored_incident(con: StoreReader, alert_id: str) -> str | None:
    """Return the id of the incident of a stored alert; None for a note, and for an alert that is not stored."""
    sql = "SELECT incident_id FROM alerts WHERE alert_id = ? ORDER BY rowid LIMIT 1"
    rows = con.execute(sql, [alert_id]).fetchall()
    return rows[0][0] if rows else None


def written_steps(con: StoreReader, lane: str) -> set[tuple[str, str, str, datetime]]:
    """Return alert id, state, severity and time (naive UTC) of each stored step of a lane."""
    sql = 'SELECT alert_id, state, severity, "at" FROM alerts WHERE lane = ?'
    return set(con.execute(sql, [lane]).fetchall())


def alert_counts(con: StoreReader, lane: str) -> list[tuple[str, str, str, str, float]]:
    """Return pipeline, environment, kind, severity and number of the alerts of a lane, without notes.

    An alert counts once for each severity that it had, so that no number ever falls: a ticket that grew into a page
    counts as both.
    """
    return con.execute(
        """SELECT pipeline, environment, kind, severity, count(*)::DOUBLE FROM (
            SELECT DISTINCT alert_id, pipeline, environment, severity,
                first_value(attribution->>'kind') OVER (PARTITION BY alert_id ORDER BY rowid) AS kind
            FROM alerts WHERE lane = ? AND severity <> 'note') GROUP BY ALL""",
        [lane],
    ).fetchall()
