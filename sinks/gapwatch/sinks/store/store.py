"""The store: one DuckDB file that is consistent at every commit and says up to where each source was kept."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from gapwatch.scorers.errors import JobError, StoreHeldError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.opening import MEMORY, open_for_writing
from gapwatch.sinks.store.registration import insert_policies, insert_portfolio
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.transaction import STEPS, SliceInbox, Step, StoreTransaction

SourceKey = tuple[str, str, int]
Result = TypeVar("Result")

#: One writer a file in a process: two would number their commits alike.
_open_stores: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()

#: So long `close` waits for what readers are at.
_READER_SECONDS = 2.0

_NUMBERED_TABLES = ("alerts", "shifts", "outbox", "detector_snapshots")


@dataclass(frozen=True)
class Position:
    """How far one partition of a source is kept, in one lane.

    Attributes:
        to_offset: The next offset that is wanted; everything below is kept.
        records: Records kept so far.
        prefix_sha256: Digest of the source's bytes up to `to_offset`, for files; None for Kafka.
    """

    to_offset: int
    records: int
    prefix_sha256: str | None


class Store:
    """The one writer of a store.

    All methods are for one thread, the keeper's; other threads read through `cursor()`.
    """

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self._con = con
        # What is prepared are inserts without a choice of plan: the optimizer costs 0.4 ms each and finds nothing. What
        # steps of a transaction ask of the tables does need it.
        con.execute("PRAGMA disable_optimizer")
        self._inbox = SliceInbox(con)
        con.execute("PRAGMA enable_optimizer")
        # Readers ask beside the keeper, on cursors that share its settings; nothing of theirs may change one.
        con.execute("SET lock_configuration = true")
        self._broken = False
        self._closed = False
        self._positions: dict[SourceKey, Position] = {}
        self._seq = 0
        self._load_positions()

    @classmethod
    def open(cls, path: str | Path, create: bool = False, memory: str = MEMORY) -> Store:
        """Open a store for keeping; no other process can open it until `close`.

        Args:
            path: The DuckDB file; its directory must exist.
            create: Make an empty store where there is no file.
            memory: That the engine may take, such as 128MB; beyond, it spills to disk.

        Raises:
            StoreError: It is missing, no store, newer than this program, or held by another process or opener.
        """
        real = os.path.realpath(path)
        if real in _open_stores:
            raise StoreHeldError(f"the store {path} is already open in this process")
        now = datetime.now(UTC).replace(tzinfo=None)
        store = cls(Path(path), open_for_writing(Path(path), create=create, now=now, memory=memory))
        _open_stores[real] = store
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except JobError:
            if kind is None:  # else what went wrong first is worth more than what followed from it
                raise

    def close(self) -> None:
        """Write the log into the file and let go of it; a second call does nothing.

        Raises:
            JobError: The log could not be written into the file (disk full). What was kept is in the log and safe.
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
        """Close the engine's connection. It refuses while a reader's is in a call; no further reader comes."""
        end = time.monotonic() + _READER_SECONDS
        while True:
            try:
                self._con.close()
            except duckdb.ResourceInUseException as error:
                if time.monotonic() > end:
                    raise self._failed("closing", error) from error
                time.sleep(0.005)
            else:
                return

    @property
    def seq(self) -> int:
        """Number of the last commit."""
        return self._seq

    def position(self, lane: str, topic: str, partition: int) -> Position | None:
        """Return how far a partition is kept, or None where nothing of it is."""
        return self._positions.get((lane, topic, partition))

    def positions(self) -> dict[SourceKey, Position]:
        """Return all positions by (lane, topic, partition)."""
        return dict(self._positions)

    def steps(self) -> Sequence[tuple[str, Step]]:
        """Return the named steps of `keep`, in order; the first begins the transaction and the last commits it."""
        return STEPS

    def write_slice(self, scored: ScoredSlice, kept_at: datetime, also: Sequence[tuple[str, Step]] = ()) -> int:
        """Put a scored slice into the store, all of it or nothing, in one transaction.

        Args:
            scored: The slice that follows what is kept of its partition; the first may begin anywhere.
            kept_at: Now; with a time zone.
            also: Named steps that belong to the same transaction (what detectors found), run before the commit.

        Returns:
            The number of the commit, `seq` in the tables; each is greater than the one before.

        Raises:
            JobError: The slice does not begin where the partition is kept up to, or the disk is full, or the file
                broke. Nothing of the slice is kept then.
        """
        if kept_at.tzinfo is None:
            raise ValueError("kept_at has no time zone")
        self._check_usable()
        self._check_continues(scored)
        seq, at = self._seq + 1, kept_at.astimezone(UTC).replace(tzinfo=None)
        self._inbox.take(scored, seq, at)
        transaction = StoreTransaction(self._con, self._inbox, scored, seq, at)
        *before, commit = self.steps()
        self._run([*before, *also, commit], transaction)
        self._seq = transaction.seq
        key = (scored.lane, scored.topic, scored.partition)
        last = self._positions.get(key)
        self._positions[key] = Position(
            scored.to_offset, scored.records + (last.records if last else 0), scored.prefix_sha256
        )
        return transaction.seq

    def apply(self, steps: Sequence[tuple[str, Step]], doing: str = "keeping") -> None:
        """Run steps that belong to no slice, such as what a person decided, in a transaction of their own.

        Args:
            steps: Named; they see a `StoreTransaction` without a slice, and with a number of its own.
            doing: What this is, for the message of an error.

        Raises:
            JobError: The store could not be written; nothing of this is kept.
        """
        self._check_usable()
        at = datetime.now(UTC).replace(tzinfo=None)
        transaction = StoreTransaction(self._con, self._inbox, ScoredSlice("", "", 0, 0, 0, 0, 0), self._seq + 1, at)
        begin, *_, commit = self.steps()
        self._run([begin, *steps, commit], transaction, doing)
        self._seq = transaction.seq

    def register(self, portfolio: Portfolio, policy_rows: Iterable[Mapping[str, Any]]) -> None:
        """Record a portfolio, its metrics and the probabilities in force; what is known already is left as it is.

        Args:
            portfolio: As loaded.
            policy_rows: Columns of the table `policies` by name; `recorded_at` is added.

        Raises:
            JobError: The store could not be written; nothing of this is recorded.
        """
        now = datetime.now(UTC).replace(tzinfo=None)

        def insert(con: duckdb.DuckDBPyConnection) -> None:
            insert_portfolio(con, portfolio, now)
            insert_policies(con, policy_rows, now)

        self.change("registering a portfolio", insert)

    def change(self, doing: str, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        """Let a function change what is kept, in a transaction of its own on a connection that has its optimizer.

        Args:
            doing: In a word, for the message of an error.
            work: May not change how far a partition is kept.

        Raises:
            JobError: The store could not be written; nothing of this is done.
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

    @property
    def id(self) -> str:
        """What tells this store from others: when it was made, to the microsecond. A copy has the same."""
        (created_at,) = self.query("SELECT created_at FROM store")[0]
        return f"{created_at:%Y-%m-%dT%H:%M:%S.%f}Z"

    def mark_relayed(self, seqs: Mapping[str, int]) -> None:
        """Record up to which commit the outbox has been sent, by topic.

        Raises:
            JobError: The store could not be written; nothing of this is recorded, and it will be sent again.
        """

        def write(con: duckdb.DuckDBPyConnection, _: int) -> None:
            for topic, seq in seqs.items():
                con.execute("DELETE FROM relayed WHERE topic = ?", [topic])
                insert_row(con, "relayed", {"topic": topic, "seq": seq})

        self.record("recording what was relayed", write)

    def record(self, doing: str, write: Callable[[duckdb.DuckDBPyConnection, int], None]) -> None:
        """Write rows that belong to no slice, all of them or none, in a transaction of their own.

        Args:
            doing: What this is, for the message of an error.
            write: Called with the connection and the number of the commit.

        Raises:
            JobError: The store could not be written; nothing of this is recorded.
        """
        self.apply([(doing, lambda transaction: write(transaction.con, transaction.seq))], doing)

    def _run(self, steps: Sequence[tuple[str, Step]], transaction: StoreTransaction, doing: str = "keeping") -> None:
        try:
            for _, step in steps:
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
        """Undo the open transaction and read again what is true: an interrupt may have come after the commit."""
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
        # What people decide is a commit too, and leaves its number where a reader or the relay goes by it.
        others = " UNION ALL ".join(f"SELECT max(seq) FROM {name}" for name in _NUMBERED_TABLES)
        rest = self._con.execute(others).fetchall()
        self._seq = max((row[-1] or 0 for row in (*rows, *rest)), default=0)

    def _check_usable(self) -> None:
        if self._closed:
            raise JobError(f"the store {self.path} is closed")
        if self._broken:
            raise JobError(f"the store {self.path} failed before; start again, it continues from what was kept")

    def _check_continues(self, scored: ScoredSlice) -> None:
        where = f"{scored.topic} [{scored.partition}] in lane {scored.lane}"
        if scored.to_offset < scored.from_offset:
            raise JobError(f"a slice of {where} ends at {scored.to_offset}, before its begin {scored.from_offset}")
        kept = self.position(scored.lane, scored.topic, scored.partition)
        if kept is not None and scored.from_offset != kept.to_offset:
            what = "overlaps what is kept" if scored.from_offset < kept.to_offset else "leaves a hole"
            raise JobError(
                f"a slice of {where} begins at {scored.from_offset} and {what}: {kept.to_offset} is next; "
                "start again, it continues from there"
            )

    def _failed(self, doing: str, error: duckdb.Error) -> JobError:
        if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
            self._broken = True
        return JobError(
            f"{doing} failed in the store {self.path}: {error}. If the disk is full, make room; then start again: "
            "what was kept before is safe and the next start continues from it"
        )

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own for one reading thread; it sees every commit. The caller closes it."""
        self._check_usable()
        return self._con.cursor()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run trusted SQL on a cursor of its own and return all rows."""
        cursor = self.cursor()
        try:
            return cursor.execute(sql, list(parameters)).fetchall()
        finally:
            cursor.close()
