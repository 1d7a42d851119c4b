"""Logs each incident of the live lane: when it opens, grows, gains an alert, is decided on, and ends."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from gapwatch.scorers.printable import shown
from gapwatch.sinks.store.outbox import last_seq, outbox_rows, relayed_seqs, waiting_seqs
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.topics import ALERTS_TOPIC
from gapwatch.sinks.store.utc_text import parse_utc
from gapwatch.streams.alerting.incidents.told import Told, told_move

log = logging.getLogger("gapwatch.alerts")

#: Name under which the store records the last commit whose alerts are logged.
MARK = "log"
_COMMITS_A_ROUND = 20
#: Fields of a message that a line of JSON has besides the text.
_FIELDS = (
    "incident_id",
    "alert_id",
    "news",
    "state",
    "severity",
    "at",
    "pipeline",
    "environment",
    "component",
    "metric",
)
#: News that are warnings, with the size of the change and the command that explains it.
_LOUD = {
    "opened": "opens, {severity}",
    "again": "opens again, {severity}",
    "grew": "grew to {severity}",
    "reminded": "is still open, {severity}",
}
_HEADS = {
    "resolved": "ends",
    "accepted": "ends, accepted",
    "acknowledged": "is acknowledged",
    "silenced": "is silenced",
    "joined": "has more alerts",
    "left": "has an alert that ended",
    "renamed": "has another name",
}


class AlertLog:
    """Log lines of incidents, from the messages of the outbox; all methods belong to the writer thread.

    The store records what is logged, so a restart repeats no line.
    """

    def __init__(self) -> None:
        self._done: int | None = None
        self._looked_at = -1

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
        ident = message.get("incident_id") or message["alert_id"]
        line = incident_line(message, datetime.now(UTC).replace(tzinfo=None))
        fields = {name: message.get(name) for name in _FIELDS}
        if message["state"] == "open" and message.get("news") in _LOUD:
            log.warning("%s; gapwatch explain %s --store %s", line, ident, store.path, extra=fields)
        else:
            log.info("%s", line, extra=fields)


def incident_line(message: Mapping[str, Any], now: datetime) -> str:
    """Return the line of one step of an incident: id, name, before, after, since, and when it was found.

    Args:
        message: Message of the topic `alerts`.
        now: Time of telling, naive UTC.
    """
    told = Told.from_json(message.get("told") or {})
    ident = message.get("incident_id") or message["alert_id"]
    where = f"{told.name or shown(message['metric'])} ({shown(message['pipeline'])}, {shown(message['environment'])})"
    head = f"incident {ident}"
    news = message.get("news", message["state"])
    if news not in _LOUD:
        by = message.get("by") or "gapwatch"
        person = f" by {shown(by)}" if by != "gapwatch" else ""
        return f"{head} {_HEADS.get(news, shown(news))}{person}: {where}"
    between = f" (95 %: {told.between})" if told.between else ""
    at = parse_utc(message["at"])
    step = _LOUD[news].format(severity=severity_word(message["severity"]))
    return f"{head} {step}: {where}: {told_move(told)}{between}; found in the data of {_moment(at)}, {_told(at, now)}"


def severity_word(severity: str) -> str:
    """Return the severity of an incident as it stands in a line of the log."""
    return severity.upper() if severity == "page" else severity


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
