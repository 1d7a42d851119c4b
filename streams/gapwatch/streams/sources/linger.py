"""`Linger`: time that fetched records wait for others, because each group of slices has a fixed price."""

from __future__ import annotations

import math

#: Records from which a group does not wait: then its fixed price, as much as that of some 800 records, hardly counts.
ENOUGH_RECORDS = 1_000
# Seconds over which the rate of records is averaged. Longer: a load that begins waits too long. Shorter: it jumps.
_RATE_SECONDS = 5.0
# Least seconds between two measurements of the rate: groups of one fetch are handed over within milliseconds.
_LEAST_SECONDS = 0.05


class Linger:
    """Adapts the wait to the rate of records: long when they are few, short when they fill groups anyway.

    The wait is `most / (1 + rate * most / ENOUGH_RECORDS)`: nearly the longest at a low rate, half of it where the
    longest wait would give `ENOUGH_RECORDS`, and never so long that a group has more than these.

    Args:
        most_seconds: Longest wait.

    Attributes:
        seconds: Present wait; any thread may read it.
    """

    def __init__(self, most_seconds: float) -> None:
        self._most = self.seconds = most_seconds
        self._rate, self._records, self._since = 0.0, 0, -math.inf

    def skip(self) -> None:
        """Wait for nothing until the next records are handed over: what comes after a start or a rebalance is late."""
        self.seconds = 0.0

    def note(self, records: int, now: float) -> None:
        """Count records that are handed over.

        Args:
            records: Their number.
            now: Seconds of a clock that only moves forward.
        """
        self._records += records
        passed = now - self._since
        if passed < _LEAST_SECONDS:
            return
        weight = -math.expm1(-passed / _RATE_SECONDS)
        self._rate += weight * (self._records / passed - self._rate)
        self._records, self._since = 0, now
        self.seconds = self._most / (1.0 + self._rate * self._most / ENOUGH_RECORDS)
