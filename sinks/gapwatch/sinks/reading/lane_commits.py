"""Reads the commits of a lane in order: the source of each, and its ticks for the detectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa

from gapwatch.scorers.slices.tables import SESSION_TICKS, TICKS

# The ticks that detectors use: those of units and of labels.
_FOLDED = {"ticks": "AND (facet = 'label' OR (level = 'unit' AND facet = 'all'))", "session_ticks": ""}
_SCHEMAS = {"ticks": TICKS, "session_ticks": SESSION_TICKS}


@dataclass(frozen=True)
class LaneCommit:
    """One commit of a lane.

    Attributes:
        topic: Topic of its records.
        partition: Partition of its records.
        kept_at: Time of the commit, naive UTC.
        waited_for: Partitions whose unread records held back event time, as `<topic>/<partition>`, sorted.
        ticks: Ticks of units and of labels.
        session_ticks: All session ticks.
    """

    topic: str
    partition: int
    kept_at: datetime
    waited_for: list[str]
    ticks: pa.Table
    session_ticks: pa.Table


def lane_commits(cursor: duckdb.DuckDBPyConnection, lane: str, after: int) -> Iterator[LaneCommit]:
    """Yield the commits of a lane after a given one, in order.

    Args:
        cursor: Connection that reads the store, used for nothing else meanwhile.
        lane: Lane of the commits.
        after: Number of the last commit to skip; 0 for none.
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
