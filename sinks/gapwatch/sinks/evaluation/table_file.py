"""Reads a file of a table (CSV, Parquet, JSON and others) with DuckDB."""

from __future__ import annotations

import contextlib

import duckdb
import pyarrow as pa

from gapwatch.scorers.errors import SourceError


def read_table_file(path: str) -> pa.Table:
    """Return the table in a file, in a format that DuckDB knows by the file's name.

    Raises:
        SourceError: DuckDB cannot read the file.
    """
    with contextlib.closing(duckdb.connect()) as con:
        try:
            quoted = path.replace("'", "''")
            return con.sql(f"SELECT * FROM '{quoted}'").to_arrow_table()
        except duckdb.Error as error:
            why = str(error).splitlines()[0]
            raise SourceError(
                f"{path}: cannot be read as a table: {why}; give JSON lines (.jsonl), .csv or .parquet"
            ) from None
