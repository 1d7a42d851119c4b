"""Sends files of traces to a topic, as fast as the broker takes them or at a given rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError
from gapwatch.streams.sources.file_source import FileSource
from gapwatch.streams.sources.topic_check import require_topic

#: Limit of the client in bytes; larger than any trace (10,000,000 bytes), so that only the broker's limit applies.
MAX_REQUEST_BYTES = 64 << 20


@dataclass
class PublishResult:
    """Counts of published records.

    Attributes:
        sent: Records that the broker has acknowledged.
        sent_bytes: Bytes of their values.
        without_trace_id: Sent records without a trace id; they have no key.
        too_large: Records that are larger than the broker takes; they were not published.
        seconds: Wall time.
    """

    sent: int = 0
    sent_bytes: int = 0
    without_trace_id: int = 0
    too_large: int = 0
    seconds: float = 0.0


async def publish_files(
    files: Iterable[str],
    kafka: KafkaSettings,
    topic: str,
    result: PublishResult,
    rate: float | None = None,
    on_progress: Callable[[FileSource, PublishResult], None] = lambda _source, _result: None,
) -> None:
    """Send each line of the files as one record, keyed by its trace id, in order.

    Args:
        files: Paths (plain, .gz, .zst) or `-` for standard input. All must exist before anything is sent.
        kafka: The cluster.
        topic: Topic to publish to; it must exist.
        result: Updated during the work, so that its counts are right if this function raises.
        rate: Most records per second; None: no limit.
        on_progress: Called with the current file and the counts.

    Raises:
        SourceError: A file is missing or damaged.
        UsageError: The topic does not exist, or the login is refused.
        JobError: The broker does not answer, or answers with an error; acknowledged records stay in the topic.
    """
    sources = [FileSource(path) for path in files]
    try:
        await require_topic(kafka, topic)
        sending = _Sending(topic, result, rate, on_progress)
        producer = AIOKafkaProducer(
            **kafka.client_options(), max_request_size=MAX_REQUEST_BYTES, max_batch_size=1 << 18, linger_ms=5
        )
        await producer.start()
        try:
            for source in sources:
                await sending.send_file(producer, source)
        finally:
            await producer.stop()  # sends what is buffered
            await sending.settle()
    except KafkaError as error:
        raise JobError(f"publishing to topic {topic!r} at {kafka.brokers} failed: {error!r}") from error
    finally:
        for source in sources:
            source.close()


class _Sending:
    """Sends records and counts the broker's answers."""

    def __init__(
        self,
        topic: str,
        result: PublishResult,
        rate: float | None,
        on_progress: Callable[[FileSource, PublishResult], None],
    ) -> None:
        self.result = result
        self._topic, self._rate, self._on_progress = topic, rate, on_progress
        self._began = time.monotonic()
        self._offered = 0
        self._error: BaseException | None = None

    async def send_file(self, producer: AIOKafkaProducer, source: FileSource) -> None:
        slices = source.slices()
        # In a thread: reading may wait for a pipe.
        while (part := await asyncio.to_thread(next, slices, None)) is not None:
            for value in part.values.to_pylist():
                await self._keep_pace()
                await self._send(producer, value)
                if self._offered % 256 == 0 or self._rate is not None:
                    self._on_progress(source, self.result)
            self._on_progress(source, self.result)

    async def _keep_pace(self) -> None:
        if self._rate is not None:
            ahead = self._offered / self._rate - (time.monotonic() - self._began)
            if ahead > 0:
                await asyncio.sleep(ahead)
        self._offered += 1

    async def _send(self, producer: AIOKafkaProducer, value: bytes) -> None:
        if self._error is not None:
            raise self._error
        key = _trace_id(value)
        try:
            future = await producer.send(self._topic, value, key=key)
        except MessageSizeTooLargeError:
            self.result.too_large += 1
            return
        future.add_done_callback(lambda done: self._answered(done, len(value), key is None))

    def _answered(self, future: asyncio.Future[Any], size: int, is_keyless: bool) -> None:
        error = future.exception()
        if error is None:
            self.result.sent += 1
            self.result.sent_bytes += size
            self.result.without_trace_id += is_keyless
        elif isinstance(error, MessageSizeTooLargeError):
            self.result.too_large += 1
        else:
            self._error = self._error or error

    async def settle(self) -> None:
        """Set the time, and raise the first error; the producer has stopped, so every record is answered."""
        await asyncio.sleep(0)  # the last callbacks
        self.result.seconds = time.monotonic() - self._began
        if self._error is not None:
            raise self._error


def _trace_id(record: bytes) -> bytes | None:
    """Return the key of a record; None without a trace id. Invalid records are sent too."""
    try:
        trace_id = orjson.loads(record)["trace_id"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if isinstance(trace_id, str):
        return trace_id.encode()
    return None if trace_id is None else orjson.dumps(trace_id)
