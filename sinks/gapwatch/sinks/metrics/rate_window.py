"""Sums of the last hour of event time by series, in a ring of five-minute slots that also accepts late records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SLOT_SECONDS = 300
#: Number of slots: the one that is being filled and the twelve before it.
SLOTS = 13

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class RateWindow:
    """Several sums for each row. Each row belongs to a clock, and each clock advances independently.

    Args:
        columns: Number of sums of a row.
    """

    def __init__(self, columns: int) -> None:
        self._sums = np.zeros((SLOTS, 0, columns))
        self._clock_of = np.zeros(0, np.int64)
        self._newest: dict[int, int] = {}

    def newest(self, clock: int) -> int | None:
        """Return the number of a clock's newest slot: seconds since 1970 divided by `SLOT_SECONDS`."""
        return self._newest.get(clock)

    def add_row(self, clock: int) -> int:
        """Add a row to a clock and return the number of the row."""
        row = len(self._clock_of)
        self._clock_of = np.append(self._clock_of, clock)
        if row >= self._sums.shape[1]:
            more = np.zeros((SLOTS, max(64, self._sums.shape[1]), self._sums.shape[2]))
            self._sums = np.concatenate([self._sums, more], axis=1)
        return row

    def advance(self, clock: int, slot: int) -> None:
        """Advance a clock to a slot and clear the slots that leave its hour. A past slot changes nothing."""
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
        """Add sums to a row. Slots older than the hour or newer than the clock are ignored.

        Args:
            row: Number of the row, from `add_row`.
            slot: Number of the slot; None for records without a time, which count in the newest slot.
            sums: One number for each column.
        """
        newest = self._newest.get(int(self._clock_of[row]))
        if newest is None:
            return
        slot = newest if slot is None else slot
        if newest - SLOTS < slot <= newest:
            self._sums[slot % SLOTS, row] += sums

    def totals(self) -> FloatArray:
        """Return the sums over the hour; shape (rows, columns)."""
        totals: FloatArray = self._sums[:, : len(self._clock_of)].sum(axis=0)
        return totals
