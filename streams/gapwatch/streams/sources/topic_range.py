"""Reads the records of a topic between two times, partition by partition, without a consumer group."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError
from gapwatch.streams.sources.faust_slices import FETCH_MIN_BYTES, PARTITION_FETCH_BYTES
from gapwatch.streams.sources.raw_slice import RawSlice

#: Most records of a slice.
SLICE_RECORDS = 4_000
# Milliseconds that the broker gathers `FETCH_MIN_BYTES` before it answers.
_FETCH_WAIT_MS = 250
#: Seconds without a record after which reading is given up, although the topic has more.
SILENCE_SECONDS = 60.0


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition to read.

    Attributes:
        begin: First offset.
        end: One past the last offset.
        first: First offset that the topic still retains.
    """

    begin: int
    end: int
    first: int


class TopicRange:
    """Reads a part of a topic; an asynchronous context manager.

    Args:
        kafka: The cluster.
        topic: Topic to read; it must exist.
    """

    def __init__(self, kafka: KafkaSettings, topic: str) -> None:
        self._topic = topic
        self._consumer = AIOKafkaConsumer(
            **kafka.client_options(), enable_auto_commit=False, isolation_level="read_committed",
            auto_offset_reset="none", fetch_min_bytes=FETCH_MIN_BYTES, fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        )  # fmt: skip

    async def __aenter__(self) -> TopicRange:
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def between(self, from_time: float, to_time: float, partitions: int) -> dict[int, OffsetRange]:
        """Return by partition the offsets between two times.

        Args:
            from_time: Seconds since the epoch; reading begins with the first record at or after it.
            to_time: Seconds since the epoch; reading ends before the first record at or after it.
            partitions: Number of the topic's partitions.
        """
        tps = [TopicPartition(self._topic, number) for number in range(partitions)]
        first = await self._consumer.beginning_offsets(tps)
        end = await self._consumer.end_offsets(tps)
        begins = await self._consumer.offsets_for_times({tp: math.ceil(from_time * 1000) for tp in tps})
        ends = await self._consumer.offsets_for_times({tp: math.ceil(to_time * 1000) for tp in tps})
        return {
            tp.partition: OffsetRange(
                begins[tp].offset if begins.get(tp) else end[tp],
                ends[tp].offset if ends.get(tp) else end[tp],
                first[tp],
            )
            for tp in tps
        }

    async def slices(self, ranges: Mapping[int, tuple[int, int]]) -> AsyncIterator[RawSlice]:
        """Yield the records of each partition as slices without gaps.

        Args:
            ranges: First and end offset by partition.

        Raises:
            JobError: The cluster delivers no record for `SILENCE_SECONDS`, although the topic has more.
        """
        for number, (begin, end) in sorted(ranges.items()):
            if begin >= end:
                continue
            tp = TopicPartition(self._topic, number)
            self._consumer.assign([tp])
            self._consumer.seek(tp, begin)
            at = begin
            while at < end:
                records = await self._fetch(tp)
                position = min(await self._consumer.position(tp), end)
                within = [record for record in records if record.offset < end]
                # Transaction markers advance the position without a record.
                if position > at:
                    yield _raw(self._topic, number, at, position, within)
                    at = position

    async def _fetch(self, tp: TopicPartition) -> list[Any]:
        loop = asyncio.get_running_loop()
        began, before = loop.time(), await self._consumer.position(tp)
        while loop.time() - began < SILENCE_SECONDS:
            found = await self._consumer.getmany(tp, timeout_ms=1000, max_records=SLICE_RECORDS)
            if found or await self._consumer.position(tp) > before:
                return list(found.get(tp, []))
        raise JobError(
            f"topic {self._topic!r}, partition {tp.partition}: Kafka delivered no record for {SILENCE_SECONDS:.0f} s, "
            "although the topic has more; stored results are safe, start again to continue from there"
        )


def _raw(topic: str, partition: int, begin: int, end: int, records: list[Any]) -> RawSlice:
    times = [getattr(record, "timestamp", -1) for record in records]
    return RawSlice(
        topic, partition, begin, end, np.array([record.offset for record in records], np.int64),
        [record.value for record in records],
        np.array([math.nan if at is None or at < 0 else at / 1000.0 for at in times], np.float64),
    )  # fmt: skip
