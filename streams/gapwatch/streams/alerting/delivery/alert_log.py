"""Logs each alert of the live lane once: when it opens, becomes a page, is decided on, and ends."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.alert_query import alert_life
from gapwatch.sinks.reading.terminal_table import component_text
from gapwatch.sinks.store.outbox import last_seq, outbox_rows, relayed_seqs, waiting_seqs
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.topics import ALERTS_TOPIC
from gapwatch.sinks.store.utc_text import parse_utc
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.triage.wording import quantile_move, share_name, size

log = logging.getLogger("gapwatch.alerts")

#: Name under which the store records the last commit whose alerts are logged.
MARK = "log"
_COMMITS_A_ROUND = 20
#: Fields of a message that a line of JSON has besides the text.
_FIELDS = ("alert_id", "state", "severity", "at", "pipeline", "environment", "component", "metric")
_HEADS = {
    "resolved": "ends",
    "accepted": "ends, accepted",
    "acknowledged": "is acknowledged",
    "silenced": "is silenced",
}


class AlertLog:
    """Log lines of alerts, from the messages of the outbox; all methods belong to the writer thread.

    The store records what is logged, so a restart repeats no line.
    """

    def __init__(self) -> None:
        self._done: int | None = None
        self._looked_at = -1
        self._severities: dict[str, str] = {}

    def begin(self, store: Store) -> None:
        """Begin before the first slice; alerts from before the first run with a log are not logged."""
        with closing(store.cursor()) as cursor:
            known = relayed_seqs(cursor).get(MARK)
            self._done = last_seq(cursor, ALERTS_TOPIC) if known is None else known

    def look(self, store: Store) -> None:
        """Log the alerts of the commits since the last look.

        Raises:
            JobError: The store cannot be written.
        """
        if self._done is None or store.seq == self._looked_at:
            return
        self._looked_at = store.seq
        with closing(store.cursor()) as cursor:
            seqs = waiting_seqs(cursor, ALERTS_TOPIC, self._done, _COMMITS_A_ROUND)
            rows = [row for seq in seqs for row in outbox_rows(cursor, ALERTS_TOPIC, seq)]
        if not seqs:
            return
        # Steps of one commit in the order in which they were found.
        for message in sorted((json.loads(row.value) for row in rows), key=lambda one: str(one["at"])):
            self._log(message, store)
        store.mark_relayed({MARK: seqs[-1]})
        self._done = seqs[-1]

    def _log(self, message: Mapping[str, Any], store: Store) -> None:
        alert_id, severity = message["alert_id"], message["severity"]
        known = self._severities.get(alert_id)
        if message["state"] == "open" and known == severity:
            return  # a reminder that it is still open
        self._severities[alert_id] = severity
        line = alert_line(message, datetime.now(UTC).replace(tzinfo=None), _opened_at(store, alert_id))
        fields = {name: message.get(name) for name in _FIELDS}
        if message["state"] == "open":
            log.warning("%s; gapwatch explain %s --store %s", line, alert_id, store.path, extra=fields)
        else:
            self._severities.pop(alert_id, None)
            log.info("%s", line, extra=fields)


def alert_line(message: Mapping[str, Any], now: datetime, opened: datetime | None = None) -> str:
    """Return the line of one step of an alert: id, metric, before, after, since, and when it was found.

    Args:
        message: Message of the topic `alerts`.
        now: Time of telling, naive UTC.
        opened: Event time at which the alert opened, naive UTC; None where this step opens it.
    """
    facts = AlertFacts.from_json(message)
    subject = f"{shown(message['metric'])} of {shown(component_text(message.get('component')))}"
    where = f"{subject} ({shown(message['pipeline'])}, {shown(message['environment'])})"
    head = f"alert {message['alert_id']}"
    if message["state"] != "open":
        by = message.get("by") or "gapwatch"
        person = f" by {shown(by)}" if by != "gapwatch" else ""
        return f"{head} {_HEADS.get(message['state'], shown(message['state']))}{person}: {where}"
    moved = quantile_move(facts) or f"{share_name(facts)} {size(facts)}"
    change = facts.change
    since = ""
    if change is not None:
        earliest, latest = (f"{one:%H:%M:%S}" for one in (change.earliest, change.latest))
        since = f", since {_moment(change.at)} (95 %: {earliest} to {latest})"
    at = parse_utc(message["at"])
    step = f"opens, {severity_word(message['severity'])}"
    found = f"found in the data of {_moment(opened or at)}, {_told(at, now)}"
    return f"{head} {step}: {where}: {moved}{since}; {found}"


def severity_word(severity: str) -> str:
    """Return the severity of an alert as it stands in a line of the log."""
    return severity.upper() if severity == "page" else severity


def _opened_at(store: Store, alert_id: str) -> datetime | None:
    """Return the event time at which an alert opened, as `gapwatch alerts` shows it."""
    with closing(store.cursor()) as cursor:
        steps = alert_life(cursor, alert_id)
    return min((step.at for step in steps), default=None)


def _told(at: datetime, now: datetime) -> str:
    behind = now - at
    return f"told now, {_span(behind)} later" if behind >= timedelta(seconds=1) else "told now"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _span(span: timedelta) -> str:
    seconds = round(span.total_seconds())
    for size_, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size_:
            return f"{seconds // size_} {name}"
    return f"{seconds} s"
