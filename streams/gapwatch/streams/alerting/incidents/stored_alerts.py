"""Alerts of a store: the last step of each, and its facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.incidents.incident_query import IncidentRow, incident_ids, incident_row
from gapwatch.sinks.reading.alert_query import OPEN_STATES, AlertEntry, AlertFilter, AlertRow, alert_entries
from gapwatch.sinks.reading.example_rows import ValuePart
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.series.slice_units import SeriesKey

_ANY = AlertFilter()
# Length of the window whose rows are shown where an alert names no time of a change.
_USUAL_WINDOW_SECONDS = 3600


@dataclass(frozen=True)
class StoredAlert:
    """One alert of a store, in its present state.

    Attributes:
        row: Ids and series, with the last state and severity.
        facts: Facts of the step that opened the alert, relabelled by the last answer to its question.
    """

    row: AlertRow
    facts: AlertFacts

    @property
    def series(self) -> SeriesKey:
        """Key of the series."""
        row = self.row
        names = row.pipeline, row.environment, row.component or "", row.metric, row.metric_version, row.judge or ""
        return SeriesKey(*names, row.epoch)

    @property
    def is_open(self) -> bool:
        """True for an alert that still asks for somebody."""
        return self.row.state in OPEN_STATES

    @property
    def began_at(self) -> datetime | None:
        """Most likely begin of the change, naive UTC; None for a bound, whose window does not tell it."""
        return None if self.facts.change is None else self.facts.change.at

    @property
    def rows_since(self) -> datetime:
        """Event time of the first rows behind the alert, naive UTC: the change, else the begin of the window."""
        bound = self.facts.bound
        window = _USUAL_WINDOW_SECONDS if bound is None else bound.window_seconds
        return self.began_at or self.row.found_at - timedelta(seconds=window)

    @property
    def rows_behind(self) -> str | ValuePart:
        """Outcome of the rows behind the alert; where values moved, their part."""
        facts = self.facts
        if facts.part is not None:
            return facts.part.as_value_part(inside=facts.part_grew)
        return "unknown" if facts.kind == "unknown" else "fail" if facts.went_up else "pass"


def read_alerts(con: StoreReader, wanted: AlertFilter = _ANY) -> list[StoredAlert]:
    """Return alerts by incident: those that page somebody now come first, then the latest; in each the first found.

    Args:
        con: Connection for reading.
        wanted: Filter; all alerts by default.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    return [_stored_alert(entry) for entry in alert_entries(con, wanted, now)]


def _stored_alert(entry: AlertEntry) -> StoredAlert:
    facts, label = AlertFacts.from_json(entry.attribution), entry.label
    if facts.kind in ("cascade", "shift") and label is not None:
        question = label.question if label.verdict == "unknown" else None
        facts = replace(facts, polarity=label.verdict, question=question)
    return StoredAlert(entry.row, facts)


@dataclass(frozen=True)
class StoredIncident:
    """One incident of a store, in its present state.

    Attributes:
        row: Its last step.
        alerts: Its alerts, the first found first.
    """

    row: IncidentRow
    alerts: tuple[StoredAlert, ...]

    @property
    def incident_id(self) -> str:
        """Id of the incident."""
        return self.row.step.incident_id

    @property
    def is_open(self) -> bool:
        """True for an incident that is not over."""
        return self.row.is_open


def find_alert(con: StoreReader, wanted: str) -> StoredAlert:
    """Return the alert with this id, or the only alert whose id begins with it; the letter `a` may be left out.

    Args:
        con: Connection for reading.
        wanted: Id, or its first characters.

    Raises:
        UsageError: No alert has such an id, or several have, or it is an incident.
    """
    found = find(con, wanted)
    if isinstance(found, StoredIncident):
        raise UsageError(f"{found.incident_id} is an incident; give the id of one of its alerts")
    return found


def find(con: StoreReader, wanted: str) -> StoredAlert | StoredIncident:
    """Return the alert or the incident with this id, or the only one whose id begins with it.

    Args:
        con: Connection for reading.
        wanted: Id, or its first characters; the letter `a` or `i` may be left out.

    Raises:
        UsageError: Nothing has such an id, or several have.
    """
    ids = [*(a.row.alert_id for a in read_alerts(con)), *incident_ids(con)] if wanted else []
    found = [one for one in ids if one.startswith((wanted, f"a{wanted}", f"i{wanted}"))]
    exact = [one for one in found if one == wanted]
    if not found:
        raise UsageError(f"no alert or incident {wanted!r} in this store; gapwatch alerts --all lists them")
    if len(found) > 1 and not exact:
        raise UsageError(f"several ids begin with {wanted!r}: {', '.join(found[:5])}; give more of the id")
    return read_incident(con, found[0]) or next(a for a in read_alerts(con) if a.row.alert_id == (exact or found)[0])


def read_incident(con: StoreReader, incident_id: str) -> StoredIncident | None:
    """Return an incident with its alerts; None where the store has none of this id."""
    row = incident_row(con, incident_id, datetime.now(UTC).replace(tzinfo=None))
    if row is None:
        return None
    alerts = read_alerts(con, AlertFilter(incident_id=incident_id))
    return StoredIncident(row, tuple(sorted(alerts, key=lambda one: (one.row.found_at, one.row.alert_id))))


def incident_of(con: StoreReader, alert: StoredAlert) -> StoredIncident:
    """Return the incident of an alert.

    Raises:
        UsageError: The alert is a note, which belongs to none.
    """
    incident = read_incident(con, alert.row.incident_id or "")
    if incident is None:
        raise UsageError(f"alert {alert.row.alert_id} is a note on an improvement; nothing is to be decided")
    return incident
