"""Reads verdicts of judges elsewhere from the topic `scored`, from the offsets in the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.judges.judgement import SCHEMA_NAME, Judgement, judgements_of
from gapwatch.sinks.store.topics import SCORED_TOPIC
from gapwatch.streams.sources.broker_outage import OUTAGE

log = logging.getLogger("gapwatch.judges")

#: Headers of a record: its schema, the worker that wrote it, the states of that worker's circuit breakers, and the
#: outages that it sees, in words.
SCHEMA_HEADER, WORKER_HEADER, BREAKERS_HEADER, OUTAGES_HEADER = "schema", "worker", "breakers", "outages"
_RECORDS_AT_ONCE = 200
#: Seconds between checks for a missing topic, and for added partitions.
_TOPIC_SECONDS, _PARTITION_SECONDS = 5.0, 60.0

#: Stores judgements, together with the offsets of the topic after them.
Take = Callable[[Sequence[Judgement], Mapping[tuple[str, int], int]], Awaitable[None]]


class ScoredReader:
    """Reads judgements until cancelled.

    Args:
        kafka: The cluster.
        read_up_to: Returns the next offset by topic and partition, from the store.
        take: Stores judgements.
        on_breakers: Called with a worker, the states of its circuit breakers, and the outages that it sees.

    Attributes:
        waiting_for: Reason why nothing is read; empty if there is none.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        read_up_to: Callable[[], Awaitable[Mapping[tuple[str, int], int]]],
        take: Take,
        on_breakers: Callable[[str, Mapping[str, str], Sequence[str]], None],
    ) -> None:
        self._kafka, self._read_up_to, self._take, self._on_breakers = kafka, read_up_to, take, on_breakers
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
                self.waiting_for = f"cannot read verdicts from Kafka: {error!r}; trying again"
                OUTAGE.note(f"cannot read verdicts from Kafka: {error!r}")
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
                look_at = loop.time() + (_PARTITION_SECONDS if assigned else _TOPIC_SECONDS)
            if not assigned:
                await asyncio.sleep(_TOPIC_SECONDS)
                continue
            found = await consumer.getmany(timeout_ms=500, max_records=_RECORDS_AT_ONCE)
            judgements: list[Judgement] = []
            marks: dict[tuple[str, int], int] = {}
            for tp, records in found.items():
                for record in records:
                    judgements += self._judgements(record)
                    marks[tp.topic, tp.partition] = record.offset + 1
            if judgements:
                await self._take(judgements, marks)

    async def _assign(self, consumer: AIOKafkaConsumer, assigned: set[int]) -> set[int]:
        partitions = await self._partitions()
        self.waiting_for = "" if partitions else f"the topic {SCORED_TOPIC} does not exist"
        if partitions == assigned:
            return assigned
        known = await self._read_up_to()
        at = {tp: await consumer.position(tp) for tp in consumer.assignment()}
        tps = [TopicPartition(SCORED_TOPIC, number) for number in sorted(partitions)]
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
            if SCORED_TOPIC not in await admin.list_topics():
                return set()
            (described,) = await admin.describe_topics([SCORED_TOPIC])
            return {partition["partition"] for partition in described["partitions"]}
        finally:
            await admin.close()

    def _judgements(self, record: object) -> list[Judgement]:
        headers = dict(getattr(record, "headers", ()))
        if headers.get(SCHEMA_HEADER) != SCHEMA_NAME.encode():
            return []  # scored slices have another schema
        place = f"{SCORED_TOPIC}/{getattr(record, 'partition', '?')}/{getattr(record, 'offset', '?')}"
        try:
            states = orjson.loads(headers.get(BREAKERS_HEADER) or b"{}")
            worker = (headers.get(WORKER_HEADER) or b"?").decode("utf-8", "replace")
            outages = [str(words) for words in orjson.loads(headers.get(OUTAGES_HEADER) or b"[]")]
            self._on_breakers(worker, {str(name): str(state) for name, state in states.items()}, outages)
            return judgements_of(getattr(record, "value", b"") or b"")
        except (ValueError, AttributeError) as error:
            log.warning("skipping record %s, not a verdict: %s", place, error)
            return []
