"""One-line text of a message of the topic `alerts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.terminal_table import component_text
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.told import Told, told_move
from gapwatch.streams.alerting.incidents.wording import headline, size

_HEADS = {
    "grew": "{severity} (grew from a ticket)",
    "again": "{severity} (again)",
    "reminded": "{severity} (still open)",
}


def message_text(message: Mapping[str, Any]) -> str:
    """Return one line for people: severity, kind, name, size, begin, first component, pipeline and environment.

    Args:
        message: Message of the topic `alerts`.
    """
    told = Told.from_json(message.get("told") or {})
    name, ident = told.name or _metric(message), message.get("incident_id") or message["alert_id"]
    scope = f"{shown(message['pipeline'])} in {shown(message['environment'])}"
    if message["state"] != "open":
        by = message.get("by") or "gapwatch"
        person = f" by {shown(by)}" if by != "gapwatch" else ""
        return f"{message['state'].upper()}{person}: {name}, {scope} ({ident})"
    head = _HEADS.get(message.get("news", ""), "{severity}").format(severity=message["severity"].upper())
    facts = AlertFacts.from_json(message)
    moved = told_move(told) or size(facts)
    return f"{head}: {told.what or headline(facts)}: {name}: {moved}, {scope} ({ident})"


def _metric(message: Mapping[str, Any]) -> str:
    return f"{shown(message['metric'])} of {shown(component_text(message.get('component')))}"
