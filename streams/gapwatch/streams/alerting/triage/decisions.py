"""Decisions of people on alerts and questions, applied in a transaction of the store (`sinks.store.decisions`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Literal

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.author import check_author
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.terminal_table import moment_text
from gapwatch.sinks.store.alert_tables import insert_alert_step
from gapwatch.sinks.store.answered_facts import answered, insert_fact, stored_facts
from gapwatch.sinks.store.decisions import TEXT_LIMIT
from gapwatch.sinks.store.registration import insert_portfolio
from gapwatch.sinks.store.transaction import StoreTransaction
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.incidents.alert_rows import alert_step
from gapwatch.streams.alerting.incidents.incident_steps import Said, send, write_incident
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, StoredIncident, find, incident_of
from gapwatch.streams.alerting.triage.answer_reader import facts_of
from gapwatch.streams.alerting.triage.explain import stored_portfolio

Action = Literal["ack", "silence", "accept"]
#: Returns the watch of a lane; None where this process has none for it.
WatchOf = Callable[[str], ShiftWatch | None]

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_STATES = {"ack": "acknowledged", "silence": "silenced"}


@dataclass(frozen=True)
class AlertDecision:
    """Decision of a person on an incident or an alert.

    Attributes:
        action: ack (somebody works on it), silence (no messages for a while) or accept (the new level is right).
        alert: Id of the incident or of an alert, or its first characters.
        by: Name of the person.
        why: Reason in words; may be empty.
        duration: Length of a silence; None for other actions.
        watch_of: Returns the watch of a lane.
    """

    action: Action
    alert: str
    by: str
    why: str
    duration: timedelta | None
    watch_of: WatchOf

    def __post_init__(self) -> None:
        _check_texts(alert=self.alert, by=self.by, why=self.why)
        check_author(self.by, "decision")

    def apply(self, transaction: StoreTransaction) -> str:
        """Write the decision, and return one line that says what was done.

        An acknowledgement and a silence are of the whole incident, also where one of its alerts is named: people are
        called once for it. Accepting an alert is about its series; accepting an incident about all of its series.

        Raises:
            UsageError: No such alert or incident, several such ones, or one that is not open.
        """
        found = find(transaction.con, self.alert)
        if not found.is_open:
            word, ident, state = _naming(found)
            raise UsageError(f"{word} {ident} is {state}; only an open one takes a decision")
        if self.action == "accept":
            return self._accept(transaction, found)
        incident = found if isinstance(found, StoredIncident) else incident_of(transaction.con, found)
        state, at = _STATES[self.action], transaction.kept_at
        until = None if self.duration is None else at + self.duration
        attribution = None if until is None else {"until": utc_text(until)}
        members = [one for one in incident.alerts if one.is_open]
        for alert in members:
            row = alert_step(alert, state, at, self.by, self.why, attribution)
            insert_alert_step(transaction.con, transaction.seq, row)
        self._write_incident(transaction, incident, Said(state, self.by, self.why, until))
        what = state + (f" until {moment_text(until, 'seconds')}" if until is not None else "")
        count = f" ({len(members)} alerts)" if len(members) > 1 else ""
        return f"{incident.incident_id} {incident.row.step.name}{count}: {what} by {shown(self.by)}"

    def _accept(self, transaction: StoreTransaction, found: StoredAlert | StoredIncident) -> str:
        if isinstance(found, StoredIncident):
            incident, alerts = found, [one for one in found.alerts if one.is_open]
        else:
            incident, alerts = incident_of(transaction.con, found), [found]
        watch = self.watch_of(incident.row.step.lane)
        if watch is None:
            raise UsageError(
                f"{_naming(found)[1]} belongs to the lane {shown(incident.row.step.lane)}, which the process that "
                "holds the store does not monitor; accept it when that process has stopped"
            )
        try:
            watch.accept(transaction, [alert.row.alert_id for alert in alerts], self.by, self.why)
        except KeyError as unknown:
            raise UsageError(f"alert {unknown.args[0]} is not open in the detectors of this store") from None
        is_bound = all(alert.facts.kind == "bound" for alert in alerts)
        what = "accepted until its bound has held again," if is_bound else "accepted as the new baseline"
        name = found.row.step.name if isinstance(found, StoredIncident) else shown(found.row.metric)
        return f"{_naming(found)[1]} {name}: {what} by {shown(self.by)}"

    def _write_incident(self, transaction: StoreTransaction, incident: StoredIncident, said: Said) -> None:
        step = incident.row.step
        portfolio = stored_portfolio(transaction.con, step.pipeline)
        told = write_incident(transaction.con, transaction.seq, step.incident_id, transaction.kept_at, portfolio, said)
        send(transaction.con, transaction.seq, told)


def _naming(found: StoredAlert | StoredIncident) -> tuple[str, str, str]:
    """Return the word, the id and the state of an alert or an incident."""
    if isinstance(found, StoredIncident):
        return "incident", found.incident_id, found.row.step.state
    return "alert", found.row.alert_id, found.row.state


@dataclass(frozen=True)
class QuestionAnswer:
    """Answer of a person to a question of the portfolio.

    Attributes:
        question: Id of the question.
        value: Better direction, or one of the question's options.
        by: Name of the person.
        watches: Returns the watches whose shifts are relabelled.
        portfolios: Returns the portfolios in force.
    """

    question: str
    value: str
    by: str
    watches: Callable[[], Sequence[ShiftWatch]]
    portfolios: Callable[[], Sequence[Portfolio]]

    def __post_init__(self) -> None:
        _check_texts(question=self.question, value=self.value, by=self.by)

    def apply(self, transaction: StoreTransaction) -> str:
        """Write the facts of the answer, relabel past shifts, and return one line that says what was done.

        Raises:
            UsageError: See `facts_of`.
        """
        now = transaction.kept_at.replace(tzinfo=UTC)
        asking, facts = facts_of(self.portfolios(), self.question, self.value, self.by, now)
        for fact in facts:
            insert_fact(transaction.con, asking.pipeline, fact, transaction.kept_at)
        insert_portfolio(
            transaction.con, answered(asking, stored_facts(transaction.con, asking.pipeline)), transaction.kept_at
        )  # fmt: skip
        labelled = 0
        for watch in self.watches():
            known = [answered(one, stored_facts(transaction.con, one.pipeline)) for one in watch.portfolios]
            labelled += watch.take_over(transaction, known)
        metrics = ", ".join(shown(fact.metric) for fact in facts)
        better = facts[0].better
        way = f"a {better} failure rate is better" if better != "unknown" else "neither direction is better"
        past = f"; {labelled} past {'shift is' if labelled == 1 else 'shifts are'} relabelled" if labelled else ""
        return f"{metrics}: {way}, says {shown(self.by)}{past}"


def parse_duration(text: str) -> timedelta:
    """Return the duration that `--for` gives.

    Args:
        text: A number with m, h, d or w, such as `8h`.

    Raises:
        UsageError: The text has another form.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit()) or unit not in _UNITS or not 0 < int(number) < 10_000:
        raise UsageError(f"--for {shown(text)}: expected a number with m, h, d or w, such as 8h")
    return timedelta(**{_UNITS[unit]: int(number)})


def _check_texts(**texts: str) -> None:
    for name, text in texts.items():
        if len(text) > TEXT_LIMIT:
            raise UsageError(f"{name} is too long: {len(text)} characters, and at most {TEXT_LIMIT} are allowed")
