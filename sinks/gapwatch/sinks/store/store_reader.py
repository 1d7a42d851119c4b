"""Protocol of a connection that reads a store: the engine's own, or one over the API of the process that keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowSource(Protocol):
    """A query that is read as Arrow."""

    def to_arrow_reader(self, rows: int, /) -> pa.RecordBatchReader:
        """Return the answer in batches of at most so many rows."""


class StoreReader(Protocol):
    """The methods of a DuckDB connection that questions to a store use."""

    @property
    def description(self) -> list[Any] | None:
        """Names and types of the columns of the last answer."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> StoreReader:
        """Ask; the answer is fetched from what is returned."""

    def sql(self, sql: str, /) -> ArrowSource:
        """Ask, to read the answer as Arrow."""

    def fetchall(self) -> list[Any]:
        """Return the rows of the last answer that were not fetched yet."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return the next rows of the last answer."""

    def extract_statements(self, sql: str, /) -> list[Any]:
        """Parse."""

    def interrupt(self) -> None:
        """End the query that is under way; from another thread."""

    def abort(self) -> object:
        """Let go of an answer that was not read to its end."""

    def close(self) -> None:
        """Let go of the store."""
