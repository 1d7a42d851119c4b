"""Runs an untrusted SELECT on the store: one reading statement, in a transaction that cannot write.

The connection must already be confined (`gapwatch.sinks.store.opening`): no files, network, settings or Python
variables. The checks here also hold on a connection of the process that writes the store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.sinks.reading.query_answer import QueryResult, open_answer
from gapwatch.sinks.store.store_reader import StoreReader

#: Query that a report suggests as a start.
EXAMPLE_QUERY = "SELECT * FROM verdicts LIMIT 10"

_ALLOWED = "give one SELECT (or WITH, FROM, VALUES, DESCRIBE, SHOW TABLES)"


def check_select(con: StoreReader, sql: str) -> None:
    """Refuse any text that is not one reading statement.

    A SELECT can still have a DELETE in its WITH. The read-only transaction of `answering` refuses that.

    Raises:
        UsageError: The text has no statement, several, one of another kind, or one that does not parse.
    """
    try:
        statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(f"the query is refused: {error}") from error
    if len(statements) != 1:
        raise UsageError(f"the query is refused: it holds {len(statements)} statements; {_ALLOWED}")
    try:
        kind = statements[0].type
    except ValueError:  # a kind without a name in DuckDB's Python module
        kind = duckdb.StatementType.INVALID
    if kind == duckdb.StatementType.MULTI:
        raise UsageError("the query is refused: a PIVOT without IN creates a type; name the values with IN (...)")
    if kind != duckdb.StatementType.SELECT:
        raise UsageError(f"the query is refused: {kind.name} is not a reading statement; {_ALLOWED}")


@contextlib.contextmanager
def read_only(con: StoreReader, sql: str) -> Iterator[None]:
    """Check a query, and hold a read-only transaction open.

    Raises:
        UsageError: The query is refused or fails.
        JobError: The store cannot be read any further.
        KeyboardInterrupt: The query was interrupted.
    """
    check_select(con, sql)
    con.execute("BEGIN TRANSACTION READ ONLY")
    try:
        yield
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.OutOfMemoryException) as error:
        raise JobError(f"the query could not be finished: {error}") from error
    except duckdb.Error as error:
        raise UsageError(f"the query is refused: {_plain(str(error))}") from error
    finally:
        with contextlib.suppress(duckdb.Error):
            con.abort()  # a result that was not read to its end blocks the connection
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")


def _plain(message: str) -> str:
    """Return DuckDB's message, or a plain one where it describes internals of DuckDB."""
    if "read-only mode" in message:
        return f"it writes from within a SELECT; {_ALLOWED}"
    return message


@contextlib.contextmanager
def answering(con: StoreReader, sql: str) -> Iterator[QueryResult]:
    """Run a query and yield its result, to be read in batches.

    Raises:
        As `read_only`, also while the batches are read.
    """
    with read_only(con, sql):
        yield open_answer(con, sql)
