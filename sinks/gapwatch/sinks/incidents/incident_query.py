"""Queries of incidents: current state, steps of an incident's life, ids."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gapwatch.sinks.incidents.incident_tables import IncidentStepRow
from gapwatch.sinks.reading.alert_query import OPEN_STATES, LifeStep
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.sinks.store.utc_text import parse_utc

_COLUMNS = tuple(IncidentStepRow.__dataclass_fields__)
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)


@dataclass(frozen=True)
class IncidentRow:
    """Current state of one incident.

    Attributes:
        step: Its last step. The state is `open` again after the end of a silence.
        opened_at: Time of its first step, naive UTC.
    """

    step: IncidentStepRow
    opened_at: datetime

    @property
    def is_open(self) -> bool:
        """True for an incident that is not over."""
        return self.step.state in OPEN_STATES


def incident_rows(con: StoreReader, now: datetime, lane: str | None = None) -> list[IncidentRow]:
    """Return all incidents: open pages first, then open ones, then the latest.

    Args:
        con: Connection that reads the store.
        now: Current time, naive UTC. A silence that has ended by then does not count.
        lane: Lane of the incidents; None for all.

    Raises:
        JobError: The store cannot be read.
    """
    where, values = ("true", []) if lane is None else ("lane = ?", [lane])
    rows = ask(con, _last_sql(where), values).objects()
    found = [_incident(row, now) for row in rows]
    urgency = ("page", "ticket", "note")
    found.sort(key=lambda one: one.opened_at, reverse=True)
    return sorted(found, key=lambda one: (not one.is_open, urgency.index(one.step.severity) if one.is_open else 0))


def incident_row(con: StoreReader, incident_id: str, now: datetime) -> IncidentRow | None:
    """Return one incident; None where the store has none of this id. Arguments as for `incident_rows`."""
    rows = ask(con, _last_sql("incident_id = ?"), [incident_id]).objects()
    return _incident(rows[0], now) if rows else None


def _last_sql(where: str) -> str:
    return f"""SELECT {_NAMES}, opened_at FROM (
        SELECT *, min("at") OVER (PARTITION BY incident_id) AS opened_at FROM incidents WHERE {where}
        QUALIFY row_number() OVER (PARTITION BY incident_id ORDER BY rowid DESC) = 1) ORDER BY incident_id"""


def _incident(row: dict[str, Any], now: datetime) -> IncidentRow:
    opened_at = row.pop("opened_at")
    row |= {"members": tuple(json.loads(row["members"])), "told": json.loads(row["told"])}
    until = row["told"].get("until")
    if row["state"] == "silenced" and until is not None and parse_utc(until) <= now:
        row["state"] = "open"
    return IncidentRow(IncidentStepRow(**row), opened_at)


def incident_life(con: StoreReader, incident_id: str) -> list[LifeStep]:
    """Return all steps of an incident, oldest first.

    Raises:
        JobError: The store cannot be read.
    """
    sql = 'SELECT "at", state, severity, "by", why FROM incidents WHERE incident_id = ? ORDER BY rowid'
    return [LifeStep(**row) for row in ask(con, sql, [incident_id]).objects()]


def incident_ids(con: StoreReader) -> list[str]:
    """Return the ids of all incidents."""
    return [row["incident_id"] for row in ask(con, "SELECT DISTINCT incident_id FROM incidents ORDER BY 1").objects()]
