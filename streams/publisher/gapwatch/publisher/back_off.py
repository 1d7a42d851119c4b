"""Waits between attempts at something that is away: longer each time, half of it by chance.

Without chance a fleet that lost its broker in one moment would come back in step. The standard library only: the
publisher, which other people's pipelines import, waits by this too.
"""

from __future__ import annotations

import asyncio
import random

#: Seconds of the first wait and of the longest, for a broker.
FIRST_SECONDS, LONGEST_SECONDS = 0.5, 15.0


class BackOff:
    """The waits of one thing that tries again.

    Args:
        first: Seconds of the first wait; each is twice as long as the one before.
        longest: Seconds that none exceeds.
    """

    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def begin_anew(self) -> None:
        """It went well: the next wait is the first again."""
        self._next = self._first

    def next_seconds(self) -> float:
        """Return how long to wait now; the next time it is twice as long."""
        seconds, self._next = self._next, min(2 * self._next, self._longest)
        return seconds * random.uniform(0.5, 1.0)  # noqa: S311 (nobody gains by guessing it)

    async def wait(self) -> None:
        """Wait."""
        await asyncio.sleep(self.next_seconds())
