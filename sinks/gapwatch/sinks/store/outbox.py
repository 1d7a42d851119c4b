"""What must go to Kafka, as it lies in the store: put there with the slice that it belongs to, read by the relay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from gapwatch.sinks.store.row_inserts import insert_rows
from gapwatch.sinks.store.transaction import Step

#: Header with the id of a message.
ID_HEADER = "gapwatch-id"

_COLUMNS = ("seq", "id", "topic", "key", "value", "headers")


@dataclass(frozen=True)
class OutboxRow:
    """One message.

    Attributes:
        id: The same however often the message is sent; readers drop what they have seen.
        key: Of the Kafka record.
        value: Of the Kafka record.
        headers: Of the Kafka record; the relay adds the id.
    """

    id: str
    key: str | None
    value: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def outbox_step(topic: str, rows: Sequence[OutboxRow]) -> tuple[str, Step]:
    """Return the step of `Store.write_slice` that puts messages into the outbox, with the slice or not at all."""
    return f"outbox {topic}", lambda transaction: insert_messages(transaction.con, transaction.seq, topic, rows)


def insert_messages(con: duckdb.DuckDBPyConnection, seq: int, topic: str, rows: Sequence[OutboxRow]) -> None:
    """Put messages into the outbox, in a transaction; `seq` is the number of its commit."""
    written = [(seq, row.id, topic, row.key, row.value, json.dumps(dict(row.headers))) for row in rows]
    insert_rows(con, "outbox", _COLUMNS, written)


def relayed_seqs(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return by topic the last commit whose messages have been sent."""
    return dict(con.execute("SELECT topic, max(seq) FROM relayed GROUP BY topic").fetchall())


def last_seq(con: duckdb.DuckDBPyConnection, topic: str) -> int:
    """Return the last commit that holds a message for a topic; 0 where none does."""
    rows = con.execute("SELECT coalesce(max(seq), 0) FROM outbox WHERE topic = ?", [topic]).fetchall()
    return int(rows[0][0])


def waiting_seqs(con: duckdb.DuckDBPyConnection, topic: str, after: int, limit: int) -> list[int]:
    """Return the next commits that hold messages for a topic, in order."""
    rows = con.execute(
        "SELECT DISTINCT seq FROM outbox WHERE seq > ? AND topic = ? ORDER BY seq LIMIT ?", [after, topic, limit]
    ).fetchall()
    return [seq for (seq,) in rows]


def outbox_rows(con: duckdb.DuckDBPyConnection, topic: str, seq: int) -> list[OutboxRow]:
    """Return the messages of one commit for a topic, in the order of their ids."""
    rows = con.execute(
        'SELECT id, "key", "value", headers FROM outbox WHERE seq = ? AND topic = ? ORDER BY id', [seq, topic]
    ).fetchall()
    return [OutboxRow(id_, key, value, json.loads(headers or "{}")) for id_, key, value, headers in rows]


def count_waiting(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return by topic how many messages have not been sent yet."""
    rows = con.execute(
        """SELECT o.topic, count(*) FROM outbox o
            LEFT JOIN (SELECT topic, max(seq) AS seq FROM relayed GROUP BY topic) r ON r.topic = o.topic
            WHERE o.seq > coalesce(r.seq, 0) GROUP BY o.topic"""
    ).fetchall()
    return dict(rows)
