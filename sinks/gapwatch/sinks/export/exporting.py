"""Exports a store: appends new commits, replaces changed hours, each in one atomic commit of a Delta table.

    store          gaps, alerts ...  seq > mark   ──append──▶  DIR/gaps      keeper=K   + mark of K: last commit
                   ticks             changed hour ─replace──▶  DIR/ticks     keeper=K/hour=H
                   portfolios ...    changed      ─replace──▶  DIR/portfolios keeper=K  + mark of K: digest

The rows and their mark are written together, so an export that is killed at any point is repeated without a row lost
or doubled. `ticks` have no mark: upkeep joins their rows and gives them another commit number. Instead an hour is
exported anew when its last commit or its number of rows differs from the exported ones, the present hour included: its
rows may expire before it ends. Rows of expired commits are only in the export, and stay there; a joined row expires
with all commits that it counts, so none is in both. Where commits expire during an export, it begins again: it may have
read some tables before and some after.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.export.delta_place import DeltaPlace
from gapwatch.sinks.export.delta_tables import DeltaTables, mark_of
from gapwatch.sinks.export.exported_tables import (
    BY_COMMIT,
    BY_HOUR,
    EXPORTED,
    HOUR,
    KEEPER,
    NO_HOUR,
    WHOLE,
    exported_rows,
    stored_schema,
)
from gapwatch.sinks.reading.query_answer import ask, next_batch
from gapwatch.sinks.store.store_reader import StoreReader

#: Rows that one query reads. Larger: more memory, and the API refuses more than a million. One commit, or one metric of
#: an hour, is read whole.
_PAGE_ROWS = 100_000
#: Rows of the hours that one commit replaces.
_HOURS_ROWS = 500_000
#: Attempts of an export during which commits expire.
_ATTEMPTS = 10
_HOUR_FORMAT = "%Y-%m-%dT%H"
_HOUR_SQL = f"coalesce(strftime(bucket, '{_HOUR_FORMAT}'), '{NO_HOUR}')"

#: Called with the name of a table, the rows done and the rows in all.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Exported:
    """Result of an export.

    Attributes:
        keeper: Id of the store, the first column of all exported tables.
        rows: Number of written rows by table; 0 where the export had them all.
        lost_until: Last commit that had expired before it was exported; 0 if there is none.
    """

    keeper: str
    rows: dict[str, int]
    lost_until: int


class _ExpiredError(Exception):
    """Commits expired while they were exported."""


def export_store(con: StoreReader, place: DeltaPlace, progress: Progress) -> Exported:
    """Write what a place does not have yet of a store.

    Args:
        con: Connection that reads the store; a process may write the store meanwhile.
        place: Folder or bucket.
        progress: Told after each page.

    Raises:
        UsageError: The extra `export` is missing, or the place has tables that are not of this version.
        JobError: The store cannot be read, the place cannot be written, or it has more commits than the store.
    """
    tables, written = DeltaTables(place), dict.fromkeys(EXPORTED, 0)
    for _ in range(_ATTEMPTS):
        export = _Export(con, tables, progress, written)
        with contextlib.suppress(_ExpiredError):
            return export.run()
    raise JobError("commits of the store expired during each attempt to export it; try again")


class _Export:
    def __init__(self, con: StoreReader, tables: DeltaTables, progress: Progress, written: dict[str, int]) -> None:
        self._con, self._tables, self._progress, self._written = con, tables, progress, written
        self._keeper = f"{self._one('SELECT max(created_at) FROM store'):%Y-%m-%dT%H:%M:%S.%f}Z"
        self._expired = self._last_expired()
        self._until = int(self._one("SELECT coalesce(max(seq), 0) FROM offsets"))
        for table in BY_COMMIT:  # decisions of people are commits without offsets
            self._until = max(self._until, int(self._one(f"SELECT coalesce(max(seq), 0) FROM {table}")))

    def run(self) -> Exported:
        for table in WHOLE:
            self._written[table] += self._replace(table)
        self._written[BY_HOUR] += self._replace_hours()
        before = mark_of(self._tables.open("offsets"), self._keeper) or 0
        for table in BY_COMMIT:
            self._written[table] += self._append(table)
        return Exported(self._keeper, self._written, self._expired if before < self._expired else 0)

    def _last_expired(self) -> int:
        """Return the last expired commit: nothing at or below it is left in the store, apart from sums."""
        return int(self._one("SELECT coalesce(max(to_seq), 0) FROM retention"))

    def _unexpired(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows; at their end, which is before they are committed, check that none expired while they were read.

        Raises:
            _ExpiredError: Some did.
        """
        yield from batches
        if self._last_expired() != self._expired:
            raise _ExpiredError

    # --- tables by commit

    def _append(self, table: str) -> int:
        return self._tables.retried(lambda: self._append_once(table))

    def _append_once(self, table: str) -> int:
        opened = self._tables.open(table)
        mark = mark_of(opened, self._keeper) or 0
        if mark > self._until:
            raise JobError(
                f"{self._tables.place} has commits of this store up to {mark}, and the store ends at {self._until}: "
                "it is an older copy; export it to another folder"
            )
        after = max(mark, self._expired)
        total = int(self._one(f"SELECT count(*) FROM {table} WHERE seq > {after} AND seq <= {self._until}"))
        if total:
            batches = self._unexpired(self._counted(table, total, self._commits(table, after)))
            self._tables.write(opened, batches, self._keeper, self._until)
        return total

    def _commits(self, table: str, after: int) -> Iterator[pa.RecordBatch]:
        while after < self._until:
            new = f"FROM {table} WHERE seq > {after} AND seq <= {self._until}"
            end = self._one(f"SELECT max(seq) FROM (SELECT seq {new} ORDER BY seq LIMIT {_PAGE_ROWS})")
            if end is None:
                return
            for batch in self._read(table, f"WHERE seq > {after} AND seq <= {end} ORDER BY seq"):
                yield exported_rows(table, self._keeper, batch)
            after = int(end)

    # --- ticks by hour

    def _replace_hours(self) -> int:
        stored = {hour: (last, count) for hour, last, count in self._hours()}
        written, total = 0, sum(count for _, count in stored.values())
        for hours in self._in_parts(stored):
            written += self._tables.retried(partial(self._replace_hours_once, hours))
            self._progress(BY_HOUR, written, total)
        return written

    def _hours(self) -> list[tuple[str, int, int]]:
        sql = f"SELECT {_HOUR_SQL} AS h, max(seq), count(*) FROM ticks GROUP BY ALL ORDER BY h"
        return [row for batch in ask(self._con, sql).rows for row in batch]

    def _in_parts(self, stored: dict[str, tuple[int, int]]) -> Iterator[dict[str, tuple[int, int]]]:
        part, rows = dict[str, tuple[int, int]](), 0
        for hour, (last, count) in stored.items():
            if part and rows + count > _HOURS_ROWS:
                yield part
                part, rows = {}, 0
            part[hour], rows = (last, count), rows + count
        if part:
            yield part

    def _replace_hours_once(self, stored: dict[str, tuple[int, int]]) -> int:
        opened = self._tables.open(BY_HOUR)
        has = self._exported_hours(opened, stored)
        changed = [hour for hour, state in stored.items() if has.get(hour) != state]
        if not changed:
            return 0
        # Read before the write: delta-rs does not read while it takes rows.
        kept = {hour: self._expired_rows(opened, hour) for hour in changed if self._expired and hour in has}
        written = [0]

        def rows() -> Iterator[pa.RecordBatch]:
            for hour in changed:
                yield from kept.get(hour, ())
                for batch in self._hour(hour, stored[hour][1]):
                    written[0] += batch.num_rows
                    yield exported_rows(BY_HOUR, self._keeper, batch, hour)

        named = ", ".join(f"'{hour}'" for hour in changed)
        where = f"{KEEPER} = '{self._keeper}' AND {HOUR} IN ({named})"
        self._tables.write(opened, self._unexpired(rows()), self._keeper, self._until, where)
        return written[0]

    def _exported_hours(self, opened: Any, hours: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        """Return the last commit and the number of rows of exported hours, without rows of expired commits."""
        states = dict[str, tuple[int, int]]()
        first = dict[str, int]()
        for file in pa.table(opened.get_add_actions(flatten=True)).to_pylist():
            hour = file[f"partition.{HOUR}"]
            if file[f"partition.{KEEPER}"] == self._keeper and hour in hours:
                last, count = states.get(hour, (0, 0))
                states[hour] = (max(last, file["max.seq"]), count + file["num_records"])
                first[hour] = min(first.get(hour, file["min.seq"]), file["min.seq"])
        for hour in [hour for hour, seq in first.items() if seq <= self._expired]:
            seqs = self._exported(opened, hour, pc.field("seq") > self._expired, ["seq"])["seq"]
            states[hour] = (pc.max(seqs).as_py() or 0, len(seqs))
        return states

    def _expired_rows(self, opened: Any, hour: str) -> list[pa.RecordBatch]:
        """Return the exported rows of an hour that the store has no more."""
        names = [KEEPER, HOUR, *stored_schema(BY_HOUR).names]
        kept = self._exported(opened, hour, pc.field("seq") <= self._expired, names)
        return [exported_rows(BY_HOUR, self._keeper, batch, hour) for batch in kept.to_batches(_PAGE_ROWS)]

    def _exported(self, opened: Any, hour: str, condition: Any, columns: Sequence[str]) -> pa.Table:
        ours = (pc.field(KEEPER) == self._keeper) & (pc.field(HOUR) == hour)
        return opened.to_pyarrow_dataset().to_table(columns=list(columns), filter=ours & condition)

    def _hour(self, hour: str, count: int) -> Iterator[pa.RecordBatch]:
        """Read the ticks of an hour; many of them by metric, because joining changes no name of a row."""
        where = f"WHERE {_span(hour)}"
        if count <= _PAGE_ROWS:
            yield from self._read(BY_HOUR, where)
            return
        for (metric,) in [
            row for batch in ask(self._con, f"SELECT DISTINCT metric FROM ticks {where}").rows for row in batch
        ]:
            named = "metric IS NULL" if metric is None else "metric = '" + metric.replace("'", "''") + "'"
            yield from self._read(BY_HOUR, f"{where} AND {named}")

    # --- small tables

    def _replace(self, table: str) -> int:
        batches = [exported_rows(table, self._keeper, batch) for batch in self._read(table, "ORDER BY ALL")]
        rows = sum(batch.num_rows for batch in batches)
        digest = hashlib.sha256(repr([batch.to_pylist() for batch in batches]).encode()).digest()
        mark = int.from_bytes(digest[:7], "big")
        return self._tables.retried(lambda: self._replace_once(table, batches, mark, rows))

    def _replace_once(self, table: str, batches: list[pa.RecordBatch], mark: int, rows: int) -> int:
        opened = self._tables.open(table)
        has = mark_of(opened, self._keeper)
        if has == mark or (has is None and not rows):
            return 0
        where = f"{KEEPER} = '{self._keeper}'"
        self._tables.write(opened, self._counted(table, rows, iter(batches)), self._keeper, mark, where)
        return rows

    # --- the store

    def _one(self, sql: str) -> Any:
        ((value,),) = [row for batch in ask(self._con, sql).rows for row in batch]
        return value

    def _read(self, table: str, which: str) -> Iterator[pa.RecordBatch]:
        columns = ", ".join(f'"{name}"' for name in stored_schema(table).names)
        reader = self._con.sql(f"SELECT {columns} FROM {table} {which}").to_arrow_reader(_PAGE_ROWS)
        while (batch := next_batch(reader)) is not None:
            yield batch

    def _counted(self, table: str, total: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in batches:
            yield batch
            done += batch.num_rows
            self._progress(table, done, total)


def _span(hour: str) -> str:
    if hour == NO_HOUR:
        return "bucket IS NULL"
    begin = datetime.strptime(hour, _HOUR_FORMAT)
    return f"bucket >= TIMESTAMP '{begin}' AND bucket < TIMESTAMP '{begin + timedelta(hours=1)}'"
