"""Tables that stores of this schema version may lack, because they were added without a new version.

A store gets them when it is opened for writing. Nothing of these tables changes what another table means.
"""

from __future__ import annotations

import duckdb

#: Feedback as it came, and what became of each.
FEEDBACK_TABLES = (
    """CREATE TABLE feedback (seq BIGINT, feedback_id VARCHAR, pipeline VARCHAR, trace_id VARCHAR, "value" VARCHAR,
        number DOUBLE, comment VARCHAR, "by" VARCHAR, "at" TIMESTAMP, came_by VARCHAR, kept_at TIMESTAMP)""",
    """CREATE TABLE feedback_joins (seq BIGINT, feedback_id VARCHAR, state VARCHAR, lane VARCHAR, source_topic VARCHAR,
        source_partition INTEGER, source_offset BIGINT, pipeline VARCHAR, environment VARCHAR, "release" VARCHAR,
        kept_at TIMESTAMP)""",
)
ADDED_TABLES = (*FEEDBACK_TABLES,)
#: Columns that were added to `internal.trace_ids`.
_TRACE_COLUMNS = (("source_offset", "BIGINT"), ("environment", "VARCHAR"), ("release", "VARCHAR"))


def add_missing_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Add what a store lacks; a store that has everything costs one look at its catalog."""
    columns = {
        name
        for (name,) in con.execute(
            "SELECT column_name FROM duckdb_columns() WHERE schema_name = 'internal' AND table_name = 'trace_ids'"
        ).fetchall()
    }
    present = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    missing = [one for one in ADDED_TABLES if one.split("(")[0].split()[-1].rpartition(".")[2] not in present]
    lacking = [(name, kind) for name, kind in _TRACE_COLUMNS if name not in columns]
    for name, kind in lacking:
        con.execute(f'ALTER TABLE internal.trace_ids ADD COLUMN "{name}" {kind}')
    for statement in missing:
        con.execute(statement)
    if lacking or missing:
        con.execute("CHECKPOINT")  # definitions are safer in the file than in the write-ahead log
