"""Watch over one lane: folds each slice before it is stored, and writes shifts and alerts in the same commit.

scored slice ─▶ take ─▶ ticks with fold_bucket ─▶ Store.write_slice(scored, kept_at, also=steps) ─▶ alerts, shifts,
                 │                                                                            detectors' state
                 └─ by pipeline: closes ticks two minutes behind event time, folds them, returns findings
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.incidents.incident_query import incident_row
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.store.detector_states import last_detectors, waiting_step, write_detectors
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Connection, Step, StoreTransaction
from gapwatch.streams.alerting.evaluation.alert_terms import rules_and_budgets, with_answers
from gapwatch.streams.alerting.evaluation.folded_slice import FoldedSlice
from gapwatch.streams.alerting.evaluation.folding import SAVE_COMMITS, FoldProgress, refold, utc_now
from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.pipeline_watch import PipelineWatch, restored, rules_by_pipeline, snapshots_of
from gapwatch.streams.alerting.evaluation.series_board import SeriesBoard
from gapwatch.streams.alerting.evaluation.series_status import write_bounds, write_watched
from gapwatch.streams.alerting.evaluation.state_file import pack_state, unpack_state
from gapwatch.streams.alerting.evaluation.stored_history import StoredCommit, partition_name
from gapwatch.streams.alerting.incidents.alert_book import AlertBook, OpenAlert
from gapwatch.streams.alerting.incidents.alert_rows import StepRows, end_alert, write_steps
from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.incidents.incident_steps import NOTHING_SAID, IncidentNews, Said, send, write_incident
from gapwatch.streams.alerting.incidents.relabelling import relabel
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.slice_units import SeriesKey, SliceContent, stamp
from gapwatch.streams.detectors.contexts import tick_start
from gapwatch.streams.detectors.snapshot import SnapshotError
from gapwatch.streams.detectors.watch import accept

LIVE = "live"
# Seconds of work between two saved states. Fewer cost writing; more make a restart after a kill slower.
_SNAPSHOT_SECONDS = 300.0

logger = logging.getLogger(__name__)


class ShiftWatch:
    """Detectors, bounds and alerts of one lane, by pipeline.

    The state is a function of the slices of the lane in the order of their commits, with the partition and the time of
    each commit. After a crash the slices since the last snapshot are folded again from the stored ticks, and give the
    same state. Each pipeline has its own event time: that of the slowest partition that is not idle or has unread
    records (`LaneClock`). Each commit records the idle partitions that held event time back.

    All methods belong to the writer thread. A slice that was taken but could not be stored leaves the watch ahead of
    the store: drop the watch and open another one, as a process does that ends after a failed commit.

    Args:
        lane: Name of the lane; slices of other lanes are refused.

    Attributes:
        pipelines: Detectors and clock of each pipeline that a portfolio was ever in force for, by its name.
        portfolios: Portfolios in force, with all known facts.
        board: Status of the monitored series, as stored and as shown.
    """

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.pipelines: dict[str, PipelineWatch] = {}
        self.alerts = AlertBook(lane, self._graph)
        self.portfolios: tuple[Portfolio, ...] = ()
        self.board = SeriesBoard()
        self._saved_at, self._unsaved, self._has_news = math.inf, 0, False

    @classmethod
    def open(
        cls,
        store: Store,
        portfolios: Sequence[Portfolio] | None,
        lane: str = LIVE,
        progress: FoldProgress | None = None,
    ) -> ShiftWatch:
        """Open the watch at the end of a store: restore the last snapshot, and fold the slices stored since.

        A direction, a bound or a budget that has changed applies from now on. Alerts of series whose direction changed
        are closed, and the state is written at once, so that no later refold depends on the change.

        Args:
            store: Store, open for writing.
            portfolios: Portfolios that score the slices; None for those in the store.
            lane: `live`, `file:<source>` or `backfill:<id>`.
            progress: Receives the progress of folding, and may stop it.

        Raises:
            JobError: The store could not be read or written.
            UsageError: A portfolio contradicts the answer of a person.
            FoldStoppedError: `progress` was stopped.
        """
        is_new = portfolios is not None
        progress = progress or FoldProgress()
        cursor = store.cursor()
        try:
            if portfolios is None:
                portfolios = [parse_stored_portfolio(text) for text in latest_portfolio_texts(cursor)]
            found = last_detectors(cursor, lane)
        finally:
            cursor.close()
        portfolios = with_answers(store, portfolios)
        rules, budgets = rules_and_budgets(portfolios)
        watch, seq = None, 0
        if found is not None:
            try:
                watch, seq = cls._unpacked(lane, found[0]), found[1]
            except SnapshotError as error:
                logger.warning("the detectors of lane %s are folded again from all stored ticks: %s", lane, error)
        is_fresh = watch is None
        if watch is None:
            watch = cls(lane)
            watch._add_pipelines(rules, budgets)
        watch.portfolios = tuple(portfolios)
        folded = watch._unsaved = refold(watch, store, seq, progress)
        if is_fresh or folded > SAVE_COMMITS:
            # From now on the store holds the rules in force, so a later change of them is noticed.
            store.record("writing the state of the detectors", lambda con, seq: watch.write_state(con, seq, utc_now()))
        watch._feed(rules)
        if is_new and not watch._is_in_force(rules, budgets):
            store.apply([("portfolio", watch._take_over_known)], "taking over a changed portfolio")
        watch.board.renew(watch.detectors, must=True)
        return watch

    @property
    def detectors(self) -> list[LaneDetectors]:
        """Detectors of each pipeline, in the order in which the pipelines came into force."""
        return [one.detectors for one in self.pipelines.values()]

    def detectors_of(self, series: SeriesKey) -> LaneDetectors:
        """Return the detectors of the pipeline of a series."""
        return self.pipelines[series.pipeline].detectors

    def change(self, store: Store, portfolios: Sequence[Portfolio]) -> None:
        """Take over other portfolios between two slices, and write the state; nothing is folded again.

        Raises:
            UsageError: A portfolio contradicts the answer of a person; nothing has changed.
            JobError: The store could not be written.
        """
        self.portfolios = tuple(with_answers(store, portfolios))
        rules, budgets = rules_and_budgets(self.portfolios)
        if self._is_in_force(rules, budgets):
            self._feed(rules)
            self.save(store)
        else:
            store.apply([("portfolio", self._take_over_known)], "taking over a changed portfolio")

    # ---- slices ----

    def take(
        self,
        scored: ScoredSlice,
        kept_at: datetime,
        unread: Collection[tuple[str, int]] = (),
        *,
        is_last: bool = True,
    ) -> FoldedSlice:
        """Fold a slice before it is stored; call it once for each slice of the lane, in the order of the commits.

        Args:
            scored: Scored slice.
            kept_at: Time of the commit, as given to `Store.write_slice`, with a time zone.
            unread: (Topic, partition) with records that are not stored yet, besides this slice. The idle ones hold
                event time back and are recorded with the slice.
            is_last: False where another slice follows in the same transaction. The state is written with the last one
                only, whose commit number it then has.

        Raises:
            ValueError: The slice belongs to another lane.
        """
        if scored.lane != self.lane:
            raise ValueError(f"a slice of lane {scored.lane} came to the watch of lane {self.lane}; open one for each")
        second = kept_at.timestamp()
        ticks = scored.tables["ticks"]
        if ticks.num_rows:
            ticks = stamp(ticks, {name: one.open_ticks(second) for name, one in self.pipelines.items()})
            scored = dataclasses.replace(scored, tables={**scored.tables, "ticks": ticks})
        names = [partition_name(*one) for one in unread]
        # A pipeline without a monitored metric has no event time that a partition could hold back.
        reading = [one for one in self.pipelines.values() if one.detectors.reads_units]
        waits_for = sorted({name for one in reading for name in one.clock.silent(names, second)})
        partition = partition_name(scored.topic, scored.partition)
        content = SliceContent(ticks, scored.tables["session_ticks"])
        steps = self.fold(StoredCommit(partition, second, waits_for, content))
        also: list[tuple[str, Step]] = []
        if waits_for:
            also.append(("waited_for", waiting_step(self.lane, waits_for)))
        if steps:
            also.append(("alerts", lambda transaction: write_steps(transaction.con, self.lane, transaction.seq, steps)))
        self._unsaved += 1
        self._has_news |= bool(steps)
        if is_last:
            also += self._state_steps(second)
        opened = sum(s.step.state == "open" and s.step.alert.fired == s.step.finding.tick for s in steps)
        return FoldedSlice(scored, also, opened)

    def _state_steps(self, second: float) -> list[tuple[str, Step]]:
        """Return the step that writes the state every five minutes of work, or the status of the series, or none."""
        self.board.renew(self.detectors, must=self._has_news)
        self._has_news = False
        # The first slice begins the count; after a step back of the clock it begins anew.
        self._saved_at = min(self._saved_at, second)
        is_old = second - self._saved_at >= _SNAPSHOT_SECONDS or self._unsaved > SAVE_COMMITS
        if not is_old and not self.board.is_due(second):
            return []
        self.board.note_written(second)
        if not is_old:
            return [("watched", self._write_board)]
        self._saved_at = second
        return [("detectors", self._write_state)]

    def fold(self, commit: StoredCommit) -> list[StepRows]:
        """Fold a slice, and return the steps of alerts that follow; `take` and a start call it."""
        findings: list[Finding] = []
        for one in self.pipelines.values():
            findings += one.fold(commit, is_alone=len(self.pipelines) == 1)
        return self._steps(findings)

    def _steps(self, findings: Sequence[Finding]) -> list[StepRows]:
        steps = []
        known = {portfolio.pipeline: portfolio for portfolio in self.portfolios}
        for finding in findings:
            rule = self.detectors_of(finding.watched.series).rows.rule(finding.watched.series)
            step = self.alerts.take(finding, rule)
            if step is not None:
                limit_log10, busiest_day = self._threshold(step.alert)
                steps.append(StepRows(step, rule, limit_log10, known.get(rule.pipeline), busiest_day))
        return steps

    def _threshold(self, alert: OpenAlert) -> tuple[float | None, float | None]:
        """Return log10 of the threshold of an alert, and the busiest day where that set it."""
        if alert.watched.kind == "bound":
            return None, None
        fleet, row = self.detectors_of(alert.watched.series).find(alert.watched)
        name = "page_threshold" if alert.severity == "page" else "ticket_threshold"
        limit = float(fleet.state[name][row])
        is_observed = fleet.state["tickets_allowed"][row] > 0.0 or fleet.state["pages_allowed"][row] > 0.0
        busiest_day = float(fleet.state["busiest_day"][row]) if is_observed else None
        return math.log10(limit) if math.isfinite(limit) else None, busiest_day

    # ---- people ----

    def _graph(self, pipeline: str) -> ComponentGraph:
        return ComponentGraph.of(self.portfolio_of(pipeline))

    def portfolio_of(self, pipeline: str) -> Portfolio | None:
        """Return the portfolio in force of a pipeline; None where it has none."""
        return next((one for one in self.portfolios if one.pipeline == pipeline), None)

    def accept(self, transaction: StoreTransaction, alert_ids: Sequence[str], by: str, why: str) -> None:
        """Make the units since the change the new baseline, and close the alerts: a person says that they are right.

        A bound of the portfolio does not move. It stays broken, and alerts again after it has held in between.

        Args:
            transaction: Open transaction; the state is written with it.
            alert_ids: Ids of alerts of this lane.
            by: Name of the person.
            why: Reason in words; may be empty.

        Raises:
            KeyError: No alert with one of these ids is open; nothing was changed.
        """
        known = {one.alert_id: one for one in self.alerts.open.values()}
        alerts = [known[alert_id] for alert_id in alert_ids]
        said, incidents = Said("accepted", by, why), []
        for alert in alerts:
            detectors = self.detectors_of(alert.watched.series)
            if alert.watched.kind != "bound":
                fleet, row = detectors.find(alert.watched)
                accept(fleet, row, max(detectors.folded, 1))
            self.alerts.close(alert, detectors.folded)
            at = transaction.kept_at
            incidents.append(end_alert(transaction.con, self.lane, transaction.seq, alert, "accepted", at, said))
        self._write_incidents(transaction, incidents, said)
        self._write_state(transaction)

    def take_over(self, transaction: StoreTransaction, portfolios: Sequence[Portfolio]) -> int:
        """Change to other portfolios, or to the same portfolios with further facts; see `open`.

        Args:
            transaction: Open transaction; the state is written with it.
            portfolios: All portfolios, with the facts in force.

        Returns:
            Number of past shifts that were relabelled.
        """
        self.portfolios = tuple(portfolios)
        return self._use(transaction)

    def _take_over_known(self, transaction: StoreTransaction) -> None:
        self._use(transaction)

    def _is_in_force(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> bool:
        wanted = rules_by_pipeline(rules, budgets)
        return all(
            name in self.pipelines and self.pipelines[name].detectors.rows.is_in_force(*terms)
            for name, terms in wanted.items()
        )

    def _add_pipelines(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> None:
        for name, terms in rules_by_pipeline(rules, budgets).items():
            if name not in self.pipelines:
                self.pipelines[name] = PipelineWatch(name, LaneDetectors(*terms), is_live=self.lane == LIVE)

    def _feed(self, rules: Sequence[AlertRule]) -> None:
        for name, one in self.pipelines.items():
            one.detectors.feed([rule for rule in rules if rule.pipeline == name])

    def _use(self, transaction: StoreTransaction) -> int:
        rules, budgets = rules_and_budgets(self.portfolios)
        before = {key: rule for one in self.detectors for key, rule in one.rows.rules.items()}
        if self._is_in_force(rules, budgets):
            self._feed(rules)
            return 0
        self._add_pipelines(rules, budgets)
        self._feed(rules)
        closed: list[OpenAlert] = []
        for name, terms in rules_by_pipeline(rules, budgets).items():
            detectors = self.pipelines[name].detectors
            closed += self.alerts.drop(detectors.use_rules(*terms, self.alerts.sides()), detectors.folded)
        said = Said(why="the better direction was answered: this change is no change for the worse")
        ended = [
            end_alert(transaction.con, self.lane, transaction.seq, alert, "resolved", transaction.kept_at, said)
            for alert in closed
        ]
        turned = [rule for rule in rules if rule.is_turned(before.get((rule.pipeline, rule.metric)))]
        labelled = sum(relabel(transaction.con, self.lane, transaction.seq, rule) for rule in turned)
        # An answer changes the kind and the direction of alerts that stay open, so their incidents have other names.
        named = [alert.incident_id for alert in self.alerts.open.values()] if labelled else []
        self._write_incidents(transaction, [*ended, *named])
        self._write_state(transaction)
        return labelled

    def _write_incidents(
        self, transaction: StoreTransaction, incident_ids: Sequence[str], said: Said = NOTHING_SAID
    ) -> None:
        """Write the steps of incidents after a decision about their alerts."""
        told: list[IncidentNews] = []
        con, seq, at = transaction.con, transaction.seq, transaction.kept_at
        for incident_id in dict.fromkeys(incident_ids):
            known = incident_row(con, incident_id, at)
            if known is not None:
                told += write_incident(con, seq, incident_id, at, self.portfolio_of(known.step.pipeline), said)
        send(con, seq, told)

    # ---- the state ----

    def save(self, store: Store) -> None:
        """Write the state in a transaction of its own, at the end of a run, so that the next run starts at once."""
        if any(one.clock.watermark for one in self.pipelines.values()):
            store.record("writing the state of the detectors", lambda con, seq: self.write_state(con, seq, utc_now()))

    def packed(self) -> bytes:
        """Return the whole state as bytes; equal states give equal bytes."""
        head: dict[str, Any] = {
            "pipelines": {name: one.as_json() for name, one in self.pipelines.items()},
            "alerts": self.alerts.as_json(),
        }
        return pack_state(head, snapshots_of(self.pipelines))

    @classmethod
    def _unpacked(cls, lane: str, data: bytes) -> ShiftWatch:
        head, fleets = unpack_state(data)
        watch = cls(lane)
        watch.pipelines = restored(head["pipelines"], fleets, is_live=lane == LIVE)
        watch.alerts.take_json(head["alerts"])
        return watch

    def _write_state(self, transaction: StoreTransaction) -> None:
        self.write_state(transaction.con, transaction.seq, transaction.kept_at)

    def write_state(self, con: Connection, seq: int, now: datetime) -> None:
        """Write the state after a commit, and the status of the series, in an open transaction."""
        self._unsaved = 0
        folded = min((one.clock.watermark for one in self.pipelines.values() if one.clock.watermark), default=0)
        write_detectors(con, seq, self.lane, tick_start(folded + 1), self.packed(), now)
        self.board.renew(self.detectors, must=True)
        self._write_status(con, seq)

    def _write_board(self, transaction: StoreTransaction) -> None:
        self._write_status(transaction.con, transaction.seq)

    def _write_status(self, con: Connection, seq: int) -> None:
        write_watched(con, self.lane, seq, self.board.states)
        write_bounds(con, self.lane, seq, self.detectors)
