"""Writes incidents. Each step of an incident's life is one more row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from gapwatch.sinks.store.row_inserts import insert_row


@dataclass(frozen=True)
class IncidentStepRow:
    """One step in an incident's life, a row of `incidents`. Times are naive UTC.

    Attributes:
        incident_id: Id of the incident.
        lane: Lane of its series.
        pipeline: Pipeline of its series.
        environment: Environment of its series.
        name: Metric and component that began to move first, and the number of further metrics.
        kind: cascade, shift, bound or unknown.
        state: open, acknowledged, silenced, accepted or resolved, from this step on.
        severity: Highest severity that the incident had: page, ticket or note.
        component: Component that moved first; None for the whole trace.
        since: Most likely start of the change of that component; None for a bound.
        since_from: Earliest likely start; None for a bound.
        since_to: Latest likely start; None for a bound.
        members: Ids of its alerts, in the order in which they were found.
        at: Time of the step.
        by: Who caused the step: a person, or gapwatch.
        why: What is new, or the reason of a person, in words.
        told: What messages say of it, as texts; with `until` for a silence.
    """

    incident_id: str
    lane: str
    pipeline: str
    environment: str
    name: str
    kind: str
    state: str
    severity: str
    component: str | None
    since: datetime | None
    since_from: datetime | None
    since_to: datetime | None
    members: tuple[str, ...]
    at: datetime
    by: str
    why: str
    told: Mapping[str, Any]


def insert_incident_step(con: duckdb.DuckDBPyConnection, seq: int, row: IncidentStepRow) -> None:
    """Insert one step of an incident's life, in a transaction; `seq` is the number of the commit."""
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    values |= {"members": json.dumps(row.members), "told": json.dumps(row.told)}
    insert_row(con, "incidents", {"seq": seq, **values})
