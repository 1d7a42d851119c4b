"""Sums of the last hour of event time, by series: a ring of five-minute slots that a late record still finds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SLOT_SECONDS = 300
#: The slot that is filling and the twelve before it.
SLOTS = 13

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class RateWindow:
    """Sums in columns for each row; rows belong to clocks, and each clock moves by itself.

    Args:
        columns: How many sums a row has.
    """

    def __init__(self, columns: int) -> None:
        self._sums = np.zeros((SLOTS, 0, columns))
        self._clock_of = np.zeros(0, np.int64)
        self._newest: dict[int, int] = {}

    def newest(self, clock: int) -> int | None:
        """Return the number of a clock's newest slot: seconds since 1970 divided by `SLOT_SECONDS`."""
        return self._newest.get(clock)

    def add_row(self, clock: int) -> int:
        """Make a row and return its number."""
        row = len(self._clock_of)
        self._clock_of = np.append(self._clock_of, clock)
        if row >= self._sums.shape[1]:
            more = np.zeros((SLOTS, max(64, self._sums.shape[1]), self._sums.shape[2]))
            self._sums = np.concatenate([self._sums, more], axis=1)
        return row

    def advance(self, clock: int, slot: int) -> None:
        """Move a clock on to a slot; what falls out of its hour is forgotten. A slot of the past changes nothing."""
        newest = self._newest.get(clock)
        if newest is not None and slot <= newest:
            return
        self._newest[clock] = slot
        if newest is None:
            return
        rows = np.flatnonzero(self._clock_of == clock)
        for passed in range(max(newest + 1, slot - SLOTS + 1), slot + 1):
            self._sums[passed % SLOTS, rows] = 0.0

    def add(self, row: int, slot: int | None, sums: FloatArray) -> None:
        """Add to a row; what is older than the hour, or newer than the clock, is not counted.

        Args:
            row: From `add_row`.
            slot: None for what has no time: it counts in the newest slot.
            sums: One number a column.
        """
        newest = self._newest.get(int(self._clock_of[row]))
        if newest is None:
            return
        slot = newest if slot is None else slot
        if newest - SLOTS < slot <= newest:
            self._sums[slot % SLOTS, row] += sums

    def totals(self) -> FloatArray:
        """Return the sums of the hour, rows by columns."""
        totals: FloatArray = self._sums[:, : len(self._clock_of)].sum(axis=0)
        return totals
