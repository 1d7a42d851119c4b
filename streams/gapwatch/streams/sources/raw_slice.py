"""`RawSlice`: consecutive records of one partition, as a source read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class RawSlice:
    """The records `[from_offset, to_offset)` of one partition; each slice begins where the last one ended.

    Attributes:
        topic: Name of the topic.
        partition: Number of the partition.
        from_offset: First offset covered: the `to_offset` of the slice before, or the next offset of the store.
        to_offset: One past the last offset covered. Offsets in between may have no record (aborted transactions,
            transaction markers, compaction).
        offsets: Offset of each record; int64, ascending.
        values: Value of each record; None for a record without one.
        timestamps: Seconds since the epoch of each record, float64; NaN for a record without one.
        lost: Number of offsets at the beginning of the range that the topic's retention deleted before they were read.
        caught_up_at: Time of reading, seconds since the epoch, where no record was known to follow; else None.
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    offsets: npt.NDArray[np.int64]
    values: list[bytes | None]
    timestamps: npt.NDArray[np.float64]
    lost: int = 0
    caught_up_at: float | None = None

    def __len__(self) -> int:
        return len(self.values)
