"""Stores the texts of the traces behind an alert as samples, besides those that scoring selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import duckdb

from gapwatch.sinks.store.store import Store


class RowPlace(NamedTuple):
    """Place of a row in the store, and of its record in the source; `event_at` is naive UTC, `seq` of its commit."""

    seq: int
    topic: str
    partition: int
    offset: int
    trace_id: str
    portfolio_sha: str
    event_at: datetime


@dataclass(frozen=True)
class AlertText:
    """Text of one trace behind an alert.

    Attributes:
        place: The row that wants it.
        record: The redacted record; None if the source no longer holds it.
        record_sha256: Digest of the record as it was consumed; None without one.
    """

    place: RowPlace
    record: bytes | None
    record_sha256: str | None


# The commit of the row is that of the text, so retention deletes both together. A row that expired or a text that came
# in the meantime: nothing is inserted.
_AT = "lane = $lane AND source_topic = $topic AND source_partition = $partition AND source_offset = $offset"
_INSERT = f"""
    INSERT INTO samples BY NAME
    SELECT $seq::BIGINT AS seq, $lane AS lane, $topic AS source_topic, $partition::INTEGER AS source_partition,
        $offset::BIGINT AS source_offset, $trace AS trace_id, $cause AS cause, NULL::DOUBLE AS p_kept,
        $sha AS record_sha256, $record::BLOB AS record, $event_at::TIMESTAMP AS event_at, $now::TIMESTAMP AS kept_at
    WHERE EXISTS (SELECT 1 FROM gaps WHERE seq = $seq AND {_AT}) AND NOT EXISTS (SELECT 1 FROM samples WHERE {_AT})"""


def insert_alert_texts(store: Store, lane: str, texts: Sequence[AlertText]) -> None:
    """Store texts, on the writer thread. A trace that has its text is left unchanged.

    Args:
        store: Open for writing.
        lane: Lane of the rows.
        texts: The texts.

    Raises:
        JobError: The store could not be written. Nothing is stored.
    """
    now = datetime.now(UTC).replace(tzinfo=None)

    def insert(con: duckdb.DuckDBPyConnection) -> None:
        for text in texts:
            place, cause = text.place, "gone" if text.record is None else "alert"
            con.execute(
                _INSERT,
                {
                    "seq": place.seq, "lane": lane, "topic": place.topic, "partition": place.partition,
                    "offset": place.offset, "trace": place.trace_id, "cause": cause, "sha": text.record_sha256,
                    "record": text.record, "event_at": place.event_at, "now": now,
                },
            )  # fmt: skip

    store.change("storing the texts of failing traces", insert)
