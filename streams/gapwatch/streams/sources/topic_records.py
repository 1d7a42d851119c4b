"""Reads single records of a topic again by partition and offset, without a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from gapwatch.publisher.kafka_settings import KafkaSettings

#: Most bytes of one fetch; the broker returns a larger batch whole. Neighbours of a record come with it.
_FETCH_BYTES = 256 << 10
#: Seconds without an answer after which reading is given up.
_SILENCE_SECONDS = 10.0


async def read_records(
    kafka: KafkaSettings, topic: str, places: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], bytes | None]:
    """Return the records at some places; None for one that the topic no longer holds.

    Args:
        kafka: The cluster.
        topic: Topic to read; it must exist.
        places: Partition and offset of each record.

    Raises:
        ConnectionError: The cluster does not answer, or refuses.
        TimeoutError: The cluster delivers nothing.
    """
    consumer = AIOKafkaConsumer(
        **kafka.client_options(), enable_auto_commit=False, isolation_level="read_committed", auto_offset_reset="none",
        fetch_max_wait_ms=100, max_partition_fetch_bytes=_FETCH_BYTES,
    )  # fmt: skip
    found: dict[tuple[int, int], bytes | None] = {}
    try:
        await consumer.start()
        for partition, group in groupby(sorted(set(places)), key=lambda place: place[0]):
            tp = TopicPartition(topic, partition)
            consumer.assign([tp])
            first, end = (await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp]
            for _, offset in group:
                is_held = first <= offset < end
                found[partition, offset] = await _record_at(consumer, tp, offset) if is_held else None
    except KafkaError as error:
        raise ConnectionError(f"topic {topic!r} cannot be read: {error}") from error
    finally:
        await consumer.stop()
    return found


async def _record_at(consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int) -> bytes | None:
    consumer.seek(tp, offset)
    clock = asyncio.get_running_loop().time
    end = clock() + _SILENCE_SECONDS
    while clock() < end:
        try:
            records = (await consumer.getmany(tp, timeout_ms=500, max_records=1)).get(tp, [])
        except OffsetOutOfRangeError:  # deleted since `beginning_offsets`
            return None
        if records:
            value: bytes | None = records[0].value
            return value if records[0].offset == offset else None
        if await consumer.position(tp) > offset:  # only transaction markers were left
            return None
    raise TimeoutError(f"topic {tp.topic!r}, partition {tp.partition}: no record for {_SILENCE_SECONDS:.0f} s")
