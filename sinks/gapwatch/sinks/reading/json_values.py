"""Converts values of the store to JSON: times in ISO 8601 with Z, JSON columns nested, non-finite numbers null."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, BinaryIO

import orjson

from gapwatch.sinks.reading.query_answer import QueryResult

_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_INT64 = range(-(2**63), 2**64)

#: Control characters that JSON allows unescaped, but that a terminal obeys.
_C1 = re.compile(rb"\x7f|\xc2[\x80-\x9f]")

Convert = Callable[[Any], Any]


def json_array(answer: QueryResult) -> Iterator[bytes]:
    """Yield the pieces of an array of objects, one object for each row, each on its own line."""
    names = unique_names(answer.names)
    converts = [_converter(kind) for kind in answer.types]
    before = b"["
    for batch in answer.rows:
        for row in batch:
            values = (convert(value) for convert, value in zip(converts, row, strict=True))
            yield before + b"\n" + to_json(dict(zip(names, values, strict=True)))
            before = b","
    yield b"[]\n" if before == b"[" else b"\n]\n"


def write_json(answer: QueryResult, out: BinaryIO) -> None:
    """Write all rows as one array of objects."""
    for piece in json_array(answer):
        out.write(piece)


def to_json(value: Any) -> bytes:
    """Return the JSON of a value of the store.

    Bytes are hexadecimal texts, intervals are seconds, and numbers beyond 64 bits have all their digits.
    """
    try:
        text = orjson.dumps(value, _default, _OPTIONS)
    except TypeError:  # an integer beyond 64 bits, or a key that is not a scalar
        text = orjson.dumps(_widened(value), _default, _OPTIONS)
    return _C1.sub(lambda match: b"\\u00%02x" % match[0][-1], text)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, with `_1`, `_2`, ... appended to repeated ones, as DuckDB does."""
    taken: set[str] = set()
    unique = []
    for name in names:
        candidate, count = name, 0
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        taken.add(candidate)
        unique.append(candidate)
    return unique


def read_json(text: str) -> Any:
    """Return the value of a JSON text of the store, which may contain NaN. Other texts are returned unchanged."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return text


def _converter(kind: Any) -> Convert:
    """Return the function that converts values of a DuckDB type; it parses the JSON texts in them."""
    if str(kind) == "JSON":
        return lambda value: value if value is None else read_json(value)
    if "JSON" not in str(kind) or kind.id not in ("list", "struct"):
        return lambda value: value
    members = {name: _converter(member) for name, member in kind.children}
    if kind.id == "struct":
        return lambda value: value if value is None else {name: members[name](member) for name, member in value.items()}
    element = members["child"]
    return lambda value: value if value is None else [element(member) for member in value]


def _default(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if hasattr(value, "as_tuple"):  # Decimal: its digits are a JSON number, except for NaN
        return orjson.Fragment(f"{value:f}".encode()) if value.is_finite() else None
    return str(value)


def _widened(value: Any) -> Any:
    if isinstance(value, int) and value not in _INT64:
        return orjson.Fragment(str(value).encode())
    if isinstance(value, dict):
        return {name if isinstance(name, str) else _key(name): _widened(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_widened(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _key(name: Any) -> str:
    text = to_json(name).decode()
    return json.loads(text) if text.startswith('"') else text
