"""Journal of the batches that judges gave to providers: written before each step, so that a restart continues.

A batch is `planned` before anything is sent, `sent` when the provider's id of it is known, and `done` when its results
are stored. The last row of a batch holds; that of a batch which is done replaces the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import duckdb
import orjson

from gapwatch.scorers.judges.judgement import PaidCall
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.schema import JUDGE_BATCHES
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.open_requests import WaitingRequest

_IF_MISSING = JUDGE_BATCHES.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)
#: States of a batch, in their order.
PLANNED, SENT, DONE = "planned", "sent", "done"


@dataclass(frozen=True)
class BatchItem:
    """One request of a batch.

    Attributes:
        id: Id of the request.
        nonce: Random number of its prompt.
        characters: Characters to which its inputs were cut for the model's window; None: not cut for it.
        attempt: Number of this attempt, from 1.
        paid: Calls of earlier attempts that were paid.
    """

    id: str
    nonce: str
    characters: int | None = None
    attempt: int = 1
    paid: tuple[PaidCall, ...] = ()


@dataclass(frozen=True)
class JournaledBatch:
    """A batch as the journal has it.

    Attributes:
        key: Random id that Gapwatch gives it; a prefix of the `custom_id` of its items.
        lane: Entry of `providers` that it belongs to.
        state: `PLANNED`, `SENT` or `DONE`.
        provider_id: Id that the provider gave it; None before it is known.
        items: Its requests; once it is done, those that are asked again.
        at: Time of the row, UTC.
    """

    key: str
    lane: str
    state: str
    provider_id: str | None
    items: tuple[BatchItem, ...] = field(repr=False)
    at: datetime


class BatchJournal:
    """Reads and appends; `append` is for the writer thread, the others for any.

    Args:
        store: Open for writing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # A store of this version that an earlier program made lacks the table.
        store.change("preparing the journal of batches", lambda con: con.execute(_IF_MISSING))

    def append(self, key: str, lane: str, state: str, provider_id: str | None, items: Sequence[BatchItem]) -> None:
        """Append the present state of a batch, committed before this returns."""
        row = {
            "batch": key, "lane": lane, "state": state, "provider_id": provider_id,
            "items": orjson.dumps([asdict(item) for item in items]),
            "at": datetime.now(UTC).replace(tzinfo=None),
        }  # fmt: skip

        def write(con: duckdb.DuckDBPyConnection) -> None:
            if state == DONE:  # nothing asks for its former states any more
                con.execute("DELETE FROM internal.judge_batches WHERE batch = ?", [key])
            insert_row(con, "judge_batches", row)

        self._store.change("writing down a batch of judges", write)

    def batches(self, lane: str) -> list[JournaledBatch]:
        """Return the last state of every batch of a lane, in the order in which they were planned."""
        rows = self._read(
            """SELECT batch, lane, arg_max(state, rowid), arg_max(provider_id, rowid), arg_max(items, rowid), max("at")
            FROM internal.judge_batches WHERE lane = ? GROUP BY batch, lane ORDER BY min(rowid)""",
            [lane],
        )
        return [
            JournaledBatch(key, name, state, provider_id, _items(items), at)
            for key, name, state, provider_id, items, at in rows
        ]

    def open_among(self, ids: Iterable[str]) -> list[WaitingRequest]:
        """Return those of some requests that still wait for their judgement."""
        rows = self._read(
            """SELECT r.id, any_value(r."value"), any_value(epoch(o.kept_at))
            FROM internal.judge_requests r ANTI JOIN internal.judge_closed c USING (id)
            LEFT JOIN offsets o ON o.seq = r.seq WHERE r.id IN (SELECT unnest(?)) GROUP BY r.id""",
            [sorted(ids)],
        )
        return [WaitingRequest(id_, JudgeRequest.from_json(value), at) for id_, value, at in rows]

    def _read(self, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
        cursor: duckdb.DuckDBPyConnection = self._store.cursor()
        try:
            return cursor.execute(sql, values).fetchall()
        finally:
            cursor.close()


def _items(text: bytes) -> tuple[BatchItem, ...]:
    return tuple(
        BatchItem(**{**item, "paid": tuple(PaidCall(**call) for call in item["paid"])}) for item in orjson.loads(text)
    )
