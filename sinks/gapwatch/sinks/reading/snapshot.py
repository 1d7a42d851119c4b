"""Writes a store as Parquet files: all tables as of one commit, in a folder that appears only when it is complete.

    s.duckdb             the store
    s.duckdb.snapshots/  the only folder for snapshots, also for those requested over the API
      2026-11-21T101500Z/
        gaps.parquet ...   one file for each table
        views.sql          definitions of the tables and views, for a DuckDB that is started in this folder
        snapshot.json      number of the commit, and rows of each table

Arrow writes the files, because DuckDB may access no file but the store.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.version import program_version
from gapwatch.sinks.catalog.views import view_statements
from gapwatch.sinks.reading.query_answer import next_batch
from gapwatch.sinks.store.running_process import is_running
from gapwatch.sinks.store.schema import INTERNAL, qualified
from gapwatch.sinks.store.store_reader import StoreReader

#: Rows of a row group. Larger: more memory while writing (about 500 bytes a row of `gaps`). Smaller: slower readers.
_GROUP_ROWS = 50_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY ALL"
_PARTIAL = re.compile(r"\..*\.([0-9]{1,9})\.partial")


@dataclass(frozen=True)
class Snapshot:
    """One snapshot.

    Attributes:
        path: Folder of the snapshot.
        at: Time of its start, ISO 8601, UTC.
        seq: Number of its last commit; 0 without commits.
        tables: Number of rows by table.
        bytes: Size of all files.
        made_by: Version of the program.
    """

    path: str
    at: str
    seq: int
    tables: dict[str, int]
    bytes: int
    made_by: str


def snapshots_folder(store: Path) -> Path:
    """Return the folder for the snapshots of a store."""
    return store.with_name(store.name + ".snapshots")


def take_snapshot(
    con: StoreReader, store: Path, name: str | None, is_wanted: Callable[[], bool] = lambda: True
) -> Snapshot:
    """Write all tables, as of the last commit, into a new folder.

    Args:
        con: Connection that reads the store, without an open transaction.
        store: File of the store.
        name: Name of the folder; None for the time, in UTC.
        is_wanted: Called now and then. If it returns False, the snapshot is removed.

    Raises:
        UsageError: The name is not valid, or a snapshot has it already.
        JobError: The store cannot be read, the files cannot be written, or the caller has gone.
    """
    now = datetime.now(UTC)
    name = f"{now:%Y-%m-%dT%H%M%SZ}" if name is None else name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:100]!r} is not a valid name of a snapshot; use letters, digits, dots, dashes and underscores"
        )
    folder = snapshots_folder(store)
    target = folder / name
    if target.exists():
        raise UsageError(f"the snapshot {target} already exists; give another name")
    try:
        folder.mkdir(exist_ok=True)
        _remove_abandoned(folder)
        part = folder / f".{name}.{os.getpid()}.partial"
        part.mkdir()
    except OSError as error:
        raise JobError(f"the snapshot {target} cannot be written: {error.strerror or error}") from error
    try:
        with _one_commit(con):
            seq, tables = _write(con, part, is_wanted)
        size = sum(file.stat().st_size for file in part.iterdir())
        snapshot = Snapshot(str(target.absolute()), f"{now:%Y-%m-%dT%H:%M:%SZ}", seq, tables, size, program_version())
        values = {key: value for key, value in asdict(snapshot).items() if key != "path"}
        (part / "snapshot.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        (part / "views.sql").write_text(_views(tables), encoding="utf-8")
        part.rename(target)
    except OSError as error:
        raise JobError(f"the snapshot {target} cannot be written: {error.strerror or error}") from error
    except duckdb.Error as error:
        raise JobError(f"the snapshot {target} was not written: the store cannot be read: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return snapshot


@contextmanager
def _one_commit(con: StoreReader) -> Iterator[None]:
    con.execute("BEGIN TRANSACTION READ ONLY")
    try:
        yield
    finally:
        with suppress(duckdb.Error):
            con.execute("ROLLBACK")


def _write(con: StoreReader, part: Path, is_wanted: Callable[[], bool]) -> tuple[int, dict[str, int]]:
    import pyarrow.parquet  # slow to import

    rows = {}
    for (table,) in con.execute(_TABLES).fetchall():
        rows[table] = 0
        reader = con.sql(f"SELECT * FROM {qualified(table)}").to_arrow_reader(_GROUP_ROWS)
        with pyarrow.parquet.ParquetWriter(part / f"{table}.parquet", reader.schema, compression="zstd") as writer:
            while (batch := next_batch(reader)) is not None:
                if not is_wanted():
                    raise JobError("the snapshot was cancelled: its caller has gone, or the store is being closed")
                writer.write_batch(batch)
                rows[table] += batch.num_rows
    ((seq,),) = con.execute("SELECT coalesce(max(seq), 0) FROM offsets").fetchall()
    return seq, rows


def _views(tables: dict[str, int]) -> str:
    """Return SQL that makes the files readable as tables, and creates the views over them."""
    named = [f"CREATE VIEW {qualified(table)} AS SELECT * FROM read_parquet('{table}.parquet')" for table in tables]
    return "".join(f"{statement};\n" for statement in [f"CREATE SCHEMA {INTERNAL}", *named, *view_statements()])


def _remove_abandoned(folder: Path) -> None:
    """Remove unfinished snapshots of processes that were killed."""
    for path in folder.iterdir():
        if (begun := _PARTIAL.fullmatch(path.name)) and not is_running(int(begun[1])):
            shutil.rmtree(path, ignore_errors=True)
