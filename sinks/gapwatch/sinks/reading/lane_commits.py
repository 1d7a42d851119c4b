"""Reads the commits of a lane in order, by pages, and the clocks and names that its partitions continue from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np
import pyarrow as pa

from gapwatch.scorers.slices.columns import BUCKET_SECONDS
from gapwatch.scorers.slices.event_clock import EventClock, SliceClocks
from gapwatch.scorers.slices.facet_names import FacetNames
from gapwatch.scorers.slices.tables import FACET_NAMES, SESSION_TICKS, TICKS
from gapwatch.sinks.store.store import Store

#: Commits of a page. Each page costs five queries of some milliseconds; more commits than this save little.
PAGE_COMMITS = 2_000
#: Rows of ticks that are read at once, about 200 bytes each. A single commit may have more.
PAGE_ROWS = 50_000

# The ticks that detectors use: those of units and of labels.
_FOLDED = {"ticks": "AND (facet = 'label' OR (level = 'unit' AND facet = 'all'))", "session_ticks": ""}
_SCHEMAS = {"ticks": TICKS, "session_ticks": SESSION_TICKS}


@dataclass(frozen=True)
class LaneCommit:
    """One commit of a lane.

    Attributes:
        seq: Number of the commit.
        topic: Topic of its records.
        partition: Partition of its records.
        kept_at: Time of the commit, naive UTC.
        waited_for: Partitions whose unread records held back event time, as `<topic>/<partition>`, sorted.
        ticks: Ticks of units and of labels.
        session_ticks: All session ticks.
    """

    seq: int
    topic: str
    partition: int
    kept_at: datetime
    waited_for: list[str]
    ticks: pa.Table
    session_ticks: pa.Table


def count_commits(cursor: duckdb.DuckDBPyConnection, lane: str, after: int) -> int:
    """Return the number of commits of a lane after a given one."""
    rows = cursor.execute("SELECT count(*) FROM offsets WHERE lane = ? AND seq > ?", [lane, after]).fetchall()
    return int(rows[0][0])


def lane_commits(
    cursor: duckdb.DuckDBPyConnection, lane: str, after: int, page_commits: int = PAGE_COMMITS
) -> Iterator[LaneCommit]:
    """Yield the commits of a lane after a given one, in order.

    Args:
        cursor: Connection that reads the store, used for nothing else meanwhile.
        lane: Lane of the commits.
        after: Number of the last commit to skip; 0 for none.
        page_commits: Most commits that one query reads.
    """
    while True:
        commits = cursor.execute(
            """SELECT seq, source_topic, source_partition, kept_at,
                list_sort(list("partition") FILTER ("partition" IS NOT NULL))
            FROM (SELECT * FROM offsets WHERE lane = ? AND seq > ? ORDER BY seq LIMIT ?)
            LEFT JOIN internal.waited_for USING (lane, seq) GROUP BY ALL ORDER BY seq""",
            [lane, after, page_commits],
        ).fetchall()
        if not commits:
            return
        first = 0
        for end in _page_ends(cursor, [seq for seq, *_ in commits]):
            part = commits[first:end]
            seqs = [seq for seq, *_ in part]
            tables = zip(*(_kept(cursor, name, seqs) for name in _FOLDED), strict=True)
            for (seq, topic, partition, kept_at, waited_for), (ticks, sessions) in zip(part, tables, strict=True):
                yield LaneCommit(seq, topic, partition, kept_at, waited_for or [], ticks, sessions)
            first = end
        after = commits[-1][0]


def _page_ends(cursor: duckdb.DuckDBPyConnection, seqs: Sequence[int]) -> Iterator[int]:
    """Yield where to cut commits so that no part has more than `PAGE_ROWS` rows, unless it is one commit."""
    rows = np.zeros(len(seqs), np.int64)
    for name in _FOLDED:
        found = cursor.execute(
            f"SELECT seq, count(*) FROM {name} WHERE seq BETWEEN ? AND ? {_FOLDED[name]} GROUP BY seq",
            [seqs[0], seqs[-1]],
        ).fetchall()
        counted = dict(found)
        rows += np.array([counted.get(seq, 0) for seq in seqs], np.int64)
    begin, total = 0, 0
    for i, n in enumerate(rows.tolist()):
        if total + n > PAGE_ROWS and i > begin:
            yield i
            begin, total = i, 0
        total += n
    yield len(seqs)


def _kept(cursor: duckdb.DuckDBPyConnection, name: str, seqs: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the rows of each commit, in the order in which they were written."""
    columns = ", ".join(f'"{column}"' for column in _SCHEMAS[name].names)
    sql = f"SELECT seq, {columns} FROM {name} WHERE seq BETWEEN ? AND ? {_FOLDED[name]} ORDER BY seq, rowid"
    table = cursor.sql(sql, params=[seqs[0], seqs[-1]]).to_arrow_table().combine_chunks()
    rows, table = table["seq"].to_numpy(), table.drop_columns("seq")
    first, last = np.searchsorted(rows, seqs, "left").tolist(), np.searchsorted(rows, seqs, "right").tolist()
    for begin, end in zip(first, last, strict=True):
        yield table.slice(begin, end - begin)


def event_clocks(
    store: Store, lane: str, topic: str, partition: int, until: float | None = None
) -> Mapping[str, EventClock]:
    """Return the event clock of each pipeline after the stored slices of a partition.

    Times that are not believed have no bucket, so the newest bucket is the newest believed time.

    Args:
        store: Store, open.
        lane: Lane of the partition.
        topic: Topic, or name of the file source.
        partition: Number of the partition.
        until: Present time, seconds since the epoch: times more than half an hour later are left out. None: none are.
    """
    latest = 2**53 if until is None else int(until) + 1_800
    with closing(store.cursor()) as cursor:
        rows = cursor.execute(
            """SELECT pipeline, max(epoch(bucket))::BIGINT FROM ticks
            WHERE lane = $lane AND epoch(bucket) <= $latest AND seq IN (
                SELECT seq FROM offsets
                WHERE lane = $lane AND source_topic = $topic AND source_partition = $partition)
            GROUP BY pipeline""",
            {"lane": lane, "latest": latest, "topic": topic, "partition": partition},
        ).fetchall()
    return SliceClocks.after({pipeline: second // BUCKET_SECONDS for pipeline, second in rows}).clocks


def facet_names(store: Store, lane: str, topic: str, partition: int) -> FacetNames:
    """Return the names that a partition counts apart after its stored slices.

    Args:
        store: Store, open.
        lane: Lane of the partition.
        topic: Topic, or name of the file source.
        partition: Number of the partition.
    """
    columns = ", ".join(f'"{name}"' for name in FACET_NAMES.names)
    with closing(store.cursor()) as cursor:
        rows = cursor.sql(
            f"""SELECT {columns} FROM internal.facet_names
            WHERE lane = ? AND source_topic = ? AND source_partition = ?""",
            params=[lane, topic, partition],
        )
        return FacetNames.stored(rows.to_arrow_table())
