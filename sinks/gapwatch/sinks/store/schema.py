"""DDL of the store's tables and views. The tables that scoring fills come from `gapwatch.scorers.slices.tables`.

Tables are append-only: no primary key, no unique constraint, no secondary index (DuckDB's indexes have lost data under
upserts), no update in place. Views remove duplicates where a reader needs one row.
"""

from __future__ import annotations

import re

import pyarrow as pa

from gapwatch.scorers.slices.tables import (
    DEAD_LETTERS,
    FACET_NAMES,
    GAPS,
    LEDGER,
    SAMPLES,
    SERIES,
    SESSION_TICKS,
    SOURCE,
    TICKS,
    TRACE_IDS,
)
from gapwatch.sinks.catalog.added_tables import ADDED_TABLES
from gapwatch.sinks.catalog.comments import comment_statements
from gapwatch.sinks.catalog.views import view_statements

#: Written into every store. `gapwatch.sinks.migration` converts stores from version 3 on.
SCHEMA_VERSION = 7

#: DuckDB's schema for the tables of the program itself: an analyst has no question that they answer.
INTERNAL = "internal"
#: Tables in it.
INTERNAL_TABLES = frozenset(
    {
        "trace_ids", "detector_snapshots", "waited_for", "judge_requests", "judge_closed", "judge_offsets",
        "judge_money", "judge_batches", "retried_verdicts", "outbox", "relayed", "past_ticks", "past_dead_letters",
        "facet_names", "tick_joins",
    }
)  # fmt: skip

#: Journal of the judges' batches; also made in stores of this version that lack it.
JUDGE_BATCHES = """CREATE TABLE internal.judge_batches (batch VARCHAR, lane VARCHAR, state VARCHAR,
    provider_id VARCHAR, items BLOB, "at" TIMESTAMP)"""

#: Requests and evidence of the verdicts that retries gave; also made in stores of this version that lack it.
RETRIED_VERDICTS = """CREATE TABLE internal.retried_verdicts (override_id VARCHAR, request_id VARCHAR,
    judge_model_id VARCHAR, judge_prompt_sha VARCHAR, judge_request_sha VARCHAR, judge_input_sha VARCHAR,
    evidence VARCHAR)"""

#: Written into every store, to distinguish it from the DuckDB file of another program.
PROGRAM = "gapwatch"

_JSON_COLUMNS = {"evidence"}

#: Tables that a scored slice fills: name, Arrow schema, and whether a last column has the time of storing.
KEPT_TABLES: dict[str, tuple[pa.Schema, bool]] = {
    "gaps": (GAPS, True),
    "ticks": (TICKS, False),
    "session_ticks": (SESSION_TICKS, False),
    "ledger": (LEDGER, False),
    "dead_letters": (DEAD_LETTERS, True),
    "samples": (SAMPLES, True),
    "trace_ids": (TRACE_IDS, False),
    "facet_names": (FACET_NAMES, False),
}

#: Offsets of the records of each commit, by partition. `to_offset` is exclusive.
OFFSETS = pa.schema(
    [
        ("lane", pa.string()),
        ("source_topic", pa.string()),
        ("source_partition", pa.int32()),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        ("records", pa.int64()),
        ("spans", pa.int64()),
        ("prefix_sha256", pa.string()),  # digest of the source's bytes up to `to_offset`; null for Kafka
    ]
)


def sql_type(kind: pa.DataType) -> str:
    """Return the DuckDB type for an Arrow type of `gapwatch.scorers.slices.tables`.

    Raises:
        TypeError: No DuckDB type is known for it.
    """
    if pa.types.is_map(kind):
        return f"MAP({sql_type(kind.key_type)}, {sql_type(kind.item_type)})"
    for is_kind, name in (
        (pa.types.is_string, "VARCHAR"),
        (pa.types.is_float64, "DOUBLE"),
        (pa.types.is_int32, "INTEGER"),
        (pa.types.is_int64, "BIGINT"),
        (pa.types.is_uint64, "UBIGINT"),
        (pa.types.is_timestamp, "TIMESTAMP"),
        (pa.types.is_binary, "BLOB"),
    ):
        if is_kind(kind):
            return name
    raise TypeError(f"no column type for {kind}")


def _columns(schema: pa.Schema | list[tuple[str, pa.DataType]]) -> str:
    fields = [(field.name, field.type) for field in schema] if isinstance(schema, pa.Schema) else schema
    return ", ".join(f'"{name}" {"JSON" if name in _JSON_COLUMNS else sql_type(kind)}' for name, kind in fields)


def qualified(table: str) -> str:
    """Return the name of a table with its schema, if that is not the default one."""
    return f"{INTERNAL}.{table}" if table in INTERNAL_TABLES else table


def _kept_table(name: str, schema: pa.Schema, stamped: bool) -> str:
    return f"CREATE TABLE {qualified(name)} (seq BIGINT, {_columns(schema)}{', kept_at TIMESTAMP' if stamped else ''})"


_SERIES = _columns(SERIES)
_SOURCE = _columns(SOURCE)

#: Tables that the writer thread, the detectors, people and the relay fill.
_OWN_TABLES = [
    "CREATE TABLE store (program VARCHAR, schema_version INTEGER, created_at TIMESTAMP, created_by VARCHAR)",
    _kept_table("offsets", OFFSETS, True),
    """CREATE TABLE policies (policy VARCHAR, lane VARCHAR, source_topic VARCHAR, source_partition INTEGER,
        from_offset BIGINT, portfolio_sha VARCHAR, metric VARCHAR, stratum VARCHAR, p_evaluated DOUBLE, p_kept JSON,
        cause VARCHAR, recorded_at TIMESTAMP)""",
    """CREATE TABLE portfolios (portfolio_sha VARCHAR, portfolio VARCHAR, version BIGINT, pipeline VARCHAR,
        yaml VARCHAR, first_seen_at TIMESTAMP)""",
    """CREATE TABLE metrics (portfolio_sha VARCHAR, metric VARCHAR, metric_version VARCHAR, claim VARCHAR,
        concern VARCHAR, expected VARCHAR, evidence JSON, direction JSON, recorded_at TIMESTAMP)""",
    "CREATE TABLE templates (sha VARCHAR, text VARCHAR)",
    f"""CREATE TABLE shifts (seq BIGINT, shift_id VARCHAR, {_SERIES}, kind VARCHAR, found_at TIMESTAMP,
        change_at TIMESTAMP, change_from TIMESTAMP, change_to TIMESTAMP, moved VARCHAR, verdict VARCHAR,
        question VARCHAR,
        evidence_log10 DOUBLE, rate_before DOUBLE, rate_after DOUBLE, "lower" DOUBLE, "upper" DOUBLE, units BIGINT)""",
    f"""CREATE TABLE alerts (seq BIGINT, alert_id VARCHAR, shift_id VARCHAR, {_SERIES}, state VARCHAR,
        severity VARCHAR, "at" TIMESTAMP, "by" VARCHAR, why VARCHAR, incident_id VARCHAR, attribution JSON)""",
    """CREATE TABLE incidents (seq BIGINT, incident_id VARCHAR, lane VARCHAR, pipeline VARCHAR, environment VARCHAR,
        name VARCHAR, kind VARCHAR, state VARCHAR, severity VARCHAR, component VARCHAR, since TIMESTAMP,
        since_from TIMESTAMP, since_to TIMESTAMP, members JSON, "at" TIMESTAMP, "by" VARCHAR, why VARCHAR,
        told JSON)""",
    # Small and rewritten: the state of the detectors, for a restart and for readers.
    """CREATE TABLE internal.detector_snapshots (seq BIGINT, lane VARCHAR, folded_until TIMESTAMP, "data" BLOB,
        kept_at TIMESTAMP)""",
    # Partitions that held back event time at a commit, because they had unread records: `<topic>/<partition>`.
    'CREATE TABLE internal.waited_for (seq BIGINT, lane VARCHAR, "partition" VARCHAR)',
    f"""CREATE TABLE watched (seq BIGINT, {_SERIES}, kind VARCHAR, phase VARCHAR, direction VARCHAR, units BIGINT,
        rate DOUBLE, evidence_log10 DOUBLE, ticket_log10 DOUBLE, page_log10 DOUBLE, smallest_ratio DOUBLE,
        month_ratio DOUBLE, is_blind BOOLEAN, last_unit_at TIMESTAMP, expected_false_alarms DOUBLE)""",
    f"""CREATE TABLE watched_bounds (seq BIGINT, {_SERIES}, quantity VARCHAR, operator VARCHAR, bound DOUBLE,
        unit VARCHAR, window_seconds BIGINT, min_units BIGINT, state VARCHAR, "value" DOUBLE, "lower" DOUBLE,
        "upper" DOUBLE, units BIGINT, last_unit_at TIMESTAMP)""",
    # Answers of people to the questions of a portfolio, besides the facts in the portfolio.
    """CREATE TABLE facts (pipeline VARCHAR, fact_id VARCHAR, question VARCHAR, component VARCHAR, kind VARCHAR,
        metric VARCHAR, better VARCHAR, "value" VARCHAR, "by" VARCHAR, "at" VARCHAR, recorded_at TIMESTAMP)""",
    'CREATE TABLE annotations ("at" TIMESTAMP, pipeline VARCHAR, "text" VARCHAR, "by" VARCHAR)',
    f"""CREATE TABLE overrides (override_id VARCHAR, {_SOURCE}, span_index INTEGER, metric VARCHAR,
        metric_version VARCHAR, judge VARCHAR, outcome VARCHAR, score DOUBLE, label VARCHAR, why VARCHAR,
        "by" VARCHAR, "at" TIMESTAMP)""",
    # Judge requests of every lane; how each request ended; the cost of calls, and the money set aside for them.
    'CREATE TABLE internal.judge_requests (seq BIGINT, id VARCHAR, "key" VARCHAR, "value" BLOB)',
    "CREATE TABLE internal.judge_closed (seq BIGINT, id VARCHAR, state VARCHAR, score DOUBLE, position DOUBLE)",
    "CREATE TABLE internal.judge_offsets (seq BIGINT, topic VARCHAR, partition INTEGER, to_offset BIGINT)",
    """CREATE TABLE judge_calls (seq BIGINT, request_id VARCHAR, portfolio_sha VARCHAR, pipeline VARCHAR,
        metric VARCHAR, judge VARCHAR, model VARCHAR, kind VARCHAR, input_tokens BIGINT, output_tokens BIGINT,
        usd DOUBLE, seconds DOUBLE, kept_at TIMESTAMP)""",
    """CREATE TABLE internal.judge_money (lease VARCHAR, portfolio VARCHAR, metric VARCHAR, week VARCHAR, entry VARCHAR,
        usd DOUBLE, "at" TIMESTAMP)""",
    JUDGE_BATCHES,
    RETRIED_VERDICTS,
    """CREATE TABLE internal.outbox (seq BIGINT, id VARCHAR, topic VARCHAR, "key" VARCHAR, "value" BLOB,
        headers JSON)""",
    "CREATE TABLE internal.relayed (topic VARCHAR, seq BIGINT)",
    # Commits whose ticks were joined together: those after `after_seq`, up to `to_seq`.
    "CREATE TABLE internal.tick_joins (lane VARCHAR, after_seq BIGINT, to_seq BIGINT)",
    # Differences between two writes; the assembly has the counts themselves.
    """CREATE TABLE span_ledger (source VARCHAR, item VARCHAR, state VARCHAR, cause VARCHAR, n BIGINT,
        recorded_at TIMESTAMP)""",
    # Sums of expired commits, and one line a day that records what expired.
    f"CREATE TABLE internal.past_ticks ({_columns(TICKS)})",
    "CREATE TABLE internal.past_dead_letters (lane VARCHAR, source_topic VARCHAR, cause VARCHAR, n BIGINT)",
    """CREATE TABLE retention ("at" TIMESTAMP, before TIMESTAMP, to_seq BIGINT, commits BIGINT, records BIGINT,
        "rows" BIGINT)""",
    *ADDED_TABLES,
]

_ARROW_TYPES = {
    "VARCHAR": pa.string(), "JSON": pa.string(), "BLOB": pa.binary(), "BIGINT": pa.int64(), "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip


def _row_schemas() -> dict[str, pa.Schema]:
    schemas = {}
    for statement in _OWN_TABLES:
        table, declared = re.fullmatch(r"CREATE TABLE (?:\w+\.)?(\w+) \((.*)\)", statement, re.DOTALL).groups()  # type: ignore[union-attr]
        columns = re.findall(r'(?:^|,)\s*"?(\w+)"? ([A-Z]+)', declared)
        if "MAP" not in dict(columns).values():  # tables with a MAP are filled from other tables only
            schemas[table] = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in columns])
    return schemas


#: Arrow schemas of the tables that `row_inserts` fills row by row.
ROW_TABLES: dict[str, pa.Schema] = _row_schemas()


def table_statements() -> list[str]:
    """Return the statements that create the tables of an empty store, in order."""
    return [
        f"CREATE SCHEMA {INTERNAL}",
        *(_kept_table(name, schema, stamped) for name, (schema, stamped) in KEPT_TABLES.items()),
        *_OWN_TABLES,
    ]


def creation_statements() -> list[str]:
    """Return every statement that creates an empty store, in order, to be run in one transaction."""
    return [
        *table_statements(),
        *view_statements(),
        *comment_statements(qualified),
    ]
