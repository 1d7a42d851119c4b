"""Designs the portfolio of a real package and replays traces that emit exactly the spans that the design asks for.

    python -m tests.benchmarks.design_replay REPO

The traces are made up from the integration points: one healthy trace, and one in which every field is spoilt. What is
checked is the contract between the report and the stream: each metric must find what it reads, and a spoilt value must
make each metric fail that can fail.
"""

# ruff: noqa: E501 - tables of values, and lines for people
from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.portfolio.bounded_quantity import can_fail
from gapwatch.streams.batch.replay import replay

_HEALTHY: dict[str, Any] = {
    "attributes.swallowed_errors": 0, "attributes.retry_count": 0, "attributes.retry_outcome": "first_try",
    "attributes.fallback_depth": 0, "attributes.cache": "hit", "attributes.rows_written": 1,
    "attributes.first_chunk_seconds": 0.2, "attributes.stream_outcome": "completed", "attributes.queue_wait_seconds": 0.1,
    "attributes.breaker": "closed", "attributes.retrieved_count": 3, "attributes.finish_reason": "stop",
    "usage.input_tokens": 10, "usage.output_tokens": 5, "usage.cost_usd": 0.001, "status": "ok", "output": "an answer",
    "input": "a question", "model": "m", "tier": "t",
}  # fmt: skip
_SPOILT: dict[str, Any] = _HEALTHY | {
    "attributes.swallowed_errors": 1, "attributes.retry_count": 3, "attributes.retry_outcome": "exhausted",
    "attributes.fallback_depth": 1, "attributes.cache": "miss", "attributes.rows_written": 0,
    "attributes.stream_outcome": "aborted", "attributes.breaker": "open", "attributes.retrieved_count": 0,
    "attributes.finish_reason": "length", "status": "error", "error_type": "TimeoutError", "output": "",
    "attributes.parsed_text": "no JSON",
}  # fmt: skip


def _span(point: IntegrationPoint, values: dict[str, Any], parsed: str, seconds: float) -> dict[str, Any]:
    start = 1774166400.0
    span: dict[str, Any] = {
        "span_id": f"{point.component}/{point.symbol}", "component": point.component, "name": point.name, "kind": point.kind,
        "started_at": start, "ended_at": start + seconds, "attributes": {}, "usage": {},
    }  # fmt: skip
    for field in point.fields:
        value = values.get(field, parsed if field == "attributes.parsed_text" else None)
        head, _, key = field.partition(".")
        if key and value is not None:
            span[head][key] = value
        elif field in values:
            span[field] = value
    return span


def _parsed(design: Design) -> str:
    """A JSON text with every member that any parser of the design reads."""
    keys = {k for m in design.metrics for k in m.claim.get("json", {}).get("required", [])}
    return json.dumps({key.removeprefix("/").replace("~1", "/").replace("~0", "~"): "x" for key in keys})


def main() -> None:
    """Print the share of metrics that answer, and those that do not."""
    design = run_design(scan_repository(Path(sys.argv[1])))
    data = portfolio_data(design)
    for metric in data["metrics"]:
        if metric["claim"]["form"] != "ratio":
            metric["sample"] = {"keep": {"fail": 1.0, "pass": 1.0}}
    parsed = _parsed(design)
    traces = [
        {
            "trace_id": name,
            "pipeline": data["pipeline"],
            "spans": [_span(p, values, parsed, seconds) for p in design.points],
        }
        for name, values, seconds in (("healthy", _HEALTHY, 0.5), ("spoilt", _SPOILT, 5000.0))
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "p.yaml").write_text(portfolio_yaml(data, design))
        Path(folder, "t.jsonl").write_text("".join(json.dumps(t) + "\n" for t in traces))
        portfolio = load_portfolio(Path(folder, "p.yaml"))
        replay((f"{folder}/t.jsonl",), [portfolio], Path(folder, "s.duckdb"))
        with duckdb.connect(f"{folder}/s.duckdb", read_only=True) as store:
            rows = store.execute("SELECT trace_id, metric, outcome FROM gaps").fetchall()
    names = {m.name for m in portfolio.metrics if m.claim.form not in ("ratio", "judge")}
    able = {m.name for m in portfolio.metrics if m.name in names and can_fail(m.claim)}
    answering = {metric for trace, metric, outcome in rows if trace == "healthy" and outcome == "pass"}
    failing = {metric for trace, metric, outcome in rows if trace == "spoilt" and outcome == "fail"}
    print(
        f"{len(names & answering)} of {len(names)} metrics pass on the healthy trace: missing {sorted(names - answering)}"
    )
    print(
        f"{len(able & failing)} of {len(able)} metrics that can fail do on the spoilt one: missing {sorted(able - failing)}"
    )


if __name__ == "__main__":
    main()
