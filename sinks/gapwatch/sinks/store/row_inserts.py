"""Inserts rows into the tables of the store by column name, as `schema` declares them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from gapwatch.sinks.store.schema import ROW_TABLES, qualified


def insert_row(con: duckdb.DuckDBPyConnection, table: str, row: Mapping[str, Any]) -> None:
    """Insert one row.

    Args:
        con: Connection with an open transaction.
        table: A key of `schema.ROW_TABLES`.
        row: A value for each column of the table.

    Raises:
        ValueError: A column is missing, or the table has no column of that name.
    """
    _check(table, row)
    names = ", ".join(f'"{name}"' for name in row)
    con.execute(f"INSERT INTO {qualified(table)} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))


def insert_rows(
    con: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Insert many rows with one statement. A statement for each row would take a millisecond each.

    Args:
        con: Connection with an open transaction.
        table: A key of `schema.ROW_TABLES`.
        columns: Names of all columns of the table, in any order.
        rows: Values of the rows, in the order of `columns`.

    Raises:
        ValueError: A column is missing, or the table has no column of that name.
        duckdb.ConversionException: A value does not fit its column, as DuckDB reports it for a single row.
    """
    _check(table, columns)
    if not rows:
        return
    places = {name: place for place, name in enumerate(columns)}
    schema = ROW_TABLES[table]
    try:
        arrays = [pa.array([row[places[field.name]] for row in rows], field.type) for field in schema]
    except (ValueError, TypeError, OverflowError) as error:
        raise duckdb.ConversionException(f"rows of {table} cannot be written: {error}") from error
    # A relation, because a ROLLBACK would undo a registered view. `insert_into` matches columns by position.
    con.from_arrow(pa.Table.from_arrays(arrays, schema=schema)).insert_into(qualified(table))


def _check(table: str, columns: Iterable[str]) -> None:
    if sorted(columns) != sorted(ROW_TABLES[table].names):
        raise ValueError(
            f"{table} has the columns {', '.join(ROW_TABLES[table].names)}; the given ones differ: {columns}"
        )
