"""Reads what a store keeps of a lane, commit by commit: where each came from, and its ticks that detectors fold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa

from gapwatch.scorers.slices.tables import SESSION_TICKS, TICKS

# Of ticks only those of units and of labels.
_FOLDED = {"ticks": "AND (facet = 'label' OR (level = 'unit' AND facet = 'all'))", "session_ticks": ""}
_SCHEMAS = {"ticks": TICKS, "session_ticks": SESSION_TICKS}


@dataclass(frozen=True)
class LaneCommit:
    """One commit of a lane.

    Attributes:
        topic: That its records came from.
        partition: That they came from.
        kept_at: When it was kept, naive UTC.
        waited_for: Partitions whose unread records held back event time, as `<topic>/<partition>`, sorted.
        ticks: Of units, and of labels.
        session_ticks: All of them.
    """

    topic: str
    partition: int
    kept_at: datetime
    waited_for: list[str]
    ticks: pa.Table
    session_ticks: pa.Table


def lane_commits(cursor: duckdb.DuckDBPyConnection, lane: str, after: int) -> Iterator[LaneCommit]:
    """Yield the commits of a lane that came after one, in order.

    Args:
        cursor: Reading, for nothing else meanwhile.
        lane: Of the commits.
        after: Number of a commit; 0 for all.
    """
    commits = cursor.execute(
        """SELECT seq, source_topic, source_partition, kept_at,
            list_sort(list("partition") FILTER ("partition" IS NOT NULL))
        FROM offsets LEFT JOIN waited_for USING (lane, seq) WHERE lane = ? AND seq > ? GROUP BY ALL ORDER BY seq""",
        [lane, after],
    ).fetchall()
    for seq, topic, partition, kept_at, waited_for in commits:
        ticks, session_ticks = (_kept(cursor, name, seq) for name in _FOLDED)
        yield LaneCommit(topic, partition, kept_at, waited_for or [], ticks, session_ticks)


def _kept(cursor: duckdb.DuckDBPyConnection, name: str, seq: int) -> pa.Table:
    columns = ", ".join(f'"{column}"' for column in _SCHEMAS[name].names)
    sql = f"SELECT {columns} FROM {name} WHERE seq = ? {_FOLDED[name]}"
    return cursor.sql(sql, params=[seq]).to_arrow_table()
