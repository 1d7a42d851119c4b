"""Gives free space of a store's file back: copies what is alive to a new file and puts that in its place.

DuckDB uses the blocks of deleted rows again, but never makes the file shorter. So after retention has deleted much:

    S            ████░░░░░░░░░░░░██░░░█      begin: nothing that is stored changes from here on; slices go on
    S.compact    ██████                      copy_rows: rows of commits up to the last one, on a thread of its own, and
                                             again those since then, until few are left
    S.compact    ███████                     finish, on the writer thread: the last rows, and all small tables
    S            ███████                     one rename

A process that dies before the rename leaves the old file whole, and one that dies after it the new one; a copy that was
left behind is deleted at the next beginning.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.store.opening import make_empty_file
from gapwatch.sinks.store.schema import KEPT_TABLES, qualified
from gapwatch.sinks.store.store import Store

#: Free bytes of a file below which nothing is gained, and largest size of a file beside its live bytes.
LEAST_FREE, MOST_RATIO = 64 << 20, 1.3
#: Rows that are copied at a time, about 300 bytes each in memory.
_BATCH = 20_000
#: Commits that the last step may copy. Each takes about a millisecond, in which slices wait.
_LAST_COMMITS = 50
#: Tables whose rows belong to a commit and stay as they are until retention; all others are small and copied last.
_COMMITTED = (*KEPT_TABLES, "offsets", "judge_requests", "judge_closed", "judge_calls", "outbox")
_GROWING = tuple(sorted(qualified(name) for name in _COMMITTED))


@dataclass(frozen=True)
class FileSpace:
    """Space of a store's file.

    Attributes:
        file_bytes: Size of the file.
        live_bytes: Size of the blocks in use.
    """

    file_bytes: int
    live_bytes: int

    @property
    def is_wasteful(self) -> bool:
        """True if a copy gives enough back."""
        return self.file_bytes - self.live_bytes > LEAST_FREE and self.file_bytes > MOST_RATIO * self.live_bytes


def file_space(store: Store) -> FileSpace:
    """Return the space of a store's file as of its last checkpoint."""
    ((block, total, used),) = store.query("SELECT block_size, total_blocks, used_blocks FROM pragma_database_size()")
    return FileSpace(block * total, block * used)


class Compaction:
    """One copy of a store's file.

    `begin` and `finish` run on the writer thread, `copy_rows` on any other. `end` is called in any case, on the writer
    thread.

    Args:
        store: Open for writing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path = store.path.with_name(f"{store.path.name}.compact")
        self._copied = 0
        self._unwanted, self._copying = threading.Event(), threading.Lock()
        self._fresh: duckdb.DuckDBPyConnection | None = None

    def begin(self) -> None:
        """Make the new file, and let upkeep change no stored row until `end`.

        Raises:
            JobError: The file cannot be made.
        """
        self._store.keeps_rows = True
        _remove(self.path)
        self._fresh = make_empty_file(self.path)

    def cancel(self) -> None:
        """End `copy_rows` soon; called from another thread."""
        self._unwanted.set()

    def copy_rows(self) -> None:
        """Copy the rows of stored commits, until few commits are left."""
        with self._copying:
            while not self._unwanted.is_set() and self._store.seq - self._copied > _LAST_COMMITS:
                until = self._store.seq
                with closing(self._store.cursor()) as old:
                    for table in _GROWING:
                        self._copy(old, table, f"WHERE seq > {self._copied} AND seq <= {until}")
                self._copied = until
            if self._fresh is not None:  # so that the last step has little to write
                self._fresh.execute("CHECKPOINT")
                _sync(self.path)

    def finish(self) -> FileSpace | None:
        """Copy what is left and put the new file in the place of the old one, while no one reads.

        Returns:
            The space of the file afterwards; None if a reader went on reading, so that nothing happened. Then
            `copy_rows` and `finish` may be called again.

        Raises:
            JobError: The new file has not as many rows, so that the old one stays. Or the store could not be opened
                again; then `Store.is_broken`, and the process has to end.
        """
        assert self._fresh is not None
        with self._store.without_readers() as nobody_reads:
            if not nobody_reads:
                return None
            self._copy_last(self._fresh)
            self._fresh.execute("CHECKPOINT")
            self._fresh.close()
            self._fresh = None
            self._store.replace_file(self._place)
        return file_space(self._store)

    def end(self) -> None:
        """Delete a copy that was not put in place, and let upkeep go on."""
        with self._copying:
            if self._fresh is not None:
                self._fresh.close()
                self._fresh = None
        _remove(self.path)
        self._store.keeps_rows = False

    def _copy_last(self, fresh: duckdb.DuckDBPyConnection) -> None:
        """Copy the rows of the last commits, and all small tables."""
        with closing(self._store.cursor()) as old:
            tables = [f"{schema}.{name}" for schema, name in old.execute(_TABLES).fetchall()]
            for table in tables:
                named = table.removeprefix("main.")
                self._copy(old, named, f"WHERE seq > {self._copied}" if named in _GROWING else "")
            if any(_rows(old, table) != _rows(fresh, table) for table in tables):
                raise JobError("the copy has not as many rows; the old file stays")

    def _copy(self, old: duckdb.DuckDBPyConnection, table: str, which: str) -> None:
        try:
            self._insert(table, old.sql(f"FROM {table} {which}").to_arrow_reader(_BATCH))
        except duckdb.Error as error:
            raise JobError(f"{table} could not be copied to {self.path}: {error}; is the disk full?") from error

    def _insert(self, table: str, batches: pa.RecordBatchReader) -> None:
        assert self._fresh is not None
        for batch in batches:
            if self._unwanted.is_set():
                return
            self._fresh.register("copied_rows", batch)
            self._fresh.execute(f"INSERT INTO {table} SELECT * FROM copied_rows")
            self._fresh.unregister("copied_rows")

    def _place(self) -> None:
        log = self._store.path.with_name(f"{self._store.path.name}.wal")
        if log.exists() and log.stat().st_size:  # it has commits that are not in the file: it stays
            return
        _sync(self.path)
        self.path.replace(self._store.path.resolve())
        _sync(self._store.path.resolve().parent)


_TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary"


def _rows(con: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def _sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
