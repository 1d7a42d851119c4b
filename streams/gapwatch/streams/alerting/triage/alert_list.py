"""List of alerts: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import datetime
from typing import Any

from gapwatch.sinks.reading.json_values import write_json
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.reading.terminal_table import Column, component_text, moment_text, print_note, print_table
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert
from gapwatch.streams.alerting.triage.explain import alert_rows_sql
from gapwatch.streams.alerting.triage.wording import headline, size, state_text

#: Most rows that `gapwatch explain --rows` lists.
MOST_ROWS = 200
_ROW_COLUMNS = ("trace", "release", "model", "tier", "observed")


def print_json(alerts: list[StoredAlert]) -> None:
    """Print alerts as a JSON array of objects."""
    sys.stdout.write(json.dumps([_as_json(alert) for alert in alerts], indent=1) + "\n")


def _as_json(alert: StoredAlert) -> dict[str, Any]:
    row = {name: utc_text(value) if isinstance(value, datetime) else value for name, value in asdict(alert.row).items()}
    return {**row, **alert.facts.to_json(), "rows_sql": alert_rows_sql(alert)}


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


def print_alerts(alerts: list[StoredAlert], closed: int, is_part: bool) -> None:
    """Print alerts as a table, with the alerts of a group below each other.

    Args:
        alerts: Alerts to show.
        closed: Number of closed alerts and notes that are not shown.
        is_part: The list is filtered.
    """
    others = f"; {closed} closed or noted, --all shows them" if closed else ""
    if not alerts:
        print_note(f"{'no alert that matches is open' if is_part else 'no alert is open'}{others}")
        return
    columns = [
        Column("alert", whole=True),
        Column("severity", whole=True),
        Column("state", whole=True),
        Column("component"),
        Column("metric", whole=True),
        Column("kind"),
        Column("failing, or the move"),
        Column("since", whole=True),
        Column("found in the data", whole=True),
    ]
    print_table(columns, [_cells(alert) for alert in alerts], upright=True)
    groups = len({alert.row.group_id for alert in alerts})
    sys.stdout.write(
        f"\n{len(alerts)} {'alert' if len(alerts) == 1 else 'alerts'} in {groups} "
        f"{'group' if groups == 1 else 'groups'} (a group holds alerts that began together){others}\n"
    )


def _cells(alert: StoredAlert) -> list[str]:
    row, began = alert.row, alert.began_at
    return [
        row.alert_id,
        row.severity,
        state_text(row.state, row.severity),
        component_text(row.component),
        row.metric,
        headline(alert.facts),
        size(alert.facts),
        "-" if began is None else moment_text(began, "seconds"),
        moment_text(row.found_at, "seconds"),
    ]
