"""Writes the spans of receivers to a topic, by trace: an exporter is answered 200 after all replicas have them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.splitting import check_payload
from gapwatch.streams.otlp.receiving.intake import (
    BusyReceiverError,
    OtlpRequest,
    RefusedRequestError,
    Signal,
    Taken,
)
from gapwatch.streams.otlp.receiving.regrouping import regroup
from gapwatch.streams.sources.broker_outage import OUTAGE

log = logging.getLogger("gapwatch.otlp")

#: Bytes that wait for the broker, at most. More: 503, and the exporters keep what they have.
BUFFER_BYTES = 128 << 20
#: Seconds that a request waits for the broker; exporters wait 10 s.
SEND_SECONDS = 8.0
_REQUEST_BYTES = 12_000_000


@dataclass(frozen=True)
class IntakeTopics:
    """Topics that receivers write.

    Attributes:
        spans: Topic of spans.
        logs: Topic of log records; empty: log records are dropped.
    """

    spans: str
    logs: str


class KafkaIntake:
    """Takes requests on the event loops of receivers, from `start` to `stop`.

    Args:
        kafka: The cluster.
        topics: Topics to write.

    Attributes:
        requests: Requests by signal and outcome: `taken`, `dropped`, or the status with which they were refused.
        items: Spans and log records by item and state: `sent`, `foreign`, `dead_letter`.
        waiting_for: Reason why nothing can be written now; empty if there is none.
    """

    def __init__(self, kafka: KafkaSettings, topics: IntakeTopics) -> None:
        self._kafka, self._topics = kafka, topics
        self.requests: Counter[tuple[str, str]] = Counter()
        self.items: Counter[tuple[str, str]] = Counter()
        self.waiting_for = "connecting"
        self._producer: Any = None
        self._bytes = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="spans", daemon=True)
        self._connecting: Any = None

    def start(self) -> None:
        """Start to connect; requests that come before are answered 503."""
        self._thread.start()
        self._connecting = asyncio.run_coroutine_threadsafe(self._connect(), self._loop)

    def stop(self, seconds: float) -> bool:
        """Send what waits and disconnect; False if that took longer than `seconds`."""
        self._connecting.cancel()
        stopping = asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop)
        try:
            stopping.result(seconds)
        except TimeoutError:
            return False
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    async def take(self, request: OtlpRequest) -> Taken:
        """Write the spans of a request; see `OtlpIntake`."""
        is_logs = request.signal is Signal.LOGS
        try:
            checked = check_payload(request.body, is_json=request.is_json, is_logs=is_logs)
            regrouped = regroup(request)
        except UndecodableError as error:
            raise RefusedRequestError(str(error)) from None
        topic, item = (self._topics.logs, "log_record") if is_logs else (self._topics.spans, "span")
        if not topic:
            self.note_dropped(request.signal)
            return Taken()
        sending = asyncio.run_coroutine_threadsafe(self._send(topic, regrouped.by_trace), self._loop)
        await asyncio.wrap_future(sending)
        self.requests[request.signal, "taken"] += 1
        for state, n in (("sent", regrouped.items), ("foreign", regrouped.foreign), ("dead_letter", regrouped.dead)):
            self.items[item, state] += n
        return Taken(checked.rejected, checked.reason)

    def note_refused(self, signal: Signal, reason: str) -> None:
        """Count a refused request."""
        self.requests[signal, reason] += 1

    def note_dropped(self, signal: Signal) -> None:
        """Count a dropped request."""
        self.requests[signal, "dropped"] += 1

    # --- on the loop of the producer

    async def _connect(self) -> None:
        back_off = BackOff()
        while True:
            # Not idempotent: such a producer is of no more use after a batch that timed out, and a span that is written
            # twice is counted as a duplicate.
            producer = AIOKafkaProducer(
                **self._kafka.client_options(), acks="all", compression_type="lz4", linger_ms=5,
                max_request_size=_REQUEST_BYTES, request_timeout_ms=int(SEND_SECONDS * 1000),
            )  # fmt: skip
            try:
                await producer.start()
            except (KafkaError, OSError, TimeoutError) as error:
                with contextlib.suppress(Exception):
                    await producer.stop()
                self._failed(error)
                await back_off.wait()
            else:
                self._producer, self.waiting_for = producer, ""
                return

    async def _disconnect(self) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def _send(self, topic: str, by_trace: dict[str, bytes]) -> None:
        size = sum(map(len, by_trace.values()))
        if self._producer is None:
            raise BusyReceiverError(self.waiting_for, 5)
        if self._bytes + size > BUFFER_BYTES:
            raise BusyReceiverError("the buffer is full: the broker does not answer", 5)
        self._bytes += size
        try:
            async with asyncio.timeout(SEND_SECONDS):
                sent: Sequence[Any] = [
                    await self._producer.send(topic, value, key=trace_id.encode())
                    for trace_id, value in by_trace.items()
                ]
                await asyncio.gather(*sent)
            self.waiting_for = ""
        except MessageSizeTooLargeError as error:
            raise RefusedRequestError(f"the spans of a trace are more than topic {topic!r} takes: {error}") from None
        except (KafkaError, OSError, TimeoutError) as error:
            self._failed(error)
            raise BusyReceiverError(self.waiting_for, 5) from None
        finally:
            self._bytes -= size

    def _failed(self, error: BaseException) -> None:
        self.waiting_for = f"Kafka does not take spans: {error!r}"
        OUTAGE.note(self.waiting_for)
