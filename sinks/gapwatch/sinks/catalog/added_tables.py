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
#: Issues and tests: one row for each version. Decisions of triage. Runs of tests and their verdicts.
ISSUE_TABLES = (
    """CREATE TABLE issues (seq BIGINT, issue_id VARCHAR, title VARCHAR, description VARCHAR, status VARCHAR,
        domain VARCHAR, tags JSON, template BIGINT, guideline VARCHAR, metric VARCHAR, "by" VARCHAR, "at" TIMESTAMP,
        why VARCHAR)""",
    """CREATE TABLE issue_tests (seq BIGINT, test_id VARCHAR, issue_id VARCHAR, inputs JSON, reference VARCHAR,
        template BIGINT, guideline VARCHAR, origin VARCHAR, is_active BOOLEAN, "by" VARCHAR, "at" TIMESTAMP,
        why VARCHAR)""",
    """CREATE TABLE triage (seq BIGINT, kind VARCHAR, item VARCHAR, decision VARCHAR, issue_id VARCHAR,
        "by" VARCHAR, "at" TIMESTAMP, why VARCHAR)""",
    """CREATE TABLE test_runs (seq BIGINT, run_id VARCHAR, model VARCHAR, judges JSON, tests JSON, settings JSON,
        "by" VARCHAR, "at" TIMESTAMP)""",
    """CREATE TABLE test_results (seq BIGINT, run_id VARCHAR, test_id VARCHAR, issue_id VARCHAR, test_sha VARCHAR,
        output VARCHAR, error VARCHAR, seconds DOUBLE, "at" TIMESTAMP)""",
    """CREATE TABLE test_verdicts (seq BIGINT, run_id VARCHAR, test_id VARCHAR, judge VARCHAR, outcome VARCHAR,
        score DOUBLE, justification VARCHAR, reason VARCHAR, "at" TIMESTAMP)""",
    """CREATE TABLE test_overrides (seq BIGINT, run_id VARCHAR, test_id VARCHAR, outcome VARCHAR, "by" VARCHAR,
        "at" TIMESTAMP, why VARCHAR)""",
)
#: Spans that came over OTLP after their trace was closed, the newest of each source.
LATE_TABLES = (
    """CREATE TABLE late_spans (source VARCHAR, trace_id VARCHAR, span_id VARCHAR, service VARCHAR, delay DOUBLE,
        gap DOUBLE, recorded_at TIMESTAMP)""",
)
ADDED_TABLES = (*FEEDBACK_TABLES, *ISSUE_TABLES, *LATE_TABLES)
#: Names of these tables.
ADDED_NAMES = tuple(statement.split("(")[0].split()[-1] for statement in ADDED_TABLES)
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
    missing = [one for name, one in zip(ADDED_NAMES, ADDED_TABLES, strict=True) if name not in present]
    lacking = [(name, kind) for name, kind in _TRACE_COLUMNS if name not in columns]
    for name, kind in lacking:
        con.execute(f'ALTER TABLE internal.trace_ids ADD COLUMN "{name}" {kind}')
    for statement in missing:
        con.execute(statement)
    if lacking or missing:
        con.execute("CHECKPOINT")  # definitions are safer in the file than in the write-ahead log
