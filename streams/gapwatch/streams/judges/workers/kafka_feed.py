"""Feed of a judge process: requests from the topic `judge-requests`, verdicts to the topic `scored`.

topic judge-requests ──▶ lanes ──▶ topic scored ──▶ requests committed     killed in between: judged again, and the
                                                                            store drops the second verdict

Each lane has a consumer group of its own, reads the whole topic and skips the requests of other lanes. So the requests
of a provider that is down wait in the topic and delay no other lane.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.judges.judgement import SCHEMA_NAME, Judgement, judgement_records
from gapwatch.scorers.judges.request import JudgeRequest, OversizeRequest, read_request
from gapwatch.sinks.store.topics import SCORED_TOPIC
from gapwatch.sinks.verdicts.batch_journal import BatchJournal
from gapwatch.sinks.verdicts.call_counts import SILENT_SECONDS
from gapwatch.sinks.verdicts.open_requests import WaitingRequest
from gapwatch.streams.judges.batches.batch_lane import InStoreThread
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import Deliver, NextRequest
from gapwatch.streams.judges.calls.terms import terms_of
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.keeper_client import StoreClient
from gapwatch.streams.judges.workers.request_topic import RequestPlace, RequestTopic, TopicRequest
from gapwatch.streams.judges.workers.scored_reader import BREAKERS_HEADER, OUTAGES_HEADER, SCHEMA_HEADER, WORKER_HEADER
from gapwatch.streams.sources.broker_outage import OUTAGE

log = logging.getLogger("gapwatch.judges")

DEFAULT_GROUP = "gapwatch-judges"
#: Fewest requests of one fetch.
_FETCHED = 50
#: Seconds between two reports of the circuit breakers; most seconds of each step of the end.
_REPORT_SECONDS, _END_SECONDS = 5.0, 2.5


class KafkaFeed:
    """Reads requests as a member of the consumer groups of all judge processes.

    Args:
        kafka: The cluster.
        settings: Settings of the judges.
        store_client: API of the process that stores, which has the portfolios.
        on_judgements: Called with judgements before they are sent.
        group: Prefix of the consumer groups; each entry of `providers` adds its name.

    Attributes:
        waiting_for: Why nothing can be read or sent; empty if there is nothing.
    """

    follows = True

    def __init__(
        self,
        kafka: KafkaSettings,
        settings: JudgeSettings,
        store_client: StoreClient,
        on_judgements: Callable[[Sequence[Judgement]], None],
        group: str = DEFAULT_GROUP,
    ) -> None:
        self._kafka, self._settings, self._store_client, self._group = kafka, settings, store_client, group
        self._on_judgements = on_judgements
        self._worker = secrets.token_hex(4)
        self._producer = AIOKafkaProducer(
            **kafka.client_options(), acks="all", enable_idempotence=True, max_request_size=2_000_000, linger_ms=5,
            request_timeout_ms=15_000,
        )  # fmt: skip
        self._topics: dict[str, RequestTopic] = {}
        self._places: dict[str, dict[str, list[RequestPlace]]] = {}
        self._judging: Judging | None = None
        self._looked_up: set[str] = set()
        self._looking = asyncio.Lock()
        self.waiting_for = ""

    @property
    def waiting(self) -> dict[str, int]:
        """Number of requests that were read and are not answered yet, by entry of `providers`."""
        return {name: topic.waiting for name, topic in self._topics.items()}

    async def open(self, judging: Judging, lanes: Sequence[str]) -> None:
        """Join the consumer groups of these entries of `providers`; waits while Kafka is away."""
        self._judging = judging
        for name in sorted(lanes):
            group = f"{self._group}-{'others' if name == '*' else name}"
            at_once = max(_FETCHED, self._settings.providers[name].concurrency)
            self._topics[name], self._places[name] = RequestTopic(self._kafka, group, at_once), {}
        starts = (self._producer.start, *(topic.start for topic in self._topics.values()))
        await asyncio.gather(*(self._until_there(start, "no answer from Kafka") for start in starts))
        log.info("judge worker %s answers requests from Kafka at %s", self._worker, self._kafka.brokers)

    async def close(self) -> None:
        """Commit what is answered, and leave."""
        topics = [*self._topics.values()]
        for end in (
            asyncio.gather(*(topic.done([], now=True) for topic in topics)),
            asyncio.gather(*(topic.close() for topic in topics)),
            self._producer.stop(),
        ):
            await wait_at_most(_END_SECONDS, end)

    async def _until_there(self, step: Callable[[], Awaitable[object]], words: str) -> None:
        """Repeat a step until Kafka takes it."""
        back_off = BackOff()
        while True:
            try:
                await step()
                self.waiting_for = ""
                OUTAGE.look(is_connected=True)
                return
            except (KafkaError, OSError, TimeoutError) as error:
                OUTAGE.note(f"{words} at {self._kafka.brokers}: {error!r}")
                self.waiting_for = f"Kafka at {self._kafka.brokers}: {type(error).__name__}"
            await back_off.wait()

    # --- requests

    def lane(self, name: str) -> tuple[NextRequest, Deliver]:
        """Return what gives the requests of one lane, and what sends their judgements."""

        async def deliver(batch: Sequence[Judgement]) -> None:
            await self._deliver(name, batch)

        return lambda: self._next(name), deliver

    async def _next(self, lane: str) -> WaitingRequest:
        topic, places = self._topics[lane], self._places[lane]
        # Requests that name no judge, such as those that were too large, are answered by one lane.
        takes_strays = lane == min(self._topics)
        while True:
            came = await topic.next()
            request = _read(came, takes_strays)
            if isinstance(request, JudgeRequest):
                request = request if await self._knows(request, lane) else None
            if request is None:
                await topic.done([came.place])
                continue
            places.setdefault(came.id, []).append(came.place)
            if isinstance(request, JudgeRequest):
                return WaitingRequest(came.id, request, came.asked_at)
            reason = f"request_too_large: {request.bytes} bytes are more than the topic takes"
            await self._deliver(lane, [Judgement(came.id, "error", reason=reason)])

    async def _knows(self, request: JudgeRequest, lane: str) -> bool:
        """Return True if a lane answers a request, and its portfolio is known; requests of other stores are not."""
        judging, sha = self._judging, request.portfolio_sha
        assert judging is not None
        if not judging.knows(request):
            async with self._looking:
                if sha not in self._looked_up:
                    await self._look_up(sha, judging)
        return judging.knows(request, lane)

    async def _look_up(self, sha: str, judging: Judging) -> None:
        portfolio = await self._store_client.portfolio(sha)
        # Once is enough: the answer for a portfolio does not change.
        self._looked_up.add(sha)
        if portfolio is None:
            log.warning("skipping requests of portfolio %s: the store does not have it", sha[:12])
            return
        try:
            terms = terms_of(portfolio, self._settings)
            terms.check_prices(is_capped=True)  # only the process that stores knows all caps
        except UsageError as error:
            raise JobError(f"requests of {portfolio.portfolio} cannot be judged here: {error}") from error
        judging.add([terms])

    # --- verdicts

    async def _deliver(self, lane: str, batch: Sequence[Judgement]) -> None:
        """Send judgements until Kafka has acknowledged them; then mark their requests as answered."""
        self._on_judgements(batch)
        await self._send(judgement_records(batch))
        places = [place for judgement in batch for place in self._places[lane].pop(judgement.id, ())]
        await self._topics[lane].done(places)

    async def _send(self, records: Iterable[bytes]) -> None:
        judging = self._judging
        assert judging is not None
        for record in records:
            headers = [
                (SCHEMA_HEADER, SCHEMA_NAME.encode()),
                (WORKER_HEADER, self._worker.encode()),
                (BREAKERS_HEADER, orjson.dumps(judging.breaker_states())),
                (OUTAGES_HEADER, orjson.dumps(judging.outages())),
            ]

            async def send(record: bytes = record, headers: list[tuple[str, bytes]] = headers) -> None:
                await self._producer.send_and_wait(SCORED_TOPIC, record, key=self._worker.encode(), headers=headers)

            await self._until_there(send, "cannot send a verdict to Kafka")

    async def report(self, judging: Judging) -> None:
        """Send circuit breakers and outages when they change, and a sign of life."""
        said: tuple[Mapping[str, str], int] = ({}, 0)
        since = 0.0
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            states = (judging.breaker_states(), len(judging.outages()))
            since += _REPORT_SECONDS
            if states != said or since >= SILENT_SECONDS / 3:
                await self._send([b""])
                since = 0.0
            said = states
            for topic in self._topics.values():
                await topic.done([])

    async def journal(self) -> tuple[BatchJournal, InStoreThread]:
        """Refuse batches: there is no store to write them down."""
        raise JobError("a judge process has no store to write batches down")


def _read(came: TopicRequest, takes_strays: bool) -> JudgeRequest | OversizeRequest | None:
    """Return a request; None for what is none, and for one without a judge that another lane answers."""
    try:
        request = read_request(came.value)
    except ValueError:
        if takes_strays:
            log.warning("skipping %s/%s: not a judge request", *came.place)
        return None
    return request if takes_strays or isinstance(request, JudgeRequest) else None


async def wait_at_most(seconds: float, work: Awaitable[object]) -> None:
    """Wait for a step of the end, and no longer than so many seconds."""
    try:
        await asyncio.wait_for(work, seconds)
    except (TimeoutError, KafkaError, OSError, JobError) as error:
        log.info("a step of the stop was cut short: %r", error)
