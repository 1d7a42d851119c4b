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

    def write_all(self, rows: Ints, buckets: Ints, context: int, counts: Floats) -> None:
        """Write several buckets of one hour, as `write` does one after the other.

        Args:
            rows: Series of each entry, ascending; the entries of a series are ordered by bucket.
            buckets: Bucket of each entry.
            context: Context of all.
            counts: Units of each entry, shape (bins, entries); whole numbers.
        """
        if not self.buckets or not len(rows):
            return
        a = self.arrays
        first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        each = np.diff(np.append(first, len(rows)))
        if each.max() > self.buckets:
            for bucket in np.unique(buckets).tolist():
                mine = buckets == bucket
                self.write(rows[mine], bucket, context, counts[:, mine])
            return
        place = np.arange(len(rows)) - np.repeat(first, each)
        slot = (a["ring_next"][rows].astype(np.int64) + place) % self.buckets
        pushed = a["ring_bucket"][slot, rows] > 0
        if self.hours and pushed.any():
            self._keep_hours(rows[pushed], slot[pushed])
        a["ring_bucket"][slot, rows] = buckets
        a["ring_context"][slot, rows] = context
        a["ring_counts"][slot, :, rows] = counts.T
        last = first + each - 1
        a["ring_next"][rows[last]] = (slot[last] + 1) % self.buckets

    def _keep_hours(self, rows: Ints, slot: Ints) -> None:
        """Add several buckets of some series to their hours, as `_keep_hour` does one after the other."""
        a = self.arrays
        bucket, context = a["ring_bucket"][slot, rows].astype(np.int64), a["ring_context"][slot, rows]
        hour = bucket // TICKS_AN_HOUR
        is_first = np.append(True, rows[1:] != rows[:-1])
        begins = is_first | np.append(True, (hour[1:] != hour[:-1]) | (context[1:] != context[:-1]))
        group = np.flatnonzero(begins)
        row, is_first = rows[group], is_first[group]
        following = a["hour_next"][row].astype(np.int64)
        newest = (following - 1) % self.hours
        same = is_first & (a["hour_last"][newest, row] // TICKS_AN_HOUR == hour[group])
        same &= a["hour_context"][newest, row] == context[group]
        # Place of each hour among those of its series; the first one may go on in the newest slot.
        at = np.flatnonzero(is_first)
        series = np.cumsum(is_first) - 1
        target = (following + np.arange(len(group)) - at[series] - same[at][series]) % self.hours
        last = np.append(group[1:], len(rows)) - 1
        counts = np.add.reduceat(a["ring_counts"][slot, :, rows], group, axis=0)
        a["hour_first"][target, row] = np.where(same, a["hour_first"][target, row], bucket[group])
        a["hour_last"][target, row] = bucket[last]
        a["hour_context"][target, row] = context[group]
        a["hour_counts"][target, :, row] = np.where(same[:, None], a["hour_counts"][target, :, row] + counts, counts)
        final = np.append(at[1:], len(group)) - 1
        a["hour_next"][row[final]] = (target[final] + 1) % self.hours

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
