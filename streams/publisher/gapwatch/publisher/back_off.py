"""Exponential back-off with jitter between attempts to reach a broker or a service.

Half of each wait is random: without jitter, all processes that lost their broker at one moment would reconnect at one
moment. Only the standard library is imported, because pipelines import this file with the publisher.
"""

from __future__ import annotations

import asyncio
import random

#: Seconds of the first and of the longest wait for a broker.
FIRST_SECONDS, LONGEST_SECONDS = 0.5, 15.0


class BackOff:
    """Waiting times of one operation that is retried.

    Args:
        first: Upper bound of the first wait in seconds; it doubles with each wait.
        longest: Upper bound of every wait in seconds.
    """

    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def reset(self) -> None:
        """Start again from the first wait; call it after a success."""
        self._next = self._first

    def next_seconds(self) -> float:
        """Return the next wait in seconds, at random from half of its upper bound to all of it."""
        seconds, self._next = self._next, min(2 * self._next, self._longest)
        return seconds * random.uniform(0.5, 1.0)  # noqa: S311 (no secret)

    async def wait(self) -> None:
        """Sleep for the next wait."""
        await asyncio.sleep(self.next_seconds())
