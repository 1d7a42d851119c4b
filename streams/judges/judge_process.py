"""`gapwatch run --role judge`: requests from a topic, verdicts to another, money from the keeper; any number of them.

topic judge-requests ──▶ pool ──▶ topic scored ──▶ requests committed      killed in between: judged again, and the
                          ▲                                                keeper drops the second verdict
                          └── leases, portfolios: the keeper's API
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from scorers.errors import JobError, UsageError
from scorers.judges.judgement import SCHEMA_NAME, Judgement, judgement_records
from scorers.portfolio import Portfolio
from sinks.judge_money import Caps
from sinks.judge_samples import SILENT_SECONDS
from streams.back_off import BackOff
from streams.judges.judge_pool import JudgePool
from streams.judges.judging import Judging, ModelMaker
from streams.judges.keeper_client import KeeperClient
from streams.judges.live_judges import Prices, workers_of
from streams.judges.request_topic import Place, RequestTopic
from streams.judges.scored_reader import BREAKERS_HEADER, SCHEMA_HEADER, SCORED_TOPIC, WORKER_HEADER
from streams.judges.settings import JudgeSettings
from streams.judges.wallet import Wallet
from streams.judges.worker import known_prices
from streams.kafka_settings import KafkaSettings

log = logging.getLogger("gapwatch.judges")

DEFAULT_GROUP = "gapwatch-judges"
#: Seconds between two reports of the breakers where nothing is judged; and for each part of the end.
_REPORT_SECONDS, _END_SECONDS = 5.0, 2.5


class JudgeProcess:
    """One worker.

    Args:
        kafka: Where the topics are.
        settings: How providers are reached.
        keeper: Whose requests are judged.
        make_model: Makes the way to a vendor's models.
        price_of: US dollars a token, in and out, by model; None where it is not known.
        group: Of the workers that share the requests.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        settings: JudgeSettings,
        keeper: KeeperClient,
        make_model: ModelMaker,
        price_of: Prices,
        group: str = DEFAULT_GROUP,
    ) -> None:
        self._kafka, self._settings, self._keeper = kafka, settings, keeper
        self._price_of, self._make_model = price_of, make_model
        self._prices: dict[str, tuple[float, float]] = {}
        self._unknown: set[str] = set()
        self._looking = asyncio.Lock()
        self._places: dict[str, list[Place]] = {}
        self._worker = secrets.token_hex(4)
        self._topic = RequestTopic(kafka, group, max(50, workers_of(settings)))
        self._producer = AIOKafkaProducer(
            **kafka.client_options(), acks="all", enable_idempotence=True, max_request_size=2_000_000, linger_ms=5,
            request_timeout_ms=15_000,
        )  # fmt: skip
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Judge until a signal asks to end.

        Raises:
            JobError: The keeper refuses this worker.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        judging = Judging((), self._settings, self._make_model, lambda model: self._prices[model], Wallet(self._keeper))
        self._judging = judging
        pool = JudgePool(judging, self._next, self._deliver, workers=workers_of(self._settings))
        working = asyncio.create_task(self._work(pool))
        stopping = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            pool.stop()
            if not working.done():
                log.info("asked to end: what is finished is sent, the rest is judged by others or later")
                await asyncio.wait({working}, timeout=2 * _END_SECONDS)
            if working.done():
                working.result()
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.wait({working, stopping}, timeout=_END_SECONDS)
            for end in (judging.close, self._keeper.close, self._topic.close, self._producer.stop):
                await _within(_END_SECONDS, end())

    async def _work(self, pool: JudgePool) -> None:
        await self._until_there(self._producer.start)
        await self._until_there(self._topic.start)
        log.info("worker %s judges by %s", self._worker, self._kafka.brokers)
        reporting = asyncio.create_task(self._report())
        try:
            await pool.run()
        finally:
            reporting.cancel()
            await self._topic.done([], now=True)

    async def _until_there(self, start: Callable[[], Awaitable[None]]) -> None:
        back_off = BackOff()
        while True:
            try:
                return await start()
            except (KafkaError, OSError, TimeoutError) as error:
                log.warning("no answer from Kafka at %s: %r; trying again", self._kafka.brokers, error)
            await back_off.wait()

    # --- requests

    async def _next(self) -> tuple[str, Mapping[str, Any]]:
        while True:
            came = await self._topic.next()
            try:
                request = orjson.loads(came.value)
                known = request if "too_large" in request else await self._known(request)
            except (orjson.JSONDecodeError, TypeError, KeyError):
                log.warning("%s/%s holds no request; left out", *came.place)
                known = None
            if known is None:
                await self._topic.done([came.place])
                continue
            self._places.setdefault(came.id, []).append(came.place)
            if "too_large" in known:
                reason = f"request_too_large: {known['too_large']} bytes are more than the topic takes"
                await self._deliver([Judgement(came.id, "error", reason=reason)])
                continue
            return came.id, known

    async def _known(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return a request of this keeper's, with its portfolio at hand; None for those of others."""
        sha = str(request["portfolio_sha"])
        if self._judging.knows(request):
            return request
        async with self._looking:
            if sha not in self._unknown and not self._judging.knows(request):
                portfolio = await self._keeper.portfolio(sha)
                if portfolio is None:
                    log.warning("requests of portfolio %s are of another store; left out", sha[:12])
                    self._unknown.add(sha)
                else:
                    self._take_up(portfolio)
        return request if self._judging.knows(request) else None

    def _take_up(self, portfolio: Portfolio) -> None:
        try:
            # Whether there is a cap only the keeper knows: here every price has to be.
            capped = Caps({portfolio.portfolio: math.inf}, {})
            self._prices |= known_prices([portfolio], capped, self._price_of)
            self._judging.add([portfolio])
        except UsageError as error:
            raise JobError(f"requests of {portfolio.portfolio} cannot be judged here: {error}") from error

    # --- verdicts

    async def _deliver(self, batch: Sequence[Judgement]) -> None:
        """Send judgements; their requests are done when the topic has them."""
        for record in judgement_records(batch):
            await self._send(record)
        places = [place for judgement in batch for place in self._places.pop(judgement.id, ())]
        await self._topic.done(places)

    async def _send(self, record: bytes) -> None:
        headers = [
            (SCHEMA_HEADER, SCHEMA_NAME.encode()),
            (WORKER_HEADER, self._worker.encode()),
            (BREAKERS_HEADER, orjson.dumps(self._judging.breaker_states())),
        ]
        back_off = BackOff()
        while True:
            try:
                await self._producer.send_and_wait(SCORED_TOPIC, record, key=self._worker.encode(), headers=headers)
                return
            except (KafkaError, OSError, TimeoutError) as error:
                log.warning("a verdict waits for Kafka: %r", error)
            await back_off.wait()

    async def _report(self) -> None:
        said: Mapping[str, str] = {}
        since = 0.0
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            states = self._judging.breaker_states()
            since += _REPORT_SECONDS
            if states != said or since >= SILENT_SECONDS / 3:
                await self._send(b"")
                since = 0.0
            said = states
            await self._topic.done([])


async def _within(seconds: float, work: Awaitable[None]) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except (TimeoutError, KafkaError, OSError, JobError) as error:
        log.info("the end was cut short: %r", error)
