"""Files of traces into a topic, as fast as the broker takes them or at a given rate."""

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
from gapwatch.streams.sources.topic_check import wait_for_topic

#: Seconds in which a broker must have answered once; a person sits in front of this command.
PATIENCE_SECONDS = 15.0
#: The client's own limit, above that of the contract (10,000,000 bytes): what a record may be, the broker says.
MAX_REQUEST_BYTES = 64 << 20


@dataclass
class PublishResult:
    """What became of the records.

    Attributes:
        sent: Records that the broker has acknowledged.
        sent_bytes: Their values' bytes.
        without_trace_id: Of those sent, the ones with no trace id to be found; they have no key.
        too_large: Records that the broker does not take for their size.
        seconds: How long it took.
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
        files: Paths (plain, .gz, .zst) or `-` for standard input. All must be there before anything is sent.
        kafka: Where to.
        topic: It must exist.
        result: Counted in as it goes, so that it says what was sent when this raises, too.
        rate: Records a second at most; None: as fast as they are taken.
        on_progress: Called now and then.

    Raises:
        SourceError: A file is missing or broken.
        UsageError: The topic is missing, or the login is refused.
        JobError: The broker does not answer, or answers with an error; what was acknowledged stays.
    """
    sources = [FileSource(path) for path in files]
    try:
        await _require_topic(kafka, topic)
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
        raise JobError(f"publishing to {topic!r} at {kafka.brokers} stopped: {error!r}") from error
    finally:
        for source in sources:
            source.close()


async def _require_topic(kafka: KafkaSettings, topic: str) -> None:
    waiting_for: list[str] = []
    try:
        await asyncio.wait_for(wait_for_topic(kafka, topic, waiting_for.append), PATIENCE_SECONDS)
    except TimeoutError as error:
        raise JobError(waiting_for[-1] if waiting_for else f"no answer from Kafka at {kafka.brokers}") from error


class _Sending:
    """The records on their way."""

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
        """Note the time, and raise what went wrong; the producer has stopped, so every record is answered."""
        await asyncio.sleep(0)  # the last callbacks
        self.result.seconds = time.monotonic() - self._began
        if self._error is not None:
            raise self._error


def _trace_id(record: bytes) -> bytes | None:
    """Return the record's key; None where it has no trace id. What is no envelope is sent all the same."""
    try:
        trace_id = orjson.loads(record)["trace_id"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if isinstance(trace_id, str):
        return trace_id.encode()
    return None if trace_id is None else orjson.dumps(trace_id)
