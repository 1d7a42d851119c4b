"""Sends the traces of the buffer to a Kafka topic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from typing import Any

from gapwatch.publisher.back_off import FIRST_SECONDS, BackOff
from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.publisher.sender import LOOK_SECONDS, MAX_RECORD_BYTES, BufferedTrace, TraceSender

#: Most records sent and not yet acknowledged. With fewer a slow link would be idle; more would only move the queue
#: from the buffer into the client.
MAX_UNACKNOWLEDGED = 1_000
COMPRESSIONS = ("gzip", "lz4", "zstd", "snappy")


class _SenderLoop(asyncio.SelectorEventLoop):
    """Event loop that also works at the end of the process, when the interpreter starts no more threads.

    There a host name is resolved on the thread of this loop, which nothing but the publisher waits for.
    """

    async def getaddrinfo(self, host: Any, port: Any, **options: int) -> Any:
        """Resolve a host name."""
        try:
            return await super().getaddrinfo(host, port, **options)
        except RuntimeError:
            return socket.getaddrinfo(host, port, **options)

    async def shutdown_default_executor(self, *options: Any) -> None:
        """End the threads that resolve names."""
        with contextlib.suppress(RuntimeError):
            await super().shutdown_default_executor(*options)


class KafkaSender(TraceSender):
    """Sends traces to a topic, from an event loop on the sender's thread.

    Args:
        settings: The cluster.
        topic: Topic to publish to.
        max_traces: Most traces in the buffer.
        max_bytes: Most bytes in the buffer.
        compression: Of `COMPRESSIONS`; None sends uncompressed.

    Raises:
        SettingsError: A package or certificate is missing, or the compression is unknown.
    """

    def __init__(
        self, settings: KafkaSettings, topic: str, max_traces: int, max_bytes: int, compression: str | None = None
    ) -> None:
        # Imported here, not in the thread: if the process forks during an import, the child has half a module.
        try:
            import aiokafka.codec
            import aiokafka.errors
        except ImportError as error:
            missing = (error.name or "aiokafka").partition(".")[0]
            raise SettingsError(
                f"{missing} cannot be imported, which is needed for Kafka; run: pip install aiokafka"
            ) from error
        _check_compression(compression, aiokafka.codec)
        self._aiokafka, self._errors = aiokafka, aiokafka.errors
        self._client_options = settings.client_options()
        self._settings, self._topic, self._compression = settings, topic, compression
        super().__init__(f"topic {topic!r} at {settings.brokers}", max_traces, max_bytes)

    def _reset(self) -> None:
        super()._reset()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None

    # --- any thread, under the lock

    def _wake_up(self) -> None:
        assert self._loop is not None and self._wake is not None  # set before the thread is idle
        with contextlib.suppress(RuntimeError):  # the loop has ended; the thread looks itself when it starts again
            self._loop.call_soon_threadsafe(self._wake.set)

    def _end_work(self) -> None:
        if self._loop is not None and self._main is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._main.cancel)

    # --- the sender's thread

    def _work(self) -> None:
        with contextlib.suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=_SenderLoop) as runner:
            runner.run(self._send_all())

    async def _send_all(self) -> None:
        with self._lock:
            self._loop, self._wake, self._main = asyncio.get_running_loop(), asyncio.Event(), asyncio.current_task()
            if self._has_to_end:  # `close` came before there was a task to cancel
                return
        wake, unacknowledged = self._wake, asyncio.Semaphore(MAX_UNACKNOWLEDGED)
        producer = await self._connect()
        try:
            while True:
                item = self._take()
                if item is not None:
                    await self._send_one(producer, item, unacknowledged)
                    continue
                look = self._loop.call_later(LOOK_SECONDS, wake.set)
                await wake.wait()
                look.cancel()
                wake.clear()
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
                linger_ms=20,
                max_request_size=MAX_RECORD_BYTES + 100_000,
                compression_type=self._compression,
            )
            try:
                await producer.start()
            except (self._errors.KafkaError, OSError) as error:
                await producer.stop()
                is_away = isinstance(error, self._errors.KafkaConnectionError)
                why = "no broker accepts a connection" if is_away else error
                self._report_failure(
                    f"cannot reach Kafka at {self._settings.brokers}: {why}; traces wait in the buffer, "
                    "the publisher tries again"
                )
            except BaseException:
                await producer.stop()
                raise
            else:
                return producer
            await back_off.wait()

    async def _send_one(self, producer: Any, item: BufferedTrace, unacknowledged: asyncio.Semaphore) -> None:
        if not self._encode(item):
            return
        await unacknowledged.acquire()
        try:
            future = await producer.send(self._topic, value=item.data, key=item.key)
        except Exception as error:
            unacknowledged.release()
            self._failed(item, error)
            if isinstance(error, self._errors.KafkaError) and error.retriable:
                await asyncio.sleep(FIRST_SECONDS)
        else:
            future.add_done_callback(lambda done: self._answered(item, done, unacknowledged))

    def _answered(self, item: BufferedTrace, future: asyncio.Future[Any], unacknowledged: asyncio.Semaphore) -> None:
        unacknowledged.release()
        if future.cancelled():
            if not self._has_to_end:
                self._put_back(item)
            return
        error = future.exception()
        if error is not None:
            self._failed(item, error)
            return
        # Before the trace counts as sent: whoever waits for it finds the line in the log.
        self._outage.worked(f"topic {self._topic!r} at {self._settings.brokers} takes traces again")
        self._settle(item, "sent")

    def _failed(self, item: BufferedTrace, error: BaseException) -> None:
        errors, outage = self._errors, self._outage
        if isinstance(error, errors.MessageSizeTooLargeError):
            outage.say(
                "too_large",
                f"a trace of {len(item.data)} bytes is larger than topic {self._topic!r} takes and is dropped; "
                "raise its max.message.bytes",
            )
            self._settle(item, "too_large")
        elif isinstance(error, errors.KafkaError) and error.retriable:
            self._report_failure(
                f"topic {self._topic!r} at {self._settings.brokers} does not take traces: {error!r}; "
                "the publisher tries again"
            )
            self._put_back(item)
        else:
            is_forbidden = isinstance(error, errors.TopicAuthorizationFailedError)
            hint = "; allow this user to write to the topic" if is_forbidden else ""
            outage.say("refused", f"topic {self._topic!r} refused a trace, which is dropped: {error!r}{hint}")
            self._settle(item, "refused")


def _check_compression(compression: str | None, codec: Any) -> None:
    if compression is None:
        return
    if not isinstance(compression, str) or compression not in COMPRESSIONS:
        raise SettingsError(f"compression is {compression!r}; expected one of {', '.join(COMPRESSIONS)}")
    if not getattr(codec, f"has_{compression}")():
        raise SettingsError(f"compression {compression!r} needs the package cramjam; run: pip install cramjam")


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
