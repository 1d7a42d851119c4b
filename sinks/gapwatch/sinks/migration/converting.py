"""Copies the tables of an old store into a new file of the current schema version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

from gapwatch.scorers.slices.sample_record import with_text
from gapwatch.sinks.migration.incident_statements import INCIDENT_STATEMENTS
from gapwatch.sinks.store.opening import OLDEST_MIGRATED, STORAGE_VERSION
from gapwatch.sinks.store.schema import SCHEMA_VERSION, creation_statements, qualified

#: Rows of one transaction. Larger: progress is shown less often. Smaller: small tables take as long, large ones longer.
STEP_ROWS = 500_000
#: The same for samples, whose texts have up to 10 MB each.
_STEP_SAMPLES = 500

#: Called after each step with the name of the table, and the numbers of its copied rows and of all its rows.
Progress = Callable[[str, int, int], None]


def version_of(path: Path) -> int | None:
    """Return the schema version of a store; None if the file is not a store.

    Raises:
        duckdb.Error: The file cannot be opened.
    """
    with duckdb.connect(str(path.absolute()), read_only=True, config={"enable_external_access": False}) as con:
        try:
            rows = con.execute("SELECT program, schema_version FROM store").fetchall()
        except duckdb.CatalogException:
            return None
    return int(rows[0][1]) if len(rows) == 1 and rows[0][0] == "gapwatch" else None


def convert(old: Path, new: Path, progress: Progress) -> dict[str, int]:
    """Copy a store into a new file. The old file is only read, and no process can write it meanwhile.

    Args:
        old: A store of an older version, without a write-ahead log.
        new: The file to write; it must not exist.
        progress: Called after each step.

    Returns:
        The number of rows by table.

    Raises:
        duckdb.Error: The old file cannot be read, or the new one cannot be written.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1, "memory_limit": "512MB", "temp_directory": f"{new}.tmp",
        "autoinstall_known_extensions": False, "autoload_known_extensions": False,
    }  # fmt: skip
    with duckdb.connect(":memory:", config=config) as con:
        con.execute(f"ATTACH {_quoted(old)} AS old (READ_ONLY)")
        con.execute(f"ATTACH {_quoted(new)} AS new (STORAGE_VERSION '{STORAGE_VERSION}')")
        con.execute("USE new")
        con.execute("BEGIN")
        for statement in creation_statements():
            con.execute(statement)
        con.execute("COMMIT")
        old_version = con.execute("SELECT schema_version FROM old.store").fetchall()[0][0]
        rows = {table: _copy(con, table, columns, progress) for table, columns in _shared_columns(con)}
        if old_version < 5:
            con.execute("BEGIN")
            for statement in INCIDENT_STATEMENTS:
                con.execute(statement)
            con.execute("COMMIT")
        if old_version < 7:  # which of them were joined was not recorded: none of them is joined any more
            con.execute(
                """INSERT INTO new.internal.tick_joins SELECT lane, max(seq), max(seq) FROM old.offsets
                    WHERE lane = 'live' GROUP BY lane"""
            )
        con.execute("UPDATE new.store SET schema_version = ?", [SCHEMA_VERSION])
        con.execute("CHECKPOINT new")
        con.execute("USE memory")
        con.execute("DETACH new")
    return rows


def _shared_columns(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, list[str]]]:
    """Yield each table that both versions have, with the columns that both have."""
    columns: dict[str, dict[str, list[str]]] = {"old": {}, "new": {}}
    for database, table, column in con.execute(
        """SELECT c.database_name, c.table_name, c.column_name FROM duckdb_columns() c
            JOIN duckdb_tables() t ON t.table_oid = c.table_oid AND t.database_name = c.database_name
            WHERE c.database_name IN ('old', 'new') ORDER BY c.table_name, c.column_index"""
    ).fetchall():
        columns[database].setdefault(table, []).append(column)
    for table, names in columns["old"].items():
        known = set(columns["new"].get(table, ()))
        if shared := [name for name in names if name in known]:
            yield table, shared


def _copy(con: duckdb.DuckDBPyConnection, table: str, columns: list[str], progress: Progress) -> int:
    """Copy one table in its order, and return its number of rows."""
    schema = con.execute(
        "SELECT schema_name FROM duckdb_tables() WHERE database_name = 'old' AND table_name = ?", [table]
    ).fetchall()[0][0]
    source, target = (
        f"old.{schema}.{table}",
        f"new.{qualified(table)}" if "." in qualified(table) else f"new.main.{table}",
    )
    names = ", ".join(f'"{name}"' for name in columns)
    step = _STEP_SAMPLES if table == "samples" else STEP_ROWS
    ((last, total),) = con.execute(f"SELECT coalesce(max(rowid), -1), count(*) FROM {source}").fetchall()
    copied = 0
    for first in range(0, last + 1, step):
        rows = f"SELECT {names} FROM {source} WHERE rowid >= {first} AND rowid < {first + step}"
        if table == "samples":  # samples of version 3 hold their text compressed with zstd
            con.register("unpacked", with_text(con.sql(rows).to_arrow_table()))
            rows = "SELECT * FROM unpacked"
        copied += con.execute(f"INSERT INTO {target} ({names}) {rows}").fetchall()[0][0]
        progress(table, copied, total)
    if copied != total:
        raise duckdb.Error(f"{copied} of {total} rows of {table} were copied")
    return copied


def _quoted(path: Path) -> str:
    return "'" + str(path.absolute()).replace("'", "''") + "'"


def can_migrate(version: int) -> bool:
    """Return whether a store of this schema version can be converted."""
    return OLDEST_MIGRATED <= version < SCHEMA_VERSION
