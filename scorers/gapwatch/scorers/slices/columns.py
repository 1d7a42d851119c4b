"""Columns of the query's result as numpy arrays: values of spans by block, and values of records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BUCKET_SECONDS = 30
#: Environment of traces that name none.
DEFAULT_ENVIRONMENT = "production"
# Years 1 to 9999; a time outside of them counts as absent, for no store could hold it.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800.0, 253_402_300_799.0
#: Bucket number of a record without a time.
NO_BUCKET = np.iinfo(np.int64).min

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """Text column as small integers.

    Attributes:
        codes: int64; 0 means null, i means `values[i - 1]`.
        values: The distinct texts.
    """

    codes: IntArray
    values: pa.Array

    @property
    def size(self) -> int:
        """Number of codes, null included."""
        return len(self.values) + 1


def coded(column: pa.Array) -> Coded:
    """Return a text column with its distinct texts numbered."""
    encoded = column.dictionary_encode()
    indices = encoded.indices
    codes = np.asarray(indices.fill_null(-1)).astype(np.int64) + 1
    return Coded(codes, encoded.dictionary)


class SliceColumns:
    """Columns of one run of the query; its rows are spans, then traces, then rows without a metric.

    Args:
        table: Result of the query.
        records: Number of records in the query; their `ord` is from 0 to records - 1.
        timestamps: float64 seconds per record, NaN where unknown; None where the source has no timestamps.
    """

    def __init__(self, table: pa.Table, records: int, timestamps: FloatArray | None) -> None:
        self.table = table
        self.records = records
        self._timestamps = timestamps
        self.ord = self.ints("ord")
        self.span_index = self.ints("span_index")
        self._blocks = self.ints("block")
        self._untimed: IntArray = np.zeros(0, np.int64)
        # Any row of each record will do: all of them carry the values of the trace.
        self._row_of_record = np.zeros(records, dtype=np.int64)
        self._row_of_record[self.ord] = np.arange(len(self.ord))

    def arrow(self, name: str) -> pa.Array:
        """Return a column as one Arrow array."""
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def ints(self, name: str) -> IntArray:
        """Return an integer column without nulls."""
        return np.asarray(self.arrow(name)).astype(np.int64, copy=False)

    def bytes_(self, name: str) -> npt.NDArray[np.uint8]:
        """Return a UTINYINT column without nulls, without copying."""
        result: npt.NDArray[np.uint8] = self.arrow(name).to_numpy(zero_copy_only=False)
        return result

    def floats(self, name: str) -> FloatArray:
        """Return a DOUBLE column, NaN where null."""
        result: FloatArray = self.arrow(name).to_numpy(zero_copy_only=False)
        return result

    def flags(self, name: str) -> npt.NDArray[np.bool_]:
        """Return a BOOLEAN column without nulls."""
        result: npt.NDArray[np.bool_] = self.arrow(name).to_numpy(zero_copy_only=False)
        return result

    def block_rows(self, number: int) -> slice:
        """Return the rows of one block, which are contiguous."""
        start, end = np.searchsorted(self._blocks, [number, number + 1])
        return slice(int(start), int(end))

    def of_records(self, name: str) -> pa.Array:
        """Return a column of the trace, one value per record."""
        return self.arrow(name).take(pa.array(self._row_of_record))

    @cached_property
    def publisher_p(self) -> FloatArray:
        """Probability with which the publisher sent each record; an invalid probability counts as 1."""
        p = self.floats("publisher_p")[self._row_of_record]
        return np.where((p > 0) & (p <= 1), p, 1.0)

    @cached_property
    def span_end(self) -> FloatArray:
        """End of each row's span in seconds, NaN where unknown."""
        return _valid(self.floats("span_end"))

    @cached_property
    def trace_end(self) -> FloatArray:
        """End of each record's trace in seconds, NaN where unknown."""
        return _valid(self.floats("trace_end")[self._row_of_record])

    @cached_property
    def trace_start(self) -> FloatArray:
        """Start of each record's trace in seconds, NaN where unknown."""
        return _valid(self.floats("trace_start")[self._row_of_record])

    @cached_property
    def record_time(self) -> FloatArray:
        """Event time of the unit: the trace's end, else its latest span end, its start, or the record's timestamp."""
        time = self.trace_end.copy()
        if np.isnan(time).any():
            latest = np.full(self.records, np.nan)
            np.fmax.at(latest, self.ord, self.span_end)
            for other in (latest, self.trace_start, self._timestamps):
                if other is not None:
                    time = np.where(np.isnan(time), _valid(other), time)
        return time

    def distrust(self, records: IntArray) -> None:
        """Count some records as without a time from now on; their rows keep the time that the records give."""
        self._untimed = records
        self.__dict__.pop("bucket", None)

    @cached_property
    def bucket(self) -> IntArray:
        """Number of the 30-second bucket of each record (its unit and all its spans); `NO_BUCKET` without a time."""
        time = self.record_time
        known = ~np.isnan(time)
        bucket = np.full(self.records, NO_BUCKET, dtype=np.int64)
        bucket[known] = np.floor_divide(time[known], BUCKET_SECONDS).astype(np.int64)
        bucket[self._untimed] = NO_BUCKET
        return bucket

    def event_times(self, rows: IntArray) -> FloatArray:
        """Return the event times of some rows in seconds; the time of a trace is that of its unit."""
        ords = self.ord[rows]
        time = self.span_end[rows]
        start = _valid(self.floats("span_start")[rows])
        stamps: Any = np.nan if self._timestamps is None else _valid(self._timestamps[ords])
        for other in (self.trace_end[ords], start, self.trace_start[ords], stamps):
            time = np.where(np.isnan(time), other, time)
        return np.where(self.span_index[rows] < 0, self.record_time[ords], time)


def _valid(seconds: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return np.where((seconds >= _FIRST_SECOND) & (seconds <= _LAST_SECOND), seconds, np.nan)


def timestamps(seconds: FloatArray) -> pa.Array:
    """Return seconds since the epoch as Arrow timestamps in microseconds, null where NaN."""
    known = ~np.isnan(seconds)
    micros = np.zeros(len(seconds), dtype=np.int64)
    micros[known] = np.round(seconds[known] * 1e6).astype(np.int64)
    return pa.array(micros, mask=~known).cast(pa.timestamp("us"))


def bucket_starts(buckets: IntArray) -> pa.Array:
    """Return bucket numbers as the Arrow timestamps at which they start, null for `NO_BUCKET`."""
    known = buckets != NO_BUCKET
    micros = np.where(known, buckets, 0) * (BUCKET_SECONDS * 1_000_000)
    return pa.array(micros, mask=~known).cast(pa.timestamp("us"))
