"""The bundled traces, the converters as a user runs them, and what the engine counts on their output."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.scoring.score import score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import ScoredSlice
from tests.paths import AIRLINE, ROOT
from tests.scorers.scored_slice import record_slice

Json = dict[str, Any]

EXAMPLES = ROOT / "deploy" / "examples"
TRACES = AIRLINE / "traces"
SAMPLES = ROOT / "tests" / "data"


def run_script(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script of `deploy` in a process of its own, without the packages of the repository."""
    command = [sys.executable, "-I", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def converted(script: Path, *arguments: str | Path) -> list[Json]:
    """The envelopes that a converter writes."""
    done = run_script(script, *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def bundled(name: str) -> list[bytes]:
    """The raw records of one bundled file, `airline_gpt-4.1` say."""
    return gzip.decompress((TRACES / f"{name}.jsonl.gz").read_bytes()).splitlines()


def scored(portfolio: Path, records: Sequence[bytes | Json]) -> ScoredSlice:
    """One slice with these records, scored by the engine."""
    loaded = load_portfolio(portfolio)
    values = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    return score(compile_plan([loaded]), fixed_selection([loaded]), record_slice(values))


def ledger_of(result: ScoredSlice, metric: str | None) -> dict[str, int]:
    """How many spans (or, for None, records) of a metric ended in each state."""
    counts: Counter[str] = Counter()
    for entry in result.tables["ledger"].to_pylist():
        if entry["metric"] == metric:
            counts[entry["state"]] += entry["n"]
    return dict(counts)


def units_of(result: ScoredSlice, metric: str) -> dict[str, int]:
    """How many traces were good, bad, unknown for a metric."""
    counts: Counter[str] = Counter()
    for tick in result.tables["ticks"].to_pylist():
        if (tick["metric"], tick["level"], tick["facet"]) == (metric, "unit", "all"):
            counts[tick["outcome"]] += tick["n"]
    return dict(counts)


SPAN_KEYS = {
    *("span_id", "parent_id", "component", "name", "kind", "started_at", "ended_at", "status", "error_type"),
    *("model", "tier", "input", "output", "usage", "attributes"),
}
TRACE_KEYS = {
    *("trace_id", "pipeline", "environment", "release", "session_id", "started_at", "ended_at"),
    *("sampling_probability", "attributes", "spans"),
}
KINDS = {
    *("llm", "embedding", "retrieval", "rerank", "tool", "agent", "chain", "guardrail", "parse", "cache", "other"),
}


def envelope_faults(trace: Json) -> list[str]:
    """What is wrong with an envelope by section 3 of the contract; empty where nothing is."""
    faults = [f"trace key {key}" for key in trace.keys() - TRACE_KEYS]
    faults += [f"no {key}" for key in ("trace_id", "pipeline", "spans") if trace.get(key) is None]
    ids = [span["span_id"] for span in trace["spans"]]
    faults += ["a span id comes twice"] if len(set(ids)) < len(ids) else []
    for span in trace["spans"]:
        where = f"span {span.get('span_id')}"
        faults += [f"{where}: key {key}" for key in span.keys() - SPAN_KEYS]
        faults += [f"{where}: no {key}" for key in ("span_id", "component") if not span.get(key)]
        faults += [f"{where}: null {key}" for key, value in span.items() if value is None]
        faults += [f"{where}: kind {span['kind']}"] if span.get("kind") not in KINDS else []
        faults += [f"{where}: status {span['status']}"] if span.get("status", "ok") not in ("ok", "error") else []
        faults += [f"{where}: usage {key}" for key in span.get("usage", {}).keys() - USAGE_KEYS]
        faults += [
            f"{where}: {name} is no number"
            for name, value in [*times_of(span), *span.get("usage", {}).items()]
            if isinstance(value, bool) or not isinstance(value, int | float)
        ]
    return faults


USAGE_KEYS = {"input_tokens", "output_tokens", "cost_usd"}


def times_of(thing: Json) -> list[tuple[str, Any]]:
    """The times that a trace or span has."""
    return [(key, thing[key]) for key in ("started_at", "ended_at") if key in thing]
