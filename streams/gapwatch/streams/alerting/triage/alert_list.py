"""List of alerts: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from gapwatch.sinks.incidents.incident_query import IncidentRow
from gapwatch.sinks.reading.json_values import write_json
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.reading.terminal_table import Column, component_text, moment_text, print_note, print_table
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, StoredIncident
from gapwatch.streams.alerting.incidents.told import Told
from gapwatch.streams.alerting.incidents.wording import KIND_WORDS, headline, metric_text, size, state_text
from gapwatch.streams.alerting.triage.explain import alert_rows_sql

#: Most rows that `gapwatch explain --rows` lists.
MOST_ROWS = 200
_ROW_COLUMNS = ("trace", "release", "model", "tier", "observed")


def print_json(alerts: list[StoredAlert]) -> None:
    """Print alerts as a JSON array of objects."""
    sys.stdout.write(json.dumps([_as_json(alert) for alert in alerts], indent=1) + "\n")


def _as_json(alert: StoredAlert) -> dict[str, Any]:
    row = {name: utc_text(value) if isinstance(value, datetime) else value for name, value in asdict(alert.row).items()}
    return {**row, **alert.facts.to_json(), "rows_sql": alert_rows_sql(alert)}


def print_incident_json(incident: StoredIncident) -> None:
    """Print an incident with its alerts as a JSON object."""
    step = {
        name: utc_text(value) if isinstance(value, datetime) else value
        for name, value in asdict(incident.row.step).items()
    }
    whole = {
        **step,
        "opened_at": utc_text(incident.row.opened_at),
        "alerts": [_as_json(one) for one in incident.alerts],
    }
    sys.stdout.write(json.dumps(whole, indent=1) + "\n")


def print_rows(con: StoreReader, alert: StoredAlert, form: str) -> None:
    """Print the rows behind an alert, in the order of event time: a table for people, JSON for programs.

    Args:
        con: Connection for reading.
        alert: The alert.
        form: table or json.
    """
    answer = ask(con, f"{alert_rows_sql(alert)} LIMIT {MOST_ROWS}")
    if form == "json":
        sys.stdout.flush()
        write_json(answer, sys.stdout.buffer)
        return
    rows = answer.objects()
    if not rows:
        print_note("no row behind this alert is stored; gapwatch rates counts every trace")
        return
    columns = [Column("at", whole=True), *(Column(name, whole=name == "trace") for name in _ROW_COLUMNS)]
    print_table(columns, [[moment_text(row.pop("event_at"), "seconds"), *row.values()] for row in rows])
    if len(rows) == MOST_ROWS:
        print_note(f"the first {MOST_ROWS} rows")


def print_alerts(alerts: list[StoredAlert], incidents: Mapping[str, IncidentRow], closed: int, is_part: bool) -> None:
    """Print alerts as a table, with the alerts of each incident below it.

    Args:
        alerts: Alerts to show, by incident.
        incidents: Incidents by id.
        closed: Number of closed alerts and notes that are not shown.
        is_part: The list is filtered.
    """
    others = f"; {closed} closed or noted, --all shows them" if closed else ""
    if not alerts:
        print_note(f"{'no alert that matches is open' if is_part else 'no alert is open'}{others}")
        return
    columns = [
        Column("incident, alert", whole=True),
        Column("severity", whole=True),
        Column("state", whole=True),
        Column("component"),
        Column("metric", whole=True),
        Column("kind"),
        Column("failing, or the move"),
        Column("since", whole=True),
        Column("found in the data", whole=True),
    ]
    rows, seen = [], set()
    for alert in alerts:
        incident = incidents.get(alert.row.incident_id or "")
        if incident is not None and alert.row.incident_id not in seen:
            seen.add(alert.row.incident_id)
            rows.append(_incident_cells(incident))
        rows.append(_cells(alert))
    print_table(columns, rows, upright=True)
    sys.stdout.write(
        f"\n{len(seen)} {'incident' if len(seen) == 1 else 'incidents'} with {len(alerts)} "
        f"{'alert' if len(alerts) == 1 else 'alerts'} (an incident holds the alerts of series that moved together)"
        f"{others}\n"
    )


def _incident_cells(incident: IncidentRow) -> list[str]:
    step = incident.step
    what = Told.from_json(step.told).what or KIND_WORDS.get(step.kind, "")
    return [
        step.incident_id,
        step.severity,
        state_text(step.state, step.severity),
        component_text(step.component),
        step.name,
        what,
        "",
        "-" if step.since is None else moment_text(step.since, "seconds"),
        moment_text(incident.opened_at, "seconds"),
    ]


def _cells(alert: StoredAlert) -> list[str]:
    row, began = alert.row, alert.began_at
    return [
        f"  {row.alert_id}",
        row.severity,
        state_text(row.state, row.severity),
        component_text(row.component),
        metric_text(alert),
        headline(alert.facts),
        size(alert.facts),
        "-" if began is None else moment_text(began, "seconds"),
        moment_text(row.found_at, "seconds"),
    ]
