"""Judging of a live run: the intake of verdicts, judges in this process, and verdicts of judges elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.api.service import RunService
from gapwatch.sinks.store.overrides import override_posts
from gapwatch.sinks.verdicts.agreement import kappas
from gapwatch.sinks.verdicts.call_counts import SECONDS_BOUNDS
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.sinks.verdicts.retries import retry_posts
from gapwatch.streams.judges.calls.terms import caps_of
from gapwatch.streams.judges.workers.judge_start import JudgeOptions, LiveJudges
from gapwatch.streams.judges.workers.scored_reader import ScoredReader
from gapwatch.streams.pipeline.judge_throttle import JudgeThrottle
from gapwatch.streams.pipeline.slice_writer import SliceWriter

log = logging.getLogger("gapwatch.judges")

#: Seconds between two computations of the judges' agreement.
_AGREEMENT_SECONDS = 300.0
#: Seconds between two updates of the metrics.
_TELL_SECONDS = 2.0


class JudgeRole:
    """Takes the requests of a pipeline and stores the verdicts.

    Args:
        options: Judging options.
        kafka: Cluster with the topic `scored`; None: no judges answer through Kafka.
        writer: Writes slices of verdicts.
        service: Serves the metrics and the API.
        portfolios: Portfolios in force.
        throttle: Receives the factors of the judges' rates as spending approaches the caps.
    """

    def __init__(
        self,
        options: JudgeOptions,
        kafka: KafkaSettings | None,
        writer: SliceWriter,
        service: RunService,
        portfolios: Sequence[Portfolio],
        throttle: JudgeThrottle,
    ) -> None:
        store, store_thread = writer.store, writer.thread.executor
        self._store, self._store_thread, self._service = store, store_thread, service
        self._failure: Future[None] = Future()
        self._settings, self._throttle = options.settings, throttle
        self.intake = VerdictIntake(store, writer.write_slice, portfolios, caps_of(portfolios, options.settings))
        throttle.set_rates(self.intake.look())
        self._live: LiveJudges | None = None
        if options.access is not None:
            self._live = LiveJudges(store, self.intake, store_thread, portfolios, options.access, self._failed)
        self.reader: ScoredReader | None = None
        if kafka is not None:
            self.reader = ScoredReader(kafka, self._read_up_to, self._take, self.intake.samples.breakers)
        service.offer({**self.intake.posts(), **override_posts(store), **retry_posts(store)})

    async def run(self) -> None:
        """Answer requests, and store verdicts from elsewhere, until cancelled."""
        if self._live is not None:
            self._live.start()
        await asyncio.gather(self._tell(), *([] if self.reader is None else [self.reader.run()]))

    async def until_failed(self) -> None:
        """Wait for, and raise, an error that ends the judges of this process: a defect, or a failed store."""
        await asyncio.wrap_future(self._failure)

    def _failed(self, error: BaseException) -> None:
        """Pass an error to `until_failed`; called on the judges' thread."""
        with contextlib.suppress(InvalidStateError):  # the run has ended meanwhile, and waits no longer
            self._failure.set_exception(error)

    def stop(self, seconds: float) -> bool:
        """Stop the judges of this process; False if that took longer than `seconds`."""
        return self._live is None or self._live.stop(seconds)

    async def _tell(self) -> None:
        """Update the metrics of the judges periodically."""
        loop = asyncio.get_running_loop()
        agreement_at = loop.time()
        while True:
            await loop.run_in_executor(self._store_thread, self._look)
            if loop.time() >= agreement_at:
                agreement_at = loop.time() + _AGREEMENT_SECONDS
                self.intake.samples.agreement(await asyncio.to_thread(self._kappas))
            self._show()
            await asyncio.sleep(_TELL_SECONDS)

    def _look(self) -> None:
        self._throttle.set_rates(self.intake.look())

    def _show(self) -> None:
        metrics = self._service.metrics
        for name, samples in self.intake.samples.families().items():
            metrics.show(name, samples)
        metrics.show_histogram("gapwatch_judge_call_seconds", SECONDS_BOUNDS, self.intake.samples.histogram())
        self._service.health.note("providers", "; ".join(self.intake.samples.outages()))
        waiting_for = "" if self.reader is None else self.reader.waiting_for
        self._service.health.note("verdicts", waiting_for if self.intake.samples.waits else "")

    async def is_idle(self) -> bool:
        """Return True if no request waits that judges of this process could answer."""
        if self._live is None:
            return True
        return not await asyncio.get_running_loop().run_in_executor(self._store_thread, self.intake.waiting)

    def _kappas(self) -> dict[tuple[str, ...], float]:
        cursor = self._store.cursor()
        try:
            return kappas(cursor)
        finally:
            cursor.close()

    async def _read_up_to(self) -> Mapping[tuple[str, int], int]:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, self.intake.read_up_to)

    async def _take(self, judgements: Sequence[Judgement], read: Mapping[tuple[str, int], int]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._store_thread, self.intake.close, judgements, read)

    # --- as the pipeline's taker of requests

    def requests_stored(self) -> None:
        """Wake the judges of this process."""
        if self._live is not None:
            self._live.wake()

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Also answer requests of these portfolios; called on the writer thread."""
        self.intake.portfolios_changed(portfolios, caps_of(portfolios, self._settings))
        refused = self._live.portfolios_changed(portfolios) if self._live is not None else ""
        if refused:
            log.warning("requests of the changed portfolio are not judged: %s", refused)
        self._service.health.note("judges", refused)
