"""Requests and tokens a minute: a caller waits its turn, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Seconds' worth of allowance that may be used at once after a pause.
BURST_SECONDS = 1.0


class RateLimit:
    """Hands out allowance at an even rate; for one event loop.

    Args:
        per_minute: Units a minute; None: no limit.
        time: Monotonic seconds.
    """

    def __init__(self, per_minute: float | None, time: Callable[[], float]) -> None:
        self._seconds_each = None if per_minute is None else 60.0 / per_minute
        self._time = time
        self._free_at = 0.0

    async def take(self, units: float = 1.0) -> None:
        """Return when so many units may be used."""
        if self._seconds_each is None:
            return
        now = self._time()
        begin = max(self._free_at, now - BURST_SECONDS)
        self._free_at = begin + units * self._seconds_each
        if begin > now:
            await asyncio.sleep(begin - now)

    def pause(self, seconds: float) -> None:
        """Hand out nothing for so long: the provider asked for it."""
        self._free_at = max(self._free_at, self._time() + seconds)
