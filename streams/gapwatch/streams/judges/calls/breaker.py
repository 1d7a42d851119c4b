"""Circuit breaker: during an outage no calls are sent, except one trial at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gapwatch.scorers.judges.chat_model import ModelFailure

#: Longest time between two trials; a longer one would notice a recovered provider late.
LONGEST_OPEN_SECONDS = 60.0


class Breaker:
    """Circuit breaker of one provider and key, or of one model; for one event loop.

    Args:
        failures: Number of failures in a row that opens it.
        open_seconds: Seconds until the first trial; doubles after each failed trial.
        time: Returns seconds of a monotonic clock.

    Attributes:
        failure: The last failure during the present outage; None if it is closed.
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
        self._news = asyncio.Event()
        self.failure: ModelFailure | None = None

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

    async def wait(self, gives_up_in: Callable[[], float] = lambda: float("inf")) -> bool:
        """Wait until a call may be sent.

        Args:
            gives_up_in: Returns the seconds that the call still waits.

        Returns:
            True if the call is a trial, whose outcome the caller must report.

        Raises:
            ModelFailure: The call has waited as long as it may; the failure is that of the outage.
        """
        while self._opened_at is not None:
            left = gives_up_in()
            if left <= 0 and self.failure is not None:
                raise ModelFailure(self.failure.kind, self.failure.detail)
            until_trial = self._trial_at - self._time()
            if until_trial <= 0 and not self._trial_under_way:
                self._trial_under_way = True
                return True
            seconds = left if self._trial_under_way else min(max(until_trial, 0.02), left)
            try:
                # Not `wait_for`: it may take a cancellation for the end of its time.
                async with asyncio.timeout(None if seconds == float("inf") else seconds):
                    await self._news.wait()
            except TimeoutError:
                continue
        return False

    def succeeded(self) -> bool:
        """Report that the provider answered; return True if that ends an outage."""
        was_open = self._opened_at is not None
        self._failures = 0
        self._opened_at = self.failure = None
        self._trial_under_way = False
        self._seconds = self._first_seconds
        self._wake()
        return was_open

    def failed(self, was_trial: bool, failure: ModelFailure, at_once: bool = False) -> bool:
        """Report that the provider did not answer; return True if that begins an outage.

        Args:
            was_trial: True if `wait` returned True for the call.
            failure: What happened.
            at_once: True: every other call would fail as well, so one failure opens the breaker.
        """
        self._failures += 1
        now = self._time()
        if was_trial:
            self._trial_under_way = False
            self._seconds = min(2 * self._seconds, LONGEST_OPEN_SECONDS)
            self._trial_at = now + self._seconds
            self.failure = failure
            self._wake()
        elif self._opened_at is None and (at_once or self._failures >= self._limit):
            self._opened_at = now
            self._trial_at = now + self._seconds
            self.failure = failure
            return True
        return False

    def abandoned(self) -> None:
        """Report that a trial ended without an outcome."""
        self._trial_under_way = False
        self._wake()

    def _wake(self) -> None:
        """Wake all waiting calls; one of them may become the next trial."""
        self._news.set()
        self._news.clear()
