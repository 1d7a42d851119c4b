"""Rate limit of requests or tokens per minute; callers wait in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Allowance of this many seconds may be used at once after an idle time.
BURST_SECONDS = 1.0


class RateLimit:
    """Grants units at an even rate; for one event loop.

    Args:
        per_minute: Units per minute; None: no limit.
        time: Returns seconds of a monotonic clock.
    """

    def __init__(self, per_minute: float | None, time: Callable[[], float]) -> None:
        self._seconds_each = None if per_minute is None else 60.0 / per_minute
        self._time = time
        self._free_at = 0.0

    async def take(self, units: float = 1.0) -> None:
        """Wait until `units` may be used."""
        if self._seconds_each is None:
            return
        now = self._time()
        begin = max(self._free_at, now - BURST_SECONDS)
        self._free_at = begin + units * self._seconds_each
        if begin > now:
            await asyncio.sleep(begin - now)

    def pause(self, seconds: float) -> None:
        """Grant nothing for `seconds`, because the provider asked for a pause."""
        self._free_at = max(self._free_at, self._time() + seconds)
