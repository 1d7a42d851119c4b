"""Reads the pending requests of one lane from a store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.sinks.verdicts.open_requests import OpenRequests, WaitingRequest

#: Seconds between two checks without a wake-up.
_LOOK_SECONDS = 2.0


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
