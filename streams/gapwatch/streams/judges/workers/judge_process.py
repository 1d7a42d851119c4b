"""`gapwatch run --role judge`: reads requests from a topic, writes verdicts to another; any number of processes.

topic judge-requests ──▶ lanes ──▶ topic scored ──▶ requests committed     killed in between: judged again, and the
                           ▲                                               store drops the second verdict
                           └── leases, portfolios: API of the process that stores
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.judges.judgement import SCHEMA_NAME, Judgement, judgement_records
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.store.topics import SCORED_TOPIC
from gapwatch.sinks.verdicts.budget_leases import Caps
from gapwatch.sinks.verdicts.call_counts import SILENT_SECONDS
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import run_all
from gapwatch.streams.judges.calls.prices import known_prices
from gapwatch.streams.judges.calls.wallet import Wallet
from gapwatch.streams.judges.models.model_maker import ModelAccess
from gapwatch.streams.judges.workers.keeper_client import StoreClient
from gapwatch.streams.judges.workers.request_lane import FETCHED, RequestLane
from gapwatch.streams.judges.workers.request_topic import RequestTopic
from gapwatch.streams.judges.workers.scored_reader import BREAKERS_HEADER, OUTAGES_HEADER, SCHEMA_HEADER, WORKER_HEADER
from gapwatch.streams.judges.workers.worker_page import WorkerPage
from gapwatch.streams.sources.broker_outage import OUTAGE

log = logging.getLogger("gapwatch.judges")

DEFAULT_GROUP = "gapwatch-judges"
#: Seconds between two reports of the circuit breakers; most seconds of each step of the stop.
_REPORT_SECONDS, _END_SECONDS = 5.0, 2.5


class JudgeProcess:
    """One judge process.

    Args:
        kafka: The cluster.
        access: Adapters and prices of the models.
        store_client: API of the process that stores.
        group: Prefix of the consumer groups, shared by all judge processes; each entry of `providers` adds its name.
        listen: Address of /metrics and /healthz; None: not served.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        access: ModelAccess,
        store_client: StoreClient,
        group: str = DEFAULT_GROUP,
        listen: ApiOptions | None = None,
    ) -> None:
        self._kafka, self._access, self._store_client = kafka, access, store_client
        self._looked_up: set[str] = set()
        self._looking = asyncio.Lock()
        self._group = group
        self._lanes: list[RequestLane] = []
        self._worker = secrets.token_hex(4)
        self._producer = AIOKafkaProducer(
            **kafka.client_options(), acks="all", enable_idempotence=True, max_request_size=2_000_000, linger_ms=5,
            request_timeout_ms=15_000,
        )  # fmt: skip
        self._stopped = asyncio.Event()
        self._listen = listen
        self._waiting_for = ""
        self._page = WorkerPage(
            lambda: self._judging.providers,
            lambda: {lane.name: lane.topic.waiting for lane in self._lanes},
            lambda: (self._waiting_for, self._store_client.waiting_for),
            lambda: self._judging.outages(),
        )

    async def run(self) -> None:
        """Answer requests until SIGTERM or SIGINT.

        Raises:
            UsageError: The address of /metrics cannot be listened on.
            JobError: The process that stores refuses this worker.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        judging = Judging((), self._access.settings, self._access.make_model, {}, Wallet(self._store_client))
        self._judging = judging
        self._lanes = [self._lane(name, at) for at, name in enumerate(sorted(self._access.settings.providers))]
        if self._listen is not None:
            await self._page.start(self._listen)
        working = asyncio.create_task(self._work())
        stopping = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for lane in self._lanes:
                lane.pool.stop()
            if not working.done():
                log.info("stopping: finished verdicts are sent; other judges, or the next start, answer the rest")
                await asyncio.wait({working}, timeout=2 * _END_SECONDS)
            if working.done():
                working.result()
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.wait({working, stopping}, timeout=_END_SECONDS)
            topics = asyncio.gather(*(lane.topic.close() for lane in self._lanes))
            for end in (judging.close(), self._store_client.close(), topics, self._producer.stop(), self._page.stop()):
                await _within(_END_SECONDS, end)

    def _lane(self, name: str, at: int) -> RequestLane:
        workers = self._access.settings.providers[name].concurrency
        group = f"{self._group}-{'others' if name == '*' else name}"
        topic = RequestTopic(self._kafka, group, max(FETCHED, workers))
        return RequestLane(
            name, topic, self._judging, workers, self._look_up, self._deliver, takes_strays=at == 0,
            give_up_seconds=self._access.settings.give_up_after_seconds,
        )  # fmt: skip

    async def _work(self) -> None:
        await self._until_there(self._producer.start)
        await asyncio.gather(*(self._until_there(lane.topic.start) for lane in self._lanes))
        log.info("judge worker %s answers requests from Kafka at %s", self._worker, self._kafka.brokers)
        reporting = asyncio.create_task(self._report())
        try:
            await run_all([lane.pool for lane in self._lanes])
        finally:
            reporting.cancel()
            await asyncio.gather(*(lane.topic.done([], now=True) for lane in self._lanes))

    async def _until_there(self, start: Callable[[], Awaitable[None]]) -> None:
        back_off = BackOff()
        while True:
            try:
                await start()
                self._waiting_for = ""
                OUTAGE.look(is_connected=True)
                return
            except (KafkaError, OSError, TimeoutError) as error:
                OUTAGE.note(f"no answer from Kafka at {self._kafka.brokers}: {error!r}")
                self._waiting_for = f"Kafka at {self._kafka.brokers}: {type(error).__name__}"
            await back_off.wait()

    # --- requests

    async def _look_up(self, request: JudgeRequest) -> None:
        """Load the portfolio of a request, if the store has it."""
        sha = request.portfolio_sha
        async with self._looking:
            if sha in self._looked_up or self._judging.knows(request):
                return
            portfolio = await self._store_client.portfolio(sha)
            # Once is enough: the answer for a portfolio does not change.
            self._looked_up.add(sha)
            if portfolio is None:
                log.warning("skipping requests of portfolio %s: the store does not have it", sha[:12])
            else:
                self._take_up(portfolio)

    def _take_up(self, portfolio: Portfolio) -> None:
        try:
            # Only the process that stores knows the caps, so every price must be known here.
            capped = Caps({portfolio.portfolio: math.inf}, {})
            self._judging.add([portfolio], known_prices([portfolio], capped, self._access.price_of))
        except UsageError as error:
            raise JobError(f"requests of {portfolio.portfolio} cannot be judged here: {error}") from error

    # --- verdicts

    async def _deliver(self, batch: Sequence[Judgement]) -> None:
        """Send judgements; returns when Kafka has acknowledged them."""
        self._page.count(batch)
        for record in judgement_records(batch):
            await self._send(record)

    async def _send(self, record: bytes) -> None:
        headers = [
            (SCHEMA_HEADER, SCHEMA_NAME.encode()),
            (WORKER_HEADER, self._worker.encode()),
            (BREAKERS_HEADER, orjson.dumps(self._judging.breaker_states())),
            (OUTAGES_HEADER, orjson.dumps(self._judging.outages())),
        ]
        back_off = BackOff()
        while True:
            try:
                await self._producer.send_and_wait(SCORED_TOPIC, record, key=self._worker.encode(), headers=headers)
                self._waiting_for = ""
                OUTAGE.look(is_connected=True)
                return
            except (KafkaError, OSError, TimeoutError) as error:
                OUTAGE.note(f"cannot send a verdict to Kafka: {error!r}")
                self._waiting_for = f"Kafka at {self._kafka.brokers}: {type(error).__name__}"
            await back_off.wait()

    async def _report(self) -> None:
        said: tuple[Mapping[str, str], int] = ({}, 0)
        since = 0.0
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            states = (self._judging.breaker_states(), len(self._judging.outages()))
            since += _REPORT_SECONDS
            if states != said or since >= SILENT_SECONDS / 3:
                await self._send(b"")
                since = 0.0
            said = states
            for lane in self._lanes:
                await lane.topic.done([])


async def _within(seconds: float, work: Awaitable[object]) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except (TimeoutError, KafkaError, OSError, JobError) as error:
        log.info("a step of the stop was cut short: %r", error)
