"""The requests of lane live that wait in a store for some providers, one after the other, as slices are kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import duckdb

from scorers.judges.request import JudgeRequest
from streams.judges.judging import Judging

#: Requests read at once; each holds its inputs.
_READ = 200
#: Seconds between looks where nobody wakes it.
_LOOK_SECONDS = 2.0


class StoredRequests:
    """Reads what waits, each request once; for one event loop.

    Args:
        cursor: Gives a connection for reading the store.
        judging: Says whose requests can be judged; others stay open.
        providers: Name of their entry among the providers.
    """

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], judging: Judging, providers: str) -> None:
        self._cursor, self._judging, self._providers = cursor, judging, providers
        self._ready: deque[tuple[str, JudgeRequest]] = deque()
        self._after: tuple[int, str] = (-1, "")
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()

    def wake(self) -> None:
        """There may be more; on the event loop."""
        self._news.set()

    async def next(self) -> tuple[str, JudgeRequest]:
        """Return the next request with its id, when there is one."""
        while not self._ready:
            async with self._reading:
                if self._ready:
                    break
                self._news.clear()
                if not await asyncio.to_thread(self._read):
                    try:
                        await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)
                    except TimeoutError:
                        continue
        return self._ready.popleft()

    def _read(self) -> bool:
        """Read on; False where nothing was left."""
        cursor = self._cursor()
        try:
            rows = cursor.execute(
                """SELECT seq, id, "value" FROM judge_requests r ANTI JOIN judge_closed c ON c.id = r.id
                    WHERE seq >= ? AND (seq, id) > (?, ?) ORDER BY seq, id LIMIT ?""",
                [self._after[0], *self._after, _READ],
            ).fetchall()
        finally:
            cursor.close()
        for seq, id_, value in rows:
            request = JudgeRequest.from_json(value)
            if request.lane == "live" and self._judging.knows(request, self._providers):
                self._ready.append((id_, request))
            self._after = (seq, id_)
        return bool(rows)
