"""Outbox: Kafka messages that are written in the transaction of their slice and later sent by the relay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from gapwatch.sinks.store.row_inserts import insert_rows
from gapwatch.sinks.store.transaction import Step

#: Kafka header that carries the id of a message.
ID_HEADER = "gapwatch-id"

_COLUMNS = ("seq", "id", "topic", "key", "value", "headers")


@dataclass(frozen=True)
class OutboxRow:
    """One Kafka message that waits in the store.

    Attributes:
        id: The same each time the message is sent. Readers drop ids that they have already seen.
        key: Key of the Kafka record.
        value: Value of the Kafka record.
        headers: Headers of the Kafka record. The relay adds the id.
    """

    id: str
    key: str | None
    value: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def outbox_step(topic: str, rows: Sequence[OutboxRow]) -> tuple[str, Step]:
    """Return the step of `Store.write_slice` that writes messages into the outbox, in the slice's transaction."""
    return f"outbox {topic}", lambda transaction: insert_messages(transaction.con, transaction.seq, topic, rows)


def insert_messages(con: duckdb.DuckDBPyConnection, seq: int, topic: str, rows: Sequence[OutboxRow]) -> None:
    """Write messages into the outbox, in a transaction; `seq` is the number of the commit."""
    written = [(seq, row.id, topic, row.key, row.value, json.dumps(dict(row.headers))) for row in rows]
    insert_rows(con, "outbox", _COLUMNS, written)


def relayed_seqs(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the number of the last commit whose messages were sent, by topic."""
    return dict(con.execute("SELECT topic, max(seq) FROM internal.relayed GROUP BY topic").fetchall())


def last_seq(con: duckdb.DuckDBPyConnection, topic: str) -> int:
    """Return the number of the last commit with a message for a topic; 0 if there is none."""
    rows = con.execute("SELECT coalesce(max(seq), 0) FROM internal.outbox WHERE topic = ?", [topic]).fetchall()
    return int(rows[0][0])


def waiting_seqs(con: duckdb.DuckDBPyConnection, topic: str, after: int, limit: int) -> list[int]:
    """Return the numbers of the next commits with messages for a topic, in order."""
    rows = con.execute(
        "SELECT DISTINCT seq FROM internal.outbox WHERE seq > ? AND topic = ? ORDER BY seq LIMIT ?",
        [after, topic, limit],
    ).fetchall()
    return [seq for (seq,) in rows]


def outbox_rows(con: duckdb.DuckDBPyConnection, topic: str, seq: int) -> list[OutboxRow]:
    """Return the messages of one commit for a topic, ordered by id."""
    rows = con.execute(
        'SELECT id, "key", "value", headers FROM internal.outbox WHERE seq = ? AND topic = ? ORDER BY id', [seq, topic]
    ).fetchall()
    return [OutboxRow(id_, key, value, json.loads(headers or "{}")) for id_, key, value, headers in rows]


def count_waiting(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the number of messages that are not sent yet, by topic."""
    rows = con.execute(
        """SELECT o.topic, count(*) FROM internal.outbox o
            LEFT JOIN (SELECT topic, max(seq) AS seq FROM internal.relayed GROUP BY topic) r ON r.topic = o.topic
            WHERE o.seq > coalesce(r.seq, 0) GROUP BY o.topic"""
    ).fetchall()
    return dict(rows)
