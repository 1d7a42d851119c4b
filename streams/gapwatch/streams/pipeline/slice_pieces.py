"""Cuts a fetched slice into the pieces that are scored: at ends of thinning windows, and by size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.streams.sources.raw_slice import RawSlice

#: Most bytes of a piece, which bounds memory; a single record may be larger.
PIECE_BYTES = 32 << 20
#: Most rows of ticks of a scored piece, about 350 bytes each, which bounds memory; a single record may have more.
MOST_TICKS = 200_000


def pieces(raw: RawSlice, lane: str, cuts: Sequence[int]) -> Iterator[RecordSlice]:
    """Yield the pieces of a slice, which cover it without gaps.

    Args:
        raw: The fetched slice.
        lane: Lane of the records.
        cuts: Offsets at which a piece must begin, ascending; offsets outside of the slice are ignored.
    """
    begin, first = raw.from_offset, 0
    inner = [cut for cut in cuts if raw.from_offset < cut < raw.to_offset]
    for end in [*inner, raw.to_offset]:
        last = int(np.searchsorted(raw.offsets, end))
        for stop in _stops(raw.values, first, last):
            piece_end = end if stop == last else int(raw.offsets[stop])
            yield RecordSlice(
                lane, raw.topic, raw.partition, begin, piece_end, raw.offsets[first:stop],
                pa.array(raw.values[first:stop], pa.binary()), raw.timestamps[first:stop],
            )  # fmt: skip
            begin, first = piece_end, stop


def window_cuts(raw: RawSlice, window: int) -> range:
    """Return the window boundaries inside a slice.

    Args:
        raw: The slice.
        window: Offsets of one window.
    """
    return range((raw.from_offset // window + 1) * window, raw.to_offset, window)


def _stops(values: Sequence[bytes | None], first: int, last: int) -> Iterator[int]:
    """Yield the end index of each piece of the records [first, last); at least one, even without records."""
    size = 0
    begin = first
    for i in range(first, last):
        size += len(values[i] or b"")
        if size > PIECE_BYTES and i > begin:
            yield i
            begin, size = i, len(values[i] or b"")
    yield last
