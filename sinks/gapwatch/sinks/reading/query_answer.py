"""Runs queries and returns their results: names, types and batches of rows, which are read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.catalog.added_tables import ADDED_NAMES
from gapwatch.sinks.store.store_reader import StoreReader

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")

#: Rows fetched from DuckDB at once. Larger: more memory. Smaller: more calls.
_BATCH_ROWS = 2_000
#: Seconds between two interrupts of a query. Larger: one that had not begun at the first runs on for so long.
_REPEAT_SECONDS = 0.05


@dataclass(frozen=True)
class QueryResult:
    """Result of a query. Its rows can be read once.

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


def ask(con: StoreReader, sql: str, parameters: Sequence[Any] = ()) -> QueryResult:
    """Run a trusted query. For untrusted ones use `gapwatch.sinks.reading.history`.

    Raises:
        JobError: The store cannot be read.
    """
    try:
        return open_answer(con, sql, parameters)
    except duckdb.CatalogException as error:
        missing = next((name for name in ADDED_NAMES if f"Table with name {name} " in str(error)), None)
        if missing is None:
            raise JobError(f"the store cannot be read: {error}") from error
        raise JobError(
            f"this store is of a program from before the table {missing}, which it gets when it is opened for writing: "
            "start a run, or note it with gapwatch annotate"
        ) from error
    except duckdb.Error as error:
        raise JobError(f"the store cannot be read: {error}") from error


def open_answer(con: StoreReader, sql: str, parameters: Sequence[Any] = ()) -> QueryResult:
    """Run a query and return its result. DuckDB's errors pass through."""
    interruptible(con, lambda: con.execute(sql, list(parameters)))
    description = con.description or []
    return QueryResult([column[0] for column in description], [column[1] for column in description], _batches(con))


def _batches(con: StoreReader) -> Iterator[list[tuple[Any, ...]]]:
    while batch := interruptible(con, lambda: con.fetchmany(_BATCH_ROWS)):
        yield batch


def next_batch(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """Return the next batch of a result as Arrow; None at its end.

    Raises:
        duckdb.Error: DuckDB's error. Arrow reports it as an error of a file without its kind; only the kind of an
            interrupt is restored.
    """
    import pyarrow as pa  # imported here: commands without an Arrow reader start faster

    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except (OSError, pa.ArrowException) as error:
        kind = duckdb.InterruptException if str(error).startswith("INTERRUPT Error") else duckdb.Error
        raise kind(str(error)) from error


def interruptible(con: StoreReader, call: Callable[[], Result]) -> Result:
    """Run a call of DuckDB in another thread, so that an interrupt of this thread ends its query at once.

    Within a call DuckDB does not check for signals, and a query may take hours.
    """
    with ThreadPoolExecutor(1, "query") as worker:
        future = None
        try:
            future = worker.submit(call)
            return future.result()
        except KeyboardInterrupt:
            con.interrupt()
            # DuckDB forgets an interrupt that comes before the query has begun.
            while future is not None and not wait([future], _REPEAT_SECONDS).done:
                con.interrupt()
            raise
