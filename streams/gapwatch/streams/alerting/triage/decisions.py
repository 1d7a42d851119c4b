"""Decisions of people on alerts and questions, applied in a transaction of the store (`sinks.store.decisions`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Literal

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.author import names_person
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.terminal_table import moment_text
from gapwatch.sinks.store.answered_facts import answered, insert_fact, stored_facts
from gapwatch.sinks.store.decisions import TEXT_LIMIT
from gapwatch.sinks.store.registration import insert_portfolio
from gapwatch.sinks.store.transaction import StoreTransaction
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.incidents.alert_rows import record_step
from gapwatch.streams.alerting.incidents.incident import Incident
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, find_alert
from gapwatch.streams.alerting.rules.finding import Watched
from gapwatch.streams.alerting.triage.answer_reader import facts_of

Action = Literal["ack", "silence", "accept"]
#: Returns the watch of a lane; None where this process has none for it.
WatchOf = Callable[[str], ShiftWatch | None]

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_STATES = {"ack": "acknowledged", "silence": "silenced"}


@dataclass(frozen=True)
class AlertDecision:
    """Decision of a person on an alert.

    Attributes:
        action: ack (somebody works on it), silence (no messages for a while) or accept (the new level is right).
        alert: Id of the alert, or its first characters.
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
        if not names_person(self.by):
            raise UsageError("the decision has no author; give your name with --by")

    def apply(self, transaction: StoreTransaction) -> str:
        """Write the decision, and return one line that says what was done.

        Raises:
            UsageError: No such alert, several such alerts, or an alert that is not open.
        """
        found = find_alert(transaction.con, self.alert)
        if not found.is_open:
            raise UsageError(f"alert {found.row.alert_id} is {found.row.state}; only an open alert takes a decision")
        if self.action == "accept":
            self._accept(transaction, found)
            is_bound = found.facts.kind == "bound"
            what = "accepted until its bound has held again," if is_bound else "accepted as the new baseline"
        else:
            until = None if self.duration is None else transaction.kept_at + self.duration
            state = _STATES[self.action]
            lane, incident = found.row.lane, _incident(found)
            record_step(
                transaction.con, lane, transaction.seq, incident, state, transaction.kept_at, self.by, self.why, until
            )
            what = state + (f" until {moment_text(until, 'seconds')}" if until is not None else "")
        return f"{found.row.alert_id} {shown(found.row.metric)}: {what} by {shown(self.by)}"

    def _accept(self, transaction: StoreTransaction, found: StoredAlert) -> None:
        watch = self.watch_of(found.row.lane)
        if watch is None:
            raise UsageError(
                f"alert {found.row.alert_id} belongs to the lane {shown(found.row.lane)}, which the process that "
                "holds the store does not monitor; accept it when that process has stopped"
            )
        try:
            watch.accept(transaction, found.row.alert_id, self.by, self.why)
        except KeyError:
            raise UsageError(f"alert {found.row.alert_id} is not open in the detectors of this store") from None


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


def _incident(alert: StoredAlert) -> Incident:
    """Return the fields of a stored alert that `record_step` needs."""
    row = alert.row
    return Incident(row.alert_id, row.shift_id, Watched(alert.series, ""), row.severity, 0, 0, row.group_id)
