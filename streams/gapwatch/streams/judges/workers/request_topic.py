"""Reads requests from the topic `judge-requests`, and commits their offsets when they are answered.

While the consumer group rebalances, nothing is committed: Kafka reads a commit behind the JoinGroup of the same
connection, finds its generation illegal, and aiokafka then joins as a new member. The group waits ten seconds for the
old one, in which the next commit has the same effect: after a killed judge the others answer little for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.sinks.store.outbox import ID_HEADER
from gapwatch.sinks.store.topics import JUDGE_REQUESTS_TOPIC

log = logging.getLogger("gapwatch.judges")

#: During an outage of a provider nothing is fetched for hours; the member must stay in its group all the same.
_POLL_INTERVAL_MS = 7 * 24 * 3_600_000
_REBALANCE_MS = 60_000
_COMMIT_SECONDS = 1.0
RequestPlace = tuple[TopicPartition, int]


@dataclass(frozen=True)
class TopicRequest:
    """One request, as it was read.

    Attributes:
        id: Id of the request.
        place: Partition and offset.
        value: The request as JSON.
        asked_at: Time at which it was sent, seconds since 1970.
    """

    id: str
    place: RequestPlace
    value: bytes
    asked_at: float


class RequestTopic(ConsumerRebalanceListener):  # type: ignore[misc]
    """Reads requests as a member of a consumer group; for one event loop.

    Args:
        kafka: The cluster.
        group: Consumer group, shared by all judge processes.
        at_once: Most records of one fetch.
    """

    def __init__(self, kafka: KafkaSettings, group: str, at_once: int) -> None:
        self._consumer = AIOKafkaConsumer(
            **kafka.client_options(), group_id=group, enable_auto_commit=False,
            auto_offset_reset="earliest", isolation_level="read_committed", max_poll_interval_ms=_POLL_INTERVAL_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
        )  # fmt: skip
        self._consumer.subscribe([JUDGE_REQUESTS_TOPIC], listener=self)
        self._at_once = at_once
        self._ready: deque[TopicRequest] = deque()
        self._fetching = asyncio.Lock()
        self._is_rebalancing = False
        #: Handed over and not answered; answered and not committed. A rebalance does not hand these over again.
        self._in_work: set[RequestPlace] = set()
        self._answered: set[RequestPlace] = set()
        self._open: dict[TopicPartition, set[int]] = {}
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._commit_at = 0.0

    @property
    def waiting(self) -> int:
        """Number of requests that were read and are not answered yet."""
        return sum(map(len, self._open.values()))

    async def start(self) -> None:
        """Join the group.

        Raises:
            KafkaError: No broker answers.
        """
        await self._consumer.start()

    async def next(self) -> TopicRequest:
        """Wait for the next request and return it."""
        while not self._ready:
            async with self._fetching:
                if self._ready:
                    break
                for tp, records in (await self._consumer.getmany(timeout_ms=1_000, max_records=self._at_once)).items():
                    for record in records:
                        place = (tp, record.offset)
                        self._next[tp] = record.offset + 1
                        if place in self._answered:
                            continue
                        self._open.setdefault(tp, set()).add(record.offset)
                        if place not in self._in_work:
                            id_ = dict(record.headers).get(ID_HEADER, b"").decode("utf-8", "replace")
                            self._ready.append(TopicRequest(id_, place, record.value or b"", record.timestamp / 1_000))
        came = self._ready.popleft()
        self._in_work.add(came.place)
        return came

    async def done(self, places: Iterable[RequestPlace], now: bool = False) -> None:
        """Mark requests as answered, and commit the offsets before which all are answered, about once a second.

        Args:
            places: Partitions and offsets of the answered requests.
            now: Commit at once.
        """
        for tp, offset in places:
            self._open.get(tp, set()).discard(offset)
            self._in_work.discard((tp, offset))
            self._answered.add((tp, offset))
        loop = asyncio.get_running_loop()
        if self._is_rebalancing or (not now and loop.time() < self._commit_at):
            return
        await self._commit()

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        self._commit_at = loop.time() + _COMMIT_SECONDS
        mine = self._consumer.assignment()
        marks = {tp: min(self._open.get(tp) or (after,)) for tp, after in self._next.items() if tp in mine}
        marks = {tp: offset for tp, offset in marks.items() if self._committed.get(tp) != offset}
        if not marks:
            return
        try:
            await self._consumer.commit(marks)
            self._committed |= marks
            self._answered = {place for place in self._answered if place[1] >= marks.get(place[0], 0)}
        except (CommitFailedError, IllegalStateError):
            log.info("another judge process has taken over a partition; the store drops verdicts that come twice")
        except KafkaError as error:
            log.warning("cannot commit the offsets of answered requests: %r", error)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit what is answered, and forget what was read: whoever gets a partition reads it from there."""
        self._is_rebalancing = True  # first: no other commit may follow this one before the group has its members
        await self._commit()
        self._ready.clear()
        for read in (self._open, self._next, self._committed):
            read.clear()

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Commit again."""
        self._answered = {place for place in self._answered if place[0] in assigned}
        self._is_rebalancing = False

    async def close(self) -> None:
        """Leave the group."""
        await self._consumer.stop()
