"""Sends finished traces from a thread of its own, so that a slow or missing broker never delays the pipeline."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  # before our exit hook, which must run before the one it registers
import contextlib
import logging
import os
import threading
import time
import weakref
from collections import Counter, deque
from typing import Any

from gapwatch.publisher.back_off import FIRST_SECONDS, BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.publisher.recording import Span, Trace, encode_trace

log = logging.getLogger("gapwatch.publisher")

#: Bytes of the largest record that Gapwatch reads; a larger one would be a dead letter.
MAX_RECORD_BYTES = 10_000_000
#: Most records sent and not yet acknowledged. With fewer a slow link would be idle; more would only move the queue
#: from the buffer into the client.
MAX_UNACKNOWLEDGED = 1_000
#: Most seconds that the end of the process waits for unsent traces.
EXIT_SECONDS = 5.0
#: Seconds between two log lines about failures.
QUIET_SECONDS = 60.0


class _Item:
    """One trace on its way to the broker."""

    __slots__ = ("data", "key", "size", "spans", "trace")

    def __init__(self, trace: Trace, spans: list[Span], size: int) -> None:
        self.trace: Trace | None = trace
        self.spans: list[Span] | None = spans
        self.size = size
        self.key = b""
        self.data: bytes | None = None


class TraceSender:
    """A bounded buffer of traces, and the thread that sends them to a topic.

    Args:
        settings: The cluster.
        topic: Topic to publish to.
        max_traces: Most traces in the buffer.
        max_bytes: Most bytes in the buffer.
        producer: Further arguments of `AIOKafkaProducer`.

    Attributes:
        counts: `sent`, and dropped traces by cause: `buffer_full`, `too_large`, `not_json`, `refused`, `closed`.
    """

    def __init__(self, settings: KafkaSettings, topic: str, max_traces: int, max_bytes: int, **producer: Any) -> None:
        # Imported here, not in the thread: if the process forks during an import, the child has half a module.
        import aiokafka.errors

        self._aiokafka = aiokafka
        self._errors = aiokafka.errors
        self._client_options = settings.client_options()
        self._settings = settings
        self._topic = topic
        self._max_traces, self._max_bytes = max_traces, max_bytes
        self._producer_options = producer
        self._reset()
        _SENDERS.add(self)

    def _reset(self) -> None:
        """Empty the buffer and the counts; in a forked child, because the parent sends its traces itself."""
        self.counts: Counter[str] = Counter()
        self._waiting: deque[_Item] = deque()
        self._pending, self._pending_bytes = 0, 0
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None
        self._is_closed = False
        self._said_at = float("-inf")

    # --- the pipeline's side

    def offer(self, trace: Trace, spans: list[Span], size: int) -> bool:
        """Put a finished trace into the buffer, or drop and count it; never waits.

        Args:
            trace: The trace; must not be changed afterwards.
            spans: Its spans that have ended.
            size: Approximate size in bytes.

        Returns:
            True if the buffer took it.
        """
        with self._lock:
            if self._is_closed:
                self.counts["closed"] += 1
                return False
            if self._pending >= self._max_traces or self._pending_bytes + size > self._max_bytes:
                self.counts["buffer_full"] += 1
                return False
            self._pending += 1
            self._pending_bytes += size
            was_empty = not self._waiting
            self._waiting.append(_Item(trace, spans, size))
            if self._thread is None:
                self._start_thread()
        if was_empty:
            self._wake_up()
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until every trace in the buffer is acknowledged or dropped; False if `seconds` were too short."""
        with self._settled:
            return self._settled.wait_for(lambda: self._pending == 0, seconds)

    def close(self, seconds: float) -> bool:
        """Flush for at most `seconds` and end the thread; later traces are dropped. False if unsent traces were lost.

        A second call does nothing.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            if self._is_closed:
                return self._pending == 0
            self._is_closed = True
            thread = self._thread
        if thread is None:
            return True
        done = self.flush(seconds)
        with self._lock:
            loop, main, left = self._loop, self._main, self._pending
        if loop is not None and main is not None and not loop.is_closed():
            loop.call_soon_threadsafe(main.cancel)
        thread.join(max(1.0, deadline - time.monotonic()))
        if left:
            log.warning("the publisher closed with %d traces unsent; they are lost", left)
        return done

    @property
    def pending(self) -> int:
        """Number of traces that are neither acknowledged nor dropped yet."""
        return self._pending

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run_thread, name="gapwatch-publisher", daemon=True)
        self._thread.start()

    def _wake_up(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(wake.set)

    # --- the thread's side

    def _run_thread(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._say(f"the publisher's thread ended by an error: {error!r}; all further traces are dropped")
            with self._settled:
                self._is_closed = True
                self.counts["closed"] += self._pending
                self._pending = self._pending_bytes = 0
                self._waiting.clear()
                self._settled.notify_all()

    async def _run(self) -> None:
        self._main = asyncio.current_task()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._unacknowledged = asyncio.Semaphore(MAX_UNACKNOWLEDGED)
        producer = await self._connect()
        try:
            while True:
                while self._waiting:
                    await self._send_one(producer, self._waiting.popleft())
                self._wake.clear()
                if not self._waiting:  # a trace that came before `clear` is not announced again
                    await self._wake.wait()
        finally:
            try:
                await asyncio.wait_for(producer.stop(), 1.0)
            except (Exception, asyncio.CancelledError):
                await producer.client.close()

    async def _connect(self) -> Any:
        _quieten_client(threading.get_ident())
        back_off = BackOff()
        while True:
            producer = self._aiokafka.AIOKafkaProducer(
                **self._client_options,
                **{"linger_ms": 20, "max_request_size": MAX_RECORD_BYTES + 100_000, **self._producer_options},
            )
            try:
                await producer.start()
            except (self._errors.KafkaError, OSError) as error:
                await producer.stop()
                self._say(
                    f"cannot reach Kafka at {self._settings.brokers}: {error}; traces wait in the buffer, "
                    "the publisher tries again"
                )
            except BaseException:
                await producer.stop()
                raise
            else:
                return producer
            await back_off.wait()

    async def _send_one(self, producer: Any, item: _Item) -> None:
        if item.data is None and not self._encode(item):
            return
        await self._unacknowledged.acquire()
        try:
            future = await producer.send(self._topic, value=item.data, key=item.key)
        except Exception as error:
            self._unacknowledged.release()
            self._failed(item, error)
            if isinstance(error, self._errors.KafkaError) and error.retriable:
                await asyncio.sleep(FIRST_SECONDS)
        else:
            future.add_done_callback(lambda done: self._answered(item, done))

    def _encode(self, item: _Item) -> bool:
        assert item.trace is not None and item.spans is not None
        try:
            item.key = item.trace.trace_id.encode("utf-8", "replace")
            item.data = encode_trace(item.trace, item.spans)
        except Exception as error:
            self._say(f"a trace cannot be written as JSON and is dropped: {error}")
            self._settle(item, "not_json")
            return False
        item.trace = item.spans = None
        if len(item.data) > MAX_RECORD_BYTES:
            self._settle(item, "too_large")
            return False
        return True

    def _answered(self, item: _Item, future: asyncio.Future[Any]) -> None:
        self._unacknowledged.release()
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._failed(item, error)
        elif not future.cancelled():
            self._settle(item, "sent")

    def _failed(self, item: _Item, error: BaseException) -> None:
        errors = self._errors
        if isinstance(error, errors.MessageSizeTooLargeError):
            self._say(
                f"a trace of {len(item.data or b'')} bytes is larger than topic {self._topic!r} takes and is dropped; "
                "raise its max.message.bytes"
            )
            self._settle(item, "too_large")
        elif isinstance(error, errors.KafkaError) and error.retriable:
            self._say(
                f"topic {self._topic!r} at {self._settings.brokers} does not take traces: {error!r}; "
                "the publisher tries again"
            )
            self._waiting.appendleft(item)
            if self._wake is not None:
                self._wake.set()
        else:
            is_forbidden = isinstance(error, errors.TopicAuthorizationFailedError)
            hint = "; allow this user to write to the topic" if is_forbidden else ""
            self._say(f"topic {self._topic!r} refused a trace, which is dropped: {error!r}{hint}")
            self._settle(item, "refused")

    def _settle(self, item: _Item, outcome: str) -> None:
        with self._settled:
            self.counts[outcome] += 1
            self._pending -= 1
            self._pending_bytes -= item.size
            if self._pending == 0:
                self._settled.notify_all()

    def _say(self, text: str) -> None:
        """Log at most one line in `QUIET_SECONDS`: the log belongs to the pipeline."""
        now = time.monotonic()
        if now - self._said_at >= QUIET_SECONDS:
            self._said_at = now
            log.warning("%s", text)


#: All senders of this process, for the two hooks below.
_SENDERS: weakref.WeakSet[TraceSender] = weakref.WeakSet()


def _reset_in_child() -> None:
    for sender in list(_SENDERS):
        sender._reset()


def _close_at_exit() -> None:
    for sender in list(_SENDERS):
        sender.close(EXIT_SECONDS)


os.register_at_fork(after_in_child=_reset_in_child)
# As early as the hook of `concurrent.futures`: later, neither DNS nor new threads work.
getattr(threading, "_register_atexit", atexit.register)(_close_at_exit)


class _NotFromThread(logging.Filter):
    def __init__(self, thread: int) -> None:
        super().__init__()
        self._thread = thread

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread


def _quieten_client(thread: int) -> None:
    """Suppress aiokafka's log lines of this thread: an outage of one minute would write thousands."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "aiokafka":
            logging.getLogger(name).addFilter(_NotFromThread(thread))
