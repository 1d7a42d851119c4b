"""Reads exported tables as one store: the tables of all keepers, and the same views."""

from __future__ import annotations

import duckdb

from gapwatch.scorers.errors import JobError, StoreError
from gapwatch.sinks.catalog.views import view_statements
from gapwatch.sinks.export.delta_place import DeltaPlace, without_keys
from gapwatch.sinks.export.delta_tables import DeltaTables
from gapwatch.sinks.export.exported_tables import EXPORTED, HOUR, KEEPER
from gapwatch.sinks.store.opening import CONFINED
from gapwatch.sinks.store.schema import table_statements

_COLUMNS = "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = ?"


def open_exported(place: DeltaPlace) -> duckdb.DuckDBPyConnection:
    """Open exported tables for queries that cannot change them, read other files or lift these limits.

    Each table has the columns of the store, and `keeper`, the id of the store that a row comes from. Tables that are
    not exported are empty.

    Raises:
        UsageError: The extra `export` is missing, or a table is not of this version.
        StoreError: The place has no exported table.
        JobError: The place cannot be read.
    """
    tables = DeltaTables(place)
    names = tables.names(EXPORTED)
    if not names:
        raise StoreError(f"{place} has no exported tables; `gapwatch export` writes them")
    con = duckdb.connect(":memory:", config=CONFINED)
    try:
        con.execute("SET TimeZone = 'UTC'")
        for statement in table_statements():
            con.execute(statement)
        for name in names:
            table = tables.find(name)
            if table is None:
                raise JobError(f"{place} changed while it was read; try again")
            con.register(f"exported_{name}", table.to_pyarrow_dataset())
            columns = [f'"{column}"::{kind} AS "{column}"' for column, kind in con.execute(_COLUMNS, [name]).fetchall()]
            more = [KEEPER, HOUR] if name == "ticks" else [KEEPER]
            con.execute(f"DROP TABLE {name}")
            con.execute(f"CREATE VIEW {name} AS SELECT {', '.join([*columns, *more])} FROM exported_{name}")
        for statement in view_statements():
            con.execute(statement)
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        con.close()
        raise JobError(f"{place} cannot be read: {without_keys(str(error))}") from error
    return con
