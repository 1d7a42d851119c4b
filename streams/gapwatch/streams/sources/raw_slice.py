"""What a source hands over: the records of one partition, from one offset to another, as they came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class RawSlice:
    """The records `[from_offset, to_offset)` of one partition; slices of a partition tile without hole or overlap.

    Attributes:
        topic: Where the records come from.
        partition: Of the topic.
        from_offset: First offset covered: the `to_offset` of the slice before, or where the store ended.
        to_offset: One past the last offset covered. Offsets in between may have no record (aborted transactions,
            transaction markers, compaction).
        offsets: int64, ascending, one per record.
        values: The records' values; None where a record has none.
        timestamps: float64 seconds since the epoch, one per record; NaN where a record has none.
        lost: How many offsets at the beginning of the range the broker had already deleted by its retention when they
            were asked for; 0 but after an absence longer than that.
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    offsets: npt.NDArray[np.int64]
    values: list[bytes | None]
    timestamps: npt.NDArray[np.float64]
    lost: int = 0

    def __len__(self) -> int:
        return len(self.values)
