"""Named steps of the transaction that writes scored slices: one commit number each, one insert for all.

The statements are prepared and have no parameters, because DuckDB plans a statement with parameters again each time,
which is half of its cost. Values that vary, the number and time of the commit included, are columns of the inbox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.slices.sample_record import with_text
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import JUDGE_REQUESTS, SCORED_TABLES
from gapwatch.sinks.store.schema import KEPT_TABLES, OFFSETS, qualified
from gapwatch.sinks.store.topics import JUDGE_REQUESTS_TOPIC

#: The type of a DuckDB connection, for other folders, which do not import duckdb for it.
Connection = duckdb.DuckDBPyConnection

_SEQ = pa.field("seq", pa.int64())
_KEPT_AT = pa.field("kept_at", pa.timestamp("us"))


def _inbox_schema(schema: pa.Schema, stamped: bool) -> pa.Schema:
    return pa.schema([_SEQ, *schema, *([_KEPT_AT] if stamped else [])])


#: Columns of the inbox of each step, in the order of the store's table.
_INBOX: dict[str, pa.Schema] = {
    **{name: _inbox_schema(schema, stamped) for name, (schema, stamped) in KEPT_TABLES.items()},
    "judge_requests": _inbox_schema(JUDGE_REQUESTS, False),
    "offsets": _inbox_schema(OFFSETS, True),
}
#: Made once, because making an empty table costs as much as inserting a small one.
_EMPTY = {name: schema.empty_table() for name, schema in _INBOX.items()}


class TableInbox:
    """Batch that a prepared statement reads: it is replaced for each transaction, and the statement stays prepared."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the current batch to DuckDB, which reads it under its registered name."""
        return self.table.__arrow_c_stream__(requested_schema)

    @property
    def __arrow_c_schema__(self) -> Any:
        return self.table.schema.__arrow_c_schema__


class SliceInbox:
    """Tables of the slices that are being written, visible to SQL as `inbox_<table>`.

    Each is registered once, at the first slice, before its transaction. ROLLBACK would undo a registration inside a
    transaction, and the next INSERT would silently read the previous slice. A store into which no slice is written does
    without: that saves 20 ms of an opening.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._inboxes: dict[str, TableInbox] = {}

    def _register(self) -> None:
        con, inboxes = self._con, {name: TableInbox(table) for name, table in _EMPTY.items()}
        for name, inbox in inboxes.items():
            con.register(f"inbox_{name}", inbox)
        for name in KEPT_TABLES:
            con.execute(f"PREPARE keep_{name} AS INSERT INTO {qualified(name)} SELECT * FROM inbox_{name}")
        con.execute("PREPARE keep_offsets AS INSERT INTO offsets SELECT * FROM inbox_offsets")
        con.execute("PREPARE keep_requests AS INSERT INTO internal.judge_requests SELECT * FROM inbox_judge_requests")
        con.execute(
            f"""PREPARE keep_judge_requests AS INSERT INTO internal.outbox (seq, id, topic, "key", "value", headers)
                SELECT seq, id, '{JUDGE_REQUESTS_TOPIC}', "key", "value", '{{}}' FROM inbox_judge_requests"""
        )
        self._inboxes = inboxes  # last: after an interrupt, the next slice registers them again

    def take(self, slices: Sequence[ScoredSlice], seq: int, kept_at: datetime) -> None:
        """Expose the rows of slices to SQL. No transaction may be open.

        Args:
            slices: The slices, at least one.
            seq: Number of the commit of the first; the others have the following ones.
            kept_at: Time of the commits, naive UTC.

        Raises:
            ValueError: A table is missing, or its columns differ from those of `gapwatch.scorers.slices.tables`.
        """
        if not self._inboxes:
            self._register()
        for name, schema in SCORED_TABLES.items():
            tables = [_checked(one.tables.get(name), name, schema) for one in slices]
            self._show(name, [with_text(one) for one in tables] if name == "samples" else tables, seq, kept_at)
        self._show("offsets", [_offsets_row(one) for one in slices], seq, kept_at)

    def _show(self, name: str, tables: Sequence[pa.Table], seq: int, kept_at: datetime) -> None:
        schema = _INBOX[name]
        lengths = [one.num_rows for one in tables]
        if not any(lengths):
            self._inboxes[name].table = _EMPTY[name]
            return
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        columns = [pa.array(np.repeat(np.arange(seq, seq + len(tables)), lengths), pa.int64()), *table.columns]
        if len(columns) < len(schema):
            columns.append(pa.repeat(pa.scalar(kept_at, _KEPT_AT.type), table.num_rows))
        self._inboxes[name].table = pa.Table.from_arrays(columns, schema=schema)

    def rows(self, name: str) -> int:
        """Return the number of rows that wait for one step."""
        return int(self._inboxes[name].table.num_rows) if name in self._inboxes else 0

    def empty(self) -> None:
        """Release the slices."""
        for name, inbox in self._inboxes.items():
            inbox.table = _EMPTY[name]


def _checked(table: pa.Table | None, name: str, schema: pa.Schema) -> pa.Table:
    if table is None or not table.schema.equals(schema):
        raise ValueError(f"table {name} of the scored slice does not have the columns of scorers.tables")
    return table


def _offsets_row(scored: ScoredSlice) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "lane": scored.lane,
                "source_topic": scored.topic,
                "source_partition": scored.partition,
                "from_offset": scored.from_offset,
                "to_offset": scored.to_offset,
                "records": scored.records,
                "spans": scored.spans,
                "prefix_sha256": scored.prefix_sha256,
            }
        ],
        schema=OFFSETS,
    )


@dataclass(frozen=True)
class StoreTransaction:
    """An open transaction of the store, as its steps see it.

    Attributes:
        con: Connection; the transaction is open except in the steps `begin` and `commit`.
        inbox: Rows of all slices of the transaction.
        scored: The slice that the step belongs to; the first one for the steps that write the tables.
        seq: Number of the slice's commit.
        kept_at: Time of this commit, naive UTC.
    """

    con: duckdb.DuckDBPyConnection
    inbox: SliceInbox
    scored: ScoredSlice
    seq: int
    kept_at: datetime


Step = Callable[[StoreTransaction], None]


def _insert(name: str) -> Step:
    def insert(transaction: StoreTransaction) -> None:
        waiting = transaction.inbox.rows(name)
        if not waiting:
            return
        inserted = transaction.con.execute(f"EXECUTE keep_{name}").fetchall()[0][0]
        if inserted != waiting:
            raise JobError(f"{inserted} of {waiting} rows of {name} reached the store; nothing of the slice is stored")

    return insert


def _insert_judge_requests(transaction: StoreTransaction) -> None:
    if transaction.inbox.rows("judge_requests"):
        transaction.con.execute("EXECUTE keep_requests")
    if transaction.scored.lane == "live":
        _insert("judge_requests")(transaction)


def _run(sql: str) -> Step:
    def run(transaction: StoreTransaction) -> None:
        transaction.con.execute(sql)

    return run


#: Steps that write slices, in order. The process may die between any two of them.
STEPS: tuple[tuple[str, Step], ...] = (
    ("begin", _run("BEGIN")),
    *((name, _insert(name)) for name in KEPT_TABLES),
    ("judge_requests", _insert_judge_requests),
    ("offsets", _insert("offsets")),
    ("commit", _run("COMMIT")),
)
