"""Pages through the open judge requests of a store, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import duckdb

from gapwatch.scorers.judges.request import JudgeRequest

#: Requests of one page, which are held in memory with their inputs.
PAGE_REQUESTS = 200
#: Number of ids read at once. They are small; without them, each page would be searched among all open requests.
_IDS = 10_000

_OPEN_IDS = """SELECT seq, id FROM internal.judge_requests ANTI JOIN internal.judge_closed USING (id)
    WHERE seq >= ? AND (seq, id) > (?, ?) ORDER BY seq, id LIMIT ?"""
_OPEN_REQUESTS = """SELECT r.id, r."value", epoch(o.kept_at)
    FROM internal.judge_requests r ANTI JOIN internal.judge_closed c USING (id) LEFT JOIN offsets o ON o.seq = r.seq
    WHERE r.seq BETWEEN ? AND ? AND r.id IN (SELECT unnest(?)) ORDER BY r.seq, r.id"""


class WaitingRequest(NamedTuple):
    """Request that waits for its judgement.

    Attributes:
        id: Its id.
        request: The request, as scoring wrote it.
        asked_at: Time at which it was stored, seconds since 1970; None if that is not known.
    """

    id: str
    request: JudgeRequest
    asked_at: float | None


class OpenRequests:
    """Reads each open request once. New requests come in later pages.

    Args:
        cursor: Returns a connection that reads the store.
    """

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._cursor = cursor
        self._ids: deque[tuple[int, str]] = deque()
        self._after: tuple[int, str] = (-1, "")

    def read(self) -> list[WaitingRequest]:
        """Return the next page; empty if no more requests are open now. Not thread-safe."""
        cursor = self._cursor()
        try:
            while page := self._next_ids(cursor):
                # Skips requests that were closed after their id was read, so that nothing is paid twice.
                rows = cursor.execute(_OPEN_REQUESTS, [page[0][0], page[-1][0], [id_ for _, id_ in page]]).fetchall()
                if rows:
                    return [WaitingRequest(id_, JudgeRequest.from_json(value), at) for id_, value, at in rows]
            return []
        finally:
            cursor.close()

    def _next_ids(self, cursor: duckdb.DuckDBPyConnection) -> list[tuple[int, str]]:
        if not self._ids:
            self._ids.extend(cursor.execute(_OPEN_IDS, [self._after[0], *self._after, _IDS]).fetchall())
            self._after = self._ids[-1] if self._ids else self._after
        return [self._ids.popleft() for _ in range(min(PAGE_REQUESTS, len(self._ids)))]
