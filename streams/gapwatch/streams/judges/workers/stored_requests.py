"""Hands out the requests that wait in a store for the providers of one lane, one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.sinks.verdicts.open_requests import OpenRequests

#: Seconds between looks where nobody wakes it.
_LOOK_SECONDS = 2.0


class StoredRequests:
    """Hands out each request once; for one event loop.

    Args:
        pages: Of the store; for this object alone.
        wants: Whether a request is for these providers; others stay open.
        follows: Whether to wait for requests that are stored later; otherwise it ends with what waits now.
    """

    def __init__(self, pages: OpenRequests, wants: Callable[[JudgeRequest], bool], *, follows: bool) -> None:
        self._pages, self._wants, self._follows = pages, wants, follows
        self._ready: deque[tuple[str, JudgeRequest]] = deque()
        self._is_over = False
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()

    def wake(self) -> None:
        """There may be more; on the event loop."""
        self._news.set()

    async def next(self) -> tuple[str, JudgeRequest] | None:
        """Return the next request with its id, when there is one; None at the end."""
        while not self._ready and not self._is_over:
            async with self._reading:
                if not self._ready and not self._is_over:
                    await self._read()
        return self._ready.popleft() if self._ready else None

    async def _read(self) -> None:
        """Read one page; at the end wait for news, but not for ever."""
        self._news.clear()
        page = await asyncio.to_thread(self._pages.read)
        self._ready.extend((id_, request) for id_, request in page if self._wants(request))
        if page:
            return
        self._is_over = not self._follows
        if self._follows:
            try:
                await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)
            except TimeoutError:
                return
