"""Circuit breaker: after several failures in a row no calls are sent to a provider, except one trial at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Longest time between two trials; a longer one would notice a recovered provider late.
LONGEST_OPEN_SECONDS = 60.0


class Breaker:
    """Circuit breaker of one provider, for one event loop.

    Args:
        failures: Number of failures in a row that opens it.
        open_seconds: Seconds until the first trial; doubles after each failed trial.
        time: Returns seconds of a monotonic clock.
    """

    def __init__(self, failures: int, open_seconds: float, time: Callable[[], float]) -> None:
        self._limit = failures
        self._first_seconds = open_seconds
        self._seconds = open_seconds
        self._time = time
        self._failures = 0
        self._opened_at: float | None = None
        self._trial_at = 0.0
        self._trial_under_way = False
        self._closed = asyncio.Event()
        self._closed.set()

    @property
    def state(self) -> str:
        """`closed`, `open`, or `half_open` during a trial."""
        if self._opened_at is None:
            return "closed"
        return "half_open" if self._trial_under_way else "open"

    @property
    def open_seconds(self) -> float:
        """Seconds since it opened; 0 if it is closed."""
        return 0.0 if self._opened_at is None else self._time() - self._opened_at

    async def wait(self) -> bool:
        """Wait until a call may be sent; True if it is a trial, whose outcome the caller must report."""
        while self._opened_at is not None:
            left = self._trial_at - self._time()
            if left <= 0 and not self._trial_under_way:
                self._trial_under_way = True
                return True
            try:
                await asyncio.wait_for(self._closed.wait(), max(left, 0.02) if not self._trial_under_way else None)
            except TimeoutError:
                continue
        return False

    def succeeded(self) -> None:
        """Report that the provider answered."""
        self._failures = 0
        self._opened_at = None
        self._trial_under_way = False
        self._seconds = self._first_seconds
        self._closed.set()

    def failed(self, was_trial: bool) -> None:
        """Report that the provider did not answer."""
        self._failures += 1
        now = self._time()
        if was_trial:
            self._trial_under_way = False
            self._seconds = min(2 * self._seconds, LONGEST_OPEN_SECONDS)
            self._trial_at = now + self._seconds
            self._wake()
        elif self._opened_at is None and self._failures >= self._limit:
            self._opened_at = now
            self._trial_at = now + self._seconds
            self._closed.clear()

    def abandoned(self) -> None:
        """Report that a trial was cancelled."""
        self._trial_under_way = False
        self._wake()

    def _wake(self) -> None:
        """Wake all waiting calls; one of them may become the next trial."""
        self._closed.set()
        self._closed.clear()
