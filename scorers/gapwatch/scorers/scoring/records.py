"""Reads raw records to traces or dead letters, and sorts the spans of the traces into the blocks of a plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.scorers.plan.block import Block
from gapwatch.scorers.plan.record_types import RecordTypes
from gapwatch.scorers.scoring.dead_letter import MAX_RECORD_BYTES, DeadLetter, examine
from gapwatch.scorers.slices.columns import RowOwners


def read_records(values: pa.BinaryArray, types: RecordTypes) -> Iterator[Any]:
    """Yield a trace of the given types, or a dead letter, for each raw record."""
    decode = types.decode
    if not _are_plain(values):
        yield from (_examined(value, types) for value in values.to_pylist())
        return
    _, offsets, data = values.buffers()
    if not len(values):
        return
    # The decoder reads each record where it lies, for a copy of all of them costs as much as a tenth of the decoding.
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].tolist()
    view = memoryview(data if data is not None else b"")
    for start, end in itertools.pairwise(ends):
        value = view[start:end]
        try:
            trace = decode(value)
        except (msgspec.DecodeError, RecursionError):
            trace = _examined(bytes(value), types)
        yield trace


def _are_plain(values: pa.BinaryArray) -> bool:
    """Return whether all records have a value, none is too large, and all are UTF-8; the decoder checks none of it."""
    if (
        values.type != pa.binary()
        or values.null_count
        or (len(values) and pc.max(pc.binary_length(values)).as_py() > MAX_RECORD_BYTES)
    ):
        return False
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _examined(value: bytes | None, types: RecordTypes) -> Any:
    examined = examine(value)
    return examined if isinstance(examined, DeadLetter) else types.from_values(examined)


def block_owners(blocks: Sequence[Block], traces: Sequence[Any]) -> list[RowOwners]:
    """Return the rows of each block: the spans of its component, or the traces of its pipeline.

    Args:
        blocks: Blocks of a plan.
        traces: Records of the plan's pipelines.
    """
    rows = [RowOwners() for _ in blocks]
    by_pipeline: dict[str, dict[str, RowOwners]] = {block.portfolio.pipeline: {} for block in blocks}
    for block, owners in zip(blocks, rows, strict=True):
        by_pipeline[block.portfolio.pipeline][_TRACES if block.is_trace else block.component] = owners
    for ord_, trace in enumerate(traces):
        components = by_pipeline.get(trace.pipeline, {})
        for index, span in enumerate(trace.spans):
            if (of := components.get(span.component)) is not None:
                of.owners.append(span)
                of.records.append(ord_)
                of.indices.append(index)
        if (of := components.get(_TRACES)) is not None:
            of.owners.append(trace)
            of.records.append(ord_)
            of.indices.append(-1)
    return rows


# A key that no component of a record equals.
_TRACES: Any = object()
