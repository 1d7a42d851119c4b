"""Client of the API: reads a store that another process holds, with the methods of a DuckDB connection.

Results come as Arrow with DuckDB's types. An empty DuckDB of the client converts them to the same Python values as the
store's own DuckDB would.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.ipc

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.printable import shown_lines
from gapwatch.sinks.api.connection import ApiConnection, Endpoint
from gapwatch.sinks.reading.snapshot import Snapshot
from gapwatch.sinks.store.ledger import Balance, LateBalance, MetricBalance, SourceBalance, SpanBalance

#: Seconds without a reply after which a snapshot fails. It writes about 500,000 rows a second.
_SNAPSHOT_SECONDS = 3600.0

#: Statements that the client ignores: on the server, each query has a transaction of its own.
_NO_QUERIES = ("BEGIN TRANSACTION READ ONLY", "ROLLBACK")


class LiveReader:
    """Reader of a store over the API. Each query sees the latest commit.

    Attributes:
        rows: Largest number of rows of a result; None for all, and a result that is too long is an error.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.rows: int | None = None
        self._connection = ApiConnection(endpoint)
        self._con = duckdb.connect(
            ":memory:", config={"threads": 1, "enable_external_access": False, "python_enable_replacements": False}
        )
        self._con.execute("SET TimeZone = 'UTC'")
        self._answer = pa.table({})

    # --- methods of a connection

    @property
    def description(self) -> list[Any]:
        """Names and types of the columns of the last result."""
        return list(self._con.description or [])

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> LiveReader:
        """Run a query.

        Raises:
            UsageError: The query is refused.
            JobError: The query exceeds a limit, or the process does not answer.
        """
        if sql not in _NO_QUERIES:
            self._answer = self._ask(sql, parameters)
            self._con.register("answer", self._answer)
            self._con.execute("SELECT * FROM answer")
        return self

    def sql(self, sql: str) -> LiveReader:
        """Run a query, to be read by `to_arrow_reader`."""
        self._answer = self._ask(sql, ())
        return self

    def to_arrow_reader(self, rows: int) -> pa.RecordBatchReader:
        """Return the last result in batches of at most `rows` rows."""
        return pa.RecordBatchReader.from_batches(self._answer.schema, self._answer.to_batches(max_chunksize=rows))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows of the last result that were not fetched yet."""
        return list(self._con.fetchall())

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """Return the next `size` rows of the last result."""
        return list(self._con.fetchmany(size))

    def extract_statements(self, sql: str) -> list[Any]:
        """Parse a text into statements, in this process."""
        return list(self._con.extract_statements(sql))

    def interrupt(self) -> None:
        """Close the connection, which ends the query on the server."""
        self._connection.interrupt()
        self._con.interrupt()

    def abort(self) -> None:
        """Drop the last result."""

    def close(self) -> None:
        """Close the client."""
        self._connection.close()
        self._con.close()

    # --- methods of the API

    def balance(self) -> Balance:
        """Return the balance of the ledger, of one commit.

        Raises:
            JobError: The process does not answer.
        """
        answer = self._connection.request_object("GET", "/v1/ledger")
        with self._connection.understanding():
            return Balance(
                [SourceBalance(**one) for one in answer["sources"]],
                [MetricBalance(**one) for one in answer["metrics"]],
                answer["strays"],
                answer["repeated"],
                [SpanBalance(**one) for one in answer["spans"]],
                [LateBalance(**one) for one in answer.get("late", [])],
            )

    def decide(self, path: str, asked: dict[str, Any]) -> str | None:
        """Send a decision.

        Args:
            path: Path of the API, such as `/v1/annotations`.
            asked: JSON object that the path accepts.

        Returns:
            The answer of the decision; None if it still waits for the writer thread.

        Raises:
            UsageError: The decision is refused.
            JobError: The process does not answer.
        """
        answer = self._connection.request_object("POST", path, asked)
        with self._connection.understanding():
            return shown_lines(str(answer.get("said", ""))) if answer["applied"] else None

    def snapshot(self, name: str | None) -> Snapshot:
        """Take a snapshot on the server.

        Raises:
            UsageError: The snapshot is refused.
            JobError: The snapshot could not be written, or the process does not answer.
        """
        answer = self._connection.request_object("POST", "/v1/snapshots", {"name": name}, _SNAPSHOT_SECONDS)
        with self._connection.understanding():
            return Snapshot(**answer)

    def understanding(self) -> AbstractContextManager[None]:
        """Return a context that turns the failure to read an answer into an error that names the address.

        Raises:
            UsageError: In the context, an answer has another form than the one that was asked for.
        """
        return self._connection.understanding()

    def post(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Send any other POST request and return its answer.

        Raises:
            UsageError: The request is refused.
            JobError: The process does not answer.
        """
        return self._connection.request_object("POST", path, asked)

    def _ask(self, sql: str, parameters: Sequence[Any]) -> pa.Table:
        asked: dict[str, Any] = {
            "sql": sql,
            "format": "duckdb_arrow",
            "parameters": [_sendable(one) for one in parameters],
        }
        if self.rows is not None:
            asked["rows"] = self.rows
        body, truncated = self._connection.request("POST", "/v1/query", asked)
        if truncated and self.rows is None:
            raise JobError(
                "the result is too long for a store that is in use; ask for fewer rows, or query a snapshot "
                "(`gapwatch snapshot`)"
            )
        with self._connection.understanding():
            table = pa.ipc.open_stream(body).read_all()
            table.validate(full=True)
            return table


def _sendable(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    return [_sendable(member) for member in value] if isinstance(value, list | tuple) else value
