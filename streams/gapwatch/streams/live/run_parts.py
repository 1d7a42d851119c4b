"""The parts of `gapwatch run`, built ground first: each is given those that it uses, and knows no other.

    store ─▶ relay, service ─▶ slice writer ─▶ judges ─▶ pipeline ─▶ source

What flows the other way is told by small values made before both ends: `SourceProgress` (what there is to read) and
`JudgeThrottle` (how much less judges are asked).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.service import RunService
from gapwatch.sinks.store.opening import MEMORY, MEMORY_WITH_READERS
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.delivery.webhook import AlertWebhook
from gapwatch.streams.alerting.evaluation.live_alerts import LiveAlerts
from gapwatch.streams.alerting.triage.decision_reader import readers
from gapwatch.streams.judges.workers.judge_role import JudgeOptions, JudgeRole
from gapwatch.streams.live.outbox_relay import OutboxRelay
from gapwatch.streams.live.portfolio_watch import PortfolioWatch
from gapwatch.streams.live.run_log import RunLog
from gapwatch.streams.live.shedding import Shedding
from gapwatch.streams.pipeline.judge_throttle import JudgeThrottle
from gapwatch.streams.pipeline.observer import ObserverGroup, PipelineObserver
from gapwatch.streams.pipeline.pipeline import LIVE, Pipeline
from gapwatch.streams.pipeline.regime import Regime, make_regime
from gapwatch.streams.pipeline.slice_writer import SliceWriter
from gapwatch.streams.pipeline.store_thread import StoreThread
from gapwatch.streams.pipeline.thinning_options import ThinningOptions
from gapwatch.streams.sources.faust_slices import SliceAppOptions
from gapwatch.streams.sources.slice_source import SliceSource, SourceOptions, StallLimits
from gapwatch.streams.sources.source_progress import SourceProgress

#: Seconds that a stop waits for what is in work and for the group.
DRAIN_SECONDS = 5.0

OpenStore = Callable[[Path], Store]


@dataclass(frozen=True)
class RunInput:
    """What is read, and by what it is scored.

    Attributes:
        kafka: Where the topic is.
        source: Topic, group and how slices come.
        portfolios: Files, each of another pipeline; they are followed while the run lasts.
        scorers: Host of Python scorers.
        stall: The watchdog's limits.
    """

    kafka: KafkaSettings
    source: SliceAppOptions
    portfolios: tuple[Path, ...]
    scorers: ScorerHost | None = None
    stall: StallLimits = field(default_factory=StallLimits)


@dataclass(frozen=True)
class RunOutput:
    """Where results go.

    Attributes:
        store: Made where there is none.
        api: Where `/metrics` and the history are served; None: nowhere.
        webhook: Where alerts are posted to; empty: nowhere.
        keep: Rows that were stored longer ago are deleted; None: none are.
    """

    store: Path
    api: ApiOptions | None = None
    webhook: str = ""
    keep: timedelta | None = None


@dataclass(frozen=True)
class RunOptions:
    """What a run does, and for how long.

    Attributes:
        until_caught_up: End when all that is in the topic is stored.
        thinning: Bound on rows.
        shed_after: Seconds that a record may wait before judges are skipped; None: they never are.
        has_alerts: Watch the lane for shifts and broken bounds.
        judges: What is done for judges.
    """

    until_caught_up: bool = False
    thinning: ThinningOptions = field(default_factory=ThinningOptions)
    shed_after: float | None = None
    has_alerts: bool = True
    judges: JudgeOptions = field(default_factory=JudgeOptions)


@dataclass(frozen=True)
class RunParts:
    """What works in a run; `Run` begins and ends it.

    Attributes:
        portfolios: As they were loaded.
        regime: Of these.
        thread: The store.
        run_log: Counts and says what is done.
        observer: All that are told what goes on.
        throttle, shedding: How much less judges are asked; when they are skipped.
        relay: Of the outbox.
        webhook: None where alerts are posted nowhere.
        service: What is shown to the outside.
        alerts: None where nothing watches.
        writer: Stores slices.
        judges: Of this process, and for judges elsewhere.
        pipeline: What becomes of a slice.
        portfolio_watch: Follows the files.
        source: Gives the slices.
    """

    portfolios: tuple[Portfolio, ...]
    regime: Regime
    thread: StoreThread
    run_log: RunLog
    observer: PipelineObserver
    throttle: JudgeThrottle
    shedding: Shedding
    relay: OutboxRelay
    webhook: AlertWebhook | None
    service: RunService
    alerts: LiveAlerts | None
    writer: SliceWriter
    judges: JudgeRole
    pipeline: Pipeline
    portfolio_watch: PortfolioWatch
    source: SliceSource


def build_parts(
    given: RunInput, output: RunOutput, options: RunOptions, open_store: OpenStore | None = None
) -> RunParts:
    """Open the store and build all parts; nothing runs yet.

    Args:
        given: What is read.
        output: Where results go.
        options: What is done.
        open_store: Opens the store; None: as the output needs it.

    Raises:
        UsageError: The portfolios or the store are not what they should be, or a judge has no cap.
    """
    kafka, topic = given.kafka, given.source.topic
    portfolios = tuple(load_portfolio(path) for path in given.portfolios)
    regime = make_regime(portfolios, given.scorers)
    run_log, throttle, progress = RunLog(), JudgeThrottle(), SourceProgress(topic)

    thread = StoreThread((open_store or partial(_open, api=output.api))(output.store))
    store = thread.store
    alerts = LiveAlerts() if options.has_alerts else None
    relay = OutboxRelay(kafka, store.cursor, thread.mark_relayed)
    webhook = AlertWebhook(output.webhook, store.cursor, thread.mark_relayed) if output.webhook else None
    service = RunService(
        store, portfolios, topic, thread.executor, output.api, readers(alerts) if alerts is not None else None
    )

    # Without an API nobody would see what the service counts.
    observer = ObserverGroup(run_log) if output.api is None else ObserverGroup(run_log, service)
    open_watch = alerts.open if alerts is not None else None
    writer = SliceWriter(thread, observer, open_watch, relay.wake, progress)
    judges = JudgeRole(options.judges, kafka, writer, service, portfolios, throttle)
    pipeline = Pipeline(writer, regime, options.thinning, throttle, judges)

    portfolio_watch = PortfolioWatch(given.portfolios, portfolios, given.scorers, pipeline.switch)
    source_options = SourceOptions(given.source, drain_seconds=DRAIN_SECONDS, stall=given.stall)
    source = SliceSource(
        source_options, kafka, pipeline.take, partial(thread.stored_offsets, LIVE, topic), store.id, progress
    )
    return RunParts(
        portfolios=portfolios, regime=regime, thread=thread, run_log=run_log, observer=observer, throttle=throttle,
        shedding=Shedding(options.shed_after), relay=relay, webhook=webhook, service=service, alerts=alerts,
        writer=writer, judges=judges, pipeline=pipeline, portfolio_watch=portfolio_watch, source=source,
    )  # fmt: skip


def _open(path: Path, api: ApiOptions | None) -> Store:
    return Store.open(path, create=True, memory=MEMORY if api is None else MEMORY_WITH_READERS)
