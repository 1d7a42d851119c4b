"""Small scored slices, built by hand: what a test of the store does not name has a plain default."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import SCORED_TABLES

NOON = datetime(2026, 3, 22, 12, 0)
KEPT_AT = datetime(2026, 3, 22, 12, 5, tzinfo=UTC)

_SERIES = {
    "lane": "live",
    "pipeline": "airline-agent",
    "environment": "production",
    "component": "agent",
    "metric": "answer_parses",
    "metric_version": "0123456789ab",
    "judge": None,
    "epoch": "e0",
}
_SOURCE = {"lane": "live", "source_topic": "traces", "source_partition": 0, "source_offset": 0}

_DEFAULTS: dict[str, dict[str, Any]] = {
    "gaps": {
        **{name: value for name, value in _SERIES.items() if name != "epoch"},
        **_SOURCE,
        "release": "r1",
        "trace_id": "t0",
        "span_id": "s0",
        "tier": "primary",
        "model": "gpt-4.1",
        "portfolio_sha": "sha-1",
        "outcome": "fail",
        "observed": "not JSON",
        "p_evaluated": 1.0,
        "p_kept": 1.0,
        "policy": "p0",
        "span_index": 0,
        "event_at": NOON,
    },
    "ticks": {
        **_SERIES,
        "bucket": NOON,
        "fold_bucket": NOON,
        "level": "unit",
        "facet": "all",
        "outcome": "good",
        "p": 1.0,
        "n": 1,
    },
    "session_ticks": {**_SERIES, "bucket": NOON, "session_id": "s-1", "p": 1.0, "units": 1, "bad": 0},
    "ledger": {
        "lane": "live",
        "source_topic": "traces",
        "source_partition": 0,
        "pipeline": "airline-agent",
        "metric": None,
        "state": "read",
        "n": 1,
    },
    "dead_letters": {
        **_SOURCE,
        "cause": "not_json",
        "detail": "line 1: expected a value",
        "size": 3,
        "sha256": "0" * 64,
    },
    "samples": {
        **_SOURCE,
        "trace_id": "t0",
        "cause": "fail",
        "p_kept": 1.0,
        "record_sha256": "0" * 64,
        "record": b"",
        "event_at": NOON,
    },
    "judge_requests": {"id": "j0", "key": "t0", "value": b"{}"},
    "trace_ids": {"lane": "live", "pipeline": "airline-agent", "trace_hash": 0},
    "facet_names": {"lane": "live", "source_topic": "traces", "source_partition": 0, "pipeline": "airline-agent"},
}


def table(name: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Build one table of a scored slice; a column that a row does not name has its default, else null."""
    schema = SCORED_TABLES[name]
    unknown = {column for row in rows for column in row} - set(schema.names)
    if unknown:
        raise ValueError(f"{name} has no column {', '.join(sorted(unknown))}")
    filled = [{**_DEFAULTS[name], **row} for row in rows]
    return pa.table([pa.array([row.get(f.name) for row in filled], f.type) for f in schema], schema=schema)


def scored_slice(
    from_offset: int = 0,
    to_offset: int = 1,
    *,
    lane: str = "live",
    topic: str = "traces",
    partition: int = 0,
    records: int | None = None,
    spans: int = 0,
    prefix_sha256: str | None = None,
    **rows: Sequence[dict[str, Any]],
) -> ScoredSlice:
    """Build a slice of the given rows by table name; the source columns follow the slice unless a row names them."""
    source = {"lane": lane, "source_topic": topic, "source_partition": partition}
    tables = {}
    for name, schema in SCORED_TABLES.items():
        ours = {column: value for column, value in source.items() if column in schema.names}
        tables[name] = table(name, [{**ours, **row} for row in rows.pop(name, ())])
    if rows:
        raise ValueError(f"no table {', '.join(rows)}")
    count = to_offset - from_offset if records is None else records
    return ScoredSlice(lane, topic, partition, from_offset, to_offset, count, spans, prefix_sha256, tables)


def whole_slice(from_offset: int = 0, to_offset: int = 10, *, lane: str = "live", partition: int = 0) -> ScoredSlice:
    """Build a slice that is whole: one trace an offset with one span and one metric, every third failing.

    All rows are kept, with ticks, ledger, a sample and a judge request for each failing one; the ledger balances.
    """
    offsets = range(from_offset, to_offset)
    bad = [offset for offset in offsets if offset % 3 == 0]
    at = {offset: NOON + timedelta(seconds=offset) for offset in offsets}
    outcomes = {"good": len(offsets) - len(bad), "bad": len(bad)}
    buckets = {"bucket": NOON, "fold_bucket": NOON, "lane": lane}
    counted = {"pass": outcomes["good"], "fail": outcomes["bad"]}
    return scored_slice(
        from_offset,
        to_offset,
        lane=lane,
        partition=partition,
        spans=len(offsets),
        gaps=[
            {
                "source_offset": offset,
                "trace_id": f"t{offset}",
                "span_id": f"s{offset}",
                "outcome": "fail" if offset in bad else "pass",
                "event_at": at[offset],
            }
            for offset in offsets
        ],
        ticks=[
            *({**buckets, "outcome": outcome, "n": n} for outcome, n in outcomes.items() if n),
            *({**buckets, "level": "span", "outcome": outcome, "n": n} for outcome, n in counted.items() if n),
        ],
        session_ticks=[{"session_id": "s-1", "bucket": NOON, "units": len(offsets), "bad": len(bad)}],
        ledger=[
            {"state": "read", "n": len(offsets)},
            *({"metric": "answer_parses", "state": state, "n": n} for state, n in counted.items() if n),
        ],
        samples=[{"source_offset": offset, "trace_id": f"t{offset}", "record": b"z"} for offset in bad],
        judge_requests=[{"id": f"j{partition}-{offset}", "key": f"t{offset}"} for offset in bad],
        trace_ids=[{"trace_hash": trace_hash(f"t{partition}-{offset}")} for offset in offsets],
    )


def trace_hash(trace_id: str) -> int:
    """Return some 64-bit hash of a trace id."""
    return int.from_bytes(hashlib.sha256(trace_id.encode()).digest()[:8], "little")
