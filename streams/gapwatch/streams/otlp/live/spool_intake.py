"""Stores the requests of receivers in the spool: one fsync for all that came while the last one ran."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from gapwatch.streams.otlp.live.spool import Spool
from gapwatch.streams.otlp.receiving.intake import BusyReceiverError, OtlpRequest, Signal, Taken

log = logging.getLogger("gapwatch.otlp")

#: Bytes of the spool that may wait to be assembled. More: 503, and the exporters keep what they have.
BACKLOG_BYTES = 4 << 30
#: Bytes of requests that wait for the disk.
_WAITING_BYTES = 256 << 20
#: Seconds that a request waits for others before the fsync that makes all of them safe.
_GATHER_SECONDS = 0.01

#: Checks a request and says what is rejected in it; raises RefusedRequestError.
Check = Callable[[OtlpRequest], Taken]


class LogClock:
    """Clock of a log in seconds: it stands still while no process receives, so that a restart closes no trace.

    Args:
        last: Clock of the last request in the log.
    """

    def __init__(self, last: float) -> None:
        self._last, self._base = last, time.monotonic()

    def now(self) -> float:
        """Return the time by this clock."""
        return self._last + time.monotonic() - self._base


class SpoolIntake:
    """Takes requests on the event loop of a receiver; several receivers may share it.

    Args:
        spool: The spool.
        clock: Clock of the log.
        check: Checks the body of a request, before it is stored.
        assembled: Returns the position up to which the spool is assembled.
        wake: Called after requests were stored, on another thread.

    Attributes:
        requests: Requests by signal and outcome: `taken`, `dropped`, or the status with which they were refused.
    """

    def __init__(
        self, spool: Spool, clock: LogClock, check: Check, assembled: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        self._spool, self._clock, self._check, self._assembled, self._wake = spool, clock, check, assembled, wake
        self._disk, self._lock = ThreadPoolExecutor(1, "spool"), Lock()
        self._waiting: list[tuple[OtlpRequest, asyncio.Future[None], asyncio.AbstractEventLoop]] = []
        self._waiting_bytes = 0
        self._is_full = False
        #: Clock of the requests that are being stored; None if none are.
        self._storing: float | None = None
        self.requests: Counter[tuple[str, str]] = Counter()

    async def take(self, request: OtlpRequest) -> Taken:
        """Store a request; see `OtlpIntake`."""
        taken = self._check(request)
        if self._spool.end - self._assembled() > BACKLOG_BYTES:
            raise BusyReceiverError("the spool is full: assembly is behind", 10)
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._waiting_bytes > _WAITING_BYTES:
                raise BusyReceiverError("the disk is behind")
            is_first = not self._waiting
            self._waiting.append((request, stored, loop))
            self._waiting_bytes += len(request.body)
        if is_first:
            loop.call_later(_GATHER_SECONDS, self._disk.submit, self._store)
        await stored
        self.requests[request.signal, "taken"] += 1
        return taken

    def note_refused(self, signal: Signal, reason: str) -> None:
        """Count a refused request."""
        self.requests[signal, reason] += 1

    def note_dropped(self, signal: Signal) -> None:
        """Count a dropped request."""
        self.requests[signal, "dropped"] += 1

    def horizon(self) -> float:
        """Return the time by the clock of the log up to which every request is in the spool, or was refused."""
        with self._lock:
            return self._clock.now() if self._storing is None else self._storing

    def close(self) -> None:
        """Finish what is being stored."""
        self._disk.shutdown(wait=True)

    def _store(self) -> None:
        with self._lock:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            clock = self._storing = self._clock.now()
        failure: BusyReceiverError | None = None
        try:
            self._spool.append([request for request, _, _ in waiting], time.time(), clock)
        except OSError as error:
            text = f"the spool cannot be written: {error.strerror or error}"
            failure = BusyReceiverError(text, 10)
            if not self._is_full:
                log.error("%s; exporters are answered 503 and send again", text)
            self._is_full = True
        else:
            if self._is_full:
                log.info("the spool can be written again")
            self._is_full = False
        with self._lock:
            self._storing = None
        # One wake-up for each loop: a wake-up writes to a socket.
        for loop in {loop for _, _, loop in waiting}:
            loop.call_soon_threadsafe(_settle, [stored for _, stored, of in waiting if of is loop], failure)
        self._wake()


def _settle(requests: Sequence[asyncio.Future[None]], failure: Exception | None) -> None:
    for stored in requests:
        if stored.done():  # the exporter has gone
            continue
        if failure is None:
            stored.set_result(None)
        else:
            stored.set_exception(failure)
