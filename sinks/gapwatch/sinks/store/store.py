"""The store: one DuckDB file. Each commit is consistent and records how far each source is stored."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from gapwatch.scorers.errors import JobError, StoreError, StoreHeldError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.opening import LOG_SIZE, MEMORY, ReaderCursors, open_for_writing
from gapwatch.sinks.store.positions import Position, SourceKey, advance_position
from gapwatch.sinks.store.registration import insert_policies, insert_portfolio
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.transaction import STEPS, SliceInbox, Step, StoreTransaction

Result = TypeVar("Result")

#: One writer for each file in a process, because two would give their commits the same numbers.
_open_stores: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()

#: Seconds that `close` waits for running queries of readers.
_READER_SECONDS = 2.0
#: Seconds that running reads have until the file is replaced. Larger: slices and other readers wait longer. Smaller: a
#: long query puts the replacement off more often.
_REPLACING_SECONDS = 0.5

_NUMBERED_TABLES = (
    "alerts", "shifts", "internal.outbox", "internal.detector_snapshots", "feedback", "feedback_joins", "issues",
    "issue_tests", "triage", "test_runs", "test_results", "test_verdicts", "test_overrides",
)  # fmt: skip


class Store:
    """The only writer of a store.

    All methods belong to one thread, the writer thread. Other threads read through `cursor()`.
    """

    def __init__(
        self, path: Path, con: duckdb.DuckDBPyConnection, memory: str = MEMORY, log_size: str = LOG_SIZE
    ) -> None:
        self.path, self._memory, self._log_size = path, memory, log_size
        self._readers = ReaderCursors()
        self._broken = self._closed = False
        #: True while upkeep may change no stored row, because they are being copied.
        self.keeps_rows = False
        self._use(con)

    def _use(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con, self._seq = con, 0
        self._positions: dict[SourceKey, Position] = {}
        self._inbox = SliceInbox(con)
        # Readers use cursors that share the settings of this connection, so no query may change a setting.
        con.execute("SET lock_configuration = true")
        self._load_positions()

    @classmethod
    def open(cls, path: str | Path, create: bool = False, memory: str = MEMORY, log_size: str = LOG_SIZE) -> Store:
        """Open a store for writing. No other process can open it until `close`.

        Args:
            path: The DuckDB file; its directory must exist.
            create: Create an empty store if there is no file.
            memory: Memory limit of DuckDB, such as `128MB`; beyond it, DuckDB spills to disk.
            log_size: Size of the write-ahead log at which DuckDB checkpoints, such as `64MB`.

        Raises:
            StoreError: The file is missing, not a store, newer than this program, or already open here or in another
                process.
        """
        real = os.path.realpath(path)
        if real in _open_stores:
            raise StoreHeldError(f"the store {path} is already open in this process")
        now = datetime.now(UTC).replace(tzinfo=None)
        con = open_for_writing(Path(path), create=create, now=now, memory=memory, log_size=log_size)
        store = cls(Path(path), con, memory, log_size)
        _open_stores[real] = store
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except JobError:
            if kind is None:  # otherwise the first error says more than this one, which follows from it
                raise

    def close(self) -> None:
        """Write the write-ahead log into the file and close it. A second call does nothing.

        Raises:
            JobError: The log could not be written into the file (disk full). All commits are safe in the log.
        """
        if _open_stores.get(os.path.realpath(self.path)) is self:
            del _open_stores[os.path.realpath(self.path)]
        if self._closed:
            return
        self._closed = True
        try:
            if not self._broken:
                self._con.execute("CHECKPOINT")
        except duckdb.Error as error:
            raise self._failed("closing", error) from error
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close the connection; new readers are refused."""
        try:
            self._readers.close(self._con, _READER_SECONDS)
        except duckdb.ResourceInUseException as error:
            raise self._failed("closing", error) from error

    @contextlib.contextmanager
    def without_readers(self) -> Iterator[bool]:
        """Hold new readers back, and give those that read half a second to end. No reader meets an error.

        Yields:
            True if nobody reads; False if a reader goes on, so that the file cannot be replaced now.

        Raises:
            JobError: The store is closed, or failed before.
        """
        with self._readers.gate:
            self._check_usable()
            yield self._readers.wait(_REPLACING_SECONDS)

    def replace_file(self, place: Callable[[], None]) -> None:
        """Close the file, run a function that may put another in its place, and open what is there.

        New readers wait. The caller has seen in `without_readers` that nobody reads.

        Raises:
            JobError: The file could not be closed or opened; the process has to end. All commits are safe.
        """
        with self._readers.gate:
            self._check_usable()
            try:
                self._con.execute("CHECKPOINT")
                self._readers.close(self._con, _READER_SECONDS)
                place()
                now = datetime.now(UTC).replace(tzinfo=None)
                con = open_for_writing(self.path, create=False, now=now, memory=self._memory, log_size=self._log_size)
                self._use(con)
            except (OSError, duckdb.Error, StoreError) as error:
                self._broken = True
                raise JobError(f"the store {self.path} could not be opened again: {error}; restart") from error

    @property
    def seq(self) -> int:
        """Number of the last commit."""
        return self._seq

    @property
    def is_broken(self) -> bool:
        """True once the file failed so that only a restart helps."""
        return self._broken

    def position(self, lane: str, topic: str, partition: int) -> Position | None:
        """Return how far a partition is stored; None if nothing of it is."""
        return self._positions.get((lane, topic, partition))

    def positions(self) -> dict[SourceKey, Position]:
        """Return all positions by (lane, topic, partition)."""
        return dict(self._positions)

    def steps(self) -> Sequence[tuple[str, Step]]:
        """Named steps of `write_slices`, in order. The first begins the transaction and the last commits it."""
        return STEPS

    def write_slice(self, scored: ScoredSlice, kept_at: datetime, also: Sequence[tuple[str, Step]] = ()) -> int:
        """Write a scored slice in one transaction, all of it or nothing.

        Args:
            scored: Slice that begins at the stored position of its partition; the first may begin anywhere.
            kept_at: Current time, with a time zone.
            also: Named steps of the same transaction, such as the findings of detectors, run before the commit.

        Returns:
            The number of the commit, `seq` in the tables. Numbers increase.

        Raises:
            JobError: The slice does not begin at the stored position, or the disk is full, or the file is damaged.
                Nothing of the slice is stored.
        """
        return self.write_slices([(scored, also)], kept_at)

    def write_slices(self, slices: Sequence[tuple[ScoredSlice, Sequence[tuple[str, Step]]]], kept_at: datetime) -> int:
        """Write scored slices in one transaction, all of them or nothing. Each has a commit number of its own.

        Args:
            slices: Slices with their further steps, at least one; see `write_slice`. Several of one partition must
                follow one another.
            kept_at: Current time, with a time zone.

        Returns:
            The number of the last commit.

        Raises:
            JobError: As for `write_slice`; nothing of any slice is stored.
        """
        if kept_at.tzinfo is None:
            raise ValueError("kept_at has no time zone")
        self._check_usable()
        positions = dict(self._positions)
        for scored, _ in slices:
            advance_position(positions, scored)
        seq, at = self._seq + 1, kept_at.astimezone(UTC).replace(tzinfo=None)
        self._inbox.take([scored for scored, _ in slices], seq, at)
        *before, commit = self.steps()
        transactions = [
            StoreTransaction(self._con, self._inbox, scored, number, at)
            for number, (scored, _) in enumerate(slices, start=seq)
        ]
        first, last = transactions[0], transactions[-1]
        further = [
            (step, transaction) for (_, also), transaction in zip(slices, transactions, strict=True) for _, step in also
        ]
        self._run([*((step, first) for _, step in before), *further, (commit[1], last)])
        self._seq, self._positions = last.seq, positions
        return last.seq

    def apply(self, steps: Sequence[tuple[str, Step]], doing: str = "writing") -> None:
        """Run steps without a slice, such as a person's decision, in a transaction of their own.

        Args:
            steps: Named steps. Their `StoreTransaction` has an empty slice and a commit number of its own.
            doing: The action, as the message of an error names it.

        Raises:
            JobError: The store could not be written. Nothing is stored.
        """
        self._check_usable()
        at = datetime.now(UTC).replace(tzinfo=None)
        transaction = StoreTransaction(self._con, self._inbox, ScoredSlice("", "", 0, 0, 0, 0, 0), self._seq + 1, at)
        begin, *_, commit = self.steps()
        self._run([(step, transaction) for _, step in (begin, *steps, commit)], doing)
        self._seq = transaction.seq

    def register(self, portfolio: Portfolio, policy_rows: Iterable[Mapping[str, Any]]) -> None:
        """Record a portfolio, its metrics and its selection probabilities. Recorded ones stay unchanged.

        Args:
            portfolio: The loaded portfolio.
            policy_rows: Columns of the table `policies` by name; `recorded_at` is added.

        Raises:
            JobError: The store could not be written. Nothing is recorded.
        """
        now = datetime.now(UTC).replace(tzinfo=None)

        def insert(con: duckdb.DuckDBPyConnection) -> None:
            insert_portfolio(con, portfolio, now)
            insert_policies(con, policy_rows, now)

        self.change("registering a portfolio", insert)

    def change(self, doing: str, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        """Run a function that changes the store, in a transaction of its own, on a connection with the optimizer on.

        Args:
            doing: The action, as the message of an error names it.
            work: The function. It must not change the position of a partition.

        Raises:
            JobError: The store could not be written. Nothing is changed.
        """
        con = self.cursor()
        try:
            con.execute("BEGIN")
            result = work(con)
            con.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(duckdb.Error):
                con.execute("ROLLBACK")
            if isinstance(error, duckdb.Error):
                raise self._failed(doing, error) from error
            raise
        finally:
            con.close()
        return result

    def change_stored(self, doing: str, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result | None:
        """Run a function as `change` does, unless stored rows are being copied; then return None.

        Raises:
            JobError: The store could not be written. Nothing is changed.
        """
        return None if self.keeps_rows else self.change(doing, work)

    @property
    def id(self) -> str:
        """Id of the store: its time of creation, to the microsecond. A copy of the file has the same id."""
        (created_at,) = self.query("SELECT created_at FROM store")[0]
        return f"{created_at:%Y-%m-%dT%H:%M:%S.%f}Z"

    def mark_relayed(self, seqs: Mapping[str, int]) -> None:
        """Record the last commit whose outbox messages were sent, by topic.

        Raises:
            JobError: The store could not be written. Nothing is recorded, and the messages will be sent again.
        """

        def write(con: duckdb.DuckDBPyConnection, _: int) -> None:
            for topic, seq in seqs.items():
                con.execute("DELETE FROM internal.relayed WHERE topic = ?", [topic])
                insert_row(con, "relayed", {"topic": topic, "seq": seq})

        self.record("recording which messages were sent", write)

    def record(self, doing: str, write: Callable[[duckdb.DuckDBPyConnection, int], None]) -> None:
        """Write rows that belong to no slice, all or none, in a transaction of their own.

        Args:
            doing: The action, as the message of an error names it.
            write: Function of the connection and the number of the commit.

        Raises:
            JobError: The store could not be written. Nothing is recorded.
        """
        self.apply([(doing, lambda transaction: write(transaction.con, transaction.seq))], doing)

    def _run(self, steps: Sequence[tuple[Step, StoreTransaction]], doing: str = "writing") -> None:
        try:
            for step, transaction in steps:
                step(transaction)
        except duckdb.Error as error:
            self._roll_back()
            raise self._failed(doing, error) from error
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._inbox.empty()

    def _roll_back(self) -> None:
        """Roll back the open transaction and reload the positions: an interrupt may have come after the commit."""
        try:
            with contextlib.suppress(duckdb.TransactionException):  # none was open
                self._con.execute("ROLLBACK")
            self._load_positions()
        except duckdb.Error:
            self._broken = True

    def _load_positions(self) -> None:
        rows = self._con.execute(
            """SELECT lane, source_topic, source_partition, max(to_offset), sum(records)::BIGINT,
                arg_max_null(prefix_sha256, seq), max(seq) FROM offsets GROUP BY ALL"""
        ).fetchall()
        self._positions = {(lane, topic, part): Position(to, n, sha) for lane, topic, part, to, n, sha, _ in rows}
        # Decisions of people are commits without offsets; their numbers are in the tables that readers and relay use.
        others = " UNION ALL ".join(f"SELECT max(seq) FROM {name}" for name in _NUMBERED_TABLES)
        rest = self._con.execute(others).fetchall()
        self._seq = max((row[-1] or 0 for row in (*rows, *rest)), default=0)

    def _check_usable(self) -> None:
        if self._closed:
            raise JobError(f"the store {self.path} is closed")
        if self._broken:
            raise JobError(f"the store {self.path} failed before; restart, and it continues from the last commit")

    def _failed(self, doing: str, error: duckdb.Error) -> JobError:
        if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
            self._broken = True
        return JobError(
            f"{doing} failed in the store {self.path}: {error}. If the disk is full, make room; then restart: "
            "all earlier commits are safe, and the next start continues from them"
        )

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection for one reading thread. It sees every commit. The caller closes it."""
        with self._readers.gate:
            self._check_usable()
            return self._readers.add(self._con.cursor())

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run trusted SQL on a new cursor and return all rows."""
        cursor = self.cursor()
        try:
            return cursor.execute(sql, list(parameters)).fetchall()
        finally:
            cursor.close()
