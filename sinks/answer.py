"""What a query yields: names, types and batches of rows, read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from scorers.errors import JobError

#: Rows fetched from the engine at once. More cost memory, fewer cost calls.
_BATCH_ROWS = 2_000


@dataclass(frozen=True)
class Answer:
    """The answer to a query; its rows can be read once.

    Attributes:
        names: Names of the columns; two may be equal.
        types: DuckDB's types of the columns.
        rows: Batches of rows, as Python values.
    """

    names: list[str]
    types: list[Any]
    rows: Iterator[list[tuple[Any, ...]]]

    def objects(self) -> list[dict[str, Any]]:
        """Read all rows, each as a dict by name."""
        return [dict(zip(self.names, row, strict=True)) for batch in self.rows for row in batch]


def ask(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = ()) -> Answer:
    """Run a query of this program's own; `history` is for those of strangers.

    Raises:
        JobError: The store cannot be read.
    """
    try:
        return open_answer(con, sql, parameters)
    except duckdb.Error as error:
        raise JobError(f"the store cannot be read: {error}") from error


def open_answer(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = ()) -> Answer:
    """Run a query and return its answer; the engine's errors pass through."""
    con.execute(sql, list(parameters))
    description = con.description or []
    return Answer([column[0] for column in description], [column[1] for column in description], _batches(con))


def _batches(con: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    while batch := con.fetchmany(_BATCH_ROWS):
        yield batch
