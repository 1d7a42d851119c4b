"""Incidents on a chain of four components with 12 metrics, as traces, and what the person on call receives of them.

The truth is drawn before the traces: the component that breaks first, and when. What breaks reaches each next component
up to two minutes later, a little weaker: 30 % of its answers are missing, a fourth of its calls fall back, and half of
them are slow.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.sinks.store.opening import open_for_reading
from gapwatch.streams.batch.replay import ReplayOptions, replay

CHAIN = ("retrieve", "rank", "answer", "check")
_BEGIN = 1_772_600_000  # 2026-03-04T04:53:20Z
_EVERY = 30  # seconds from one trace to the next
#: Traces before the change, and after it.
BEFORE, AFTER = 500, 200
_CALM = {"missing": 0.02, "fallback": 0.05, "slow": 0.04}
_BROKEN = {"missing": 0.30, "fallback": 0.30, "slow": 0.50}
# Of the move of a component, the next one has this share.
_WEAKER = 0.85

_METRICS = """
  - name: {c}_answers
    component: {c}
    claim: {{form: check, field: output, present: true}}
    alert: {{severity: page}}
  - name: {c}_fallback_rate
    component: {c}
    claim: {{form: label, field: tier, labels: [primary, fallback], bad: [fallback]}}
    alert: {{severity: page}}
  - name: {c}_latency
    component: {c}
    claim: {{form: measure, field: latency, unit: seconds, limit: {{max: 2.0}}}}
    alert: {{severity: ticket}}"""
PORTFOLIO = f"""
gapwatch: 1
portfolio: chain
version: 1
pipeline: chain
volume: {{traces_per_day: 2880}}
components: [{", ".join(f"{{id: {c}, kind: llm}}" for c in CHAIN)}]
edges: [{", ".join(f"{{from: {a}, to: {b}}}" for a, b in itertools.pairwise(CHAIN))}]
facts:
{
    "".join(
        f'''
  - {{id: f-{c}, component: {c}, kind: direction, metric: {c}_fallback_rate, better: lower, value: x, by: maria,
      at: 2026-03-01}}'''
        for c in CHAIN
    )
}
metrics:{"".join(_METRICS.format(c=c) for c in CHAIN)}
"""


@dataclass(frozen=True)
class Received:
    """What the person on call received of one incident, and what was true.

    Attributes:
        root: Component that broke first.
        pages: Messages with the severity page.
        messages: All messages that call somebody, until the end of the traces.
        incidents: Incidents since the change.
        early: Incidents before the change.
        paged_as: Component that the first page names; None without a page.
        named: Component that the incident names at the end; None without one.
        alerts: Alerts of the paging incident at the end.
    """

    root: str
    pages: int
    messages: int
    incidents: int
    early: int
    paged_as: str | None
    named: str | None
    alerts: int


def chain_traces(seed: int) -> tuple[str, list[str]]:
    """Return the component that breaks first, and the traces as lines of JSON."""
    rng = np.random.default_rng(seed)
    root = int(rng.integers(len(CHAIN)))
    change = BEFORE * _EVERY
    delays = np.cumsum([0, *rng.uniform(0, 120, len(CHAIN) - 1 - root)])
    begins = {CHAIN[root + i]: (change + delay, _WEAKER**i) for i, delay in enumerate(delays)}
    lines = []
    for number in range(BEFORE + AFTER):
        at = number * _EVERY
        spans, clock = [], float(_BEGIN + at)
        for i, component in enumerate(CHAIN):
            begin, share = begins.get(component, (np.inf, 0.0))
            part = share if at >= begin else 0.0
            rates = {name: calm + part * (_BROKEN[name] - calm) for name, calm in _CALM.items()}
            took = 2.5 + rng.exponential(0.3) if rng.random() < rates["slow"] else rng.uniform(0.4, 1.6)
            spans.append(
                {
                    "span_id": str(i), "component": component, "kind": "llm", "started_at": clock,
                    "ended_at": clock + took, "output": "" if rng.random() < rates["missing"] else "all is well",
                    "tier": "fallback" if rng.random() < rates["fallback"] else "primary",
                }
            )  # fmt: skip
            clock += took
        trace = {"trace_id": f"t{number}", "pipeline": "chain", "release": "r1", "spans": spans}
        lines.append(json.dumps(trace))
    return CHAIN[root], lines


def receive(folder: Path, seed: int) -> Received:
    """Replay the traces of a seed, and return what people would have been told."""
    root, lines = chain_traces(seed)
    path, store = folder / f"{seed}.jsonl", folder / f"{seed}.duckdb"
    path.write_text("\n".join(lines) + "\n")
    replay([str(path)], [parse_portfolio(PORTFOLIO)], store, ReplayOptions(alerts=True))
    with open_for_reading(store) as con:
        steps = con.execute(
            """SELECT incident_id, why, severity, component, epoch("at"), json_array_length(members)
                FROM incidents ORDER BY rowid"""
        ).fetchall()
    change = _BEGIN + BEFORE * _EVERY
    early = {one[0] for one in steps if one[4] <= change}
    since = [one for one in steps if one[0] not in early]
    told = [one for one in since if one[1].partition(":")[0] in ("opened", "grew", "again", "resolved", "reminded")]
    pages = [one for one in told if one[2] == "page" and one[1] != "resolved"]
    last = {one[0]: one for one in since}
    paging = last.get(pages[0][0]) if pages else None
    return Received(
        root=root,
        pages=len(pages),
        messages=len(told),
        incidents=len(last),
        early=len(early),
        paged_as=pages[0][3] if pages else None,
        named=None if paging is None else paging[3],
        alerts=0 if paging is None else int(paging[5]),
    )
