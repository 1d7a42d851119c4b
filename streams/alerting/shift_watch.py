"""The keeper's watch over one lane: takes each slice before it is kept, and writes what moved into the same commit.

scored slice ─▶ take ─▶ ticks with fold_bucket ─▶ Store.keep(scored, kept_at, also=steps) ─▶ alerts, shifts,
                 │                                                                            detectors' state
                 └─ closes ticks two minutes behind event time, folds them, settles
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scorers.load import parse_portfolio
from scorers.portfolio import Portfolio
from scorers.slices import ScoredSlice
from sinks.keeping import Connection, Keeping, Step
from sinks.store import Store
from sinks.stored_facts import answered, stored_facts
from streams.alerting.attribution import tick_start
from streams.alerting.bank import RATES, SESSIONS, Bank
from streams.alerting.card import Budget, Card, budget_of, cards_of
from streams.alerting.finding import Finding
from streams.alerting.incident import Incident, IncidentBook
from streams.alerting.kept_commits import KeptCommit, kept_commits, place_of, recording_wait
from streams.alerting.lane_clock import LaneClock
from streams.alerting.relabelling import relabel
from streams.alerting.rows import StepRows, say, write_steps
from streams.alerting.slice_units import OpenTicks, read_units, unit_ticks
from streams.alerting.slice_values import read_labels, read_numbers
from streams.alerting.state_file import pack, unpack
from streams.alerting.watched_rows import write_watched
from streams.detectors.contexts import TICK_SECONDS
from streams.detectors.snapshot import SnapshotError
from streams.detectors.watch import accept

LIVE = "live"
_LAST_PORTFOLIOS = "SELECT arg_max(yaml, first_seen_at) FROM portfolios GROUP BY pipeline ORDER BY pipeline"
# An hour of event time: what a restart folds again at most. More often costs writing, less often costs starting.
_SNAPSHOT_TICKS = 120

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Taken:
    """What the keeper hands to `Store.keep`.

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
        cards: Of the metrics that may alert.
        budgets: By pipeline.

    Attributes:
        portfolios: In force, with all facts that are known.
    """

    def __init__(self, lane: str, cards: Sequence[Card], budgets: dict[str, Budget]) -> None:
        self.lane = lane
        self.bank = Bank(cards, budgets)
        self.clock = LaneClock()
        self.incidents = IncidentBook(lane)
        self.portfolios: tuple[Portfolio, ...] = ()
        self._look_at(cards)
        self._snapshot_at = 0

    def _look_at(self, cards: Sequence[Card]) -> None:
        self._watched = {(card.pipeline, card.metric) for card in cards}
        self._measures = {(card.pipeline, card.metric) for card in cards if card.numbers}
        self._labels = {(card.pipeline, card.metric): card.labels for card in cards if card.labels}

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
                portfolios = [parse_portfolio(text) for (text,) in cursor.execute(_LAST_PORTFOLIOS).fetchall()]
            portfolios = [answered(one, stored_facts(cursor, one.pipeline)) for one in portfolios]
        finally:
            cursor.close()
        cards = cards_of(portfolios)
        budgets = {portfolio.pipeline: budget_of(portfolio) for portfolio in portfolios}
        found = store.query(
            'SELECT "data", seq FROM detector_snapshots WHERE lane = ? ORDER BY seq DESC, kept_at DESC LIMIT 1', [lane]
        )
        watch, seq = None, 0
        if found:
            try:
                watch, seq = cls._unpacked(lane, bytes(found[0][0])), int(found[0][1])
            except SnapshotError as error:
                logger.warning("the state of the detectors of lane %s is folded anew: %s", lane, error)
        if watch is None:
            watch = cls(lane, cards, budgets)
            watch.portfolios = tuple(portfolios)
            watch._refold(store, 0)
            # From here on the store says what holds, and a change of it can be told.
            store.record("writing the state of the detectors", lambda con, seq: watch._write(con, seq, _now()))
        else:
            watch.portfolios = tuple(portfolios)
            watch._refold(store, seq)
        watch._look_at(cards)
        if is_new and not watch._is_in_force(cards, budgets):
            store.apply([("portfolio", watch._take_over_known)], "taking over a changed portfolio")
        return watch

    # ---- slices ----

    def take(self, scored: ScoredSlice, kept_at: datetime, unread: Collection[tuple[str, int]] = ()) -> Taken:
        """Fold a slice that is about to be kept; call it once for each slice of the lane, in the order of keeping.

        Args:
            scored: As scored.
            kept_at: As given to `Store.keep`, with a time zone.
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
        waits_for = self.clock.silent((place_of(*one) for one in unread), second)
        place = place_of(scored.topic, scored.partition)
        steps = self._fold(KeptCommit(place, second, waits_for, ticks, scored.tables["session_ticks"]))
        also: list[tuple[str, Step]] = []
        if waits_for:
            also.append(("waited_for", recording_wait(self.lane, waits_for)))
        if steps:
            also.append(("alerts", lambda keeping: write_steps(keeping.con, self.lane, keeping.seq, steps)))
        if self.clock.closed - self._snapshot_at >= _SNAPSHOT_TICKS:
            self._snapshot_at = self.clock.closed
            also.append(("detectors", self._write_state))
        opened = sum(s.step.state == "open" and s.step.incident.fired == s.step.finding.tick for s in steps)
        return Taken(scored, also, opened)

    def _open_ticks(self, second: float) -> OpenTicks:
        return OpenTicks.between(self.clock.closed, int(second // TICK_SECONDS) if self.lane == LIVE else None)

    def _fold(self, kept: KeptCommit) -> list[StepRows]:
        whole = unit_ticks(kept.ticks)
        units = read_units(whole, kept.session_ticks, self._watched)
        there = self._open_ticks(kept.second)
        self.bank.add(units, there)
        numbers = read_numbers(whole, kept.session_ticks, self._measures)
        labels = read_labels(kept.ticks, whole, kept.session_ticks, self._labels)
        self.bank.add_values(numbers, labels, there)
        is_live = self.lane == LIVE
        closed = self.clock.move(kept.place, units.newest, kept.second, is_live=is_live, unread=kept.waits_for)
        self.clock.closed = max(closed, self.bank.full_until())
        return self._steps(self.bank.close(self.clock.closed))

    def _steps(self, findings: Sequence[Finding]) -> list[StepRows]:
        steps = []
        known = {portfolio.pipeline: portfolio for portfolio in self.portfolios}
        for finding in findings:
            card = self.bank.card(finding.watched.series)
            step = self.incidents.take(finding, card)
            if step is not None:
                steps.append(StepRows(step, card, self._limit_log10(step.incident), known.get(card.pipeline)))
        return steps

    def _limit_log10(self, incident: Incident) -> float | None:
        if incident.watched.kind == "bound":
            return None
        fleet, row = self.bank.find(incident.watched)
        name = "page_threshold" if incident.severity == "page" else "ticket_threshold"
        limit = float(fleet.state[name][row])
        return math.log10(limit) if math.isfinite(limit) else None

    # ---- people ----

    def accept(self, keeping: Keeping, alert_id: str, by: str, why: str) -> Incident:
        """Make what came since the change the new normal, and close the alert: a person says that this is right.

        A bound is the portfolio's, and does not move: it stays broken, and is told again when it was kept in between.

        Args:
            keeping: The open transaction; the state is written with it.
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
            fleet, row = self.bank.find(incident.watched)
            accept(fleet, row, max(self.bank.folded, 1))
        del self.incidents.open[incident.watched]
        say(keeping.con, self.lane, keeping.seq, incident, "accepted", keeping.kept_at, by, why)
        self._write_state(keeping)
        return incident

    def take_over(self, keeping: Keeping, portfolios: Sequence[Portfolio]) -> int:
        """Go on by other portfolios, or by the same with further facts; see `open`.

        Args:
            keeping: The open transaction; the state is written with it.
            portfolios: All of them, with the facts in force.

        Returns:
            How many past shifts are labelled anew.
        """
        self.portfolios = tuple(portfolios)
        return self._use(keeping)

    def _take_over_known(self, keeping: Keeping) -> None:
        self._use(keeping)

    def _is_in_force(self, cards: Sequence[Card], budgets: dict[str, Budget]) -> bool:
        known = self.bank.cards
        return all(known.get((card.pipeline, card.metric)) == card for card in cards) and self.bank.budgets == budgets

    def _use(self, keeping: Keeping) -> int:
        cards = cards_of(self.portfolios)
        budgets = {portfolio.pipeline: budget_of(portfolio) for portfolio in self.portfolios}
        self._look_at(cards)
        before = dict(self.bank.cards)
        if self._is_in_force(cards, budgets):
            return 0
        closed = self.incidents.drop(self.bank.use_cards(cards, budgets))
        why = "which way is better was answered anew; the alert belonged to the old answer"
        for incident in closed:
            say(keeping.con, self.lane, keeping.seq, incident, "resolved", keeping.kept_at, "gapwatch", why)
        turned = [card for card in cards if card.is_turned(before.get((card.pipeline, card.metric)))]
        labelled = sum(relabel(keeping.con, self.lane, keeping.seq, card) for card in turned)
        self._write_state(keeping)
        return labelled

    # ---- the state ----

    def save(self, store: Store) -> None:
        """Write the state, in a transaction of its own; at the end of a run, so that the next starts at once."""
        if self.clock.closed:
            store.record("writing the state of the detectors", lambda con, seq: self._write(con, seq, _now()))

    def packed(self) -> bytes:
        """Return the whole state as bytes; equal states give equal bytes."""
        head: dict[str, Any] = {
            "bank": self.bank.as_json(),
            "clock": self.clock.as_json(),
            "incidents": self.incidents.as_json(),
        }
        return pack(head, self.bank.state())

    @classmethod
    def _unpacked(cls, lane: str, data: bytes) -> ShiftWatch:
        head, fleets = unpack(data, RATES, SESSIONS)
        bank = head["bank"]
        cards = [Card.from_json(card) for card in bank["cards"]]
        watch = cls(lane, cards, {pipeline: Budget(*numbers) for pipeline, numbers in bank["budgets"].items()})
        watch.bank.take_json(bank, fleets)
        watch.clock = LaneClock.from_json(head["clock"])
        watch.incidents.take_json(head["incidents"])
        watch._snapshot_at = watch.clock.closed
        return watch

    def _write_state(self, keeping: Keeping) -> None:
        self._write(keeping.con, keeping.seq, keeping.kept_at)

    def _write(self, con: Connection, seq: int, now: datetime) -> None:
        con.execute("DELETE FROM detector_snapshots WHERE lane = ?", [self.lane])
        con.execute(
            "INSERT INTO detector_snapshots VALUES (?, ?, ?, ?, ?)",
            [seq, self.lane, tick_start(self.clock.closed + 1), self.packed(), now],
        )
        write_watched(con, self.lane, seq, self.bank)

    def _refold(self, store: Store, after: int) -> None:
        """Fold again what was kept after a commit, and write what was found in it and is not told yet.

        After a crash that is nothing; it is all of it where a store was kept without a watch before.
        """
        found = [rows for kept in kept_commits(store, self.lane, after) for rows in self._fold(kept)]
        told = set(store.query('SELECT alert_id, state, severity, "at" FROM alerts WHERE lane = ?', [self.lane]))
        missing = [rows for rows in found if _identity(rows) not in told]
        if missing:
            store.record("writing alerts", lambda con, seq: write_steps(con, self.lane, seq, missing))


def _identity(rows: StepRows) -> tuple[str, str, str, datetime]:
    step = rows.step
    return step.incident.alert_id, step.state, step.incident.severity, tick_start(step.finding.tick + 1)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
