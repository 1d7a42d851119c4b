"""Steps of incidents: what is new after a commit or a decision, written as a row, and told once.

alert steps of a commit ─▶ members of the incident, from `alerts` ─▶ state, severity, name ─▶ row of `incidents`
                                                                                          └─▶ message, unless quiet
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.incidents.incident_query import IncidentRow, incident_row
from gapwatch.sinks.incidents.incident_tables import IncidentStepRow, insert_incident_step
from gapwatch.sinks.reading.alert_query import AlertFilter
from gapwatch.sinks.store.outbox import OutboxRow, insert_messages
from gapwatch.sinks.store.topics import ALERTS_TOPIC
from gapwatch.sinks.store.transaction import Connection
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.incidents.first_component import first_components, moved_from
from gapwatch.streams.alerting.incidents.severity import SEVERITIES, loudest, told_severity
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, read_alerts
from gapwatch.streams.alerting.incidents.told import Told, build_told, incident_kind, lead_of, with_worst_rows

#: States in which an incident goes on without further messages, because somebody knows of it.
HANDLED = ("acknowledged", "silenced")
#: News of which nobody is told: the incident is known, and its page and row say so.
QUIET = ("joined", "left", "renamed")


@dataclass(frozen=True)
class Said:
    """Statement of a person or of Gapwatch about an incident, besides what follows from its alerts.

    Attributes:
        news: acknowledged, silenced, accepted, or reminded; empty where the step follows from its alerts.
        by: Name of the person; gapwatch without one.
        why: Reason, in words.
        until: End of a silence, naive UTC.
    """

    news: str = ""
    by: str = "gapwatch"
    why: str = ""
    until: datetime | None = None


NOTHING_SAID = Said()


@dataclass(frozen=True)
class IncidentNews:
    """Step of an incident that was written.

    Attributes:
        news: What is new: opened, grew, again, joined, left, renamed, reminded, acknowledged, silenced, accepted or
            resolved.
        step: The row.
        members: Alerts of the incident.
        lead: The alert whose facts stand for the incident.
    """

    news: str
    step: IncidentStepRow
    members: Sequence[StoredAlert]
    lead: StoredAlert

    @property
    def is_quiet(self) -> bool:
        """True for news of which nobody is told: what a known incident gains or loses."""
        return self.news in QUIET or (self.news == "reminded" and self.step.state == "silenced")


def write_incident(
    con: Connection,
    seq: int,
    incident_id: str,
    at: datetime,
    portfolio: Portfolio | None,
    said: Said = NOTHING_SAID,
) -> list[IncidentNews]:
    """Insert the step that the alerts of an incident now make; nothing where nothing is new.

    Args:
        con: Connection in a transaction that holds the steps of the alerts.
        seq: Number of the commit.
        incident_id: Id of the incident.
        at: Time of the step, naive UTC.
        portfolio: Portfolio of the pipeline; None where it is not known.
        said: What was said of the incident.

    Returns:
        The news, for `send`; empty without news.
    """
    members = read_alerts(con, AlertFilter(incident_id=incident_id))
    if not members:
        return []
    members.sort(key=lambda one: (one.row.found_at, one.row.alert_id))
    before = incident_row(con, incident_id, at)
    graph = ComponentGraph.of(portfolio)
    first = first_components(moved_from(members), graph)
    lead = lead_of(members, first[0] if first else None)
    told = build_told(members, lead, first, graph, _metric_of(portfolio, lead))
    step = _step(members, before, at, told, first, lead, incident_kind(members, graph), said)
    news = news_of(before, step, said)
    if not news:
        return []
    # Only now: most commits of an open incident have no news, and the rows are read from the store.
    told = with_worst_rows(told, con, lead, max(at, *(one.row.changed_at for one in members)))
    step = replace(step, why=f"{news}: {said.why}" if said.why else news, told={**step.told, **told.to_json()})
    insert_incident_step(con, seq, step)
    return [IncidentNews(news, step, members, lead)]


def send(con: Connection, seq: int, told: Sequence[IncidentNews]) -> None:
    """Put the messages of one commit into the outbox; other lanes than `live` and notes send none.

    An incident that opens and grows in one commit is one message.

    Args:
        con: Connection in a transaction.
        seq: Number of the commit.
        told: News of the commit, in order.
    """
    sent: dict[str, list[IncidentNews]] = {}
    for one in told:
        if one.step.lane != "live" or one.step.severity == "note":
            continue
        mine = sent.setdefault(one.step.incident_id, [])
        if mine and one.news in ("grew", *QUIET) and mine[-1].news in ("opened", "again"):
            mine[-1] = replace(one, news=mine[-1].news)
        else:
            mine.append(one)
    insert_messages(con, seq, ALERTS_TOPIC, [_message(one) for mine in sent.values() for one in mine])


def _metric_of(portfolio: Portfolio | None, alert: StoredAlert) -> Metric | None:
    metrics = () if portfolio is None else portfolio.metrics
    return next((metric for metric in metrics if metric.name == alert.row.metric), None)


def _step(
    members: Sequence[StoredAlert],
    before: IncidentRow | None,
    at: datetime,
    told: Told,
    first: Sequence[str],
    lead: StoredAlert,
    kind: str,
    said: Said,
) -> IncidentStepRow:
    """Return the row of a step, still without its worst rows."""
    row, change = lead.row, lead.facts.change
    severity = incident_severity(members, before)
    state = incident_state([one.row.state for one in members], severity, before, said)
    return IncidentStepRow(
        incident_id=row.incident_id or "",
        lane=row.lane,
        pipeline=row.pipeline,
        environment=row.environment,
        name=told.name,
        kind=kind,
        state=state,
        severity=severity,
        component=first[0] if first else row.component,
        since=None if change is None else change.at,
        since_from=None if change is None else change.earliest,
        since_to=None if change is None else change.latest,
        members=tuple(one.row.alert_id for one in members),
        at=at,
        by=said.by,
        why="",
        told={**told.to_json(), **_decision(state, before, at, said)},
    )


def _decision(state: str, before: IncidentRow | None, at: datetime, said: Said) -> dict[str, str]:
    """Return who acknowledged or silenced the incident, when, and until when."""
    if state not in HANDLED:
        return {}
    if said.news == state:
        until = {} if said.until is None else {"until": utc_text(said.until)}
        return {"by": said.by, "decided": utc_text(at), **until}
    earlier = {} if before is None else before.step.told
    return {name: earlier[name] for name in ("by", "decided", "until") if name in earlier}


def incident_severity(members: Sequence[StoredAlert], before: IncidentRow | None) -> str:
    """Return the severity of an incident: the loudest that it had since it was opened; it never falls."""
    opened = [one.row.severity for one in members if one.is_open]
    if before is not None and before.is_open:
        return loudest([before.step.severity, *opened])
    return loudest(opened or [one.row.severity for one in members])


def incident_state(states: Sequence[str], severity: str, before: IncidentRow | None, said: Said) -> str:
    """Return the state of an incident.

    It is over when its last alert is over: accepted where people accepted all of them, else resolved. While it lasts,
    an acknowledgement and a silence hold until the severity grows, and a silence at most until its end.

    Args:
        states: States of its alerts.
        severity: Severity of the incident from now on.
        before: The incident before this step; None for a new one.
        said: What was said of it.
    """
    if not any(state in ("open", *HANDLED) for state in states):
        return "accepted" if set(states) == {"accepted"} else "resolved"
    if said.news in HANDLED:
        return said.news
    if before is None or before.step.state not in HANDLED:
        return "open"
    has_grown = SEVERITIES.index(severity) > SEVERITIES.index(before.step.severity)
    return "open" if has_grown else before.step.state


def news_of(before: IncidentRow | None, step: IncidentStepRow, said: Said) -> str:
    """Return the one word that says what is new; empty without news. The most urgent one counts."""
    if before is None:
        return "opened"
    old = before.step
    if not before.is_open:
        return "again" if step.state == "open" else ""
    if step.state in ("accepted", "resolved"):
        return step.state
    if said.news in (*HANDLED, "reminded"):
        return said.news
    if SEVERITIES.index(step.severity) > SEVERITIES.index(old.severity):
        return "grew"
    if set(step.members) - set(old.members):
        return "joined"
    if _title(step) != _title(old):
        return "renamed"
    return "left" if said.news == "accepted" or step.state != old.state else ""


def _title(step: IncidentStepRow) -> tuple[str, str, str | None, str]:
    return step.name, step.kind, step.component, step.told.get("what", "")


def _message(told: IncidentNews) -> OutboxRow:
    """Return the message of a step. Its id is a function of the step, so receivers can drop repeated messages."""
    step, row = told.step, told.lead.row
    facts: Mapping[str, Any] = told.lead.facts.to_json()
    message = {
        "incident_id": step.incident_id,
        "name": step.name,
        "news": told.news,
        **({"quiet": True} if told.is_quiet else {}),
        "state": step.state,
        "severity": told_severity(step.state, step.severity),
        **({"acknowledged": True} if step.state == "acknowledged" else {}),
        "at": utc_text(step.at),
        "by": step.by,
        "why": step.why,
        "pipeline": step.pipeline,
        "environment": step.environment,
        "component": step.component,
        "metric": row.metric,
        "alert_id": row.alert_id,
        "alerts": [_member(one) for one in told.members],
        "told": step.told,
        **facts,
        "kind": step.kind,
    }
    count = len(told.members)
    ident = f"{step.incident_id}/{told.news}/{step.state}/{step.severity}/{count}/{step.at.isoformat()}"
    key = "/".join((step.lane, step.pipeline, step.environment, step.incident_id))
    return OutboxRow(ident, key, json.dumps(message).encode())


def _member(alert: StoredAlert) -> dict[str, Any]:
    row = alert.row
    names = {"component": row.component, "metric": row.metric, "kind": alert.facts.kind}
    return {"alert_id": row.alert_id, "state": row.state, "severity": row.severity, **names}
