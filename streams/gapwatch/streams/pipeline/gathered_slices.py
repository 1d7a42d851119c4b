"""`GatheredSlices`: slices of different partitions that are scored and written together."""

from __future__ import annotations

import asyncio
from types import TracebackType

from gapwatch.streams.pipeline.slice_pieces import PIECE_BYTES
from gapwatch.streams.sources.raw_slice import RawSlice

#: Most records of a group. Scoring so many records at once is as cheap for each as scoring more.
MOST_RECORDS = 8000
# Records from which a group does not wait for others: then the fixed price of scoring hardly counts.
_ENOUGH_RECORDS = 2000
# Seconds that a smaller group waits. The slices of one fetch come within a few milliseconds of each other.
_WAIT_SECONDS = 0.01


class GatheredSlices:
    """One slice of each of some partitions, in the order in which they came.

    The caller that made the group scores and writes it inside a `with` block; the callers whose slices were added wait
    for `stored`.

    Args:
        first: Its first slice.

    Attributes:
        slices: All slices.
    """

    def __init__(self, first: RawSlice) -> None:
        self.slices = [first]
        self._records, self._bytes = len(first), _size(first)
        self._stored = asyncio.get_running_loop().create_future()

    def add(self, raw: RawSlice) -> bool:
        """Add a slice, unless the group has one of its partition or would become too large; return whether it did."""
        size = _size(raw)
        if self._records + len(raw) > MOST_RECORDS or self._bytes + size > PIECE_BYTES:
            return False
        if any((one.topic, one.partition) == (raw.topic, raw.partition) for one in self.slices):
            return False
        self.slices.append(raw)
        self._records, self._bytes = self._records + len(raw), self._bytes + size
        return True

    async def gather(self) -> None:
        """Wait a little for slices of other partitions while the group is small."""
        if self._records < _ENOUGH_RECORDS:
            await asyncio.sleep(_WAIT_SECONDS)

    async def stored(self) -> None:
        """Return when the group is stored.

        Raises:
            BaseException: The error that ended the work on the group.
        """
        await asyncio.shield(self._stored)

    def __enter__(self) -> GatheredSlices:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell the other callers how it ended."""
        if error is None:
            self._stored.set_result(None)
        elif isinstance(error, asyncio.CancelledError):
            self._stored.cancel()
        else:
            self._stored.set_exception(error)
            self._stored.exception()  # read, so that asyncio does not report it where nobody waits


def _size(raw: RawSlice) -> int:
    return sum(len(value) for value in raw.values if value)
