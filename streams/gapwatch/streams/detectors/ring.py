"""Ring: recent units of each series, as its last single buckets, and before them its last hours.

The ring serves to roll a baseline back, to find the 95 % set of a change point, and to build the new baseline when a
person accepts a change.

    |<------- hours (one slot per hour and context) ------->|<--- buckets, one by one --->| now
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Floats, Ints
from gapwatch.streams.detectors.contexts import TICKS_AN_HOUR


@dataclass(frozen=True)
class Entry:
    """Units of one slot.

    Attributes:
        first: First bucket in the slot.
        last: Last bucket in the slot.
        context: Stratum times 168 plus hour of the week.
        counts: Units by bin.
    """

    first: int
    last: int
    context: int
    counts: Floats


class Ring:
    """Slots of many series. A slot is used only for a bucket with units, so a quiet series reaches further back.

    Attributes:
        arrays: State arrays by name; the last axis is the series. A bucket of 0 marks an empty slot.
        buckets: Number of slots for single buckets.
        hours: Number of slots for hours.
    """

    def __init__(self, arrays: dict[str, Array], buckets: int, hours: int) -> None:
        self.arrays = arrays
        self.buckets = buckets
        self.hours = hours

    @staticmethod
    def layout(bins: int, buckets: int, hours: int, count_type: type) -> dict[str, tuple[tuple[int, ...], type]]:
        """Return shape (without the series) and type of each array."""
        return {
            "ring_bucket": ((buckets,), np.uint32),
            "ring_context": ((buckets,), np.uint16),
            "ring_counts": ((buckets, bins), count_type),
            "ring_next": ((), np.uint16),
            "hour_first": ((hours,), np.uint32),
            "hour_last": ((hours,), np.uint32),
            "hour_context": ((hours,), np.uint16),
            "hour_counts": ((hours, bins), count_type),
            "hour_next": ((), np.uint16),
        }

    def write(self, rows: Ints, bucket: int, context: int, counts: Floats) -> None:
        """Write one bucket of some series, shape (bins, series); the bucket that it overwrites is added to its hour."""
        if not self.buckets or not len(rows):
            return
        a = self.arrays
        slot = a["ring_next"][rows].astype(np.int64)
        pushed = a["ring_bucket"][slot, rows] > 0
        if self.hours and pushed.any():
            self._keep_hour(rows[pushed], slot[pushed])
        a["ring_bucket"][slot, rows] = bucket
        a["ring_context"][slot, rows] = context
        a["ring_counts"][slot, :, rows] = counts.T
        a["ring_next"][rows] = (slot + 1) % self.buckets

    def _keep_hour(self, rows: Ints, slot: Ints) -> None:
        a = self.arrays
        bucket = a["ring_bucket"][slot, rows]
        context = a["ring_context"][slot, rows]
        target = (a["hour_next"][rows].astype(np.int64) - 1) % self.hours
        same = (a["hour_last"][target, rows] // TICKS_AN_HOUR == bucket // TICKS_AN_HOUR) & (
            a["hour_context"][target, rows] == context
        )
        target = np.where(same, target, a["hour_next"][rows])
        a["hour_first"][target, rows] = np.where(same, a["hour_first"][target, rows], bucket)
        a["hour_last"][target, rows] = bucket
        a["hour_context"][target, rows] = context
        counts = a["ring_counts"][slot, :, rows]
        a["hour_counts"][target, :, rows] = np.where(same[:, None], a["hour_counts"][target, :, rows] + counts, counts)
        a["hour_next"][rows] = (target + 1) % self.hours

    def clear(self, row: int) -> None:
        """Empty all slots of one series."""
        for name in ("ring_bucket", "hour_first", "hour_last", "ring_next", "hour_next"):
            self.arrays[name][..., row] = 0

    def entries(self, row: int) -> list[Entry]:
        """Return the entries of one series, oldest first."""
        a = self.arrays
        found = []
        for step in range(self.hours):
            slot = (int(a["hour_next"][row]) + step) % self.hours
            if a["hour_last"][slot, row]:
                counts = a["hour_counts"][slot, :, row].astype(np.float64)
                first, last = int(a["hour_first"][slot, row]), int(a["hour_last"][slot, row])
                found.append(Entry(first, last, int(a["hour_context"][slot, row]), counts))
        for step in range(self.buckets):
            slot = (int(a["ring_next"][row]) + step) % self.buckets
            if bucket := int(a["ring_bucket"][slot, row]):
                counts = a["ring_counts"][slot, :, row].astype(np.float64)
                found.append(Entry(bucket, bucket, int(a["ring_context"][slot, row]), counts))
        return found
