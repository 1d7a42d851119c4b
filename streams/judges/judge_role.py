"""Judges beside a run: the desk of its store, judges of its own, and what judges elsewhere send; one observer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from scorers.judges.judgement import Judgement
from scorers.portfolio import Portfolio
from scorers.slices import ScoredSlice
from sinks.judge_agreement import kappas
from sinks.judge_closing import Keep
from sinks.judge_desk import JudgeDesk
from sinks.judge_samples import SECONDS_BOUNDS
from sinks.overrides import override_posts
from sinks.run_service import RunService
from sinks.source_state import SourceState
from sinks.store import Store
from streams.judges.judging import ModelMaker
from streams.judges.live_judges import LiveJudges, Prices
from streams.judges.scored_reader import ScoredReader
from streams.judges.settings import JudgeSettings
from streams.judges.worker import caps_of
from streams.kafka_settings import KafkaSettings

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
        make_model, price_of: With which this process judges itself; None: it leaves that to others.
    """

    settings: JudgeSettings | None = None
    make_model: ModelMaker | None = None
    price_of: Prices | None = None


class JudgeRole:
    """Observes a pipeline and closes what its judges answer.

    Args:
        options: What to do.
        kafka: Where the topic `scored` is.
        store: Of the run.
        keep: Keeps a slice of verdicts, on the keeper's thread.
        keeper: That thread.
        service: Shows what it counts, and takes what is posted.
        portfolios: In force.
        fail: Ends the run; for any thread.
        on_rates: Told the factors of the rates of judges as their caps come near.
    """

    def __init__(
        self,
        options: JudgeOptions,
        kafka: KafkaSettings,
        store: Store,
        keep: Keep,
        keeper: Executor,
        service: RunService,
        portfolios: Sequence[Portfolio],
        fail: Callable[[BaseException], None],
        on_rates: Callable[[Mapping[tuple[str, str], float]], None],
    ) -> None:
        self._store, self._keeper, self._service = store, keeper, service
        self.desk = JudgeDesk(store, keep, lambda some: caps_of(some, options.settings), portfolios, on_rates)
        self.desk.look()
        self._live: LiveJudges | None = None
        if options.settings is not None and options.make_model is not None and options.price_of is not None:
            self._live = LiveJudges(
                store, self.desk, keeper, portfolios, options.settings, options.make_model, options.price_of, fail
            )
        self.reader = ScoredReader(kafka, self._read_up_to, self._take, self.desk.samples.breakers)
        service.offer({**self.desk.posts(), **override_posts(store)})

    async def run(self) -> None:
        """Judge, and take what others judged, until it is cancelled."""
        if self._live is not None:
            self._live.start()
        await asyncio.gather(self.reader.run(), self._tell())

    def stop(self, seconds: float) -> bool:
        """End the judges of this process; False where that took too long."""
        return self._live is None or self._live.stop(seconds)

    async def _tell(self) -> None:
        """Bring up to date, now and then, what is shown of judges."""
        loop = asyncio.get_running_loop()
        agreement_at = loop.time()
        while True:
            await loop.run_in_executor(self._keeper, self.desk.look)
            if loop.time() >= agreement_at:
                agreement_at = loop.time() + _AGREEMENT_SECONDS
                self.desk.samples.agreement(await asyncio.to_thread(self._kappas))
            self._show()
            await asyncio.sleep(_TELL_SECONDS)

    def _show(self) -> None:
        metrics = self._service.metrics
        for name, samples in self.desk.samples.families().items():
            metrics.show(name, samples)
        metrics.show_histogram("gapwatch_judge_call_seconds", SECONDS_BOUNDS, self.desk.samples.histogram())
        self._service.health.note("verdicts", self.reader.waiting_for if self.desk.samples.waits else "")

    async def is_idle(self) -> bool:
        """Whether nothing waits that judges of this process could answer."""
        if self._live is None:
            return True
        return not await asyncio.get_running_loop().run_in_executor(self._keeper, self.desk.waiting)

    def _kappas(self) -> dict[tuple[str, ...], float]:
        cursor = self._store.cursor()
        try:
            return kappas(cursor)
        finally:
            cursor.close()

    async def _read_up_to(self) -> Mapping[tuple[str, int], int]:
        return await asyncio.get_running_loop().run_in_executor(self._keeper, self.desk.read_up_to)

    async def _take(self, judgements: Sequence[Judgement], read: Mapping[tuple[str, int], int]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._keeper, self.desk.close, judgements, read)

    # --- as the pipeline's observer

    def slice_kept(self, scored: ScoredSlice, _seconds_by_stage: Mapping[str, float]) -> None:
        """Let the judges of this process look, where there is something for them."""
        if self._live is not None and scored.tables["judge_requests"].num_rows:
            self._live.wake()

    def source_state(self, state: SourceState) -> None:
        """Nothing: judges go on whatever the source does."""

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Judge by these too; on the keeper's thread."""
        self.desk.portfolios_changed(portfolios)
        refused = self._live.portfolios_changed(portfolios) if self._live is not None else ""
        if refused:
            log.warning("the judges of a new portfolio do not begin: %s", refused)
        self._service.health.note("judges", refused)
