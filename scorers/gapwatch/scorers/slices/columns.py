"""Columns of the records of a slice and of the rows of its blocks, each made when it is first needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BUCKET_SECONDS = 30
#: Environment of traces that name none.
DEFAULT_ENVIRONMENT = "production"
# Years 1 to 9999; a time outside of them counts as absent, for no store could hold it.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800.0, 253_402_300_799.0
_TRACE_TEXTS = ("trace_id", "pipeline", "environment", "release", "session_id")
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


@dataclass
class RowOwners:
    """Rows of one block, in the order of the records.

    Attributes:
        owners: Span of each row, or trace.
        records: `ord` of the record of each row.
        indices: Position of the span in its trace; -1 for a trace.
        is_by_member: The component stands for several; which of them a span is of takes the place of the tier.
    """

    owners: list[Any] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    is_by_member: bool = False


class SliceColumns:
    """Columns of some records; the rows are those of the blocks, one block after the other.

    Args:
        traces: The n records; their `ord` is from 0 to n - 1.
        blocks: Rows of each block.
        timestamps: float64 seconds per record, NaN where unknown; None where the source has no timestamps.

    Attributes:
        records: Number of records.
        ord: Record of each row.
        span_index: Position of each row's span in its trace; -1 for a trace.
    """

    def __init__(self, traces: Sequence[Any], blocks: Sequence[RowOwners], timestamps: FloatArray | None) -> None:
        self.records = len(traces)
        self._traces = traces
        self._timestamps = timestamps
        self._blocks = blocks
        self._owners = list(itertools.chain.from_iterable(block.owners for block in blocks))
        self._starts = [0, *itertools.accumulate(len(block.owners) for block in blocks)]
        self.ord: IntArray = np.array([n for block in blocks for n in block.records], np.int64)
        self.span_index: IntArray = np.array([n for block in blocks for n in block.indices], np.int64)
        self._untimed: IntArray = np.zeros(0, np.int64)
        self._of_records: dict[str, pa.Array] = {}
        self._of_rows: dict[str, pa.Array] = {}

    def block_rows(self, number: int) -> slice:
        """Return the rows of one block, which are contiguous."""
        return slice(self._starts[number], self._starts[number + 1])

    def of_records(self, name: str) -> pa.Array:
        """Return a text of the trace, one value per record."""
        if name not in self._of_records:
            self._of_records[name] = pa.array(list(map(attrgetter(name), self._traces)), pa.string())
        return self._of_records[name]

    def of_rows(self, name: str) -> pa.Array:
        """Return a text of the span, one value per row; null for a trace."""
        if name not in self._of_rows:
            texts: list[str | None] = []
            for block in self._blocks:
                is_trace = block.indices[:1] == [-1]
                of_spans = attrgetter("component" if block.is_by_member and name == "tier" else name)
                texts += [None] * len(block.owners) if is_trace else map(of_spans, block.owners)
            self._of_rows[name] = pa.array(texts, pa.string())
        return self._of_rows[name]

    def texts(self, name: str, rows: IntArray) -> pa.Array:
        """Return a text of the span or of the trace for some rows."""
        if name in _TRACE_TEXTS:
            return self.of_records(name).take(pa.array(self.ord[rows]))
        if name in self._of_rows or name == "tier":
            return self.of_rows(name).take(pa.array(rows))
        return pa.array([getattr(self._owners[row], name, None) for row in rows.tolist()], pa.string())

    def _numbers(self, name: str) -> FloatArray:
        return np.array(list(map(attrgetter(name), self._traces)), np.float64)

    @cached_property
    def publisher_p(self) -> FloatArray:
        """Probability with which the publisher sent each record; an invalid probability counts as 1."""
        p = self._numbers("sampling_probability")
        return np.where((p > 0) & (p <= 1), p, 1.0)

    @cached_property
    def trace_end(self) -> FloatArray:
        """End of each record's trace in seconds, NaN where unknown."""
        return _valid(self._numbers("ended_at"))

    @cached_property
    def trace_start(self) -> FloatArray:
        """Start of each record's trace in seconds, NaN where unknown."""
        return _valid(self._numbers("started_at"))

    @cached_property
    def record_time(self) -> FloatArray:
        """Event time of the unit: the trace's end, else its latest span end, its start, or the record's timestamp."""
        time = self.trace_end.copy()
        if np.isnan(time).any():
            latest = np.array([_latest_end(trace.spans) for trace in self._traces], np.float64)
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
        is_span = self.span_index[rows] >= 0
        owners = [self._owners[row] for row in rows.tolist()]
        time, start = (
            np.where(is_span, _valid(np.array(list(map(attrgetter(name), owners)), np.float64)), np.nan)
            for name in ("ended_at", "started_at")
        )
        stamps: Any = np.nan if self._timestamps is None else _valid(self._timestamps[ords])
        for other in (self.trace_end[ords], start, self.trace_start[ords], stamps):
            time = np.where(np.isnan(time), other, time)
        return np.where(is_span, time, self.record_time[ords])


def _latest_end(spans: Iterable[Any]) -> float:
    """Return the latest end of spans within the years of a time, NaN for none."""
    ends = (span.ended_at for span in spans)
    return max((end for end in ends if end is not None and _FIRST_SECOND <= end <= _LAST_SECOND), default=np.nan)


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
