"""Joins the ticks of stored slices, so that a series has a row for each bucket and not for each slice that met it.

    commits              1    2    3    4    5    6    7         seq of the rows
    bucket 12:00:00      n=3  n=4  n=2                     ──▶   n=9 at 3
    bucket 12:00:30                n=1  n=5  n=4           ──▶   n=10 at 6
                         └── joined in one transaction ──┘  │
                                               last state of the detectors

Rows of a lane with equal `bucket`, `fold_bucket` and names are joined, whatever their partitions, and take the number
of the last of their commits, which met that bucket itself. One row of the newest bucket of each partition and pipeline
stays as it is: its event clock. So the sums of every reader and the balance of the ledger stay. Ticks that a restart
would fold again, those since the last state of the detectors, are left as they are.

`internal.tick_joins` has the commits that each step joined. No commit is joined twice, and those of a step expire
together, because their rows cannot be told apart any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb

from gapwatch.scorers.slices.tables import TICKS
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.store import Store

#: Most rows that one transaction joins, unless one commit has more. Larger: slices wait longer. Smaller: a bucket is
#: left in more rows.
STEP_ROWS = 100_000
# Share of the rows that must go, so that writing the others again is worth it.
_LEAST_GAIN = 0.1
#: Without detectors, commits are joined when they are so old.
AGE = timedelta(minutes=10)

_SUMS = ("n", "score_sum", "score_sum_squares", "histogram")
_KEYS = ", ".join(f'"{name}"' for name in TICKS.names if name not in _SUMS)
_COLUMNS = ", ".join(f'"{name}"' for name in TICKS.names)
_RANGE = "lane = $lane AND seq > $after AND seq <= $to"

_JOIN = (
    f"""CREATE OR REPLACE TEMP TABLE clock_ticks AS
        SELECT arg_max(ticks.rowid, bucket) AS row FROM (SELECT rowid, * FROM ticks WHERE {_RANGE}) AS ticks
        JOIN (SELECT seq, source_topic, source_partition FROM offsets WHERE {_RANGE}) USING (seq)
        GROUP BY source_topic, source_partition, pipeline""",
    f"""CREATE OR REPLACE TEMP TABLE joined_ticks AS
        SELECT max(seq) AS seq, min(row) AS first_row, {_KEYS}, sum(n)::BIGINT AS n, sum(score_sum) AS score_sum,
            sum(score_sum_squares) AS score_sum_squares, list(row) FILTER (histogram IS NOT NULL) AS with_histogram
        FROM (SELECT rowid AS row, * FROM ticks WHERE {_RANGE})
        GROUP BY CASE WHEN row IN (SELECT row FROM clock_ticks) THEN row END, {_KEYS}""",
    """CREATE OR REPLACE TEMP TABLE joined_histograms AS
        SELECT first_row, map_from_entries(list((cell, n) ORDER BY cell)) AS histogram FROM (
            SELECT first_row, entry.key AS cell, sum(entry.value)::BIGINT AS n FROM (
                SELECT first_row, unnest(map_entries(histogram)) AS entry FROM ticks
                JOIN (SELECT first_row, unnest(with_histogram) AS row FROM joined_ticks) ON ticks.rowid = row)
            GROUP BY ALL)
        GROUP BY first_row""",
)
_REPLACE = (
    f"DELETE FROM ticks WHERE {_RANGE}",
    f"""INSERT INTO ticks BY NAME SELECT seq, {_COLUMNS} FROM joined_ticks LEFT JOIN joined_histograms USING (first_row)
        ORDER BY seq, first_row""",
)
_DROP = ("DROP TABLE clock_ticks", "DROP TABLE joined_ticks", "DROP TABLE joined_histograms")


@dataclass(frozen=True)
class JoinedTicks:
    """Result of one step.

    Attributes:
        rows: Rows of its commits before.
        left: Rows of its commits now.
    """

    rows: int
    left: int


def joinable_until(store: Store, lane: str, *, has_detectors: bool) -> int:
    """Return the last commit of a lane whose ticks no restart folds again; 0 if there is none."""
    if has_detectors:
        found = store.query("SELECT max(seq) FROM internal.detector_snapshots WHERE lane = ?", [lane])
    else:
        before = datetime.now(UTC).replace(tzinfo=None) - AGE
        found = store.query("SELECT max(seq) FROM offsets WHERE lane = ? AND kept_at < ?", [lane, before])
    return int(found[0][0] or 0)


def join_step(store: Store, lane: str, until: int) -> JoinedTicks | None:
    """Join the ticks of the commits of a lane that were not joined yet; on the writer thread, between slices.

    Args:
        store: Store that is open for writing.
        lane: Lane of the commits.
        until: Last commit that may be joined, from `joinable_until`.

    Returns:
        The counts of the step; None if there is no further commit, or while stored rows are copied.

    Raises:
        JobError: The store could not be written. Nothing of this step is joined.
    """
    return store.change_stored("joining ticks", lambda con: _join(con, lane, until))


def _join(con: duckdb.DuckDBPyConnection, lane: str, until: int) -> JoinedTicks | None:
    after = con.execute("SELECT coalesce(max(to_seq), 0) FROM internal.tick_joins WHERE lane = ?", [lane]).fetchall()
    where = {"lane": lane, "after": after[0][0], "to": until}
    to_seq, rows = 0, 0
    for seq, count in con.execute(
        f"SELECT seq, count(*) FROM ticks WHERE {_RANGE} GROUP BY seq ORDER BY seq", where
    ).fetchall():
        if rows and rows + count > STEP_ROWS:
            break
        to_seq, rows = seq, rows + count
    if not rows:
        return None
    where["to"] = to_seq
    for statement in _JOIN:
        con.execute(statement, where if "$lane" in statement else None)
    left = con.execute("SELECT count(*) FROM joined_ticks").fetchall()[0][0]
    is_worth_it = left <= (1 - _LEAST_GAIN) * rows
    for statement in (*(_REPLACE if is_worth_it else ()), *_DROP):
        con.execute(statement, where if "$lane" in statement else None)
    first = where["after"] if is_worth_it else to_seq  # rows that are left expire one by one
    insert_row(con, "tick_joins", {"lane": lane, "after_seq": first, "to_seq": to_seq})
    return JoinedTicks(rows, left if is_worth_it else rows)
