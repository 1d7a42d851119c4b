"""Reads the values of a topic as lines of JSON, without a consumer group, so that it disturbs no other reader."""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.streams.sources.topic_check import require_topic
from gapwatch.streams.sources.topic_range import SILENCE_SECONDS

#: Most records of one fetch.
_FETCH_RECORDS = 500


@dataclass(frozen=True)
class ConsumeOptions:
    """Part of a topic to read.

    Attributes:
        topic: Topic to read; it must exist.
        partitions: Partitions to read; none: all.
        start: `earliest`, `latest`, or seconds since the epoch: from the first record at or after that time on.
        limit: Most lines; None: all.
        follow: True waits for new records; False ends at the end that the topic has at the start.
        base64: True writes each record as an object with its value in base64, whatever the value is: a file of spans.
    """

    topic: str
    partitions: Sequence[int] = ()
    start: str | float = "earliest"
    limit: int | None = None
    follow: bool = False
    base64: bool = False


class TopicLines:
    """Reads one part of a topic.

    Args:
        kafka: The cluster.
        options: The part.
        on_fault: Called with the place and fault of each record that is no line of JSON.

    Attributes:
        lines: Number of lines so far.
        skipped: Number of records so far that are no line of JSON.
    """

    def __init__(self, kafka: KafkaSettings, options: ConsumeOptions, on_fault: Callable[[str], None]) -> None:
        self._kafka, self._options, self._on_fault = kafka, options, on_fault
        self.lines = self.skipped = 0

    async def read(self, write: Callable[[bytes], None]) -> None:
        """Write the lines, each with its line end, as they arrive.

        Raises:
            UsageError: The topic or a partition does not exist, or the login is refused.
            JobError: The broker does not answer, or answers with an error.
        """
        options = self._options
        tps = [TopicPartition(options.topic, number) for number in await self._partitions()]
        consumer = AIOKafkaConsumer(
            **self._kafka.client_options(), enable_auto_commit=False, isolation_level="read_committed",
            auto_offset_reset="earliest",
        )  # fmt: skip
        try:
            await consumer.start()
            consumer.assign(tps)
            await self._seek(consumer, tps)
            ends = None if options.follow else await consumer.end_offsets(tps)
            async for records in _batches(consumer, tps, ends):
                write(b"".join(self._lines_of(records)))
                if options.limit is not None and self.lines >= options.limit:
                    return
        except KafkaError as error:
            raise JobError(f"reading topic {options.topic!r} at {self._kafka.brokers} failed: {error!r}") from error
        finally:
            await consumer.stop()

    async def _partitions(self) -> list[int]:
        count = await require_topic(self._kafka, self._options.topic)
        for number in self._options.partitions:
            if number >= count:
                raise UsageError(
                    f"topic {self._options.topic!r} has no partition {number}; its partitions are 0 to {count - 1}"
                )
        return sorted(set(self._options.partitions)) or list(range(count))

    async def _seek(self, consumer: AIOKafkaConsumer, tps: list[TopicPartition]) -> None:
        start = self._options.start
        if start == "earliest":
            await consumer.seek_to_beginning(*tps)
        elif start == "latest":
            await consumer.seek_to_end(*tps)
        else:
            found = await consumer.offsets_for_times({tp: math.ceil(float(start) * 1000) for tp in tps})
            ends = await consumer.end_offsets(tps)
            for tp in tps:
                consumer.seek(tp, found[tp].offset if found.get(tp) else ends[tp])

    def _lines_of(self, records: Sequence[Any]) -> list[bytes]:
        lines = []
        for record in records:
            if self._options.limit is not None and self.lines >= self._options.limit:
                break
            fault = "no value" if record.value is None else "" if self._options.base64 else _fault(record.value)
            if fault:
                self.skipped += 1
                self._on_fault(f"partition {record.partition}, offset {record.offset}: {fault}")
                continue
            self.lines += 1
            if self._options.base64:
                lines.append(_as_base64(record))
                continue
            # In valid JSON a line end stands between tokens only, where a space means the same.
            lines.append(record.value.replace(b"\r", b" ").replace(b"\n", b" ").strip() + b"\n")
        return lines


def _as_base64(record: Any) -> bytes:
    line = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "value": base64.b64encode(record.value).decode(),
    }
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


async def _batches(
    consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition], ends: dict[TopicPartition, int] | None
) -> AsyncIterator[list[Any]]:
    """Yield records as they arrive; up to the given end of each partition, or without end.

    Raises:
        JobError: The cluster delivers nothing for `SILENCE_SECONDS`, although the topic has more.
    """
    before, moved_at = Counter[TopicPartition](), time.monotonic()
    while True:
        at = Counter({tp: await consumer.position(tp) for tp in tps})
        if ends is not None and all(at[tp] >= ends[tp] for tp in tps):
            return
        if at != before:
            before, moved_at = at, time.monotonic()
        elif ends is not None and time.monotonic() - moved_at > SILENCE_SECONDS:
            raise JobError(
                f"Kafka delivered no record for {SILENCE_SECONDS:.0f} s, although topic {tps[0].topic!r} has more; "
                "try again"
            )
        found = await consumer.getmany(*tps, timeout_ms=1000, max_records=_FETCH_RECORDS)
        records = [record for tp in sorted(found) for record in found[tp] if ends is None or record.offset < ends[tp]]
        if records:
            yield records


def _fault(value: bytes | None) -> str:
    """Return why a value is no line of JSON; empty if it is one."""
    if value is None:
        return "no value"
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start})"
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return f"not JSON ({error})"
    return ""


def run_consume(lines: TopicLines, write: Callable[[bytes], None]) -> None:
    """Read to the end, on an event loop of its own; raises as `TopicLines.read`."""
    asyncio.run(lines.read(write))
