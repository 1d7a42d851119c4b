"""Decodes raw records to traces or dead letters, and sorts the spans of the traces into the blocks of a plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.scorers.plan.block import Block
from gapwatch.scorers.plan.record_types import RecordTypes
from gapwatch.scorers.plan.strict_json import NumberText, parse_strictly
from gapwatch.scorers.slices.columns import RowOwners

MAX_RECORD_BYTES = 10_000_000


@dataclass(frozen=True)
class DeadLetter:
    """Cause for which a record could not be read.

    Attributes:
        cause: The first that applies of too_large, not_utf8, too_deep, not_json, not_object, missing_field, bad_spans.
        detail: Place and problem, without any content of the record.
    """

    cause: str
    detail: str


def decode_records(values: pa.BinaryArray, types: RecordTypes) -> Iterator[Any]:
    """Yield a trace of the given types, or a dead letter, for each raw record."""
    decode = types.decode
    records: Iterable[Any] = _in_place(values) if _are_plain(values) else values.to_pylist()
    for value in records:
        # Records in place are plain; the decoder itself does not check it.
        if value.__class__ is not memoryview and not _is_plain(value):
            yield _examined(value, types)
            continue
        try:
            trace = decode(value)
        except (msgspec.DecodeError, RecursionError):
            trace = _examined(bytes(value), types)
        yield trace


def _in_place(values: pa.BinaryArray) -> Iterator[memoryview]:
    """Yield each record where it lies, for a copy of all of them costs as much as a tenth of the decoding."""
    if not len(values):
        return
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].tolist()
    view = memoryview(data if data is not None else b"")
    for start, end in itertools.pairwise(ends):
        yield view[start:end]


def _are_plain(values: pa.BinaryArray) -> bool:
    """Return whether all records have a value, none is too large, and all are UTF-8."""
    if values.type != pa.binary() or values.null_count:
        return False
    if len(values) and pc.max(pc.binary_length(values)).as_py() > MAX_RECORD_BYTES:
        return False
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_plain(value: bytes | None) -> bool:
    if value is None or len(value) > MAX_RECORD_BYTES:
        return False
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _examined(value: bytes | None, types: RecordTypes) -> Any:
    examined = examine(value)
    return examined if isinstance(examined, DeadLetter) else types.from_values(examined)


def block_owners(blocks: Sequence[Block], traces: Sequence[Any]) -> list[RowOwners]:
    """Return the rows of each block: the spans of its component or of its members, or the traces of its pipeline.

    Args:
        blocks: Blocks of a plan.
        traces: Records of the plan's pipelines.
    """
    rows = [RowOwners(is_by_member=bool(block.members)) for block in blocks]
    by_pipeline: dict[str, dict[str, list[RowOwners]]] = {block.portfolio.pipeline: {} for block in blocks}
    for block, owners in zip(blocks, rows, strict=True):
        for name in [_TRACES] if block.is_trace else block.members or [block.component]:
            by_pipeline[block.portfolio.pipeline].setdefault(name, []).append(owners)
    for ord_, trace in enumerate(traces):
        components = by_pipeline.get(trace.pipeline, {})
        for index, span in enumerate(trace.spans):
            for of in components.get(span.component, ()):
                of.owners.append(span)
                of.records.append(ord_)
                of.indices.append(index)
        for of in components.get(_TRACES, ()):
            of.owners.append(trace)
            of.records.append(ord_)
            of.indices.append(-1)
    return rows


# A key that no component of a record equals.
_TRACES: Any = object()


def examine(record: bytes | None) -> DeadLetter | dict[str, Any]:
    """Examine one raw record.

    Args:
        record: Bytes of the record; None where it has no value.

    Returns:
        The dead letter, or the values of the record's JSON, which is a trace.
    """
    if record is None:
        return DeadLetter("not_json", "no value")
    if len(record) > MAX_RECORD_BYTES:
        return DeadLetter("too_large", f"{len(record)} bytes, at most {MAX_RECORD_BYTES} are read")
    try:
        text = record.decode("utf-8")
    except UnicodeDecodeError as error:
        return DeadLetter("not_utf8", f"byte {error.start}: {error.reason}")
    try:
        value = parse_strictly(text)
    except RecursionError:
        return DeadLetter("too_deep", "nested too deeply")
    except ValueError as error:
        return DeadLetter("not_json", _position(error))
    return _structure(value) or value


def _position(error: ValueError) -> str:
    position = getattr(error, "pos", None)
    message = getattr(error, "msg", None)
    return f"{message} at character {position}" if message else str(error)


def _structure(value: object) -> DeadLetter | None:
    """Return the dead letter of a parsed record with a wrong structure, else None."""
    if not isinstance(value, dict):
        return DeadLetter("not_object", f"a JSON {_type_name(value)} instead of an object")
    for key in ("trace_id", "pipeline", "spans"):
        if value.get(key) is None:
            return DeadLetter("missing_field", _missing(key, key in value))
    spans = value["spans"]
    if not isinstance(spans, list):
        return DeadLetter("bad_spans", f"spans is a JSON {_type_name(spans)} instead of a list")
    for index, span in enumerate(spans):
        if isinstance(span, dict):
            for key in ("span_id", "component"):
                if span.get(key) is None:
                    return DeadLetter("missing_field", _missing(f"spans[{index}].{key}", key in span))
    for index, span in enumerate(spans):
        if not isinstance(span, dict):
            return DeadLetter("bad_spans", f"spans[{index}] is a JSON {_type_name(span)} instead of an object")
    return None


def _missing(key: str, is_null: bool) -> str:
    return f"{key} is {'null' if is_null else 'missing'}"


def _type_name(value: object) -> str:
    names = {
        dict: "object",
        list: "list",
        bool: "boolean",
        type(None): "null",
        str: "text",
        NumberText: "number",
        int: "number",
        float: "number",
    }
    return names[type(value)]
