"""`TopicClock`: the time by which traces of a topic are closed.

While records wait, it is the time of the records: the least of all partitions, so that no trace is closed before the
part of it in another partition is read. After that it goes on with the wall clock. It stands still while the broker
does not answer, and does not jump when records come again after an outage: what exporters have held back is not late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

#: Seconds without an answer after which the broker counts as away. A fetch without records is answered after 0.2 s.
SILENT_SECONDS = 3.0


class TopicClock:
    """Clock of one session of reading.

    Args:
        monotonic: Clock that only goes forward, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._read: dict[Any, float] = {}
        self._ended: dict[Any, bool] = {}
        #: Time of this clock, and the reading of the other one to it; None until everything that waited is read.
        self._at: float | None = None
        self._since = 0.0

    @property
    def is_caught_up(self) -> bool:
        """True once everything that waited was read."""
        return self._at is not None and all(self._ended.values())

    def record(self, partition: Any, at: float) -> float:
        """Note a record; return its time by this clock.

        Args:
            partition: Its partition.
            at: Its timestamp, seconds since the epoch.
        """
        if self._at is None:
            self._read[partition] = max(at, self._read.get(partition, 0.0))
            return at
        return min(at, self._present())

    def at_end(self, partition: Any, *, is_at_end: bool) -> None:
        """Note whether all records of a partition are read."""
        self._ended[partition] = is_at_end

    def now(self, silence: float) -> float:
        """Return the time up to which traces may be closed.

        Args:
            silence: Seconds since the broker last answered.
        """
        if self._at is None:
            if not self._ended or not all(self._ended.values()):
                waiting = [self._read.get(one, 0.0) for one, is_at_end in self._ended.items() if not is_at_end]
                return min([*waiting, *([max(self._read.values())] if self._read else [])], default=0.0)
            self._at, self._since = max(self._read.values(), default=time.time()), self._monotonic()
            return self._at
        if silence > SILENT_SECONDS:
            self._since = self._monotonic()
            return self._at
        self._at, self._since = self._present(), self._monotonic()
        return self._at

    def _present(self) -> float:
        assert self._at is not None
        return self._at + self._monotonic() - self._since
