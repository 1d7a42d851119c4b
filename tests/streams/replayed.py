"""Traces in a file, a portfolio for them, and what a store holds after `gapwatch replay`: compared in the tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from tests.gapwatch_command import Ran, gapwatch

PORTFOLIO = """gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
volume: {traces_per_day: 4000}
components:
- {id: agent, kind: llm}
- {id: search, kind: tool}
metrics:
- {name: answers, component: agent, claim: {form: check, field: output, present: true}}
- {name: parses, component: agent, claim: {form: check, field: "output#/a", length: {min: 1}}}
- {name: fast, component: agent, claim: {form: measure, field: latency, unit: seconds, limit: {max: 2}}, per_trace: max}
- {name: model_used, component: agent, claim: {form: label, field: model, bad: [small]}, sample: {keep: {pass: 0.3}}}
- {name: found, component: search, claim: {form: check, field: output, present: true}}
- {name: cheap, scope: trace, claim: {form: measure, field: trace.cost_usd, unit: usd, limit: {max: 1}}}
- name: grounded
  component: agent
  claim:
    form: judge
    rubric: {criterion: grounded, scale: ["yes", "no"], inputs: [output], pass_at: "yes"}
    judges: [{model: a/b}]
  sample: {rate: 0.2}
"""

#: The keys of the object that `replay --json` ends with.
JSON_KEYS = (
    *("records", "read", "dead_letters", "foreign", "duplicates", "traces", "spans", "outcomes", "rows"),
    *("ledger_imbalance", "seconds", "traces_per_second"),
)

#: Table to the columns that say what it holds, whatever the number of commits, and the measures to add up.
_CONTENTS = {
    "gaps": ("* EXCLUDE (seq, kept_at)", ()),
    "ticks": (
        "lane, pipeline, environment, component, metric, metric_version, judge, epoch, bucket, fold_bucket, level,"
        " facet, value, outcome, p",
        ("n",),
    ),
    "session_ticks": ("* EXCLUDE (seq, units, bad)", ("units", "bad")),
    "ledger": ("lane, source_topic, source_partition, pipeline, metric, state", ("n",)),
    "dead_letters": ("* EXCLUDE (seq, kept_at)", ()),
    "samples": ("* EXCLUDE (seq, kept_at)", ()),
    "internal.trace_ids": ("lane, pipeline, trace_hash", ()),
    "portfolios": ("* EXCLUDE (first_seen_at)", ()),
    "policies": ("* EXCLUDE (recorded_at)", ()),
}


def trace(number: int, pipeline: str = "shop", **fields: Any) -> str:
    """One trace, other than its neighbours; every seventh fails something."""
    at = 1_774_166_400 + number * 3
    failing = number % 7 == 0
    agent = {
        "span_id": f"a{number}", "component": "agent", "kind": "llm", "model": "small" if failing else "large",
        "started_at": at, "ended_at": at + 1.5 + failing, "output": "" if number % 11 == 0 else '{"a": "ü"}',
        "usage": {"cost_usd": 0.25 * (number % 6), "input_tokens": number, "output_tokens": 1},
    }  # fmt: skip
    search = {"span_id": f"s{number}", "component": "search", "kind": "tool", "output": "found" * (number % 5)}
    record = {
        "trace_id": f"t{number}", "pipeline": pipeline, "session_id": f"s{number // 4}", "release": f"r{number // 50}",
        "started_at": at, "ended_at": at + 2, "spans": [agent, search, agent][: 1 + number % 3],
    }  # fmt: skip
    return json.dumps({**record, **fields}, ensure_ascii=False)


def mixed_lines(count: int) -> list[str]:
    """Traces with what else a file may hold among them: dead letters, strangers, blank lines, a trace twice."""
    odd = {13: "nope", 29: "[]", 31: "", 37: "   ", 41: trace(1, "stranger"), 43: '{"trace_id": "x"}', 47: trace(3)}
    return [odd.get(number % 50, "") if number % 50 in odd else trace(number) for number in range(count)]


def written(path: Path, lines: Iterable[str]) -> Path:
    """Write lines to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def portfolio(folder: Path) -> Path:
    """Write the portfolio."""
    return written(folder / "shop.yaml", [PORTFOLIO])


def replay(store: Path, *files: object, options: Iterable[object] = ()) -> Ran:
    """Run `gapwatch replay --json` with the portfolio that lies beside the store."""
    path = store.parent / "shop.yaml"
    if not path.exists():
        portfolio(store.parent)
    return gapwatch("replay", *files, "--portfolio", path, "--store", store, "--json", *options)


def contents(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a store holds, sorted and added up, without what depends on the clock or the number of commits."""
    found = {}
    with duckdb.connect(str(store), read_only=True) as con:
        con.execute("SET TimeZone = 'UTC'")
        for table, (columns, measures) in _CONTENTS.items():
            if measures:
                sums = ", ".join(f"sum({name})::BIGINT" for name in measures)
                sql = f"SELECT {columns}, {sums} FROM {table} GROUP BY ALL ORDER BY ALL"
            else:
                sql = f"SELECT {columns} FROM {table} ORDER BY ALL"
            found[table] = con.execute(sql).fetchall()
        found["scores"] = con.execute(
            "SELECT metric, level, facet, value, outcome, round(sum(score_sum), 6), round(sum(score_sum_squares), 6)"
            " FROM ticks GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        found["histograms"] = con.execute(
            "SELECT metric, level, outcome, bucket, cell.key, sum(cell.value)::BIGINT FROM"
            " (SELECT *, unnest(map_entries(histogram)) AS cell FROM ticks) GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        found["outbox"] = con.execute("SELECT id, topic, key, value FROM internal.outbox ORDER BY ALL").fetchall()
        found["positions"] = con.execute(
            "SELECT lane, source_topic, source_partition, min(from_offset), max(to_offset), sum(records)::BIGINT,"
            " sum(to_offset - from_offset)::BIGINT, arg_max_null(prefix_sha256, seq)"
            " FROM offsets GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    return found


def is_balanced(store: Path) -> bool:
    """Whether `gapwatch ledger` finds that the sums agree."""
    return gapwatch("ledger", "--store", store).status == 0
