"""Folding stored slices at a start: by pages, beside one query for each commit, on the same store.

    python -m tests.benchmarks.folding [--commits N]

The store is that of 100 traces a second on four partitions, 19 traces a commit, with seven metrics that alert. It is
written by the pipeline's own steps, as fast as they go. Both contenders must end with the same bytes of state.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice
from gapwatch.scorers.slices.tables import SESSION_TICKS, TICKS
from gapwatch.sinks.reading.lane_commits import LaneCommit, lane_commits
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation import stored_history
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch

_ALERT = 'direction: {better: lower, verdict: verified, evidence: "a.py:1"}, alert: {severity: page}'
PORTFOLIO = f"""
gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
volume: {{traces_per_day: 8640000}}
components: [{{id: agent, role: ai_core, kind: llm}}, {{id: retrieve, role: supporting, kind: retrieval}}]
metrics:
  - {{name: parses, component: agent, claim: {{form: check, field: output, format: json}}, {_ALERT}}}
  - {{name: errors, component: agent, claim: {{form: check, field: status, one_of: [ok]}}, {_ALERT}}}
  - {{name: short, component: agent, claim: {{form: check, field: output, length: {{max: 400}}}}, {_ALERT}}}
  - {{name: seconds, component: agent, claim: {{form: measure, field: latency, unit: s, limit: {{max: 5}}}}, {_ALERT}}}
  - {{name: found, component: retrieve, claim: {{form: check, field: output, length: {{min: 5}}}}, {_ALERT}}}
  - {{name: slow, component: retrieve, claim: {{form: measure, field: latency, unit: s, limit: {{max: 1}}}}, {_ALERT}}}
  - {{name: whole, scope: trace, claim: {{form: measure, field: trace.duration, unit: s, limit: {{max: 8}}}}, {_ALERT}}}
"""
START = datetime(2026, 3, 22, 8, tzinfo=UTC)
PER_COMMIT, PARTITIONS = 19, 4
#: Commits of an hour at 100 traces a second.
HOUR = 18_600
_KINDS = 24


def _trace(dice: random.Random, number: int) -> bytes:
    at = START.timestamp()
    spans = [
        {"span_id": "a", "component": "retrieve", "started_at": at - 1, "ended_at": at - 1 + dice.random() / 2,
         "output": "some documents", "status": "ok"},
        {"span_id": "b", "component": "agent", "kind": "llm", "started_at": at - dice.random(), "ended_at": at,
         "output": "{broken" if dice.random() < 0.03 else "{}", "status": "error" if dice.random() < 0.01 else "ok"},
    ]  # fmt: skip
    record = {"trace_id": f"{number:032x}", "pipeline": "shop", "started_at": at - 1, "ended_at": at, "spans": spans}
    return orjson.dumps(record)


def _kinds(portfolio: Portfolio) -> list[ScoredSlice]:
    """Score some slices; the store repeats them at later times."""
    scorer, selection, dice = Scorer(compile_plan([portfolio]), None), fixed_selection([portfolio]), random.Random(1)
    offsets = np.arange(PER_COMMIT)
    stamps = np.full(PER_COMMIT, int(START.timestamp() * 1e6))
    return [
        score(scorer, selection, RecordSlice(
            "live", "traces", 0, 0, PER_COMMIT, offsets,
            pa.array([_trace(dice, PER_COMMIT * kind + i) for i in range(PER_COMMIT)], pa.binary()), stamps,
        ))
        for kind in range(_KINDS)
    ]  # fmt: skip


def _at(scored: ScoredSlice, number: int, moment: datetime) -> ScoredSlice:
    ticks = scored.tables["ticks"]
    bucket = datetime.fromtimestamp(moment.timestamp() // 30 * 30, UTC).replace(tzinfo=None)
    for name in ("bucket", "fold_bucket"):
        column = ticks.schema.get_field_index(name)
        field = ticks.schema.field(column)
        ticks = ticks.set_column(column, field, pa.array([bucket] * ticks.num_rows, field.type))
    begin = number // PARTITIONS * PER_COMMIT
    return dataclasses.replace(
        scored, partition=number % PARTITIONS, from_offset=begin, to_offset=begin + PER_COMMIT,
        tables={**scored.tables, "ticks": ticks},
    )  # fmt: skip


def make_store(path: Path, portfolio: Portfolio, commits: int) -> bytes:
    """Write a store without a saved state of its detectors; return the state that they had."""
    kinds = _kinds(portfolio)
    with Store.open(path, create=True) as store:
        store.register(portfolio, [])
        watch = ShiftWatch.open(store, [portfolio])
        for number in range(commits):
            moment = START + timedelta(seconds=3600 / HOUR * number)
            taken = watch.take(_at(kinds[number % _KINDS], number, moment), moment)
            store.write_slice(taken.scored, moment, taken.steps)
        store.record("forgetting", lambda con, _: con.execute("DELETE FROM internal.detector_snapshots"))
        return watch.packed()


def one_by_one(cursor: duckdb.DuckDBPyConnection, lane: str, after: int) -> Iterator[LaneCommit]:
    """Yield the commits of a lane with two queries for each: the contender."""
    found = cursor.execute(
        "SELECT seq, source_topic, source_partition, kept_at FROM offsets WHERE lane = ? AND seq > ? ORDER BY seq",
        [lane, after],
    ).fetchall()
    where = "seq = ? AND (facet = 'label' OR (level = 'unit' AND facet = 'all'))"
    for seq, topic, partition, kept_at in found:
        ticks = cursor.sql(f"SELECT {', '.join(TICKS.names)} FROM ticks WHERE {where}", params=[seq])
        sessions = cursor.sql(f"SELECT {', '.join(SESSION_TICKS.names)} FROM session_ticks WHERE seq = ?", params=[seq])
        yield LaneCommit(seq, topic, partition, kept_at, [], ticks.to_arrow_table(), sessions.to_arrow_table())


def fold(path: Path, portfolio: Portfolio, read: Callable[..., Iterator[LaneCommit]]) -> tuple[float, float, bytes]:
    """Open the watch; return seconds of CPU and of wall time, and the state."""
    stored_history.lane_commits = read  # type: ignore[attr-defined]
    with Store.open(path) as store:
        cpu, wall = time.process_time(), time.perf_counter()
        watch = ShiftWatch.open(store, [portfolio])
        spent = time.process_time() - cpu, time.perf_counter() - wall
        store.record("forgetting", lambda con, _: con.execute("DELETE FROM internal.detector_snapshots"))
        return *spent, watch.packed()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=2_000)
    commits = parser.parse_args().commits
    portfolio = parse_portfolio(PORTFOLIO)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.duckdb"
        state = make_store(path, portfolio, commits)
        paged_cpu, paged_wall, paged = fold(path, portfolio, lane_commits)
        single_cpu, single_wall, single = fold(path, portfolio, one_by_one)
        assert paged == single == state, "the contenders differ"
    for label, cpu, wall in (("by pages", paged_cpu, paged_wall), ("one by one", single_cpu, single_wall)):
        print(f"{label}: {cpu:.2f} s CPU, {wall:.2f} s; {1e3 * cpu / commits:.2f} ms CPU a commit")
    print(
        f"one by one takes {single_cpu / paged_cpu:.1f} times the CPU of pages, {single_wall / paged_wall:.1f} the time"
    )


if __name__ == "__main__":
    main()
