"""Opens the file of a store, or says why it cannot be opened: missing, foreign, newer, broken, or held elsewhere.

`ReaderCursors` are the further connections to a file that is open.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from datetime import datetime
from pathlib import Path
from weakref import WeakSet

import duckdb

from gapwatch.scorers.cache_files import read_cached, write_cached
from gapwatch.scorers.errors import GapwatchError, JobError, StoreError, StoreHeldError
from gapwatch.scorers.version import program_version
from gapwatch.sinks.catalog.added_tables import ADDED_NAMES, add_missing_tables
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.schema import PROGRAM, SCHEMA_VERSION, creation_statements

#: Size of the write-ahead log at which DuckDB checkpoints. Larger: data without a checkpoint stays in memory (at 2 GB,
#: a replay of 2,000,000 traces held 2.4 GB). Smaller: more checkpoints; one of 64 MB takes 0.1 to 0.2 s.
LOG_SIZE = "64MB"
#: The same for live runs. Larger: after a crash, or a stop that was cut short, whoever opens the store reads the log
#: again, at 0.1 s of CPU a MB, and 35 MB took 20 s under load. Smaller: a replay took 8 % more CPU with this size.
LIVE_LOG_SIZE = "8MB"
#: Memory limit of the DuckDB that writes. Beyond it, DuckDB spills into a folder beside the store: slices of 300,000
#: rows were stored with 100 MB. Without a limit, all blocks that DuckDB has read or written stay in memory.
MEMORY = "128MB"
#: The same limit if API queries share the DuckDB instance. Their 512 MB (see `gapwatch.sinks.api.query`) come on top,
#: so that a query is ended before the writer runs out of memory.
MEMORY_WITH_READERS = "768MB"

#: Oldest DuckDB that can read the file: the format of 1.3 is the first that compresses the texts of a dictionary, too.
#: Rows of gaps take 40 % less room and CPU at a checkpoint than in that of 1.2; newer formats gain nothing. A store
#: that an earlier version created keeps its format.
STORAGE_VERSION = "v1.3.0"

#: Oldest schema version that `gapwatch migrate` converts; older stores are from before the first release.
OLDEST_MIGRATED = 3

#: Seconds between two looks at the cursors of readers.
_LOOK_SECONDS = 0.005

Config = dict[str, str | bool | int | float | list[str]]

#: A store holds texts of users and models. No query may reach a file, a socket or a Python variable.
CONFINED: Config = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}

_WRITING: Config = {**CONFINED, "storage_compatibility_version": STORAGE_VERSION, "threads": 1}

#: For readers in the process that writes: Arrow columns that carry DuckDB's type (JSON, UUID, HUGEINT).
_FOR_READERS: Config = {"arrow_lossless_conversion": True}

_HOLDER = re.compile(r"Conflicting lock is held in (.*?) ?\(PID (\d+)\)")


def open_for_writing(
    path: Path, *, create: bool, now: datetime, memory: str = MEMORY, log_size: str = LOG_SIZE
) -> duckdb.DuckDBPyConnection:
    """Open a store for exclusive writing, and create it first if `create` is set and the file is missing.

    Args:
        path: The file. Its directory must exist.
        create: Create the store if the file is missing or empty.
        now: Time of creation to record, naive UTC.
        memory: Memory limit of DuckDB, such as `128MB`.
        log_size: Size of the write-ahead log at which DuckDB checkpoints, such as `64MB`.

    Raises:
        StoreError: The file is missing, not a store, of another schema version, or in use by another process.
        JobError: The disk is full.
    """
    _check_path(path, may_be_missing=create)
    if create:
        _create_file(path)
    # One thread for DuckDB: readers work in their own threads and take none from the writer, and a small commit wakes
    # no other thread, which cost 1.5 % of a core at 200 traces/s on two cores, and more on more cores.
    written: Config = {**_WRITING, **_FOR_READERS, "checkpoint_threshold": log_size, "memory_limit": memory}
    con = _connect(path, read_only=False, config=written)
    try:
        con.execute("SET GLOBAL TimeZone = 'UTC'")
        if create:
            _create_tables(con)
            _sign(con, now)
        _check_program(con, path)
        add_missing_tables(con)
    except duckdb.Error as error:
        con.close()
        raise JobError(_not_created(path, error)) from error
    except BaseException:
        con.close()
        raise
    return con


def open_for_reading(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a store that no process writes, for queries that cannot change it, read other files or lift these limits.

    Raises:
        StoreError: As for `open_for_writing`.
    """
    _check_path(path, may_be_missing=False)
    con = _connect(path, read_only=True, config=CONFINED)
    try:
        _check_program(con, path)
        con.execute("SET TimeZone = 'UTC'")
        con.execute("SET lock_configuration = true")
    except BaseException:
        con.close()
        raise
    return con


def remove_unused(path: Path) -> bool:
    """Delete a store in which nothing but portfolios is stored; return whether it was deleted.

    Raises:
        StoreError: The path is no store, or another process holds it.
    """
    with contextlib.closing(open_for_reading(path)) as con:
        # Each table is named: with rows in one of them the file is worth more than a tidy folder.
        there = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        named = [name for name in ("offsets", "gaps", "overrides", "annotations", *ADDED_NAMES) if name in there]
        counts = " + ".join(f"(SELECT count(*) FROM {name})" for name in named)
        rows = con.execute(f"SELECT {counts}").fetchall()
    if rows != [(0,)]:
        return False
    path.unlink()
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    return True


def check_file(path: Path) -> None:
    """Refuse a path that cannot be a store.

    Raises:
        StoreError: The path is a directory, or there is no file, or an empty one.
    """
    _check_path(path, may_be_missing=False)


def _check_path(path: Path, *, may_be_missing: bool) -> None:
    if str(path).startswith(("http:/", "https:/")):
        address = str(path).replace(":/", "://", 1)
        raise StoreError(f"{address}: this command opens the file of a store, and takes no address; give the file")
    if "?" in str(path.absolute()):
        raise StoreError(f"{path}: DuckDB reads the text after a ? as options; give the store a name without a ?")
    if path.is_dir():
        raise StoreError(f"{path} is a directory; name the file of the store, such as {path / 'gapwatch.duckdb'}")
    if not path.parent.is_dir():
        raise StoreError(f"the directory {path.parent} of the store {path.name} does not exist; make it first")
    if path.is_file() and not _begins_as_duckdb(path):
        raise StoreError(f"{path} is not a store of Gapwatch: it is not a DuckDB file")
    if may_be_missing:
        return
    if not path.exists():
        raise StoreError(f"there is no store {path}; `gapwatch replay` creates one")
    if path.stat().st_size == 0:
        raise StoreError(f"{path} is empty and not a store of Gapwatch")


def _begins_as_duckdb(path: Path) -> bool:
    """Return False for a file that cannot be DuckDB's; DuckDB opens files of other kinds, such as JSON, as data."""
    try:
        with path.open("rb") as file:
            begin = file.read(12)
    except OSError:
        return True  # DuckDB says what is wrong
    return not begin or begin[8:12] == b"DUCK"


def _connect(path: Path, *, read_only: bool, config: Config) -> duckdb.DuckDBPyConnection:
    try:
        # Absolute path: DuckDB gives names such as `md:x` or `:memory:` another meaning.
        return duckdb.connect(str(path.absolute()), read_only=read_only, config=config)
    except duckdb.Error as error:
        raise opening_error(path, error) from error


def opening_error(path: Path, error: duckdb.Error) -> GapwatchError:
    """Return the error that says why DuckDB could not open a store."""
    if "No space left" in str(error):
        return JobError(f"the store {path} cannot be opened: {error}. The disk is full: make room")
    kind = StoreHeldError if _is_held(str(error)) else StoreError
    return kind(_why_not_opened(path, str(error)))


def _is_held(message: str) -> bool:
    return any(word in message for word in ("Could not set lock", "different configuration", "already attached"))


def _why_not_opened(path: Path, message: str) -> str:
    if holder := _HOLDER.search(message):
        return (
            f"the store {path} is held by another process, pid {holder[2]} ({holder[1]}); "
            "stop it, or query it over its API"
        )
    if "Could not set lock" in message:
        return f"the store {path} is held by another process; stop it, or query it over its API"
    if "different configuration" in message or "already attached" in message:
        return f"the store {path} is already open in this process"
    if "not a valid DuckDB database" in message:
        return f"{path} is not a store of Gapwatch: it is not a DuckDB file"
    if "version number" in message:
        return f"{path} was written by a DuckDB version that this program cannot read; upgrade Gapwatch ({message})"
    return f"the store {path} cannot be opened: {message}"


def _create_file(path: Path) -> None:
    """Put the file of an empty store in place, unless there is a file already."""
    path = path.resolve()
    if path.is_file() and path.stat().st_size == 0:
        path.unlink()  # left by a creation on a full disk; DuckDB refuses an empty file
    if path.exists():
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        if not _empty_store:
            _empty_store.append(_make_empty_store(part))
        part.write_bytes(_empty_store[0])
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(part, path)
    except duckdb.Error as error:
        raise JobError(_not_created(path, error)) from error
    except OSError as error:
        raise JobError(_not_created(path, error.strerror or error)) from error
    finally:
        part.unlink(missing_ok=True)


def make_empty_file(path: Path) -> duckdb.DuckDBPyConnection:
    """Make the file of an empty store, without its row in `store`, and open it for writing.

    Raises:
        JobError: The file cannot be made.
    """
    _create_file(path)
    con = _connect(path, read_only=False, config={**_WRITING, **_FOR_READERS, "memory_limit": MEMORY})
    con.execute("SET GLOBAL TimeZone = 'UTC'")
    return con


#: File of an empty store, made or read by the first creation of this process.
_empty_store: list[bytes] = []


def _make_empty_store(part: Path) -> bytes:
    """Return the file of an empty store: from the cache, else made by SQL, which takes 0.4 s of CPU.

    Args:
        part: Path for the file while SQL makes it.
    """
    made_by = (duckdb.__version__, STORAGE_VERSION, *creation_statements())
    name = f"empty_store_{hashlib.sha256(chr(0).join(made_by).encode()).hexdigest()[:16]}"
    kept = read_cached(name)
    if kept is None:
        with _connect(part, read_only=False, config=_WRITING) as con:
            _create_tables(con)
            con.execute("CHECKPOINT")
        kept = part.read_bytes()
        write_cached(name, kept)
    return kept


def _not_created(path: Path, error: object) -> str:
    return f"the store {path} could not be created: {error}. If the disk is full, make room"


def _create_tables(con: duckdb.DuckDBPyConnection) -> None:
    if con.execute("SELECT 1 FROM duckdb_tables() WHERE NOT internal LIMIT 1").fetchall():
        return
    con.execute("BEGIN")
    for statement in creation_statements():
        con.execute(statement)
    con.execute("COMMIT")


def _sign(con: duckdb.DuckDBPyConnection, now: datetime) -> None:
    """Record what created the store; only in the file of an empty store."""
    try:
        if con.execute("SELECT 1 FROM store UNION ALL SELECT 1 FROM offsets LIMIT 1").fetchall():
            return
    except duckdb.Error:  # the file of another program
        return
    row = {"program": PROGRAM, "schema_version": SCHEMA_VERSION, "created_at": now, "created_by": program_version()}
    insert_row(con, "store", row)
    con.execute("CHECKPOINT")  # table definitions are safer in the file than in the write-ahead log


def _check_program(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        rows = con.execute("SELECT program, schema_version FROM store").fetchall()
    except duckdb.Error:
        rows = []
    if len(rows) != 1 or rows[0][0] != PROGRAM:
        raise StoreError(f"{path} is not a store of Gapwatch: it is the DuckDB file of another program")
    if rows[0][1] > SCHEMA_VERSION:
        raise StoreError(
            f"the store {path} has schema version {rows[0][1]}; this program reads up to version {SCHEMA_VERSION}: "
            "upgrade Gapwatch"
        )
    if rows[0][1] < OLDEST_MIGRATED:
        raise StoreError(
            f"the store {path} has schema version {rows[0][1]}, from before the first release of Gapwatch; this "
            f"program writes version {SCHEMA_VERSION}: use a new store, and read the old one with the program that "
            "wrote it"
        )
    if rows[0][1] < SCHEMA_VERSION:
        raise StoreError(
            f"the store {path} has schema version {rows[0][1]}; this program reads and writes version "
            f"{SCHEMA_VERSION}: run `gapwatch migrate --store {path}`, which keeps a copy of the old file"
        )


class ReaderCursors:
    """Cursors that readers have of a store in use, and the gate that holds new ones back while its file is replaced.

    Attributes:
        gate: Held while a cursor is made, and by the writer while the file is replaced.
    """

    def __init__(self) -> None:
        self.gate = threading.RLock()
        self._given: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()

    def add(self, cursor: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """Return a cursor, and remember it as long as its reader has it."""
        self._given.add(cursor)
        return cursor

    def wait(self, seconds: float) -> bool:
        """Wait until readers have closed their cursors; return whether all have. The caller holds the gate."""
        end = time.monotonic() + seconds
        while any(_is_open(cursor) for cursor in list(self._given)):
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def close(self, con: duckdb.DuckDBPyConnection, seconds: float) -> None:
        """Close a connection and its cursors. Waits while DuckDB refuses because a reader's query runs.

        Args:
            con: Connection of the writer; new cursors are refused from the first attempt on.
            seconds: Longest wait.

        Raises:
            duckdb.ResourceInUseException: A query runs on.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                con.close()
            except duckdb.ResourceInUseException:
                if time.monotonic() > end:
                    raise
                time.sleep(_LOOK_SECONDS)
            else:
                return


def _is_open(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a cursor is not closed yet. Of the methods of a cursor, this one answers during a query, too."""
    try:
        cursor.query_progress()
    except duckdb.ConnectionException:
        return False
    return True
