"""What a person says to an alert or to a question, as it goes into a store: a decision of `sinks.store.decisions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Literal

from gapwatch.scorers.errors import UsageError
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
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.alerting.triage.answer_reader import facts_of

Action = Literal["ack", "silence", "accept"]
#: Gives the watch of a lane; None where this process has none for it.
WatchOf = Callable[[str], ShiftWatch | None]

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_STATES = {"ack": "acknowledged", "silence": "silenced"}


@dataclass(frozen=True)
class AlertDecision:
    """What somebody says to an alert.

    Attributes:
        action: ack: somebody looks at it; silence: quiet for a while; accept: it is right as it is now.
        alert: Its id, or how that begins.
        by: Who says so.
        why: In words; may be empty.
        duration: For `silence`.
        watch_of: The watches of this process.
    """

    action: Action
    alert: str
    by: str
    why: str
    duration: timedelta | None
    watch_of: WatchOf

    def __post_init__(self) -> None:
        _check_texts(alert=self.alert, by=self.by, why=self.why)
        if not self.by.strip():
            raise UsageError("say who says so, with --by")

    def apply(self, transaction: StoreTransaction) -> str:
        """Write it, and return one line that says what was done.

        Raises:
            UsageError: No such alert, several, or one that is not open.
        """
        found = find_alert(transaction.con, self.alert)
        if not found.is_open:
            raise UsageError(f"alert {found.row.alert_id} is {found.row.state}; only an open one can be answered")
        if self.action == "accept":
            self._accept(transaction, found)
            is_bound = found.facts.kind == "bound"
            what = "accepted, until its bound was kept again," if is_bound else "accepted as the new normal"
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
                f"alert {found.row.alert_id} is of the lane {shown(found.row.lane)}, which the process that "
                "keeps the store does not watch; accept it when the store is at rest"
            )
        try:
            watch.accept(transaction, found.row.alert_id, self.by, self.why)
        except KeyError:
            raise UsageError(f"alert {found.row.alert_id} is not open in the detectors of this store") from None


@dataclass(frozen=True)
class QuestionAnswer:
    """The answer to a question of the portfolio.

    Attributes:
        question: Its id.
        value: Which way is better, or one of the question's options.
        by: Who says so.
        watches: That label their shifts anew.
        portfolios: In force.
    """

    question: str
    value: str
    by: str
    watches: Callable[[], Sequence[ShiftWatch]]
    portfolios: Callable[[], Sequence[Portfolio]]

    def __post_init__(self) -> None:
        _check_texts(question=self.question, value=self.value, by=self.by)

    def apply(self, transaction: StoreTransaction) -> str:
        """Write the facts that it means, label past shifts anew, and return one line that says what was done.

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
        way = f"a {better} failure rate is better" if better != "unknown" else "neither way is better"
        past = f"; {labelled} past {'shift is' if labelled == 1 else 'shifts are'} told anew" if labelled else ""
        return f"{metrics}: {way}, says {shown(self.by)}{past}"


def parse_duration(text: str) -> timedelta:
    """Return how long `--for` says.

    Raises:
        UsageError: It is no number with m, h, d or w.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit()) or unit not in _UNITS or not 0 < int(number) < 10_000:
        raise UsageError(f"--for {shown(text)}: a number and m, h, d or w is expected, such as 8h")
    return timedelta(**{_UNITS[unit]: int(number)})


def _check_texts(**texts: str) -> None:
    for name, text in texts.items():
        if len(text) > TEXT_LIMIT:
            raise UsageError(f"{name} has at most {TEXT_LIMIT} characters")


def _incident(alert: StoredAlert) -> Incident:
    """Return what `record_step` needs of an alert that is known from the store."""
    row = alert.row
    series = SeriesKey(
        pipeline=row.pipeline,
        environment=row.environment,
        component=row.component or "",
        metric=row.metric,
        metric_version=row.metric_version,
        judge=row.judge or "",
        epoch=row.epoch,
    )
    return Incident(row.alert_id, row.shift_id, Watched(series, ""), row.severity, 0, 0, row.group_id)
