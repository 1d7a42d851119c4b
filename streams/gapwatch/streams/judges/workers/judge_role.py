"""Judges beside a run: the intake of its store, judges of its own, and what judges elsewhere send."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.api.service import RunService
from gapwatch.sinks.store.overrides import override_posts
from gapwatch.sinks.verdicts.agreement import kappas
from gapwatch.sinks.verdicts.call_counts import SECONDS_BOUNDS
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.streams.judges.calls.prices import caps_of
from gapwatch.streams.judges.models.model_maker import ModelAccess
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.live_judges import LiveJudges
from gapwatch.streams.judges.workers.scored_reader import ScoredReader
from gapwatch.streams.pipeline.judge_throttle import JudgeThrottle
from gapwatch.streams.pipeline.slice_writer import SliceWriter

log = logging.getLogger("gapwatch.judges")

#: Seconds between two computations of who agrees with whom.
_AGREEMENT_SECONDS = 300.0
#: Seconds between two looks at what waits and what is left.
_TELL_SECONDS = 2.0


@dataclass(frozen=True)
class JudgeOptions:
    """What a run does for judges.

    Attributes:
        settings: Caps, and how providers are reached; None: caps are those of the portfolios.
        access: How this process asks models itself; None: it leaves that to others.
    """

    settings: JudgeSettings | None = None
    access: ModelAccess | None = None


class JudgeRole:
    """Takes the requests of a pipeline and closes what judges answer.

    Args:
        options: What to do.
        kafka: Where the topic `scored` is.
        writer: Stores slices of verdicts.
        service: Shows what it counts, and takes what is posted.
        portfolios: In force.
        throttle: Told the factors of the rates of judges as their caps come near.
    """

    def __init__(
        self,
        options: JudgeOptions,
        kafka: KafkaSettings,
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
        self.reader = ScoredReader(kafka, self._read_up_to, self._take, self.intake.samples.breakers)
        service.offer({**self.intake.posts(), **override_posts(store)})

    async def run(self) -> None:
        """Judge, and take what others judged, until it is cancelled."""
        if self._live is not None:
            self._live.start()
        await asyncio.gather(self.reader.run(), self._tell())

    async def until_failed(self) -> None:
        """Raise what ends the judges of this process: a defect, or a broken store."""
        await asyncio.wrap_future(self._failure)

    def _failed(self, error: BaseException) -> None:
        """Note it for `until_failed`; on the judges' thread."""
        if not self._failure.done():
            self._failure.set_exception(error)

    def stop(self, seconds: float) -> bool:
        """End the judges of this process; False where that took too long."""
        return self._live is None or self._live.stop(seconds)

    async def _tell(self) -> None:
        """Bring up to date, now and then, what is shown of judges."""
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
        self._service.health.note("verdicts", self.reader.waiting_for if self.intake.samples.waits else "")

    async def is_idle(self) -> bool:
        """Whether nothing waits that judges of this process could answer."""
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
        """Let the judges of this process look."""
        if self._live is not None:
            self._live.wake()

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Judge by these too; on the keeper's thread."""
        self.intake.portfolios_changed(portfolios, caps_of(portfolios, self._settings))
        refused = self._live.portfolios_changed(portfolios) if self._live is not None else ""
        if refused:
            log.warning("the judges of a new portfolio do not begin: %s", refused)
        self._service.health.note("judges", refused)
