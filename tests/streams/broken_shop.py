"""A shop whose answers break, with a sample rate of texts near 0, and what its store holds behind the alerts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import orjson

PORTFOLIO = """
gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
volume: {traces_per_day: 20000000}
budget: {pages_per_month: 1, tickets_per_month: 10}
redact: ["customer-[0-9]+"]
components: [{id: agent, role: ai_core, kind: llm}]
metrics:
  - name: parses
    component: agent
    claim: {form: check, field: output, format: json}
    direction: {better: lower, verdict: verified, evidence: "a.py:1"}
    threshold: {of: failure_rate, operator: "<=", value: 0.1, window: 1h, min_units: 50, justification: "retries"}
    alert: {severity: page}
"""
#: Number of the first trace after the change.
CHANGE = 400


def is_broken(number: int) -> bool:
    return number % (50 if number < CHANGE else 2) == 0


def shop_trace(number: int) -> bytes:
    at = 1_774_166_400.0 + 30 * number
    output = f"customer-{number} {{broken" if is_broken(number) else "{}"
    span = {"span_id": "s", "component": "agent", "kind": "llm", "output": output, "ended_at": at}
    return orjson.dumps({"trace_id": f"t{number}", "pipeline": "shop", "ended_at": at, "spans": [span]})


def query(store: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(store), read_only=True) as con:
        return con.execute(sql, list(values)).fetchall()


_SINCE = "(SELECT min(change_at) FROM shifts WHERE kind <> 'bound')"
#: The first 20 failing traces since the change, and whether each has a text.
FIRST = f"""SELECT trace_id, any_value(s.record) IS NOT NULL FROM gaps g LEFT JOIN samples s USING (lane, trace_id)
    WHERE outcome = 'fail' AND g.event_at >= {_SINCE} GROUP BY trace_id ORDER BY min(g.event_at) LIMIT 20"""
