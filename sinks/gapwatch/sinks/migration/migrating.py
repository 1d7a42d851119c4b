"""Migrates a store: converts it into a new file, keeps the old one as a backup, and swaps the two atomically.

s.duckdb ──convert──▶ .s.duckdb.<pid>.migrating      interrupted here: s.duckdb is as it was
    └──hard link───▶ s.duckdb.v3.backup              interrupted here: as above, with a second name
.s.duckdb.<pid>.migrating ──rename──▶ s.duckdb       one step of the file system
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from gapwatch.scorers.errors import JobError, StoreError
from gapwatch.sinks.migration.converting import Progress, can_migrate, convert, version_of
from gapwatch.sinks.store.opening import check_file, opening_error
from gapwatch.sinks.store.running_process import is_running
from gapwatch.sinks.store.schema import SCHEMA_VERSION

#: Free bytes beyond the size of the store that a migration asks for.
_ROOM = 64 * 2**20


@dataclass(frozen=True)
class Migrated:
    """Result of a migration.

    Attributes:
        version: Schema version before.
        rows: Number of rows by table; empty if the store had the current version already.
        backup: The old file; None if the store had the current version already.
    """

    version: int
    rows: dict[str, int]
    backup: Path | None


def migrate(path: Path, progress: Progress) -> Migrated:
    """Convert a store to the current schema version. No process may have it open.

    Raises:
        StoreError: The file is missing, no store, in use, or of a version that cannot be converted.
        JobError: The disk has too little room, or a file cannot be read or written. The store is as it was.
    """
    check_file(path)
    path = path.resolve()  # a symbolic link stays where it is
    try:
        version = _version(path)
        if version == SCHEMA_VERSION:
            return Migrated(version, {}, None)
        _fold_log(path)
        _check_room(path)
        _remove_abandoned(path)
        new = path.with_name(f".{path.name}.{os.getpid()}.migrating")
        try:
            before = _identity(path)
            rows = convert(path, new, progress)
            return Migrated(version, rows, _swap(path, new, version, before))
        finally:
            _remove(new)
    except duckdb.Error as error:
        raise opening_error(path, error) from error
    except OSError as error:
        raise JobError(f"{path} is as it was: it could not be migrated: {error.strerror or error}") from error


def _version(path: Path) -> int:
    version = version_of(path)
    if version is None:
        raise StoreError(f"{path} is not a store of Gapwatch: it is the DuckDB file of another program")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the store {path} has schema version {version}; this program writes version {SCHEMA_VERSION}: upgrade "
            "Gapwatch"
        )
    if version != SCHEMA_VERSION and not can_migrate(version):
        raise StoreError(
            f"the store {path} has schema version {version}, from before the first release of Gapwatch, and cannot be "
            "migrated: use a new store, and read the old one with the program that wrote it"
        )
    return version


def _fold_log(path: Path) -> None:
    """Fold the write-ahead log of a process that was killed into its file, as any opening does."""
    if path.with_name(path.name + ".wal").exists():
        with duckdb.connect(str(path), config={"enable_external_access": False}) as con:
            con.execute("CHECKPOINT")


def _check_room(path: Path) -> None:
    needed = path.stat().st_size + _ROOM
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise JobError(
            f"{path} is as it was: its migration needs {needed >> 20:,} MiB of free disk in {path.parent}, which has "
            f"{free >> 20:,} MiB; make room"
        )


def _remove_abandoned(path: Path) -> None:
    """Remove unfinished files of migrations that were killed."""
    for other in path.parent.iterdir():
        begun = re.fullmatch(rf"\.{re.escape(path.name)}\.([0-9]{{1,9}})\.migrating", other.name)
        if begun and not is_running(int(begun[1])):
            _remove(other)


def _remove(new: Path) -> None:
    for name in (new.name, f"{new.name}.wal"):
        new.with_name(name).unlink(missing_ok=True)
    shutil.rmtree(new.with_name(f"{new.name}.tmp"), ignore_errors=True)


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _swap(path: Path, new: Path, version: int, before: tuple[int, int, int]) -> Path:
    """Keep the old file as a backup, and put the new one in its place; return the backup."""
    shutil.copymode(path, new)
    with new.open("rb") as written:
        os.fsync(written.fileno())
    with _locked(path):
        if _identity(path) != before or path.with_name(path.name + ".wal").exists():
            raise StoreError(
                f"{path} is as it was: another process wrote it during its migration; stop it, and try again"
            )
        backup = _back_up(path, version)
        new.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    return backup


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock that DuckDB takes on a file that it writes."""
    with path.open("rb+") as held:
        try:
            fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(
                f"{path} is as it was: another process opened it during its migration; stop it, and try again"
            ) from error
        yield


def _back_up(path: Path, version: int) -> Path:
    """Give the old file a second name, which takes no room; copy it on a file system without hard links."""
    for number in range(1_000):
        backup = path.with_name(f"{path.name}.v{version}.backup" + (f".{number}" if number else ""))
        if backup.exists() and backup.samefile(path):  # of a migration that was killed before its last step
            return backup
        if backup.exists():
            continue
        try:
            os.link(path, backup)
        except OSError:
            part = backup.with_name(f".{path.name}.{os.getpid()}.migrating.copy")
            try:
                shutil.copy2(path, part)
                part.rename(backup)
            finally:
                part.unlink(missing_ok=True)
        return backup
    raise JobError(f"{path} is as it was: there are too many backups of it; remove some")
