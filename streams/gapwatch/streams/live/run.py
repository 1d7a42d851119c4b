"""Life cycle of `gapwatch run`: start, supervision, and a stop within a deadline."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from gapwatch.scorers.command_line import is_stop_asked
from gapwatch.scorers.errors import GapwatchError, JobError
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.alerting.delivery.alert_log import AlertLog
from gapwatch.streams.alerting.evaluation.folding import FoldStoppedError
from gapwatch.streams.alerting.evaluation.live_alerts import LiveAlerts
from gapwatch.streams.live.compaction_loop import compact
from gapwatch.streams.live.issue_loop import watch_issues
from gapwatch.streams.live.log_lines import write_last_line
from gapwatch.streams.live.retention_loop import expire
from gapwatch.streams.live.run_parts import OpenStore, RunInput, RunOptions, RunOutput, build_parts
from gapwatch.streams.live.start_block import StartFacts, start_line, start_rows
from gapwatch.streams.live.tick_join_loop import join_ticks
from gapwatch.streams.pipeline.pipeline import LIVE
from gapwatch.streams.pipeline.run_summary import RunSummary
from gapwatch.streams.sources.broker_outage import OUTAGE

log = logging.getLogger("gapwatch.run")

#: Seconds after which a stop is cut short; committed results are safe.
STOP_SECONDS = 9.0
#: Seconds of these for the outbox, and for the store's last checkpoint; slices in work have `run_parts.DRAIN_SECONDS`.
RELAY_SECONDS, CLOSE_SECONDS = 1.0, 2.5
#: Seconds of these in which requests under way are answered and the assembly commits; it runs beside the outbox.
FEED_SECONDS = 3.0
#: Seconds that a run with `until_caught_up` waits at its end for the outbox to be sent.
OUTBOX_SECONDS = 20.0
#: Arenas of malloc in glibc. By default, eight for each core, queries over the API and exports leave free memory in the
#: arenas of many threads: 20 MiB after two exports of 36,000 traces.
_MALLOC_ARENAS = 2
_M_ARENA_MAX = -8  # <malloc.h>
_LOOK_SECONDS = 0.2
_LOOKS_A_STATE = 5
#: Looks at an assembly without work, after which the topic of traces has shown what it wrote last.
_IDLE_LOOKS = 10


class Run:
    """One run of `gapwatch run`.

    Args:
        given: Topic and portfolios.
        output: Store, API and webhook.
        options: Alerts, judges, and the end of the run.
        open_store: Opens the store; None takes the usual way.

    Attributes:
        parts: The parts of the run.
    """

    def __init__(
        self,
        given: RunInput,
        output: RunOutput,
        options: RunOptions | None = None,
        open_store: OpenStore | None = None,
    ) -> None:
        _limit_malloc_arenas()  # before there are threads
        self._given, self._output, self._options = given, output, options or RunOptions()
        self.parts = build_parts(given, output, self._options, open_store)
        self._alert_log = AlertLog()
        self._stopped_by = ""
        self._idle_looks = 0
        self._deadline: threading.Timer | None = None

    @property
    def result(self) -> RunSummary:
        """Counts so far."""
        return self.parts.run_log.result

    def run(self, report: Callable[[RunSummary], None] = lambda result: None) -> int:
        """Run to the end and return the exit status.

        Args:
            report: Called with the counts after the store is closed, unless the run failed.

        Raises:
            GapwatchError: The error that ended the run.
        """
        return asyncio.run(self._main(report))

    async def _main(self, report: Callable[[RunSummary], None]) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.parts.portfolio_watch.ask)
        if is_stop_asked():
            self._stop(signal.SIGTERM)
        failure = await self._until_over()
        result = self.result
        if failure is None and self._options.until_caught_up and not self._stopped_by:
            try:
                result.ledger_imbalance = await self.parts.thread.imbalance()
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
        # Threads that wait for the broker or a disk are left, and cannot be ended otherwise.
        if failure is not None:
            text = str(failure) if isinstance(failure, GapwatchError) else repr(failure)
            write_last_line(text)
        else:
            report(result)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    async def _until_over(self) -> BaseException | None:
        """Read until the run ends; return the error, if any."""
        parts = self.parts
        try:
            await parts.thread.run(parts.service.start)
            if parts.feed is not None:
                await asyncio.to_thread(parts.feed.start, parts.feedback.take_from_feed)
            parts.links.page.learn(parts.service.url)
            await parts.thread.run(self._alert_log.begin, parts.thread.store)
            open_alerts = await parts.thread.run(parts.alerts.count_open, parts.thread.store) if parts.alerts else None
            facts = self._start_facts(open_alerts)
            log.info("%s", start_line(facts), extra={"started": start_rows(facts)})
            await parts.thread.run(parts.pipeline.register, parts.regime)
            gc.freeze()  # what a start makes stays; to look for garbage in it would stop all threads for 60 ms
        except FoldStoppedError:
            return None
        except GapwatchError as error:
            return error
        beside = [asyncio.create_task(work) for work in self._beside()]
        for task in beside:
            task.add_done_callback(self._ended_beside)
        failure: BaseException | None = None
        try:
            await parts.source.run()
        except BaseException as error:
            failure = error
        for task in beside:
            task.cancel()
        await asyncio.wait(beside, timeout=RELAY_SECONDS)
        return failure

    def _start_facts(self, open_alerts: int | None) -> StartFacts:
        given, output, feed = self._given, self._output, self.parts.feed
        return StartFacts(
            given.source.topic, given.kafka.brokers if given.kafka is not None else "", given.source.group,
            output.store, self.parts.service.url, self.parts.portfolios, open_alerts,
            feed.url if feed is not None else "", feed.start_rows() if feed is not None else {},
        )  # fmt: skip

    def _beside(self) -> list[Coroutine[Any, Any, None]]:
        """Return the tasks beside the reading; an exception of one of them ends the run."""
        parts, keep = self.parts, self._output.keep
        also = [join_ticks(parts.thread.store, LIVE, parts.thread.run, has_detectors=parts.alerts is not None)]
        also.append(compact(parts.thread.store, parts.thread.run, parts.service.metrics.show))
        if keep is not None:
            also.append(expire(parts.thread.store, keep, parts.thread.run))
        if parts.exports is not None:
            also.append(parts.exports.run())
        if parts.webhook is not None:
            also.append(parts.webhook.run())
        if parts.alerts is not None:
            also.append(watch_issues(parts.thread))
        if parts.texts is not None:
            also.append(parts.texts.run())
        if parts.feed_loop is not None:
            also.append(parts.feed_loop.run())
        return [
            parts.relay.run(), parts.portfolio_watch.run(), self._look(), parts.judges.run(),
            parts.judges.until_failed(), parts.feedback.run(), *also,
        ]  # fmt: skip

    def _ended_beside(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.parts.source.fail(error)

    async def _look(self) -> None:
        """Pass the state to the observers, and check whether everything is read."""
        source, looks = self.parts.source, 0
        while True:
            if looks % _LOOKS_A_STATE == 0:
                self._tell()
            looks += 1
            self._idle_looks = self._idle_looks + 1 if self._is_fed() else 0
            is_over = source.is_caught_up() and (self.parts.feed is None or self._idle_looks >= _IDLE_LOOKS)
            if self._options.until_caught_up and is_over and await self.parts.judges.is_idle():
                if self.parts.texts is not None:
                    await self.parts.texts.finish()
                await self._until_relayed()
                if source.is_caught_up():
                    source.stop()
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_fed(self) -> bool:
        """Return whether no more traces come from an assembly."""
        return self.parts.feed is None or self.parts.feed.is_idle()

    def _tell(self) -> None:
        parts, source = self.parts, self.parts.source
        silence = source.broker_silence()
        state = SourceState(source.state, source.waiting_for, source.progress.positions(), source.lost,
                            parts.portfolio_watch.refused, silence, source.linger_seconds)  # fmt: skip
        parts.observer.source_state(state)
        OUTAGE.look(is_connected=source.is_connected(), silence=silence)
        self._shed_or_not(state)
        parts.service.work_state(parts.relay.waiting, self._waits())
        if parts.exports is not None:
            parts.exports.look()
        if parts.alerts is not None and not self._stopped_by:
            parts.thread.executor.submit(self._show_alerts, parts.alerts).add_done_callback(_log_failure)

    def _waits(self) -> dict[str, str]:
        """Return by part of the run the reason why it waits; empty if it does not."""
        relay, webhook = self.parts.relay, self.parts.webhook
        missing = ", ".join(relay.missing)
        return {
            "load": "judging is skipped under load" if self.parts.throttle.is_shedding else "",
            "webhook": webhook.waiting_for if webhook is not None else "",
            "outbox": relay.waiting_for or (f"topics that do not exist: {missing}" if missing else ""),
        }

    def _shed_or_not(self, state: SourceState) -> None:
        shedding = self.parts.shedding
        shedding.see(state.positions, time.monotonic())
        if self.parts.throttle.set_shedding(shedding.is_on):
            limit = f"records wait more than {self._options.shed_after:g} s to be stored"
            log.warning("%s", f"judging is skipped: {limit}" if shedding.is_on else "judging resumes")

    async def _until_relayed(self) -> None:
        relay, clock = self.parts.relay, asyncio.get_running_loop().time
        end = clock() + OUTBOX_SECONDS
        relay.wake()
        while not relay.is_idle and not self._stopped_by and clock() < end:
            await asyncio.sleep(0.05)
        if not relay.is_idle:
            log.warning(
                "the outbox is not sent completely%s; the next run sends the rest",
                f" ({relay.waiting_for})" if relay.waiting_for else "",
            )

    # --- its end

    def _stop(self, number: signal.Signals) -> None:
        if self._stopped_by:
            self._end_now("a second signal")
        self._stopped_by = signal.Signals(number).name
        log.info("received %s: finishing the slices in work", self._stopped_by)
        self._deadline = threading.Timer(STOP_SECONDS, self._end_now, [f"no clean stop within {STOP_SECONDS:.0f} s"])
        self._deadline.daemon = True
        self._deadline.start()
        if self.parts.alerts is not None:
            self.parts.alerts.folding.stop()
        self.parts.source.stop()

    def _end_now(self, why: str) -> None:
        write_last_line(f"ended at once ({why}); committed results are safe, the next start continues")
        os._exit(1)

    def _status(self, failure: BaseException | None) -> int:
        if failure is not None:
            return getattr(failure, "exit_status", 1)
        # A signal cuts a run short that was to catch up; without `until_caught_up` it is the normal end.
        return 1 if self._stopped_by and self._options.until_caught_up else 0

    async def _let_go(self, has_failed: bool) -> bool:
        """Close broker and store; False if something did not close in time."""
        parts = self.parts
        self._tell()
        feed = parts.feed
        parts.feedback.close()
        ended = await asyncio.gather(
            *([] if feed is None else [asyncio.to_thread(feed.stop, FEED_SECONDS)]),
            parts.relay.close(RELAY_SECONDS),
            self._within(RELAY_SECONDS, asyncio.to_thread(parts.service.stop)),
            asyncio.to_thread(parts.judges.stop, RELAY_SECONDS),
        )
        is_clean = all(ended) and parts.source.is_clean
        limit = CLOSE_SECONDS if self._stopped_by else None
        if not await self._within(limit, parts.thread.run(self._close_store, has_failed)):
            log.warning("the last checkpoint of the store was cut short; the next start takes a little longer")
            return False
        parts.pipeline.close(wait=is_clean)
        parts.thread.close(wait=is_clean)
        return is_clean

    def _close_store(self, has_failed: bool) -> None:
        try:
            if not has_failed:
                self.parts.writer.save()
                if self.parts.feed_loop is not None:
                    self.parts.feed_loop.save()
                self._alert_log.look(self.parts.thread.store)
            self.parts.thread.store.close()
        except JobError as error:  # only logged: committed results are safe in DuckDB's log
            log.error("%s", error)

    @staticmethod
    async def _within(seconds: float | None, work: Coroutine[Any, Any, Any]) -> bool:
        """Wait for work that may hang; False if it takes longer, and then it continues in the background."""
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            task.result()
        return bool(done)

    # --- on the writer thread

    def _show_alerts(self, alerts: LiveAlerts) -> None:
        self._alert_log.look(self.parts.thread.store)
        if alerts.show(self.parts.thread.store, self.parts.service.metrics):
            self.parts.relay.wake()  # a decision may have left a message


def _limit_malloc_arenas() -> None:
    """Make all threads share few arenas of malloc, where the C library is glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _MALLOC_ARENAS)


def _log_failure(done: Future[None]) -> None:
    """Log a failure to update the alert metrics; the detectors are not affected."""
    if not done.cancelled() and (error := done.exception()) is not None:
        log.warning("the alert metrics on /metrics are not updated: %s", error)
