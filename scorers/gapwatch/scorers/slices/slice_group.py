"""`SliceGroup`: slices of several partitions as one sequence of records, and the way back to the slices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

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
        self.offsets: IntArray = np.concatenate([one.offsets for one in slices])
        self.of_records: IntArray = np.repeat(np.arange(len(slices)), lengths)
        self._topics = pa.array([one.topic for one in slices], pa.string())
        self._partitions = np.array([one.partition for one in slices], np.int32)
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

    def split(self, table: pa.Table, schema: pa.Schema) -> list[pa.Table]:
        """Return the rows of each slice, with its source.

        Args:
            table: A table with rows whose `source_offset` is an `ord`, ascending; or one from `with_slices`.
            schema: Columns of the result; the topic and partition of the table are not read.
        """
        numbers, columns = self._numbers(table)
        if _SLICE in table.column_names and self.size > 1 and (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, table = numbers[order], table.take(pa.array(order))
        # All columns are replaced at once and for all slices: each Arrow call costs as much as some ten rows.
        named = [columns[name](numbers) if name in columns else table.column(name) for name in schema.names]
        whole = pa.Table.from_arrays(named, schema=schema)
        cuts = np.searchsorted(numbers, np.arange(self.size + 1)).tolist()
        return [whole.slice(first, last - first) for first, last in itertools.pairwise(cuts)]

    def _numbers(self, table: pa.Table) -> tuple[IntArray, dict[str, Callable[[IntArray], pa.Array]]]:
        """Return the number of the slice of each row, and what makes the columns of the source from such numbers."""
        columns: dict[str, Callable[[IntArray], pa.Array]] = {
            "source_topic": lambda numbers: self._topics.take(pa.array(numbers)),
            "source_partition": lambda numbers: pa.array(self._partitions[numbers]),
        }
        if _SLICE in table.column_names:
            return np.asarray(table.column(_SLICE)), columns
        ords = np.asarray(table.column("source_offset"))
        return self.of_records[ords], {**columns, "source_offset": lambda _: pa.array(self.offsets[ords])}


def with_slices(table: pa.Table, numbers: IntArray) -> pa.Table:
    """Return a table with the number of the slice of each row, for `SliceGroup.split`."""
    return table.append_column(_SLICE, pa.array(numbers, pa.int64()))
