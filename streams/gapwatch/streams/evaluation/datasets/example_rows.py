"""Examples from JSON lines and from rows of tables; a broken one is named with its place and what to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from gapwatch.scorers.errors import SourceError
from gapwatch.scorers.printable import shown
from gapwatch.streams.evaluation.datasets.example import Example

_KEYS = ("id", "inputs", "reference", "context", "metadata")
_WANTED = '{"id": "1", "inputs": {"question": "..."}}, and optional reference, context, metadata'


def examples_of_lines(lines: Iterable[bytes], name: str) -> Iterator[Example]:
    """Yield the examples of JSON lines; blank lines are skipped.

    Args:
        lines: Lines of a file.
        name: Its name in messages.

    Raises:
        SourceError: A line is no example; the message has the file, the line and what to write.
    """
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            written = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise SourceError(f"{where}: not valid JSON ({error}); write one object a line: {_WANTED}") from None
        yield _example(written, where, number, seen)


def examples_of_rows(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Example]:
    """Yield the examples of the rows of a table.

    A table either has the column `inputs`, with objects or their JSON, or each of its columns that is not named `id`,
    `reference`, `context` or `metadata` is an input. Without the column `id`, rows are numbered from 1.

    Args:
        rows: Rows by column.
        name: Name of the table in messages.

    Raises:
        SourceError: A row is no example.
    """
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        written = {key: value for key, value in row.items() if key in _KEYS and value is not None}
        if "inputs" not in row:
            written["inputs"] = {key: value for key, value in row.items() if key not in _KEYS}
        for key in ("inputs", "context", "metadata"):
            written[key] = _parsed(written.get(key))
        identity = written.get("id")
        written["id"] = str(number) if identity is None else str(identity)
        yield _example({k: v for k, v in written.items() if v is not None}, f"{name}, row {number}", number, seen)


def _parsed(value: Any) -> Any:
    """Return the JSON object or list in a text of a table, or the value itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _example(written: Any, where: str, number: int, seen: dict[str, int]) -> Example:
    if not isinstance(written, dict):
        raise SourceError(f"{where}: an object is expected, not {shown(written)}; write {_WANTED}")
    for key in written:
        if key not in _KEYS:
            raise SourceError(f"{where}: no such key {shown(key)}; keys are {', '.join(_KEYS)}")
    identity, inputs = written.get("id"), written.get("inputs")
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not isinstance(identity, str) or not identity:
        raise SourceError(f'{where}: the example has no id; write "id": "{number}", or any text that is unique')
    if not isinstance(inputs, dict):
        told = "has no inputs" if inputs is None else f"has {shown(inputs)} as inputs"
        raise SourceError(
            f"{where}: the example {told}; write the function's arguments by name, such as "
            '"inputs": {"question": "..."}'
        )
    metadata = written.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise SourceError(
            f'{where}: metadata is {shown(metadata)}; write an object, such as "metadata": {{"topic": "x"}}'
        )
    if identity in seen:
        raise SourceError(
            f"{where}: the id {shown(identity)} is that of example {seen[identity]}, too; give each example its own id"
        )
    seen[identity] = number
    return Example(identity, inputs, None, written.get("reference"), written.get("context"), metadata)
