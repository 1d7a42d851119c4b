"""Input and output of scoring: a slice of records, and a scored slice for the store."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from gapwatch.scorers.slices.event_clock import EventClock, SliceClocks
from gapwatch.scorers.slices.facet_names import FacetNames
from gapwatch.scorers.slices.tables import SCORED_TABLES
from gapwatch.scorers.slices.wrong_clocks import WrongClock

SCORED_SLICE_VERSION = 2


@dataclass(frozen=True)
class RecordSlice:
    """Records `[from_offset, to_offset)` of one source partition.

    Attributes:
        lane: `live`, `file:<source>`, `backfill:<id>` or `eval:<run>`.
        topic: Kafka topic, or the name of the file source.
        partition: Kafka partition; 0 for a file.
        from_offset: First offset covered.
        to_offset: One past the last offset covered; some offsets may have no record (blank lines, compaction).
        offsets: int64, ascending, one per record.
        values: Arrow binary array of the raw records, as long as `offsets`; null where a record has no value.
        timestamps: float64 seconds since the epoch per record, NaN where unknown; None where the source has no
            timestamps.
        prefix_sha256: Digest of the source's bytes up to `to_offset`, for files; None for Kafka.
        clocks: Event clocks of the partition before the slice; None believes every time.
        names: Names that the partition counted apart before the slice.
        digest_at: Returns `prefix_sha256` for an earlier end of the slice; None for Kafka.
    """

    lane: str
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    offsets: npt.NDArray[np.int64]
    values: pa.BinaryArray
    timestamps: npt.NDArray[np.float64] | None = None
    prefix_sha256: str | None = None
    clocks: SliceClocks | None = None
    names: FacetNames = field(default_factory=FacetNames, compare=False)
    digest_at: Callable[[int], str] | None = field(default=None, compare=False)

    def first(self, count: int) -> RecordSlice:
        """Return the slice of the first records only; the slice itself if it has no more."""
        if count >= len(self.offsets):
            return self
        end = int(self.offsets[count])
        return replace(
            self,
            to_offset=end,
            offsets=self.offsets[:count],
            values=self.values[:count],
            timestamps=None if self.timestamps is None else self.timestamps[:count],
            prefix_sha256=self.digest_at(end) if self.digest_at is not None else self.prefix_sha256,
            clocks=None if self.clocks is None else replace(self.clocks, is_end=False),
        )

    def rest(self, scored: ScoredSlice) -> RecordSlice | None:
        """Return the records that a scored slice leaves out, with its clocks and names; None if it has all of them."""
        if scored.to_offset >= self.to_offset:
            return None
        count = int(np.searchsorted(self.offsets, scored.to_offset))
        return replace(
            self,
            from_offset=scored.to_offset,
            offsets=self.offsets[count:],
            values=self.values[count:],
            timestamps=None if self.timestamps is None else self.timestamps[count:],
            clocks=None if self.clocks is None else replace(self.clocks, clocks=scored.clocks),
            names=scored.names,
        )


@dataclass(frozen=True)
class ScoredSlice:
    """Result of scoring one slice.

    Inside one process the tables themselves are handed over. Between processes, `to_ipc` and `from_ipc` carry them with
    the same schemas.

    Attributes:
        lane, topic, partition, from_offset, to_offset, prefix_sha256: As in the record slice.
        records: Number of records in the slice: read + dead letters + foreign.
        spans: Number of spans in the read records.
        foreign: Number of foreign records by the most frequent pipelines that they name; for warnings, not stored.
        tables: One Arrow table for each name in `gapwatch.scorers.slices.tables.SCORED_TABLES`.
        clocks: Event clock of each pipeline of the partition after the slice; for the next slice, not stored.
        names: Names that the partition counts apart after the slice; for the next slice.
        wrong_clocks: Hosts of the records with a wrong time; for warnings, not stored.
    """

    lane: str
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    records: int
    spans: int
    prefix_sha256: str | None = None
    tables: dict[str, pa.Table] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    clocks: Mapping[str, EventClock] = field(default_factory=dict)
    names: FacetNames = field(default_factory=FacetNames, compare=False)
    wrong_clocks: Sequence[WrongClock] = field(default=(), compare=False)

    def to_ipc(self) -> bytes:
        """Return the slice as bytes: a JSON header line, then each table as a length-prefixed Arrow IPC stream."""
        out = io.BytesIO()
        header = {
            "version": SCORED_SLICE_VERSION,
            **{name: getattr(self, name) for name in _HEADER_FIELDS},
        }
        out.write(json.dumps(header).encode() + b"\n")
        for name in SCORED_TABLES:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, SCORED_TABLES[name]) as writer:
                writer.write_table(self.tables[name])
            buffer = sink.getvalue()
            out.write(len(buffer).to_bytes(8, "little"))
            out.write(buffer)
        return out.getvalue()

    @classmethod
    def from_ipc(cls, data: bytes) -> ScoredSlice:
        """Read what `to_ipc` wrote.

        Raises:
            ValueError: The bytes have a version that this program does not read.
        """
        end = data.index(b"\n")
        header = json.loads(data[:end])
        version = header.pop("version")
        if version != SCORED_SLICE_VERSION:
            raise ValueError(f"scored slice of version {version}; this program reads version {SCORED_SLICE_VERSION}")
        view = pa.py_buffer(data)
        position = end + 1
        tables = {}
        for name in SCORED_TABLES:
            size = int.from_bytes(data[position : position + 8], "little")
            tables[name] = pa.ipc.open_stream(view.slice(position + 8, size)).read_all()
            position += 8 + size
        return cls(**header, tables=tables)


_HEADER_FIELDS = (
    "lane", "topic", "partition", "from_offset", "to_offset", "records", "spans", "prefix_sha256", "foreign",
)  # fmt: skip
