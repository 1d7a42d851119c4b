"""The keeper's watch over one lane: takes each slice before it is kept, and writes what moved into the same commit.

scored slice ─▶ take ─▶ ticks with fold_bucket ─▶ Store.write_slice(scored, kept_at, also=steps) ─▶ alerts, shifts,
                 │                                                                            detectors' state
                 └─ closes ticks two minutes behind event time, folds them, says what moved
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.reading.alert_query import written_steps
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.store.answered_facts import answered, stored_facts
from gapwatch.sinks.store.detector_states import last_detectors, waiting_step, write_detectors
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Connection, Step, StoreTransaction
from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_status import write_watched
from gapwatch.streams.alerting.evaluation.state_file import pack_state, unpack_state
from gapwatch.streams.alerting.evaluation.stored_history import StoredCommit, partition_name, stored_commits
from gapwatch.streams.alerting.incidents.alert_rows import StepRows, record_step, write_steps
from gapwatch.streams.alerting.incidents.incident import Incident, IncidentBook
from gapwatch.streams.alerting.incidents.relabelling import relabel
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule, budget_of, rules_of
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.lane_clock import LaneClock
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceContent
from gapwatch.streams.detectors.contexts import TICK_SECONDS, tick_start
from gapwatch.streams.detectors.snapshot import SnapshotError
from gapwatch.streams.detectors.watch import accept

LIVE = "live"
# An hour of event time: what a restart folds again at most. More often costs writing, less often costs starting.
_SNAPSHOT_TICKS = 120

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Taken:
    """What the keeper hands to `Store.write_slice`.

    Attributes:
        scored: The slice, with the tick that each row is folded in.
        steps: For `also`: what was found, and now and then the state. Often empty.
        opened: Alerts that this slice opened.
    """

    scored: ScoredSlice
    steps: Sequence[tuple[str, Step]]
    opened: int


class ShiftWatch:
    """Detectors, bounds and alerts of one lane.

    Its state is a function of the slices of the lane, in the order of their commits, with their partition and the time
    of their keeping: after a crash the slices since the last snapshot are folded again from the stored ticks, and give
    the same state. Event time is that of the lane: the slowest of the partitions that are not idle, or have records
    that are not read (`LaneClock`); which were waited for is recorded with each slice.

    One thread, the keeper's. A slice that was taken and could not be kept leaves the watch ahead of the store: throw
    it away and open another, as the process does that ends on a failed commit.

    Args:
        lane: Whose slices come; others are refused.
        detectors: Of the lane.

    Attributes:
        portfolios: In force, with all facts that are known.
    """

    def __init__(self, lane: str, detectors: LaneDetectors) -> None:
        self.lane = lane
        self.detectors = detectors
        self.clock = LaneClock()
        self.incidents = IncidentBook(lane)
        self.portfolios: tuple[Portfolio, ...] = ()
        self._snapshot_at = 0

    @classmethod
    def open(cls, store: Store, portfolios: Sequence[Portfolio] | None, lane: str = LIVE) -> ShiftWatch:
        """Go on where the store ends: from the last snapshot, folding what was kept since.

        Where a direction, a bound or the budget changed since, it holds from now on: alerts of series whose direction
        turned are closed, and the state is written at once, so that no later refold needs to know of the change.

        Args:
            store: Open for keeping.
            portfolios: As they are scored by; None for those that the store was kept with.
            lane: `live`, `file:<source>` or `backfill:<id>`.

        Raises:
            JobError: The store could not be read or written.
        """
        is_new = portfolios is not None
        cursor = store.cursor()
        try:
            if portfolios is None:
                portfolios = [parse_portfolio(text) for text in latest_portfolio_texts(cursor)]
            portfolios = [answered(one, stored_facts(cursor, one.pipeline)) for one in portfolios]
            found = last_detectors(cursor, lane)
        finally:
            cursor.close()
        rules = rules_of(portfolios)
        budgets = {portfolio.pipeline: budget_of(portfolio) for portfolio in portfolios}
        watch, seq = None, 0
        if found is not None:
            try:
                watch, seq = cls._unpacked(lane, found[0]), found[1]
            except SnapshotError as error:
                logger.warning("the state of the detectors of lane %s is folded anew: %s", lane, error)
        if watch is None:
            watch = cls(lane, LaneDetectors(rules, budgets))
            watch.portfolios = tuple(portfolios)
            watch._refold(store, 0)
            # From here on the store says what holds, and a change of it can be told.
            store.record("writing the state of the detectors", lambda con, seq: watch._write(con, seq, _now()))
        else:
            watch.portfolios = tuple(portfolios)
            watch._refold(store, seq)
        watch.detectors.feed(rules)
        if is_new and not watch._is_in_force(rules, budgets):
            store.apply([("portfolio", watch._take_over_known)], "taking over a changed portfolio")
        return watch

    # ---- slices ----

    def take(self, scored: ScoredSlice, kept_at: datetime, unread: Collection[tuple[str, int]] = ()) -> Taken:
        """Fold a slice that is about to be kept; call it once for each slice of the lane, in the order of keeping.

        Args:
            scored: As scored.
            kept_at: As given to `Store.write_slice`, with a time zone.
            unread: (Topic, partition) of those that have records which are not kept, this slice aside. Those that
                event time waits for are recorded with the slice.

        Raises:
            ValueError: Of another lane.
        """
        if scored.lane != self.lane:
            raise ValueError(f"a slice of lane {scored.lane} came to the watch of lane {self.lane}; open one for each")
        second = kept_at.timestamp()
        ticks = scored.tables["ticks"]
        if ticks.num_rows:
            ticks = self._open_ticks(second).stamp(ticks)
            scored = dataclasses.replace(scored, tables={**scored.tables, "ticks": ticks})
        waits_for = self.clock.silent((partition_name(*one) for one in unread), second)
        partition = partition_name(scored.topic, scored.partition)
        content = SliceContent(ticks, scored.tables["session_ticks"])
        steps = self._fold(StoredCommit(partition, second, waits_for, content))
        also: list[tuple[str, Step]] = []
        if waits_for:
            also.append(("waited_for", waiting_step(self.lane, waits_for)))
        if steps:
            also.append(("alerts", lambda transaction: write_steps(transaction.con, self.lane, transaction.seq, steps)))
        if self.clock.watermark - self._snapshot_at >= _SNAPSHOT_TICKS:
            self._snapshot_at = self.clock.watermark
            also.append(("detectors", self._write_state))
        opened = sum(s.step.state == "open" and s.step.incident.fired == s.step.finding.tick for s in steps)
        return Taken(scored, also, opened)

    def _open_ticks(self, second: float) -> OpenTicks:
        return OpenTicks.between(self.clock.watermark, int(second // TICK_SECONDS) if self.lane == LIVE else None)

    def _fold(self, commit: StoredCommit) -> list[StepRows]:
        newest = self.detectors.add(commit.content, self._open_ticks(commit.second))
        is_live = self.lane == LIVE
        closed = self.clock.move(commit.partition, newest, commit.second, is_live=is_live, unread=commit.waits_for)
        self.clock.watermark = max(closed, self.detectors.full_until())
        return self._steps(self.detectors.close(self.clock.watermark))

    def _steps(self, findings: Sequence[Finding]) -> list[StepRows]:
        steps = []
        known = {portfolio.pipeline: portfolio for portfolio in self.portfolios}
        for finding in findings:
            rule = self.detectors.rows.rule(finding.watched.series)
            step = self.incidents.take(finding, rule)
            if step is not None:
                steps.append(StepRows(step, rule, self._limit_log10(step.incident), known.get(rule.pipeline)))
        return steps

    def _limit_log10(self, incident: Incident) -> float | None:
        if incident.watched.kind == "bound":
            return None
        fleet, row = self.detectors.find(incident.watched)
        name = "page_threshold" if incident.severity == "page" else "ticket_threshold"
        limit = float(fleet.state[name][row])
        return math.log10(limit) if math.isfinite(limit) else None

    # ---- people ----

    def accept(self, transaction: StoreTransaction, alert_id: str, by: str, why: str) -> Incident:
        """Make what came since the change the new normal, and close the alert: a person says that this is right.

        A bound is the portfolio's, and does not move: it stays broken, and is told again when it was kept in between.

        Args:
            transaction: The open transaction; the state is written with it.
            alert_id: Of an alert of this lane.
            by: Who says so.
            why: In words; may be empty.

        Raises:
            KeyError: No such alert is open.
        """
        incident = next((one for one in self.incidents.open.values() if one.alert_id == alert_id), None)
        if incident is None:
            raise KeyError(alert_id)
        if incident.watched.kind != "bound":
            fleet, row = self.detectors.find(incident.watched)
            accept(fleet, row, max(self.detectors.folded, 1))
        del self.incidents.open[incident.watched]
        record_step(transaction.con, self.lane, transaction.seq, incident, "accepted", transaction.kept_at, by, why)
        self._write_state(transaction)
        return incident

    def take_over(self, transaction: StoreTransaction, portfolios: Sequence[Portfolio]) -> int:
        """Go on by other portfolios, or by the same with further facts; see `open`.

        Args:
            transaction: The open transaction; the state is written with it.
            portfolios: All of them, with the facts in force.

        Returns:
            How many past shifts are labelled anew.
        """
        self.portfolios = tuple(portfolios)
        return self._use(transaction)

    def _take_over_known(self, transaction: StoreTransaction) -> None:
        self._use(transaction)

    def _is_in_force(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> bool:
        rows = self.detectors.rows
        known = rows.rules
        return all(known.get((rule.pipeline, rule.metric)) == rule for rule in rules) and rows.budgets == budgets

    def _use(self, transaction: StoreTransaction) -> int:
        rules = rules_of(self.portfolios)
        budgets = {portfolio.pipeline: budget_of(portfolio) for portfolio in self.portfolios}
        self.detectors.feed(rules)
        before = dict(self.detectors.rows.rules)
        if self._is_in_force(rules, budgets):
            return 0
        closed = self.incidents.drop(self.detectors.use_rules(rules, budgets))
        why = "which way is better was answered anew; the alert belonged to the old answer"
        for incident in closed:
            record_step(
                transaction.con, self.lane, transaction.seq, incident, "resolved", transaction.kept_at, "gapwatch", why
            )
        turned = [rule for rule in rules if rule.is_turned(before.get((rule.pipeline, rule.metric)))]
        labelled = sum(relabel(transaction.con, self.lane, transaction.seq, rule) for rule in turned)
        self._write_state(transaction)
        return labelled

    # ---- the state ----

    def save(self, store: Store) -> None:
        """Write the state, in a transaction of its own; at the end of a run, so that the next starts at once."""
        if self.clock.watermark:
            store.record("writing the state of the detectors", lambda con, seq: self._write(con, seq, _now()))

    def packed(self) -> bytes:
        """Return the whole state as bytes; equal states give equal bytes."""
        head: dict[str, Any] = {
            "bank": self.detectors.as_json(),
            "clock": self.clock.as_json(),
            "incidents": self.incidents.as_json(),
        }
        return pack_state(head, self.detectors.snapshots())

    @classmethod
    def _unpacked(cls, lane: str, data: bytes) -> ShiftWatch:
        head, fleets = unpack_state(data)
        watch = cls(lane, LaneDetectors.from_json(head["bank"], fleets))
        watch.clock = LaneClock.from_json(head["clock"])
        watch.incidents.take_json(head["incidents"])
        watch._snapshot_at = watch.clock.watermark
        return watch

    def _write_state(self, transaction: StoreTransaction) -> None:
        self._write(transaction.con, transaction.seq, transaction.kept_at)

    def _write(self, con: Connection, seq: int, now: datetime) -> None:
        write_detectors(con, seq, self.lane, tick_start(self.clock.watermark + 1), self.packed(), now)
        write_watched(con, self.lane, seq, self.detectors)

    def _refold(self, store: Store, after: int) -> None:
        """Fold again what was kept after a commit, and write what was found in it and is not told yet.

        After a crash that is nothing; it is all of it where a store was kept without a watch before.
        """
        found = [rows for commit in stored_commits(store, self.lane, after) for rows in self._fold(commit)]
        with closing(store.cursor()) as cursor:
            written = written_steps(cursor, self.lane)
        missing = [rows for rows in found if _identity(rows) not in written]
        if missing:
            store.record("writing alerts", lambda con, seq: write_steps(con, self.lane, seq, missing))


def _identity(rows: StepRows) -> tuple[str, str, str, datetime]:
    step = rows.step
    return step.incident.alert_id, step.state, step.incident.severity, tick_start(step.finding.tick + 1)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
