"""The life of `gapwatch run`: what is started in which order, what ends it, and that it ends in time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from scorers.errors import GapwatchError, JobError
from scorers.portfolio import load_portfolio
from scorers.scorer_host import ScorerHost
from sinks.api_access import ApiOptions
from sinks.ledger import imbalance
from sinks.run_service import RunService
from sinks.source_state import SourceState
from sinks.store import Store
from sinks.store_file import MEMORY, MEMORY_WITH_READERS
from streams.alert_webhook import AlertWebhook
from streams.alerting.decision_reading import readers
from streams.alerting.live_alerts import LiveAlerts
from streams.faust_slices import SliceAppOptions
from streams.forgetting import forget
from streams.judges.judge_role import JudgeOptions, JudgeRole
from streams.kafka_settings import KafkaSettings
from streams.outbox_relay import OutboxRelay
from streams.pipeline import LIVE, Pipeline, PipelineObserver, make_regime
from streams.portfolio_watch import PortfolioWatch
from streams.replay import ReplayResult
from streams.run_log import RunLog
from streams.shedding import Shedding
from streams.slice_source import SliceSource, SourceOptions, StallLimits
from streams.thinning_options import ThinningOptions

log = logging.getLogger("gapwatch.run")

#: Seconds after which a stop is cut short: what is committed is safe, and who asked does not wait for long.
STOP_SECONDS = 9.0
#: Of those, for what is in work and for the group; for the outbox; for the store's last checkpoint.
DRAIN_SECONDS, RELAY_SECONDS, CLOSE_SECONDS = 5.0, 1.0, 2.5
#: Seconds that a run with an end waits for the outbox to be sent.
OUTBOX_SECONDS = 20.0
_LOOK_SECONDS = 0.2
_LOOKS_A_STATE = 5


@dataclass(frozen=True)
class RunOptions:
    """What is read, and for how long.

    Attributes:
        source: Topic, group and how slices come.
        until_caught_up: End when all that is in the topic is kept.
        thinning: Bound on rows.
        stall: The watchdog's limits.
        keep: What was kept longer ago is forgotten; None: nothing is.
        shed_after: Seconds that a record may wait before judges are shed; None: they never are.
    """

    source: SliceAppOptions
    until_caught_up: bool = False
    thinning: ThinningOptions = field(default_factory=ThinningOptions)
    stall: StallLimits = field(default_factory=StallLimits)
    keep: timedelta | None = None
    shed_after: float | None = None


class Run:
    """One run.

    Args:
        options: What is read.
        kafka: Where.
        portfolios: Files, each of another pipeline; they are followed while it runs.
        store: Opened, and made where there is none.
        scorers: Host of Python scorers.
        api: Where `/metrics` and the history are served; None: nowhere.
        webhook: Where alerts are posted to; empty: nowhere.
        alerts: Watches the lane; None: nothing does.
        judges: What is done for judges.
        open_store: Opens the store; None: as it is needed.
    """

    def __init__(
        self,
        options: RunOptions,
        kafka: KafkaSettings,
        portfolios: Sequence[Path],
        store: Path,
        scorers: ScorerHost | None = None,
        api: ApiOptions | None = None,
        alerts: LiveAlerts | None = None,
        webhook: str = "",
        judges: JudgeOptions | None = None,
        open_store: Callable[[Path], Store] | None = None,
    ) -> None:
        self.options, self._kafka = options, kafka
        self._loaded = [load_portfolio(path) for path in portfolios]
        regime = make_regime(self._loaded, scorers)
        self._run_log = RunLog()
        if open_store is None:
            self._store = Store.open(store, create=True, memory=MEMORY if api is None else MEMORY_WITH_READERS)
        else:
            self._store = open_store(store)
        self._store_id = self._store.id
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped_by = ""
        self._deadline: threading.Timer | None = None
        self._observers: list[PipelineObserver] = [self._run_log]
        self._alerts = alerts
        open_watch, decisions = (alerts.open, readers(alerts)) if alerts is not None else (None, None)
        self.shedding = Shedding(options.shed_after)
        self.pipeline = Pipeline(
            self._store, regime, options.thinning, self._observers, open_watch, self._wake_relay,
            lambda: self.shedding.is_on, lambda: self.source.known_ends(),
        )  # fmt: skip
        self.service = RunService(self._store, self._loaded, options.source.topic, self.pipeline.keeping, api,
                                  decisions)  # fmt: skip
        if api is not None:  # else nobody would see what it counts
            self._observers.append(self.service)
        self.webhook = AlertWebhook(webhook, self._store.cursor, self._mark_relayed) if webhook else None
        self.judges = JudgeRole(
            judges or JudgeOptions(), kafka, self._store, self.pipeline.keep, self.pipeline.keeping,
            self.service, self._loaded, self._judges_failed, self._set_judge_rates,
        )  # fmt: skip
        self._observers.append(self.judges)
        self.relay = OutboxRelay(kafka, self._store.cursor, self._mark_relayed)
        self.portfolio_watch = PortfolioWatch(portfolios, self._loaded, scorers, self.pipeline.switch)
        self.source = SliceSource(
            SourceOptions(options.source, drain_seconds=DRAIN_SECONDS, stall=options.stall),
            kafka, self.pipeline.take, self._stored_offsets, self._store_id,
        )  # fmt: skip
        self._regime = regime

    @property
    def result(self) -> ReplayResult:
        """What was done so far."""
        return self._run_log.result

    def run(self, report: Callable[[ReplayResult], None] = lambda result: None) -> int:
        """Run to the end and return the exit status.

        Args:
            report: Called with what was done, after the store is closed, if the run has come to its end.

        Raises:
            GapwatchError: What ended the run, if it ended by an error.
        """
        return asyncio.run(self._main(report))

    async def _main(self, report: Callable[[ReplayResult], None]) -> int:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop, number)
        self._loop.add_signal_handler(signal.SIGHUP, self.portfolio_watch.ask)
        options = self.options.source
        log.info(
            "topic %s at %s, group %s, into %s; portfolios: %s",
            options.topic,
            self._kafka.brokers,
            options.group,
            self._store.path,
            ", ".join(f"{p.portfolio} version {p.version}" for p in self._loaded),
        )
        failure = await self._until_over()
        result = self.result
        if failure is None and self.options.until_caught_up and not self._stopped_by:
            try:
                result.ledger_imbalance = await self._on_keeper(self._imbalance)
            except JobError as error:
                failure = error
        is_clean = await self._let_go(failure is not None)
        status = self._status(failure)
        if is_clean:
            if self._deadline is not None:
                self._deadline.cancel()
            if failure is not None:
                raise failure
            report(result)
            return status
        # Threads are left that wait for the broker, or for a disk: they cannot be told to end.
        if failure is not None:
            text = str(failure) if isinstance(failure, GapwatchError) else repr(failure)
            sys.stderr.write(f"gapwatch: {text}\n")
        else:
            report(result)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    async def _until_over(self) -> BaseException | None:
        """Read until something ends it; return what went wrong."""
        try:
            await self._on_keeper(self.service.start)
            await self._on_keeper(self.pipeline.register, self._regime)
        except GapwatchError as error:
            return error
        beside = [asyncio.create_task(work) for work in self._beside()]
        for task in beside:
            task.add_done_callback(self._ended_beside)
        failure: BaseException | None = None
        try:
            await self.source.run()
        except BaseException as error:
            failure = error
        for task in beside:
            task.cancel()
        await asyncio.wait(beside, timeout=RELAY_SECONDS)
        return failure

    def _beside(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on beside the reading."""
        keep = self.options.keep
        also = [] if keep is None else [forget(self._store, keep, self._on_keeper)]
        if self.webhook is not None:
            also.append(self.webhook.run())
        return [self.relay.run(), self.portfolio_watch.run(), self._look(), self.judges.run(), *also]

    def _ended_beside(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.source.fail(error)

    def _set_judge_rates(self, rates: Mapping[tuple[str, str], float]) -> None:
        if rates != self.pipeline.judge_rates:
            log.info("judges see less or more: %s", rates or "as written")
            self.pipeline.judge_rates = rates

    def _judges_failed(self, error: BaseException) -> None:
        """Judges that end by a defect or a broken store end the run; from their thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.source.fail, error)

    async def _look(self) -> None:
        """Tell the observers how it stands, and see whether all is read."""
        looks = 0
        while True:
            if looks % _LOOKS_A_STATE == 0:
                self._tell()
            looks += 1
            if self.options.until_caught_up and self.source.is_caught_up() and await self.judges.is_idle():
                await self._until_relayed()
                if self.source.is_caught_up():
                    self.source.stop()
            await asyncio.sleep(_LOOK_SECONDS)

    def _tell(self) -> None:
        source = self.source
        state = SourceState(source.state, source.waiting_for, source.positions(), source.lost,
                            self.portfolio_watch.refused)  # fmt: skip
        for observer in self._observers:
            observer.source_state(state)
        self._shed_or_not(state)
        self.service.metrics.show("gapwatch_outbox_waiting", {(name,): n for name, n in self.relay.waiting.items()})
        if self._alerts is not None and not self._stopped_by:
            self.pipeline.keeping.submit(self._show_alerts).add_done_callback(_log_failure)
        missing = ", ".join(self.relay.missing)
        if self.webhook is not None:
            self.service.health.note("webhook", self.webhook.waiting_for)
        self.service.health.note("outbox", self.relay.waiting_for or (missing and f"no topic {missing}"))

    def _shed_or_not(self, state: SourceState) -> None:
        was_on = self.shedding.is_on
        self.shedding.see(state.positions, time.monotonic())
        if self.shedding.is_on is not was_on:
            limit = f"records wait for more than {self.options.shed_after:g} s"
            log.warning("%s", f"judges are shed: {limit}" if not was_on else "judges are asked again")
        self.service.health.note("load", "judges are shed" if self.shedding.is_on else "")

    async def _until_relayed(self) -> None:
        end = asyncio.get_running_loop().time() + OUTBOX_SECONDS
        self.relay.wake()
        while not self.relay.is_idle and not self._stopped_by and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)
        if not self.relay.is_idle:
            log.warning("part of the outbox is not sent yet (%s); the next run goes on with it", self.relay.waiting_for)

    # --- its end

    def _stop(self, number: signal.Signals) -> None:
        if self._stopped_by:
            self._end_now("asked twice")
        self._stopped_by = signal.Signals(number).name
        log.info("%s: finishing what is in work", self._stopped_by)
        self._deadline = threading.Timer(STOP_SECONDS, self._end_now, [f"not done within {STOP_SECONDS:.0f} s"])
        self._deadline.daemon = True
        self._deadline.start()
        self.source.stop()

    def _end_now(self, why: str) -> None:
        sys.stderr.write(f"gapwatch: ended at once ({why}); what is committed is safe, the next start continues\n")
        sys.stderr.flush()
        os._exit(1)

    def _status(self, failure: BaseException | None) -> int:
        if failure is not None:
            return getattr(failure, "exit_status", 1)
        # Who asked for all of it did not get it; a run without an end is always ended by a signal.
        return 1 if self._stopped_by and self.options.until_caught_up else 0

    async def _let_go(self, has_failed: bool) -> bool:
        """Let go of broker and store; False where something could not be."""
        self._tell()
        ended = await asyncio.gather(
            self.relay.close(RELAY_SECONDS),
            self._within(RELAY_SECONDS, asyncio.to_thread(self.service.stop)),
            asyncio.to_thread(self.judges.stop, RELAY_SECONDS),
        )
        is_clean = all(ended) and self.source.is_clean
        limit = CLOSE_SECONDS if self._stopped_by else None
        if not await self._within(limit, self._on_keeper(self._close_store, has_failed)):
            log.warning("the last checkpoint was cut short; the next start takes a little longer")
            return False
        self.pipeline.close(wait=is_clean)
        return is_clean

    def _close_store(self, has_failed: bool) -> None:
        try:
            if not has_failed:
                self.pipeline.save()
            self._store.close()
        except JobError as error:  # worth a line only: what was kept is in the log
            log.error("%s", error)

    @staticmethod
    async def _within(seconds: float | None, work: Coroutine[Any, Any, Any]) -> bool:
        """Wait for work that may hang; False, and it goes on, where it takes longer."""
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            task.result()
        return bool(done)

    # --- the store, on its thread

    async def _on_keeper(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.pipeline.keeping, partial(work, *arguments))

    def _show_alerts(self) -> None:
        assert self._alerts is not None
        if self._alerts.show(self._store, self.service.metrics):
            self._wake_relay()  # a decision may have left a message

    async def _mark_relayed(self, seqs: dict[str, int]) -> None:
        await self._on_keeper(self._store.mark_relayed, seqs)

    def _imbalance(self) -> int:
        cursor = self._store.cursor()
        try:
            return imbalance(cursor)
        finally:
            cursor.close()

    def _stored_offsets(self, partitions: set[int]) -> dict[int, int | None]:
        found = {number: self._store.position(LIVE, self.options.source.topic, number) for number in partitions}
        return {number: position.to_offset if position else None for number, position in found.items()}

    def _wake_relay(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.relay.wake)


def _log_failure(done: Future[None]) -> None:
    """What shows alerts may fail; what finds them goes on."""
    if not done.cancelled() and (error := done.exception()) is not None:
        log.warning("the gauges of alerts stand still: %s", error)
