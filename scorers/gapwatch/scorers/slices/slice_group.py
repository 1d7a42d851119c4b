"""`SliceGroup`: slices of several partitions as one sequence of records, and the way back to the slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapwatch.scorers.slices.columns import FloatArray, IntArray
from gapwatch.scorers.slices.slices import RecordSlice

#: Column of a table of counts: the number of the slice that a row belongs to.
_SLICE = "slice"


class SliceGroup:
    """Slices of one lane, one after the other; `ord` is the position of a record in this sequence.

    Args:
        slices: At least one.

    Attributes:
        slices: The slices.
        offsets: Source offset of each record, int64.
        of_records: Number of the slice of each record, int64.
    """

    def __init__(self, slices: Sequence[RecordSlice]) -> None:
        self.slices = slices
        lengths = [len(one.offsets) for one in slices]
        self._starts = np.cumsum([0, *lengths])
        self.offsets: IntArray = np.concatenate([one.offsets for one in slices])
        self.of_records: IntArray = np.repeat(np.arange(len(slices)), lengths)
        self.values = slices[0].values if len(slices) == 1 else pa.concat_arrays([one.values for one in slices])

    @property
    def lane(self) -> str:
        """Lane of the slices."""
        return self.slices[0].lane

    @property
    def size(self) -> int:
        """Number of slices."""
        return len(self.slices)

    @property
    def records(self) -> int:
        """Number of records in all slices."""
        return len(self.offsets)

    @property
    def timestamps(self) -> FloatArray | None:
        """Seconds since the epoch of each record, NaN where unknown; None where no slice has timestamps."""
        known = [one.timestamps for one in self.slices]
        if all(one is None for one in known):
            return None
        return np.concatenate(
            [
                np.full(len(of.offsets), np.nan) if one is None else one
                for one, of in zip(known, self.slices, strict=True)
            ]
        )

    def split(self, table: pa.Table) -> list[pa.Table]:
        """Return the rows of each slice, with its source.

        Args:
            table: A table whose `source_offset` is an `ord`, ascending; or one from `with_slices`; or an empty one.
        """
        if _SLICE in table.column_names:
            parts = self._by_number(table)
        elif "source_offset" in table.column_names:
            ords = np.asarray(table.column("source_offset"))
            cuts = np.searchsorted(ords, self._starts).tolist()
            offsets = pa.array(self.offsets[ords])
            table = table.set_column(table.schema.get_field_index("source_offset"), "source_offset", offsets)
            parts = [table.slice(first, last - first) for first, last in itertools.pairwise(cuts)]
        else:
            parts = [table] * self.size
        return list(self._with_source(parts))

    def _by_number(self, table: pa.Table) -> list[pa.Table]:
        numbers = np.asarray(table.column(_SLICE))
        table = table.drop_columns(_SLICE)
        if self.size > 1 and (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, table = numbers[order], table.take(pa.array(order))
        cuts = np.searchsorted(numbers, np.arange(self.size + 1)).tolist()
        return [table.slice(first, last - first) for first, last in itertools.pairwise(cuts)]

    def _with_source(self, parts: Sequence[pa.Table]) -> Iterator[pa.Table]:
        for one, of in zip(parts, self.slices, strict=True):
            source = {
                "source_topic": pa.scalar(of.topic, pa.string()),
                "source_partition": pa.scalar(of.partition, pa.int32()),
            }
            for name, value in source.items():
                place = one.schema.get_field_index(name)
                if place >= 0:
                    one = one.set_column(place, one.schema.field(place), pa.repeat(value, one.num_rows))
            yield one


def with_slices(table: pa.Table, numbers: IntArray) -> pa.Table:
    """Return a table with the number of the slice of each row, for `SliceGroup.split`."""
    return table.append_column(_SLICE, pa.array(numbers, pa.int64()))
