"""Builds the parts of `gapwatch run` from the store upwards; each part receives the parts that it uses.

    store ─▶ relay, service ─▶ slice writer ─▶ judges ─▶ pipeline ─▶ source

Two small values carry information the other way, and are made first: `SourceProgress` (offsets of the topic) and
`JudgeThrottle` (reduction of the judges' rates).
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
from gapwatch.streams.alerting.delivery.incident_info import IncidentInfo
from gapwatch.streams.alerting.delivery.webhook import AlertWebhook
from gapwatch.streams.alerting.evaluation.live_alerts import LiveAlerts
from gapwatch.streams.alerting.incidents.links import AlertLinks, PageAddress
from gapwatch.streams.alerting.triage.alert_page import alert_page
from gapwatch.streams.alerting.triage.decision_reader import readers
from gapwatch.streams.feedback.feedback_role import FeedbackRole
from gapwatch.streams.judges.workers.judge_role import JudgeRole
from gapwatch.streams.judges.workers.judge_start import JudgeOptions
from gapwatch.streams.live.alert_text_loop import AlertTextLoop, ReadRecords
from gapwatch.streams.live.export_loop import ExportLoop, ExportOptions
from gapwatch.streams.live.feed_loop import FeedLoop
from gapwatch.streams.live.foreign_traces import ForeignTraces
from gapwatch.streams.live.held_store import open_when_free
from gapwatch.streams.live.local_relay import LocalRelay
from gapwatch.streams.live.outbox_relay import OutboxRelay, needed_topics
from gapwatch.streams.live.portfolio_watch import PortfolioWatch
from gapwatch.streams.live.run_feed import MakeFeed, RunFeed
from gapwatch.streams.live.run_log import RunLog
from gapwatch.streams.live.shedding import Shedding
from gapwatch.streams.live.wrong_times import WrongTimes
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
from gapwatch.streams.sources.topic_records import read_records
from gapwatch.streams.sources.trace_source import OffsetProgress, TraceSource

#: Seconds that a stop waits for slices in work and for the consumer group.
DRAIN_SECONDS = 5.0

OpenStore = Callable[[Path], Store]


@dataclass(frozen=True)
class RunInput:
    """Input of a run.

    Attributes:
        kafka: The cluster; None for a run whose traces are on this machine.
        source: Topic, group and limits of fetching.
        portfolios: Portfolio files, each of another pipeline; changes take effect while the run lasts.
        scorers: Host of the Python scorers.
        stall: Limits of the watchdog.
        make_feed: Makes what assembles spans to the traces that the run reads; None: the traces come whole.
    """

    kafka: KafkaSettings | None
    source: SliceAppOptions
    portfolios: tuple[Path, ...]
    scorers: ScorerHost | None = None
    stall: StallLimits = field(default_factory=StallLimits)
    make_feed: MakeFeed | None = None


@dataclass(frozen=True)
class RunOutput:
    """Output of a run.

    Attributes:
        store: DuckDB file; created if it does not exist.
        api: Address and options of `/metrics` and the API; None: not served.
        webhook: URL that alerts are posted to; may be empty.
        public_url: Address under which people reach the page of this process; empty: where it listens.
        runbook_url: Address of runbooks with `{metric}`, for portfolios without one; may be empty.
        trace_url: Address of traces with `{trace_id}`, for portfolios without one; may be empty.
        keep: Retention: rows that were stored longer ago are deleted; None: none are.
        export: Exports of the store; None: there are none.
    """

    store: Path
    api: ApiOptions | None = None
    webhook: str = ""
    keep: timedelta | None = None
    public_url: str = ""
    runbook_url: str = ""
    trace_url: str = ""
    export: ExportOptions | None = None


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    Attributes:
        until_caught_up: End when every record of the topic is stored.
        thinning: Bound on stored rows.
        shed_after: Seconds that a record may wait to be stored before judging is skipped; None: it never is.
        has_alerts: Detect shifts and broken thresholds.
        judges: Judges of this process, and caps.
    """

    until_caught_up: bool = False
    thinning: ThinningOptions = field(default_factory=ThinningOptions)
    shed_after: float | None = None
    has_alerts: bool = True
    judges: JudgeOptions = field(default_factory=JudgeOptions)


@dataclass(frozen=True)
class RunParts:
    """Parts of a run; `Run` starts and stops them.

    Attributes:
        portfolios: The portfolios, as they were loaded.
        regime: The same, compiled.
        thread: The store and its writer thread.
        run_log: Counts the work and logs progress.
        observer: Receivers of the run's events.
        throttle: Reduction of the judges' rates.
        shedding: Decides when judging is skipped.
        relay: Sends the outbox to Kafka, where there is one.
        webhook: Posts alerts; None without a URL.
        service: Serves `/metrics` and the API.
        exports: Exports the store; None without a place.
        links: Places where a person finds more about an alert.
        alerts: Detectors and alerts; None if alerts are off.
        texts: Stores the texts behind alerts; None if alerts are off.
        writer: Writes slices.
        judges: Judges of this process, and intake of verdicts from others.
        feedback: Joins feedback of people to its traces.
        pipeline: Scores slices.
        portfolio_watch: Reloads changed portfolios.
        source: Reads the topic.
        feed: Receives spans and assembles them to the traces that `source` reads; None: the traces come whole.
        feed_loop: Copies the ledger of spans to the store; None without a feed.
    """

    portfolios: tuple[Portfolio, ...]
    regime: Regime
    thread: StoreThread
    run_log: RunLog
    observer: PipelineObserver
    throttle: JudgeThrottle
    shedding: Shedding
    relay: OutboxRelay | LocalRelay
    webhook: AlertWebhook | None
    service: RunService
    exports: ExportLoop | None
    links: AlertLinks
    alerts: LiveAlerts | None
    texts: AlertTextLoop | None
    writer: SliceWriter
    judges: JudgeRole
    feedback: FeedbackRole
    pipeline: Pipeline
    portfolio_watch: PortfolioWatch
    source: TraceSource
    feed: RunFeed | None
    feed_loop: FeedLoop | None


def build_parts(
    given: RunInput, output: RunOutput, options: RunOptions, open_store: OpenStore | None = None
) -> RunParts:
    """Open the store and build all parts; nothing runs yet.

    Args:
        given: Topic and portfolios.
        output: Store, API and webhook.
        options: Alerts, judges, and the end of the run.
        open_store: Opens the store; None takes the usual way.

    Raises:
        UsageError: A portfolio or the store is invalid, or the price of a capped judge is not known.
    """
    kafka, topic = given.kafka, given.source.topic
    portfolios = tuple(load_portfolio(path) for path in given.portfolios)
    regime = make_regime(portfolios, given.scorers)
    run_log, throttle = RunLog(), JudgeThrottle()

    thread = StoreThread((open_store or partial(_open, api=output.api))(output.store))
    store = thread.store
    links = AlertLinks(str(output.store), PageAddress(output.public_url), output.runbook_url, output.trace_url)
    alerts = LiveAlerts(IncidentInfo(links), links.fill) if options.has_alerts else None
    feed = None if given.make_feed is None else given.make_feed(output.store, store.id, portfolios)
    local = None if feed is None else feed.local
    read_again = _records_of(kafka, topic) if local is None else local.records
    texts = AlertTextLoop(thread, read_again, topic) if options.has_alerts else None
    relay: OutboxRelay | LocalRelay = LocalRelay(store.cursor, thread.mark_relayed)
    if kafka is not None:
        needed = needed_topics(portfolios, options.has_alerts)
        relay = OutboxRelay(kafka, store.cursor, thread.mark_relayed, needed)
    webhook = AlertWebhook(output.webhook, store.cursor, thread.mark_relayed, links) if output.webhook else None
    service = RunService(
        store,
        portfolios,
        topic,
        thread.executor,
        output.api,
        readers(alerts) if alerts is not None else None,
        partial(alert_page, store=output.store) if alerts is not None else None,
    )

    if alerts is not None:
        service.health.watch_start(alerts.folding_text)

    exports = None
    if output.export is not None:
        health = service.health
        exports = ExportLoop(output.store, output.export, service.metrics.show, health.part, health.note)

    # Without an API nobody could read the counts of the service.
    times = WrongTimes(partial(service.health.note, "times"), service.metrics.show)
    observer = ObserverGroup(run_log, ForeignTraces(), times, *([] if output.api is None else [service]))
    open_watch = alerts.open if alerts is not None else None
    topic_progress = SourceProgress(topic)
    progress: OffsetProgress = topic_progress if local is None else local.progress
    writer = SliceWriter(thread, observer, open_watch, relay.wake, progress)
    judges = JudgeRole(options.judges, kafka, writer, service, portfolios, throttle)
    feedback = FeedbackRole(kafka, writer, service, portfolios)
    pipeline = Pipeline(writer, regime, options.thinning, throttle, judges)

    portfolio_watch = PortfolioWatch(
        given.portfolios, portfolios, given.scorers, partial(_switch, pipeline, feed, feedback)
    )
    stored = partial(thread.stored_offsets, LIVE, topic)
    source: TraceSource
    if local is not None:
        source = local.read_by(pipeline.take, stored, DRAIN_SECONDS)
    else:
        source_options = SourceOptions(given.source, drain_seconds=DRAIN_SECONDS, stall=given.stall)
        source = SliceSource(source_options, _cluster(kafka), pipeline.take, stored, store.id, topic_progress)
    return RunParts(
        portfolios=portfolios, regime=regime, thread=thread, run_log=run_log, observer=observer, throttle=throttle,
        shedding=Shedding(options.shed_after), relay=relay, webhook=webhook, service=service,
        exports=exports, links=links, alerts=alerts, texts=texts, writer=writer, judges=judges, feedback=feedback,
        pipeline=pipeline, portfolio_watch=portfolio_watch, source=source, feed=feed,
        feed_loop=None if feed is None else FeedLoop(feed, thread, service, topic),
    )  # fmt: skip


async def _switch(pipeline: Pipeline, feed: RunFeed | None, feedback: FeedbackRole, regime: Regime) -> None:
    await pipeline.switch(regime)
    await feedback.portfolios_changed(regime.portfolios)
    if feed is not None:
        feed.switch(regime.portfolios)


def _cluster(kafka: KafkaSettings | None) -> KafkaSettings:
    assert kafka is not None, "a run without a cluster has its traces on this machine"
    return kafka


def _records_of(kafka: KafkaSettings | None, topic: str) -> ReadRecords:
    return partial(read_records, _cluster(kafka), topic)


def _open(path: Path, api: ApiOptions | None) -> Store:
    return open_when_free(path, MEMORY if api is None else MEMORY_WITH_READERS)
