"""Page on an incident: what moved, since when, where first, why, its alerts and rows, and what to do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from gapwatch.scorers.command_line import program_name
from gapwatch.scorers.printable import shown
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.incidents.incident_query import IncidentRow, incident_life, incident_rows
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.stored_alerts import StoredIncident
from gapwatch.streams.alerting.incidents.told import Told, lead_of, told_lines
from gapwatch.streams.alerting.incidents.wording import life_text, size, state_text, subject
from gapwatch.streams.alerting.triage.explain import COMMAND, Explanation, print_page

# Alerts on the page; the list of alerts has all of a large incident.
_MOST_ALERTS = 20


def explain_incident(con: StoreReader, store: StorePlace, incident: StoredIncident) -> Explanation:
    """Return the page on an incident: what people were told of it, its alerts, and what to do next."""
    step, told = incident.row.step, Told.from_json(incident.row.step.told)
    named = os.environ.get("GAPWATCH_STORE") == str(store)
    place = "" if named else f" --store {shlex.quote(str(store))}"
    lines = told_lines(told)
    sections = (
        ("What", lines["What"]),
        ("Since", lines["Since"]),
        ("First", lines["First"]),
        ("Why", lines["Why"]),
        ("Rows", lines["Rows"]),
        ("Alerts", _alerts(incident)),
        ("Beside", _beside(con, incident)),
        ("History", (life_text(one) for one in incident_life(con, incident.incident_id))),
        ("Do", _do(incident, place)),
    )
    return Explanation(
        severity=step.severity,
        state_text=state_text(step.state, step.severity),
        is_open=incident.is_open,
        headline=told.what,
        subject=f"{step.name}, {shown(step.pipeline)} in {shown(step.environment)}",
        sections=[(title, found) for title, some in sections if (found := list(some))],
    )


def print_incident(con: StoreReader, store: StorePlace, incident: StoredIncident) -> None:
    """Print one page on an incident; see `explain_incident`."""
    print_page(explain_incident(con, store, incident), incident.incident_id)


def _alerts(incident: StoredIncident) -> Iterator[str]:
    for alert in incident.alerts[:_MOST_ALERTS]:
        row = alert.row
        yield f"{row.alert_id} {row.severity}, {row.state}: {shown(subject(alert), 120)}, {size(alert.facts)}"
    if len(incident.alerts) > _MOST_ALERTS:
        yield f"and {len(incident.alerts) - _MOST_ALERTS} more: {program_name()} alerts lists them"


def _beside(con: StoreReader, incident: StoredIncident) -> Iterator[str]:
    """Yield the incidents of other pipelines or environments that may have begun at the same time."""
    now = datetime.now(UTC).replace(tzinfo=None)
    for other in incident_rows(con, now, incident.row.step.lane):
        if other.is_open and other.step.incident_id != incident.incident_id and _began_together(incident.row, other):
            where = f"{shown(other.step.pipeline)} in {shown(other.step.environment)}"
            yield f"{other.step.incident_id} {other.step.severity}: {other.step.name}, {where}, began at that time too"


def _began_together(one: IncidentRow, other: IncidentRow) -> bool:
    (first, last), (begin, end) = _begin(one), _begin(other)
    return first <= end and begin <= last


def _begin(row: IncidentRow) -> tuple[datetime, datetime]:
    return row.step.since_from or row.opened_at, row.step.since_to or row.opened_at


def _do(incident: StoredIncident, place: str) -> Iterator[str]:
    if not incident.is_open:
        yield "nothing: the incident is over"
        return
    name = incident.incident_id
    lead = lead_of(incident.alerts, incident.row.step.component)
    yield f"{COMMAND}{program_name()} explain {lead.row.alert_id}{place}   # how sure, and all about one alert"
    if incident.row.step.state != "acknowledged":
        yield f"{COMMAND}{program_name()} ack {name}{place} --by YOU   # you work on it"
    yield f"{COMMAND}{program_name()} accept {name}{place} --by YOU   # the new levels are right"
