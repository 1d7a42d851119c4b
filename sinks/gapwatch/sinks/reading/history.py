"""Runs a stranger's SELECT on the store: one statement that reads, in a transaction that cannot write.

The connection must be confined already (`store_file`): no files, no network, no settings, no Python variables. What is
added here holds on a connection of the keeper's own process too, whose file is open for writing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.sinks.reading.query_answer import QueryResult, open_answer
from gapwatch.sinks.store.store_reader import StoreReader

#: What a report proposes to begin with.
EXAMPLE_QUERY = "SELECT * FROM verdicts LIMIT 10"

_ALLOWED = "give one SELECT (or WITH, FROM, VALUES, DESCRIBE, SHOW TABLES)"


def check_select(con: StoreReader, sql: str) -> None:
    """Refuse what is not one statement that reads.

    A SELECT can still hold a DELETE in its WITH; the transaction that `answering` opens refuses that.

    Raises:
        UsageError: No statement, several, another kind, or one that does not parse; with the engine's words.
    """
    try:
        statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(f"the query is refused: {error}") from error
    if len(statements) != 1:
        raise UsageError(f"the query is refused: it holds {len(statements)} statements; {_ALLOWED}")
    try:
        kind = statements[0].type
    except ValueError:  # a kind that the engine's Python side has no name for
        kind = duckdb.StatementType.INVALID
    if kind == duckdb.StatementType.MULTI:
        raise UsageError("the query is refused: a PIVOT without IN makes a type first; name the values with IN (...)")
    if kind != duckdb.StatementType.SELECT:
        raise UsageError(f"the query is refused: {kind.name} is not reading; {_ALLOWED}")


@contextlib.contextmanager
def read_only(con: StoreReader, sql: str) -> Iterator[None]:
    """Check a query, and hold a transaction open in which nothing can be written.

    Raises:
        UsageError: The query is refused or fails.
        JobError: The store cannot be read any further.
        KeyboardInterrupt: The engine was interrupted.
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
            con.abort()  # an answer that was not read to its end owns the connection
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")


def _plain(message: str) -> str:
    """Say it in words where the engine speaks of its own affairs."""
    if "read-only mode" in message:
        return f"it writes from within a SELECT; {_ALLOWED}"
    return message


@contextlib.contextmanager
def answering(con: StoreReader, sql: str) -> Iterator[QueryResult]:
    """Run a query and hand out its answer, batch by batch.

    Raises:
        As `read_only`; while the batches are read, too.
    """
    with read_only(con, sql):
        yield open_answer(con, sql)
