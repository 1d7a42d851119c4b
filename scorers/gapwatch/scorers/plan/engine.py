"""Scoring engine: an in-memory DuckDB without access to files or network, which runs one prepared query."""

from __future__ import annotations

import warnings
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from gapwatch.scorers.plan.sql_text import literal
from gapwatch.scorers.plan.strict_json import SURROGATE, SUSPICIOUS, SUSPICIOUS_WHOLE, repair_json

# DuckDB advises to use `sql` for Arrow output. For a prepared query that would store all rows and read them again with
# a second query: 1.5 ms a slice, and 3 % of the time of a large one.
warnings.filterwarnings("ignore", message="Arrow output on a DB-API result", category=UserWarning)

_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"


class Inbox:
    """Batch that the prepared query reads; it is replaced for each slice, so that the query stays prepared."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the current batch to DuckDB, which reads it under its registered name."""
        return self.table.__arrow_c_stream__(requested_schema)

    @property
    def __arrow_c_schema__(self) -> Any:
        return self.table.schema.__arrow_c_schema__


def suspicious(column: str, *, whole: bool) -> str:
    """Return the SQL condition that DuckDB might accept a text that is not JSON by its grammar.

    Args:
        column: SQL of the text.
        whole: Whether the text may be a bare value; a record may not, for it is an object.
    """
    patterns = (*SUSPICIOUS, SUSPICIOUS_WHOLE) if whole else SUSPICIOUS
    return "(" + " OR ".join(f"regexp_matches({column}, {literal(p)})" for p in patterns) + ")"


def connect() -> duckdb.DuckDBPyConnection:
    """Open the engine: one thread, no files, no network, locked settings, and the functions that plans use."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.create_function(
        "repair_json",
        _repair_array,
        ["varchar"],
        "varchar",
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )
    connection.execute(
        f"CREATE MACRO strict(x) AS CASE WHEN json_valid(x) THEN "
        f"CASE WHEN {suspicious('x', whole=True)} THEN repair_json(x) ELSE x END "
        f"WHEN regexp_matches(x, {literal(SURROGATE)}) THEN repair_json(x) END"
    )
    connection.execute(
        f"CREATE MACRO num(x) AS CASE WHEN regexp_full_match(x, {literal(_NUMBER)}) "
        f"AND isfinite(TRY_CAST(x AS DOUBLE)) THEN TRY_CAST(x AS DOUBLE) END"
    )
    # A result computed from finite numbers can still overflow.
    connection.execute("CREATE MACRO finite(x) AS CASE WHEN isfinite(x) THEN x END")
    # The time of these optimizers grows with the square of the number of components, and they improve nothing: all
    # blocks read all of the same spans.
    connection.execute("SET disabled_optimizers = 'cte_filter_pusher,projection_pullup'")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def arrow(connection: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
    """Run one statement and return all its rows as one Arrow table."""
    table: pa.Table = connection.execute(statement).to_arrow_table()
    return table


def _repair_array(texts: pa.Array) -> pa.Array:
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    return pa.array([repair_json(text) for text in texts.to_pylist()], pa.string())
