"""Feed of a store: its pending requests, and the writer thread that stores their verdicts."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.batch_journal import BatchJournal
from gapwatch.sinks.verdicts.call_counts import JudgeSamples
from gapwatch.sinks.verdicts.open_requests import OpenRequests, WaitingRequest
from gapwatch.streams.judges.batches.batch_lane import InStoreThread
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import Deliver, NextRequest

T = TypeVar("T")

#: Seconds between two checks without a wake-up, and between two reports of the circuit breakers.
_LOOK_SECONDS, _REPORT_SECONDS = 2.0, 1.0


class StoreFeed:
    """Reads requests through cursors of a store, and stores their judgements on its writer thread.

    Args:
        store: The store.
        store_thread: The writer thread.
        close: Stores judgements; called on the writer thread.
        live: Counts of a live run, whose requests the feed follows, and to which it reports outages; requests of other
            lanes are left to `gapwatch judge run`. None: all requests that wait now, and no more.
    """

    def __init__(
        self,
        store: Store,
        store_thread: Executor,
        close: Callable[[Sequence[Judgement]], object],
        live: JudgeSamples | None = None,
    ) -> None:
        self._store, self._store_thread, self._close, self._live = store, store_thread, close, live
        self.follows = live is not None
        self._requests: list[StoredRequests] = []
        self._judging: Judging | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self, judging: Judging, lanes: Sequence[str]) -> None:
        """Make ready to read the requests of these entries of `providers`."""
        self._judging, self._loop = judging, asyncio.get_running_loop()

    def wake(self) -> None:
        """Check for new requests now; may be called on any thread."""
        if self._loop is not None:  # before there is a loop, nothing was read yet
            with contextlib.suppress(RuntimeError):  # the loop has ended
                for requests in self._requests:
                    self._loop.call_soon_threadsafe(requests.wake)

    def lane(self, name: str) -> tuple[NextRequest, Deliver]:
        """Return what gives the requests of one lane, and what takes their judgements."""
        judging = self._judging
        assert judging is not None

        def wants(request: JudgeRequest) -> bool:
            return (request.lane == "live" or not self.follows) and judging.knows(request, name)

        requests = StoredRequests(OpenRequests(self._store.cursor), wants, follows=self.follows)
        self._requests.append(requests)
        return requests.next, self._deliver

    async def _deliver(self, batch: Sequence[Judgement]) -> None:
        await self._in_store_thread(lambda: self._close(batch))

    async def journal(self) -> tuple[BatchJournal, InStoreThread]:
        """Return the journal of batches of the store, and what runs its steps on the writer thread."""
        return await self._in_store_thread(lambda: BatchJournal(self._store)), self._in_store_thread

    async def _in_store_thread(self, step: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, step)

    async def report(self, judging: Judging) -> None:
        """Report circuit breakers and outages to the counts of the live run."""
        while self._live is not None:
            self._live.breakers(f"here-{os.getpid()}", judging.breaker_states(), judging.outages())
            await asyncio.sleep(_REPORT_SECONDS)


class StoredRequests:
    """Returns each pending request once; for one event loop.

    Args:
        pages: Reads requests page by page; used by this object alone.
        wants: Returns True for the requests of this lane; others stay pending.
        follows: True: wait for later requests. False: end after the requests that are pending now.
    """

    def __init__(self, pages: OpenRequests, wants: Callable[[JudgeRequest], bool], *, follows: bool) -> None:
        self._pages, self._wants, self._follows = pages, wants, follows
        self._ready: deque[WaitingRequest] = deque()
        self._is_over = False
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Check for new requests now; call it on the event loop."""
        self._news.set()

    async def next(self) -> WaitingRequest | None:
        """Wait for the next request and return it; None at the end."""
        while not self._ready and not self._is_over:
            async with self._reading:
                if not self._ready and not self._is_over:
                    await self._read()
        return self._ready.popleft() if self._ready else None

    async def _read(self) -> None:
        """Read one page; after the last one, wait for a wake-up or `_LOOK_SECONDS`."""
        self._news.clear()
        page = await asyncio.to_thread(self._pages.read)
        self._ready.extend(waiting for waiting in page if self._wants(waiting.request))
        if page:
            return
        self._is_over = not self._follows
        if self._follows:
            try:
                await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)
            except TimeoutError:
                return
