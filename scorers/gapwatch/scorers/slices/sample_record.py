"""Text of samples. Scoring compresses it with zstd; the store holds it as text, which DuckDB compresses itself."""

from __future__ import annotations

import pyarrow as pa
import zstandard


def unpack_record(record: bytes) -> bytes:
    """Return the unpacked text of a sample. Bytes that are not a zstd frame are returned unchanged."""
    if not record.startswith(zstandard.FRAME_HEADER):
        return record
    try:
        return zstandard.ZstdDecompressor().decompress(record)
    except zstandard.ZstdError:
        return record


def with_text(samples: pa.Table) -> pa.Table:
    """Return samples with unpacked records, so that any DuckDB can read them."""
    if not samples.num_rows:
        return samples
    records = samples.column("record").to_pylist()
    texts = pa.array([None if record is None else unpack_record(record) for record in records], pa.binary())
    return samples.set_column(samples.schema.get_field_index("record"), "record", texts)
