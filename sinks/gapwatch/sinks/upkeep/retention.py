"""Deletes expired rows in small transactions between slice commits, and keeps their sums.

    commits, oldest first   ▓▓▓▓▓▓▓▓▒▒▒░░░░░░░░░░░░░░░░░░   ▓ expired earlier   ▒ this step   ░ within retention
                                    └┴┴─▶ rows, samples, trace ids, dead letters, sent messages: deleted
                                          ledger, offsets:                       summed up in place
                                          ticks, causes of dead letters:         summed up in `past_*`

Commits whose ticks were joined together expire together, so a row of ticks is either whole in the store or expired.
The ledger still counts everything that was ever consumed and balances, a restart continues at the same offset, and no
counter on /metrics falls. A step is one transaction; slices are stored between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb

from gapwatch.scorers.slices.facet_names import OTHER
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.schema import ROW_TABLES
from gapwatch.sinks.store.store import Store

#: Largest step; a commit, or all commits whose ticks were joined together, are taken whole. Larger: slices wait longer.
#: Smaller: higher total cost.
STEP_COMMITS, STEP_RECORDS = 500, 20_000
#: Number of names from records (environments, tiers) with sums of their own; all others are summed as `other`.
_NAME_LIMIT = 200

#: Tables whose rows are deleted without a sum.
_DELETED = ("gaps", "samples", "session_ticks", "internal.trace_ids", "internal.waited_for")

_PLACE = "lane, source_topic, source_partition"
_COUNTED = "facet = 'all' OR (facet = 'tier' AND level = 'span')"
_NAMED = 'lane, pipeline, environment, component, metric, judge, level, facet, "value", outcome'

#: Sums of all expired ticks, those of this step included. Rows with a histogram have n = 0.
_PAST_TICKS = f"""CREATE OR REPLACE TEMP TABLE merged_ticks AS
    WITH old AS (
        SELECT * EXCLUDE (seq) FROM ticks WHERE seq <= $seq AND ({_COUNTED})
        UNION ALL BY NAME SELECT * FROM internal.past_ticks
    ), environments AS (
        SELECT environment AS name FROM old GROUP BY ALL ORDER BY sum(n) DESC, name LIMIT {_NAME_LIMIT}
    ), tiers AS (
        SELECT "value" AS name FROM old WHERE facet = 'tier' GROUP BY ALL ORDER BY sum(n) DESC, name LIMIT {_NAME_LIMIT}
    ), bounded AS (
        SELECT * REPLACE (
            CASE WHEN environment IN (FROM environments) THEN environment ELSE '{OTHER}' END AS environment,
            CASE WHEN facet = 'all' OR "value" IN (FROM tiers) THEN "value" ELSE '{OTHER}' END AS "value")
        FROM old
    ), cells AS (
        SELECT {_NAMED}, entry.key AS cell, sum(entry.value)::BIGINT AS n
        FROM (SELECT {_NAMED}, unnest(map_entries(histogram)) AS entry FROM bounded WHERE histogram IS NOT NULL)
        GROUP BY ALL
    )
    SELECT {_NAMED}, sum(n) / sum(n / p) AS p, sum(n)::BIGINT AS n, sum(score_sum) AS score_sum, NULL AS histogram
        FROM bounded GROUP BY ALL HAVING sum(n) > 0
    UNION ALL BY NAME
    SELECT {_NAMED}, 1.0 AS p, 0 AS n, 0.0 AS score_sum, map_from_entries(list((cell, n) ORDER BY cell)) AS histogram
        FROM cells GROUP BY ALL"""

_ALIVE = "seq > (SELECT coalesce(max(to_seq), 0) FROM retention)"

#: Statements of a step, in order. `$seq` is the number of the last commit that expires.
_STEP = (
    _PAST_TICKS,
    "DELETE FROM internal.past_ticks",
    "INSERT INTO internal.past_ticks BY NAME SELECT * FROM merged_ticks",
    "DROP TABLE merged_ticks",
    """CREATE OR REPLACE TEMP TABLE merged_letters AS SELECT lane, source_topic, cause, sum(n)::BIGINT AS n FROM (
            SELECT lane, source_topic, cause, count(*) AS n FROM dead_letters WHERE seq <= $seq GROUP BY ALL
            UNION ALL SELECT * FROM internal.past_dead_letters)
        GROUP BY ALL""",
    "DELETE FROM internal.past_dead_letters",
    "INSERT INTO internal.past_dead_letters SELECT * FROM merged_letters",
    "DROP TABLE merged_letters",
    f"""CREATE OR REPLACE TEMP TABLE merged_ledger AS
        SELECT max(seq) AS seq, {_PLACE}, pipeline, metric, state, sum(n)::BIGINT AS n FROM ledger
        WHERE seq <= $seq GROUP BY ALL""",
    "DELETE FROM ledger WHERE seq <= $seq",
    "INSERT INTO ledger BY NAME SELECT * FROM merged_ledger",
    "DROP TABLE merged_ledger",
    f"""CREATE OR REPLACE TEMP TABLE merged_offsets AS
        SELECT max(seq) AS seq, {_PLACE}, min(from_offset) AS from_offset, max(to_offset) AS to_offset,
            sum(records)::BIGINT AS records, sum(spans)::BIGINT AS spans,
            arg_max_null(prefix_sha256, seq) AS prefix_sha256, max(kept_at) AS kept_at
        FROM offsets WHERE seq <= $seq GROUP BY lane, source_topic, source_partition""",
    "DELETE FROM offsets WHERE seq <= $seq",
    "INSERT INTO offsets BY NAME SELECT * FROM merged_offsets",
    "DROP TABLE merged_offsets",
    "DELETE FROM internal.tick_joins WHERE to_seq <= $seq",
    # What waits for its trace stays, however short the retention.
    "DELETE FROM feedback WHERE seq <= $seq AND feedback_id IN (SELECT feedback_id FROM feedback_joins)",
    "DELETE FROM feedback_joins WHERE feedback_id NOT IN (SELECT feedback_id FROM feedback)",
    # Those of the last days are needed at a restart, however short the retention.
    """DELETE FROM internal.facet_names AS old WHERE seq <= $seq AND "day" < (
        SELECT max("day") - INTERVAL 7 DAY FROM internal.facet_names AS new
        WHERE (new.lane, new.source_topic, new.source_partition, new.pipeline)
            = (old.lane, old.source_topic, old.source_partition, old.pipeline))""",
)


@dataclass(frozen=True)
class Expired:
    """Result of one step.

    Attributes:
        commits: Number of expired commits, of which only sums are left.
        records: Number of records in these commits.
        rows: Number of deleted rows in all tables.
    """

    commits: int
    records: int
    rows: int


def moment_before(keep: timedelta) -> datetime:
    """Return the time that lies `keep` before now, naive UTC."""
    try:
        return datetime.now(UTC).replace(tzinfo=None) - keep
    except OverflowError:
        return datetime.min


def expire_step(store: Store, before: datetime) -> Expired | None:
    """Expire the oldest commits that were stored before a time, in the writer thread, between slices.

    Args:
        store: Store that is open for writing.
        before: Commits stored before this time expire; naive UTC, the same for all steps of a pass.

    Returns:
        The counts of the step; None if no commit is old enough, or while stored rows are copied.

    Raises:
        JobError: The store could not be written. Nothing of this step is deleted.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    return store.change_stored("deleting expired rows", lambda con: _expire(con, before, now))


def _expire(con: duckdb.DuckDBPyConnection, before: datetime, now: datetime) -> Expired | None:
    found = _expiring(con, before)
    if found is None:
        return None
    seq, commits, records = found
    old = {"seq": seq}
    rows = sum(con.execute(f"DELETE FROM {name} WHERE seq <= $seq", old).fetchall()[0][0] for name in _DELETED)
    for statement in _STEP:
        con.execute(statement, old if "$seq" in statement else None)
    rows += con.execute("DELETE FROM ticks WHERE seq <= $seq", old).fetchall()[0][0]
    rows += con.execute("DELETE FROM dead_letters WHERE seq <= $seq", old).fetchall()[0][0]
    rows += con.execute(
        """DELETE FROM internal.outbox WHERE seq <= $seq AND EXISTS (
            SELECT 1 FROM internal.relayed WHERE relayed.topic = outbox.topic AND relayed.seq >= outbox.seq)""",
        old,
    ).fetchall()[0][0]
    line = {"at": now, "before": before, "to_seq": seq, "commits": commits, "records": records, "rows": rows}
    insert_row(con, "retention", line)
    _join_records(con, now)
    return Expired(commits, records, rows)


def _expiring(con: duckdb.DuckDBPyConnection, before: datetime) -> tuple[int, int, int] | None:
    """Return the last commit of a step, and its numbers of commits and records; None if no commit is old enough."""
    commits, records, seq = 0, 0, 0
    for number, kept_at, count in con.execute(
        f"SELECT seq, kept_at, records FROM offsets WHERE {_ALIVE} ORDER BY seq LIMIT {STEP_COMMITS}"
    ).fetchall():
        if kept_at >= before or (commits and records + count > STEP_RECORDS):
            break
        commits, records, seq = commits + 1, records + count, number
    if not commits:
        return None
    # Ticks that were joined are rows of several commits: these expire together.
    for after, to_seq in con.execute(
        "SELECT after_seq, to_seq FROM internal.tick_joins WHERE after_seq < $seq AND to_seq > $seq", {"seq": seq}
    ).fetchall():
        for end in (after, to_seq):
            last, commits, records, newest = con.execute(
                f"""SELECT max(seq), count(*), sum(records)::BIGINT, max(kept_at) FROM offsets
                    WHERE {_ALIVE} AND seq <= ?""",
                [end],
            ).fetchall()[0]
            if commits:
                return None if newest >= before else (last, commits, records)
    return seq, commits, records


def _join_records(con: duckdb.DuckDBPyConnection, now: datetime) -> None:
    """Merge the lines of `retention` of today into one."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    line = con.execute(
        """SELECT max("at"), max(before), max(to_seq), sum(commits)::BIGINT, sum(records)::BIGINT, sum("rows")::BIGINT
            FROM retention WHERE "at" >= ?""",
        [day],
    ).fetchall()[0]
    con.execute('DELETE FROM retention WHERE "at" >= ?', [day])
    insert_row(con, "retention", dict(zip(ROW_TABLES["retention"].names, line, strict=True)))
