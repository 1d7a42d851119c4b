"""Protocol of a connection that reads a store: DuckDB's own, or one over the API of the process that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowSource(Protocol):
    """A query whose result is read as Arrow."""

    def to_arrow_reader(self, rows: int, /) -> pa.RecordBatchReader:
        """Return the result in batches of at most `rows` rows."""


class StoreReader(Protocol):
    """Methods of a DuckDB connection that queries on a store use."""

    @property
    def description(self) -> list[Any] | None:
        """Names and types of the columns of the last result."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> StoreReader:
        """Run a query; its rows are fetched from the returned reader."""

    def sql(self, sql: str, /) -> ArrowSource:
        """Run a query whose result is read as Arrow."""

    def fetchall(self) -> list[Any]:
        """Return the rows of the last result that were not fetched yet."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return the next `size` rows of the last result."""

    def extract_statements(self, sql: str, /) -> list[Any]:
        """Parse a text into statements."""

    def interrupt(self) -> None:
        """End the running query; called from another thread."""

    def abort(self) -> object:
        """Release a result that was not read to its end."""

    def close(self) -> None:
        """Close the connection."""
