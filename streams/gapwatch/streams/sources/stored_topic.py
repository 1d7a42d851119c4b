"""Reads a topic whose offsets are kept in the store: no consumer group, each record once, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.sources.broker_outage import OUTAGE

_RECORDS_AT_ONCE = 200
#: Seconds between checks for added partitions.
_PARTITION_SECONDS = 60.0


@dataclass(frozen=True)
class TopicRecord:
    """One record of the topic.

    Attributes:
        place: topic/partition/offset.
        value: Its bytes; empty where it has none.
        headers: Its headers.
    """

    place: str
    value: bytes
    headers: Mapping[str, bytes]


@dataclass(frozen=True)
class StoredTopic:
    """A topic and what its records are called.

    Attributes:
        name: Name of the topic.
        holds: What it holds, for messages, such as `verdicts`.
        look_seconds: Seconds between checks for the topic while it does not exist.
    """

    name: str
    holds: str
    look_seconds: float = 5.0


#: Takes records and the next offsets of the topic after them.
TakeRecords = Callable[[Sequence[TopicRecord], Mapping[tuple[str, int], int]], Awaitable[None]]


class StoredTopicReader:
    """Reads records until cancelled.

    Args:
        kafka: The cluster.
        topic: The topic.
        read_up_to: Returns the next offset by topic and partition, from the store.
        take: Stores records with the offsets after them.

    Attributes:
        waiting_for: Reason why nothing is read; empty if there is none.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: StoredTopic,
        read_up_to: Callable[[], Awaitable[Mapping[tuple[str, int], int]]],
        take: TakeRecords,
    ) -> None:
        self._kafka, self._topic, self._read_up_to, self._take = kafka, topic, read_up_to, take
        self.waiting_for = ""

    async def run(self) -> None:
        """Read until cancelled; raises the errors of `take`."""
        back_off = BackOff()
        while True:
            consumer = AIOKafkaConsumer(
                **self._kafka.client_options(), enable_auto_commit=False, isolation_level="read_committed",
                auto_offset_reset="earliest",
            )  # fmt: skip
            try:
                await consumer.start()
                back_off.reset()
                await self._read(consumer)
            except (KafkaError, OSError, TimeoutError) as error:
                self.waiting_for = f"cannot read {self._topic.holds} from Kafka: {error!r}; trying again"
                OUTAGE.note(f"cannot read {self._topic.holds} from Kafka: {error!r}")
            finally:
                await consumer.stop()
            await back_off.wait()

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        loop = asyncio.get_running_loop()
        assigned: set[int] = set()
        look_at = 0.0
        while True:
            if loop.time() >= look_at:
                assigned = await self._assign(consumer, assigned)
                look_at = loop.time() + (_PARTITION_SECONDS if assigned else self._topic.look_seconds)
            if not assigned:
                await asyncio.sleep(self._topic.look_seconds)
                continue
            found = await consumer.getmany(timeout_ms=500, max_records=_RECORDS_AT_ONCE)
            records: list[TopicRecord] = []
            marks: dict[tuple[str, int], int] = {}
            for tp, some in found.items():
                for record in some:
                    place = f"{tp.topic}/{tp.partition}/{record.offset}"
                    records.append(TopicRecord(place, record.value or b"", dict(record.headers)))
                    marks[tp.topic, tp.partition] = record.offset + 1
            if records:
                await self._take(records, marks)

    async def _assign(self, consumer: AIOKafkaConsumer, assigned: set[int]) -> set[int]:
        name = self._topic.name
        partitions = await self._partitions()
        self.waiting_for = "" if partitions else f"the topic {name} does not exist"
        if partitions == assigned:
            return assigned
        known = await self._read_up_to()
        at = {tp: await consumer.position(tp) for tp in consumer.assignment()}
        tps = [TopicPartition(name, number) for number in sorted(partitions)]
        consumer.assign(tps)
        for tp in tps:
            offset = at.get(tp, known.get((tp.topic, tp.partition)))
            if offset is None:
                await consumer.seek_to_beginning(tp)
            else:
                consumer.seek(tp, offset)
        return partitions

    async def _partitions(self) -> set[int]:
        admin = AIOKafkaAdminClient(**self._kafka.client_options(), request_timeout_ms=10_000)
        try:
            await admin.start()
            if self._topic.name not in await admin.list_topics():
                return set()
            (described,) = await admin.describe_topics([self._topic.name])
            return {partition["partition"] for partition in described["partitions"]}
        finally:
            await admin.close()
