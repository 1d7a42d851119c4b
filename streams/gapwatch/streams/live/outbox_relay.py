"""Sends the messages of the outbox to Kafka, at least once; readers recognise a duplicate by its id.

The store records a message as sent after Kafka has acknowledged it. A process that dies in between sends the messages
of at most `COMMITS_A_ROUND` commits a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from gapwatch.publisher.back_off import LONGEST_SECONDS, BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.outbox import ID_HEADER, OutboxRow, count_waiting, outbox_rows, relayed_seqs, waiting_seqs
from gapwatch.sinks.store.topics import ALERTS_TOPIC, DEAD_LETTERS_TOPIC, JUDGE_REQUESTS_TOPIC
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.sources.broker_outage import OUTAGE

log = logging.getLogger("gapwatch.relay")

RELAYED_TOPICS = (ALERTS_TOPIC, JUDGE_REQUESTS_TOPIC, DEAD_LETTERS_TOPIC)
COMMITS_A_ROUND = 20
#: Seconds between two checks of the outbox without a wake-up: this while topics are missing, else 30 times as long.
LOOK_SECONDS = 1.0
_BATCH = 100


class OutboxRelay:
    """Sends the messages of the outbox until it is cancelled.

    Args:
        kafka: The cluster.
        cursor: Returns a connection that reads the store.
        mark: Stores the last sent commit by topic.
        needed: Topics that the portfolios need; one that is missing is logged even if no message waits for it.

    Attributes:
        waiting_for: Reason why nothing is sent; empty if there is none.
        sent: Acknowledged messages by topic.
        missing: Topics that do not exist; their messages wait in the outbox.
        waiting: Unsent messages by topic, as of the last check.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        cursor: Callable[[], Connection],
        mark: Callable[[dict[str, int]], Awaitable[None]],
        needed: Collection[str] = RELAYED_TOPICS,
    ) -> None:
        self._kafka, self._cursor, self._mark, self._needed = kafka, cursor, mark, needed
        self._news = asyncio.Event()
        self._producer: AIOKafkaProducer | None = None
        self._relayed: dict[str, int] | None = None
        self.waiting_for = ""
        self.sent = dict.fromkeys(RELAYED_TOPICS, 0)
        self.missing: tuple[str, ...] = ()
        self.waiting: dict[str, int] = {}
        self._looked_at = float("-inf")
        # Idle if no wake-up came since the check that found nothing: a wake-up during a check is not forgotten.
        self._wake_ups, self._idle_since = 0, -1
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Check the outbox now; may be called on any thread."""
        self._wake_ups += 1
        if self._loop is not None:  # before `run` there is nothing to wake: its first round checks
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._news.set)

    @property
    def is_idle(self) -> bool:
        """True if everything that can be sent was sent, as of the last check."""
        return self._idle_since == self._wake_ups

    async def run(self) -> None:
        """Send messages until cancelled; raises the errors of `mark`."""
        self._loop = asyncio.get_running_loop()
        back_off = BackOff()
        while True:
            try:
                wake_ups = self._wake_ups
                while await self._round():
                    back_off.reset()
                    wake_ups = self._wake_ups
                self.waiting_for = ""
                self._idle_since = wake_ups
            except (KafkaError, OSError, TimeoutError) as error:
                self.waiting_for = f"cannot send the outbox to Kafka: {error!r}; trying again"
                OUTAGE.note(f"cannot send the outbox to Kafka: {error!r}")
                await self.close()
                await back_off.wait()
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), LOOK_SECONDS if self.missing else 30 * LOOK_SECONDS)
            self._news.clear()

    async def close(self, seconds: float = 2.0) -> bool:
        """Close the connection; False if it did not close within `seconds`."""
        producer, self._producer = self._producer, None
        if producer is None:
            return True
        stopping = asyncio.ensure_future(producer.stop())
        done, _ = await asyncio.wait({stopping}, timeout=seconds)
        if done and (error := stopping.exception()) is not None:
            log.info("closing the relay's connection to Kafka failed: %r", error)
        return bool(done)

    async def _round(self) -> bool:
        """Send the messages of some commits and mark them as sent; False if there was none."""
        loop = asyncio.get_running_loop()
        waiting = await loop.run_in_executor(None, self._waiting)
        if not waiting:
            return False
        producer = await self._connect()
        await self._look_for_topics()
        marks: dict[str, int] = {}
        for topic, seqs in waiting.items():
            if topic in self.missing:
                continue
            for seq in seqs:
                await self._send(producer, topic, await loop.run_in_executor(None, self._rows, topic, seq))
                marks[topic] = seq
        if marks:
            await self._mark(marks)
            assert self._relayed is not None
            self._relayed.update(marks)
        return bool(marks)

    async def _connect(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **self._kafka.client_options(), acks="all", enable_idempotence=True, max_request_size=12_000_000,
                linger_ms=5, request_timeout_ms=15_000,
            )  # fmt: skip
            self._producer = producer
            await producer.start()
            self._looked_at = float("-inf")
        return self._producer

    async def _look_for_topics(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < (LONGEST_SECONDS if self.missing else 600.0):
            return
        admin = AIOKafkaAdminClient(**self._kafka.client_options(), request_timeout_ms=10_000)
        try:
            await admin.start()
            there = await admin.list_topics()
        finally:
            await admin.close()
        missing = tuple(topic for topic in RELAYED_TOPICS if topic not in there and self._is_needed(topic))
        if missing != self.missing and missing:
            log.warning(
                "topics that do not exist: %s; their messages wait in the outbox until you create them",
                ", ".join(missing),
            )
        self.missing, self._looked_at = missing, now

    def _is_needed(self, topic: str) -> bool:
        return topic in self._needed or self.waiting.get(topic, 0) > 0

    async def _send(self, producer: AIOKafkaProducer, topic: str, rows: Sequence[OutboxRow]) -> None:
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            sent = [await _enqueue(producer, topic, row, row.value) for row in batch]
            for row, answer in zip(batch, await asyncio.gather(*sent, return_exceptions=True), strict=True):
                if isinstance(answer, MessageSizeTooLargeError):
                    log.warning(
                        "message %s is larger than topic %r takes; a digest is sent instead, raise max.message.bytes",
                        row.id, topic,
                    )  # fmt: skip
                    digest = orjson.dumps({"id": row.id, "too_large": len(row.value)})
                    await (await _enqueue(producer, topic, row, digest))
                elif isinstance(answer, BaseException):
                    raise answer
            self.sent[topic] += len(batch)

    def _waiting(self) -> dict[str, list[int]]:
        cursor = self._cursor()
        try:
            if self._relayed is None:
                self._relayed = relayed_seqs(cursor)
            counted = count_waiting(cursor)
            self.waiting = {topic: counted.get(topic, 0) for topic in RELAYED_TOPICS}
            found = {
                topic: waiting_seqs(cursor, topic, self._relayed.get(topic, 0), COMMITS_A_ROUND)
                for topic in RELAYED_TOPICS
            }
        finally:
            cursor.close()
        return {topic: seqs for topic, seqs in found.items() if seqs}

    def _rows(self, topic: str, seq: int) -> list[OutboxRow]:
        cursor = self._cursor()
        try:
            return outbox_rows(cursor, topic, seq)
        finally:
            cursor.close()


def needed_topics(portfolios: Iterable[Portfolio], has_alerts: bool) -> tuple[str, ...]:
    """Return the topics that messages of these portfolios may go to.

    Args:
        portfolios: The portfolios.
        has_alerts: Shifts and broken thresholds are detected.
    """
    metrics = [metric for portfolio in portfolios for metric in portfolio.metrics]
    needs_alerts = has_alerts and any(metric.alert is not None or metric.threshold is not None for metric in metrics)
    needs_judges = any(isinstance(metric.claim, JudgedClaim) for metric in metrics)
    return (
        *([ALERTS_TOPIC] if needs_alerts else []),
        *([JUDGE_REQUESTS_TOPIC] if needs_judges else []),
        DEAD_LETTERS_TOPIC,
    )


async def _enqueue(producer: AIOKafkaProducer, topic: str, row: OutboxRow, value: bytes) -> Any:
    headers = [(ID_HEADER, row.id.encode()), *((name, text.encode()) for name, text in row.headers.items())]
    key = None if row.key is None else row.key.encode()
    return await producer.send(topic, value, key=key, headers=headers)
