"""One scored slice becomes part of the store: the named steps of one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

from scorers.errors import JobError
from scorers.slices import ScoredSlice
from scorers.tables import SCORED_TABLES
from sinks.schema import KEPT_TABLES

JUDGE_REQUESTS_TOPIC = "judge-requests"


class Inbox:
    """The tables of the slice that is being kept, where SQL sees them as `inbox_<table>`.

    Each is registered once, before any transaction: a registration inside one is undone by ROLLBACK, and the next
    INSERT would silently read the slice before.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._doors = {name: _Door(schema.empty_table()) for name, schema in SCORED_TABLES.items()}
        for name, door in self._doors.items():
            con.register(f"inbox_{name}", door)

    def take(self, scored: ScoredSlice) -> None:
        """Show the tables of this slice from now on.

        Raises:
            ValueError: A table is missing or has other columns than `scorers.tables` says; columns go by position.
        """
        for name, schema in SCORED_TABLES.items():
            table = scored.tables.get(name)
            if table is None or not table.schema.equals(schema):
                raise ValueError(f"table {name} of the scored slice does not have the columns of scorers.tables")
            self._doors[name].table = table

    def rows(self, name: str) -> int:
        """Return how many rows wait in one table."""
        return int(self._doors[name].table.num_rows)

    def empty(self) -> None:
        """Let go of the slice."""
        for name, door in self._doors.items():
            door.table = SCORED_TABLES[name].empty_table()


class _Door:
    """Hands DuckDB whichever table is here now; so the registration outlives the slice."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class Keeping:
    """What a step works on.

    Attributes:
        con: In the transaction, but for the steps `begin` and `commit`.
        inbox: Holds the tables of the slice.
        scored: The slice.
        seq: The number of this commit.
        kept_at: Naive, UTC.
    """

    con: duckdb.DuckDBPyConnection
    inbox: Inbox
    scored: ScoredSlice
    seq: int
    kept_at: datetime


Step = Callable[[Keeping], None]


def _insert_table(name: str, stamped: bool) -> Step:
    sql = f"INSERT INTO {name} SELECT $1, *{', $2' if stamped else ''} FROM inbox_{name}"

    def insert(keeping: Keeping) -> None:
        values = [keeping.seq, keeping.kept_at] if stamped else [keeping.seq]
        _insert(keeping, name, sql, values)

    return insert


def _insert(keeping: Keeping, name: str, sql: str, values: list[Any]) -> None:
    waiting = keeping.inbox.rows(name)
    if not waiting:
        return
    inserted = keeping.con.execute(sql, values).fetchall()[0][0]
    if inserted != waiting:
        raise JobError(f"{inserted} of {waiting} rows of {name} reached the store; nothing of the slice is kept")


def _insert_judge_requests(keeping: Keeping) -> None:
    if keeping.scored.lane != "live":
        return
    sql = 'INSERT INTO outbox SELECT $1, id, $2, "key", "value", \'{}\' FROM inbox_judge_requests'
    _insert(keeping, "judge_requests", sql, [keeping.seq, JUDGE_REQUESTS_TOPIC])


def _insert_offsets(keeping: Keeping) -> None:
    scored = keeping.scored
    keeping.con.execute(
        "INSERT INTO offsets VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        [
            keeping.seq,
            scored.lane,
            scored.topic,
            scored.partition,
            scored.from_offset,
            scored.to_offset,
            scored.records,
            scored.spans,
            scored.prefix_sha256,
            keeping.kept_at,
        ],
    ).fetchall()


def _run(sql: str) -> Step:
    def run(keeping: Keeping) -> None:
        keeping.con.execute(sql)

    return run


#: The steps of keeping a slice, in order. Between any two of them the process may die.
STEPS: tuple[tuple[str, Step], ...] = (
    ("begin", _run("BEGIN")),
    *((name, _insert_table(name, stamped)) for name, (_, stamped) in KEPT_TABLES.items()),
    ("judge_requests", _insert_judge_requests),
    ("offsets", _insert_offsets),
    ("commit", _run("COMMIT")),
)
