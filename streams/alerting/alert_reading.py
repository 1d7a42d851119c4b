"""Alerts as they stand in a store: the last word on each, what it says, and its whole life."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scorers.errors import UsageError
from sinks.answer import ask
from sinks.store_reader import StoreReader

#: States in which an alert wants something of somebody.
OPEN_STATES = ("open", "acknowledged", "silenced")

_SERIES = "lane, pipeline, environment, component, metric, metric_version, judge, epoch"
_LAST = f"""
    SELECT alert_id, {_SERIES},
        arg_max(shift_id, rowid) AS shift_id, arg_max(group_id, rowid) AS group_id,
        arg_max(state, rowid) AS state, arg_max(severity, rowid) AS severity,
        min("at") AS found_at, max("at") AS changed_at, arg_min(attribution, rowid) AS attribution,
        arg_max(attribution->>'until', rowid) AS until
    FROM alerts WHERE {{where}} GROUP BY ALL"""
# The last word on a shift: an answer that came later tells it anew.
_LABELS = """
    SELECT shift_id, arg_max(kind, rowid) AS kind, arg_max(verdict, rowid) AS verdict, max(question) AS question
    FROM shifts GROUP BY shift_id"""


@dataclass(frozen=True)
class Alert:
    """One alert, as it stands.

    Attributes:
        row: The columns of `alerts`, with the last state and severity, `found_at`, `changed_at`.
        told: What it said when it was opened.
    """

    row: dict[str, Any]
    told: dict[str, Any]

    @property
    def is_open(self) -> bool:
        """Whether it wants something of somebody."""
        return self.row["state"] in OPEN_STATES

    @property
    def began_at(self) -> datetime | None:
        """The likeliest begin of the change; None for a bound, whose window says nothing of it."""
        text = self.told.get("change_at")
        return None if text is None else parse_time(text)


@dataclass(frozen=True)
class LifeStep:
    """One step in an alert's life."""

    at: datetime
    state: str
    severity: str
    by: str
    why: str


def parse_time(text: str) -> datetime:
    """Return a time that an alert holds as text, naive UTC."""
    return datetime.fromisoformat(text.removesuffix("Z"))


def read_alerts(con: StoreReader, conditions: dict[str, Any], since: datetime | None) -> list[Alert]:
    """Return alerts, groups together: first those that page somebody now, then the latest; in a group the first found.

    Args:
        con: Reading.
        conditions: Column of `alerts` to value.
        since: Only alerts whose last step is not earlier; None for all.
    """
    where = " AND ".join(["true", *(f'"{name}" = ?' for name in conditions)])
    values = list(conditions.values())
    having = "" if since is None else "WHERE changed_at >= ?"
    sql = f"""
        SELECT a.*, s.kind, s.verdict, s.question, min(found_at) OVER (PARTITION BY group_id) AS group_at,
            bool_or(severity = 'page' AND state IN {OPEN_STATES}) OVER (PARTITION BY group_id) AS pages
        FROM ({_LAST.format(where=where)}) a LEFT JOIN ({_LABELS}) s ON s.shift_id = a.shift_id {having}
        ORDER BY pages DESC, group_at DESC, group_id, found_at, alert_id"""
    rows = ask(con, sql, values if since is None else [*values, since]).objects()
    now = datetime.now(UTC).replace(tzinfo=None)
    return [_alert(row, now) for row in rows]


def _alert(row: dict[str, Any], now: datetime) -> Alert:
    told = json.loads(row.pop("attribution") or "{}")
    del row["pages"]
    label = {name: row.pop(name) for name in ("kind", "verdict", "question")}
    row["state"] = _state(row["state"], row.pop("until"), now)
    if told.get("kind") in ("cascade", "shift") and label["kind"] is not None:
        told |= {**label, "question": label["question"] if label["verdict"] == "unknown" else None}
    return Alert(row, told)


def read_states(con: StoreReader, lane: str, now: datetime) -> dict[str, str]:
    """Return the state of each alert of a lane by its id; a silence that is over is none.

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
    is_over = state == "silenced" and until is not None and parse_time(until) <= now
    return "open" if is_over else state


def find_alert(con: StoreReader, wanted: str) -> Alert:
    """Return the alert with this id, or the only one whose id begins so.

    Raises:
        UsageError: None, or several.
    """
    alerts = [a for a in read_alerts(con, {}, None) if a.row["alert_id"].startswith(wanted)] if wanted else []
    if not alerts:
        raise UsageError(f"no alert {wanted!r} in this store; gapwatch alerts --all lists them")
    if len(alerts) > 1:
        ids = ", ".join(a.row["alert_id"] for a in alerts[:5])
        raise UsageError(f"several alerts begin with {wanted!r}: {ids}; give more of the id")
    return alerts[0]


def read_life(con: StoreReader, alert_id: str) -> list[LifeStep]:
    """Return all steps of an alert, oldest first."""
    sql = 'SELECT "at", state, severity, "by", why FROM alerts WHERE alert_id = ? ORDER BY rowid'
    rows: Sequence[dict[str, Any]] = ask(con, sql, [alert_id]).objects()
    return [LifeStep(row["at"], row["state"], row["severity"], row["by"], row["why"]) for row in rows]
