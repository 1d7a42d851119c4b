"""One-line text of a message of the topic `alerts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapwatch.scorers.printable import shown
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.triage.wording import headline, quantile_move, share_name, size


def message_text(message: Mapping[str, Any]) -> str:
    """Return one line for people: severity, headline, metric and component, size, begin, pipeline and environment.

    Args:
        message: Message of the topic `alerts`.
    """
    facts = AlertFacts.from_json(message)
    where = f"{shown(message['metric'])} of {shown(message.get('component') or 'the trace')}"
    scope = f"{shown(message['pipeline'])} in {shown(message['environment'])}"
    if not facts.kind:  # a decision of a person
        by = f" by {shown(message['by'])}" if message.get("by") else ""
        return f"{message['state'].upper()}{by}: {where}, {scope} ({message['alert_id']})"
    if message["state"] == "resolved":
        return f"RESOLVED: {where}, {scope} ({message['alert_id']})"
    since = "" if facts.change is None else f", since {utc_text(facts.change.at)}"
    moved = quantile_move(facts) or f"{share_name(facts)} {size(facts)}"
    text = f"{message['severity'].upper()}: {headline(facts)}: {where}: {moved}{since}, {scope}"
    return f"{text} ({message['alert_id']})"
