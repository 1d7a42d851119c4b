"""Writes and opens Delta tables by delta-rs: each write is one atomic commit with a mark of its store."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from gapwatch.scorers.errors import GapwatchError, JobError, UsageError
from gapwatch.sinks.export.delta_place import DeltaPlace, delta_message
from gapwatch.sinks.export.exported_tables import BY_HOUR, HOUR, KEEPER, exported_schema
from gapwatch.sinks.store.schema import SCHEMA_VERSION

Result = TypeVar("Result")

#: Attempts of a write that other writers were faster than, and seconds before the second; each further pause doubles,
#: up to a second.
_ATTEMPTS, _PAUSE_SECONDS = 30, 0.02


class DeltaTables:
    """Exported tables of one place.

    Args:
        place: Folder or bucket.

    Raises:
        UsageError: The extra `export` is not installed.
    """

    def __init__(self, place: DeltaPlace) -> None:
        try:
            import deltalake
            import deltalake.exceptions
        except ImportError:
            raise UsageError("exported tables need delta-rs; run: pip install 'gapwatch[export]'") from None
        self.place, self._delta = place, deltalake

    def names(self, known: Iterable[str]) -> list[str]:
        """Return those of the known tables that the place has.

        Raises:
            UsageError: One of them was not written by this version of Gapwatch.
            JobError: The place cannot be read.
        """
        return [name for name in known if self.find(name) is not None]

    def find(self, name: str) -> Any | None:
        """Return a table as of now, a `deltalake.DeltaTable`; None if there is none.

        Raises:
            UsageError: The table is not of Gapwatch, or of another version.
            JobError: The place cannot be read.
        """
        where = self.place.table(name)
        with self._speaking("read"):
            try:
                table = self._delta.DeltaTable(where)
            except self._delta.exceptions.TableNotFoundError:
                if self.place.is_local and _is_foreign(Path(where)):
                    raise UsageError(f"{where} is not a table of Gapwatch; give another folder") from None
                return None
            made_as = table.metadata()
        if made_as.name != f"gapwatch.{name}":
            raise UsageError(f"{where} is a table of another program; give another folder")
        if made_as.description != _version_text():
            raise UsageError(
                f"{where} has {made_as.description}; this program reads and writes {_version_text()}: export to "
                "another folder"
            )
        return table

    def open(self, name: str) -> Any:
        """Return a table as of now, and make it first if there is none.

        Raises:
            UsageError: The table is not of Gapwatch, or of another version.
            JobError: The place cannot be read or written.
        """
        if (table := self.find(name)) is not None:
            return table
        if self.place.is_local:
            with self._speaking("written"):
                Path(self.place.uri).mkdir(parents=True, exist_ok=True)
        parts = [KEEPER, HOUR] if name == BY_HOUR else [KEEPER]
        with self._speaking("written"), contextlib.suppress(self._delta.exceptions.CommitFailedError):
            self._delta.DeltaTable.create(
                self.place.table(name), exported_schema(name), mode="ignore", partition_by=parts,
                name=f"gapwatch.{name}", description=_version_text(),
            )  # fmt: skip
        table = self.find(name)
        if table is None:
            raise JobError(f"the table {self.place.table(name)} could not be made; try again")
        return table

    def write(
        self, table: Any, batches: Iterable[pa.RecordBatch], keeper: str, mark: int, replacing: str | None = None
    ) -> None:
        """Write rows in one commit, all of them or none, with a mark of the store.

        Args:
            table: Table, from `open`; another write of the same store since then makes this one fail.
            batches: Rows with the columns of the table.
            keeper: Id of the store.
            mark: Number that `mark_of` returns from now on.
            replacing: SQL condition of the rows that these rows replace; None: no row is replaced.

        Raises:
            deltalake.exceptions.CommitFailedError: Another writer was faster; see `retried`.
            JobError: The place cannot be written.
        """
        schema, failed = exported_schema(table.metadata().name.removeprefix("gapwatch.")), list[BaseException]()

        def rows() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except BaseException as error:  # Arrow would report it as an error of a file, without its kind
                failed.append(error)
                raise

        delta = self._delta
        how: dict[str, Any] = {"mode": "append"} if replacing is None else {"mode": "overwrite", "predicate": replacing}
        with self._speaking("written", failed):
            delta.write_deltalake(
                table, pa.RecordBatchReader.from_batches(schema, rows()), **how,
                writer_properties=delta.WriterProperties(compression="ZSTD"),
                commit_properties=delta.CommitProperties(app_transactions=[delta.Transaction(keeper, mark)]),
            )  # fmt: skip

    def retried(self, write: Callable[[], Result]) -> Result:
        """Run a function that opens a table and writes it, again while other writers are faster.

        Raises:
            JobError: Other writers were faster each time; nothing of the last attempt is written.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return write()
            except self._delta.exceptions.CommitFailedError as error:
                last = error
            share = 0.5 + os.getpid() % 97 / 97  # two processes that met do not meet again
            time.sleep(share * min(1.0, _PAUSE_SECONDS * 2**attempt))
        raise JobError(f"{self.place} could not be written: {delta_message(last)}; try again") from last

    @contextlib.contextmanager
    def _speaking(self, done: str, failed: list[BaseException] | None = None) -> Iterator[None]:
        """Turn errors of delta-rs into ours, without keys; an error of the rows themselves comes first."""
        try:
            yield
        except (self._delta.exceptions.CommitFailedError, GapwatchError):
            raise
        except Exception as error:  # delta-rs raises a dozen kinds, such as OSError and its own
            if failed:
                raise failed[0] from None
            raise JobError(f"{self.place} cannot be {done}: {delta_message(error)}") from None


def mark_of(table: Any, keeper: str) -> int | None:
    """Return the last mark of a store in a table; None if the store has written nothing."""
    mark: int | None = table.transaction_version(keeper)
    return mark


def _is_foreign(folder: Path) -> bool:
    """Return True for a folder with files that no Delta table is made in; another process may be making one."""
    if not folder.exists():
        return False
    names = {path.name for path in folder.iterdir()}  # listed once: the log may appear at any moment
    return bool(names) and "_delta_log" not in names


def _version_text() -> str:
    return f"schema version {SCHEMA_VERSION}"
