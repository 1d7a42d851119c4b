"""Reads the log of whole traces as `SliceSource` reads a topic, for a run without Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

import numpy as np

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.otlp.live.traces_log import TracesLog
from gapwatch.streams.sources.raw_slice import RawSlice

#: Most traces of a slice.
SLICE_TRACES = 4_000
#: Calls of `on_slice` at once: one is scored while the one before is written.
_IN_WORK = 2
#: Seconds between two looks without a wake-up.
_LOOK_SECONDS = 1.0


class LogProgress:
    """Offsets of the log; any thread may read them.

    Args:
        topic: Name of the log in the store.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        #: First line of this run, next line to be stored, next line to be read, end of the log; None before the start.
        self.at: tuple[int, int, int, int] | None = None

    def positions(self) -> dict[int, tuple[int, int, int]]:
        """Return by partition: next offset to be stored, next to be read, end of the log."""
        return {} if self.at is None else {0: self.at[1:]}

    def known_ends(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return by topic and partition the first offset of this run, and one past the last record known to exist."""
        return {} if self.at is None else {(self.topic, 0): (self.at[0], self.at[3])}


class LogSource:
    """Reads a log of traces and passes its slices to a function.

    Args:
        traces: The log.
        topic: Name of the log in the store.
        on_slice: Called with each slice; when it returns, the slice is stored.
        stored_offsets: Returns for partitions the next offset in the store, None for those it does not know.
        progress: Written by this source, for others to read.
        drain_seconds: Most seconds that a stop waits for slices in work.
        is_input_done: Returns whether everything received is in the log, for `is_caught_up`.

    Attributes:
        state: `connecting`, `running`, `stopping` or `stopped`.
        is_clean: False after `run` if slices were still in work at the deadline.
    """

    waiting_for, lost, linger_seconds = "", 0, None

    def __init__(
        self,
        traces: TracesLog,
        topic: str,
        on_slice: Callable[[RawSlice], Awaitable[None]],
        stored_offsets: Callable[[set[int]], Mapping[int, int | None]],
        progress: LogProgress,
        drain_seconds: float,
        is_input_done: Callable[[], bool] = lambda: True,
    ) -> None:
        self._traces, self._topic, self._on_slice = traces, topic, on_slice
        self._stored_offsets, self._drain_seconds, self._is_input_done = stored_offsets, drain_seconds, is_input_done
        self.progress = progress
        self.state, self.is_clean = "connecting", True
        self._failure: BaseException | None = None
        self._stop, self._news = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_work: dict[asyncio.Task[None], int] = {}

    def wake(self) -> None:
        """Look for new traces now; may be called on any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    def stop(self) -> None:
        """Begin to stop; call it on the event loop."""
        self._stop.set()
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """End `run` with this error; no further slice begins."""
        if self._failure is None:
            self._failure = error
        self.stop()

    async def run(self) -> None:
        """Read until `stop` is called.

        Raises:
            UsageError: The store and the log do not belong together.
            BaseException: An error of `on_slice`, or the one given to `fail`.
        """
        self._loop = asyncio.get_running_loop()
        line = first = self._start()
        self._note(first, line)
        self.state = "running"
        try:
            while not self._stop.is_set():
                await self._wait_for_room()
                raw = None if self._stop.is_set() else await asyncio.to_thread(self._read, line)
                if raw is None:
                    if not self._stop.is_set():
                        await self._wait_for_news()
                    continue
                line = raw.to_offset
                task = asyncio.create_task(self._work(raw))
                self._in_work[task] = raw.from_offset
                task.add_done_callback(self._worked)
                self._note(first, line)
        finally:
            self.state = "stopping"
            if self._in_work:
                _, late = await asyncio.wait(self._in_work, timeout=self._drain_seconds)
                self.is_clean = not late
            self.state = "stopped"
        if self._failure is not None:
            raise self._failure

    def is_caught_up(self) -> bool:
        """Return True if every span that was received is in a trace that is stored."""
        at = self.progress.at
        return (
            self.state == "running" and at is not None and not self._in_work and self._is_input_done()
            and at[1] == at[2] == self._traces.lines
        )  # fmt: skip

    def is_connected(self) -> bool:
        """Return True: a file does not go away."""
        return True

    def broker_silence(self) -> float | None:
        """Return 0.0: there is no broker that could be silent."""
        return 0.0

    def _start(self) -> int:
        stored = self._stored_offsets({0}).get(0)
        start = self._traces.first if stored is None else stored
        if start > self._traces.lines or start < self._traces.first:
            raise UsageError(
                f"the store continues at trace {start}, but its log of traces has {self._traces.first} to "
                f"{self._traces.lines}: was the folder of the spool deleted or replaced? Start with a new --store"
            )
        return start

    def _read(self, line: int) -> RawSlice | None:
        values: Collection[bytes] = self._traces.read(line, SLICE_TRACES)
        if not values:
            return None
        now, end = time.time(), line + len(values)
        return RawSlice(
            topic=self._topic, partition=0, from_offset=line, to_offset=end,
            offsets=np.arange(line, end, dtype=np.int64), values=list(values), timestamps=np.full(len(values), now),
            caught_up_at=now if end >= self._traces.lines else None,
        )  # fmt: skip

    async def _work(self, raw: RawSlice) -> None:
        try:
            await self._on_slice(raw)
        except BaseException as error:
            self.fail(error)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._in_work.pop(task)
        assert self.progress.at is not None
        self._note(self.progress.at[0], self.progress.at[2])
        self._news.set()

    def _note(self, first: int, read: int) -> None:
        """Note the first line of this run, and how far the log is read."""
        stored = min(self._in_work.values(), default=read)
        self.progress.at = (first, stored, read, max(read, self._traces.lines))

    async def _wait_for_room(self) -> None:
        while len(self._in_work) >= _IN_WORK and not self._stop.is_set():
            await asyncio.wait(self._in_work, return_when=asyncio.FIRST_COMPLETED)

    async def _wait_for_news(self) -> None:
        assert self.progress.at is not None
        self._note(self.progress.at[0], self.progress.at[2])
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)
        self._news.clear()
