"""A store as Parquet files: all tables as of one commit, in a folder that is there whole or not at all.

    s.duckdb             the store
    s.duckdb.snapshots/  the only folder that snapshots go into, also those that are asked for over the API
      2026-11-21T101500Z/
        gaps.parquet ...   one file a table
        views.sql          the tables and views by their names, for an engine that is started in this folder
        snapshot.json      of which commit, and how many rows

The files are written here, not by the engine, which reaches no file but its own.
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
from gapwatch.sinks.reading.query_answer import next_batch
from gapwatch.sinks.store.liveness import is_running
from gapwatch.sinks.store.schema import view_statements
from gapwatch.sinks.store.store_reader import StoreReader

#: Rows of a row group. More cost memory while writing (a row of `gaps` takes some 500 bytes), fewer cost readers.
_GROUP_ROWS = 50_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY ALL"
_PARTIAL = re.compile(r"\..*\.([0-9]{1,9})\.partial")


@dataclass(frozen=True)
class Snapshot:
    """One snapshot.

    Attributes:
        path: Its folder.
        at: When it was begun; ISO 8601, UTC.
        seq: The last commit that is in it; 0: none.
        tables: Rows by table.
        bytes: Of all its files.
        made_by: Version of the program.
    """

    path: str
    at: str
    seq: int
    tables: dict[str, int]
    bytes: int
    made_by: str


def snapshots_folder(store: Path) -> Path:
    """Return the one folder that snapshots of a store go into."""
    return store.with_name(store.name + ".snapshots")


def take_snapshot(
    con: StoreReader, store: Path, name: str | None, is_wanted: Callable[[], bool] = lambda: True
) -> Snapshot:
    """Write all tables, as of the last commit, into a folder of their own.

    Args:
        con: A reader's; in no transaction.
        store: The file of the store.
        name: Of the folder; None: the time, in UTC.
        is_wanted: Asked now and then; once it says no, nothing is left of the snapshot.

    Raises:
        UsageError: The name is no plain name, or is taken.
        JobError: The store cannot be read, the files cannot be written, or nobody wants it any more.
    """
    now = datetime.now(UTC)
    name = f"{now:%Y-%m-%dT%H%M%SZ}" if name is None else name
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:100]!r} is no name of a snapshot: letters, digits, dots, dashes and underscores")
    folder = snapshots_folder(store)
    target = folder / name
    if target.exists():
        raise UsageError(f"there is a snapshot {target} already; give another name")
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
        told = {key: value for key, value in asdict(snapshot).items() if key != "path"}
        (part / "snapshot.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        (part / "views.sql").write_text(_views(tables), encoding="utf-8")
        part.rename(target)
    except OSError as error:
        raise JobError(f"the snapshot {target} cannot be written: {error.strerror or error}") from error
    except duckdb.Error as error:
        raise JobError(f"the snapshot {target} was not made: the store cannot be read: {error}") from error
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
        reader = con.sql(f'SELECT * FROM "{table}"').to_arrow_reader(_GROUP_ROWS)
        with pyarrow.parquet.ParquetWriter(part / f"{table}.parquet", reader.schema, compression="zstd") as writer:
            while (batch := next_batch(reader)) is not None:
                if not is_wanted():
                    raise JobError("the snapshot was given up: who asked for it has gone, or the store is being closed")
                writer.write_batch(batch)
                rows[table] += batch.num_rows
    ((seq,),) = con.execute("SELECT coalesce(max(seq), 0) FROM offsets").fetchall()
    return seq, rows


def _views(tables: dict[str, int]) -> str:
    """Return what gives the files the names of the tables, and makes the views over them."""
    named = [f"CREATE VIEW \"{table}\" AS SELECT * FROM read_parquet('{table}.parquet')" for table in tables]
    return "".join(f"{statement};\n" for statement in [*named, *view_statements()])


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed had begun."""
    for path in folder.iterdir():
        if (begun := _PARTIAL.fullmatch(path.name)) and not is_running(int(begun[1])):
            shutil.rmtree(path, ignore_errors=True)
