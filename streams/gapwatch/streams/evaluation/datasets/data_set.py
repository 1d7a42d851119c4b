"""Loads a data set: a file, a query over a store, a list of examples, or a data frame."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from gapwatch.scorers.errors import SourceError, UsageError
from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.datasets.example_rows import examples_of_lines, examples_of_rows
from gapwatch.streams.sources.file_source import decompressed, open_source

_JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst", ".ndjson.gz", ".ndjson.zst")


def load_data_set(dataset: Any) -> list[Example]:
    """Return the examples of a data set; all of them are in memory.

    Args:
        dataset: Path of JSON lines (plain, .gz, .zst), or of a table that DuckDB reads (CSV, Parquet, JSON, Excel); a
            list of `Example`; or a table of pandas, polars, Arrow or any library with Arrow's C stream.

    Raises:
        SourceError: The file is missing or an example in it is broken.
        UsageError: The data set has another type, or no example.
    """
    if isinstance(dataset, str | PathLike):
        found = _of_file(str(dataset))
        what = str(dataset)
    elif hasattr(dataset, "__arrow_c_stream__"):
        found, what = _of_arrow(dataset), "the table"
    elif isinstance(dataset, Iterable):
        found, what = _of_list(dataset), "the list"
    else:
        raise UsageError(
            f"a data set of type {type(dataset).__name__} cannot be read; give a path, a list of Example, or a table"
        )
    if not found:
        raise UsageError(f"{what} has no example")
    return found


def load_from_store(store: str | Path, query: str) -> list[Example]:
    """Return the examples that a query over a store gives, one a row.

    Args:
        store: DuckDB file of the store, or address of the process that writes it.
        query: A SELECT with the columns `id`, `inputs`, `reference`, `context`, `metadata`; other columns are inputs.

    Raises:
        UsageError: The store or the query is refused, or the query gives no row.
    """
    from gapwatch.sinks.read import read

    found = list(examples_of_rows(read(store).sql(query).to_pylist(), "the query"))
    if not found:
        raise UsageError("the query over the store gives no row, so there is no example")
    return found


def _of_file(path: str) -> list[Example]:
    if path.endswith(_JSON_LINES) or path == "-":
        raw, _ = open_source(path)
        with raw:
            return list(examples_of_lines(_lines(path, raw), path))
    from gapwatch.sinks.evaluation.table_file import read_table_file

    if not Path(path).exists():
        raise SourceError(f"{path}: no such file")
    return list(examples_of_rows(read_table_file(path).to_pylist(), path))


def _lines(path: str, raw: Any) -> Iterable[bytes]:
    stream = decompressed(path, raw)
    rest = b""
    while block := stream.read(1 << 20):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _of_arrow(table: Any) -> list[Example]:
    import pyarrow as pa

    return list(examples_of_rows(pa.table(table).to_pylist(), "the table"))


def _of_list(examples: Iterable[Any]) -> list[Example]:
    found: list[Example] = []
    ids: set[str] = set()
    for number, example in enumerate(examples, 1):
        if not isinstance(example, Example):
            raise UsageError(f"member {number} of the data set is a {type(example).__name__}; expected an Example")
        if example.id in ids:
            raise UsageError(f"two examples have the id {example.id!r}; give each its own")
        ids.add(example.id)
        # A run fills its own copy: the caller's examples can be used for the next run.
        found.append(Example(example.id, example.inputs, None, example.reference, example.context, example.metadata))
    return found
