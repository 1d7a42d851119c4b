"""Slices of measures and labels for the watch, as scoring gives them, and a portfolio that monitors them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.value_histogram import histogram_cells
from tests.builders import scored_slice
from tests.streams.alerting.breaking_stream import DAY, HOURS, STEP
from tests.streams.alerting.builders import MONDAY, at

_TEXT = """
gapwatch: 1
portfolio: p
version: 1
pipeline: shop
volume: {{traces_per_day: 11520}}
components: [{{id: agent, role: ai_core, kind: llm}}]
questions: [{{id: q-length, component: agent, text: "Are longer answers better?", decides: [seconds]}}]
facts: [{facts}]
metrics:
  - name: seconds
    component: agent
    claim: {{form: measure, field: latency, unit: seconds, limit: {{max: 60}}}}
    {direction}
    alert: {{severity: {severity}}}
  - name: intent
    component: agent
    claim: {{form: label, field: attributes.intent}}
    alert: {{severity: ticket}}
  - name: tier
    component: agent
    claim: {{form: label, field: tier, labels: [primary, fallback], bad: [fallback]}}
    alert: {{severity: ticket}}
"""
#: The three that a person may have written: of the numbers, of what is beyond the limit, that nobody knows it.
OF_THE_MEAN = "direction: {better: lower, of: mean, verdict: verified, evidence: 'a.py:1'}"
OF_THE_LIMIT = "direction: {better: lower, verdict: verified, evidence: 'a.py:1'}"
NOT_KNOWN = "direction: {better: unknown}"
LOWER_IS_BETTER = (
    "{id: f-1, kind: direction, component: agent, metric: seconds, better: lower, value: faster, by: maria,"
    " at: 2026-03-01}"
)


#: Bins are cut within the first hours; an hour is known from its second day on.
BEFORE = DAY + 4 * HOURS
CHANGE = MONDAY + STEP * BEFORE


def portfolio(direction: str = "", facts: str = "") -> Portfolio:
    severity = "ticket" if direction == NOT_KNOWN and not facts else "page"
    return parse_portfolio(_TEXT.format(direction=direction, facts=facts, severity=severity))


def numbers_slice(number: int, values: Mapping[int, Sequence[float]], sessions: bool = False) -> ScoredSlice:
    """Build a slice with the seconds of some ticks; all of them within the limit, so nothing fails."""
    series = {"lane": "live", "pipeline": "shop", "component": "agent", "metric": "seconds"}
    ticks, session_ticks, gaps = [], [], []
    for tick, some in values.items():
        cells = Counter(histogram_cells(np.array(some, np.float64)).tolist())
        row = {**series, "bucket": at(tick), "fold_bucket": at(tick), "n": len(some), "score_sum": float(sum(some))}
        ticks += [
            {**row, "outcome": "good", "histogram": sorted(cells.items())},
            {**row, "outcome": "good", "facet": "release", "value": "r2" if max(some) > 30 else "r1"},
        ]
        where = {"metric": "seconds", "pipeline": "shop", "component": "agent", "outcome": "pass", "event_at": at(tick)}
        gaps += [{**where, "trace_id": f"t{tick}", "score": max(some), "observed": str(max(some))}]
        if sessions:
            session_ticks += [{**series, "bucket": at(tick), "session_id": "s", "units": len(some), "bad": 0}]
    return scored_slice(number, number + 1, ticks=ticks, session_ticks=session_ticks, gaps=gaps)


def labels_slice(
    number: int, labels: Mapping[int, Mapping[str, int]], units: int, metric: str = "intent"
) -> ScoredSlice:
    """Build a slice with the labels of the spans of some ticks, in so many traces each."""
    series = {"lane": "live", "pipeline": "shop", "component": "agent", "metric": metric}
    ticks = []
    for tick, counts in labels.items():
        row = {**series, "bucket": at(tick), "fold_bucket": at(tick)}
        ticks.append({**row, "outcome": "good", "n": units})
        ticks += [
            {**row, "level": "span", "facet": "label", "value": label, "outcome": "pass", "n": n}
            for label, n in counts.items()
            if n
        ]
    return scored_slice(number, number + 1, ticks=ticks)


def seconds(factor: float, steps: int = HOURS, seed: int = 1, **more: Any) -> list[ScoredSlice]:
    """Log-normal latencies, 40 every five minutes for a day and four hours, then times a factor."""
    rng = np.random.default_rng(seed)
    scale = [1.0] * BEFORE + [factor] * steps
    values = [(2.0 * f * rng.lognormal(0, 0.5, 40)).clip(0.1, 59).tolist() for f in scale]
    return [
        numbers_slice(n, {MONDAY + STEP * i: values[i] for i in range(n * 24, min(n * 24 + 24, len(values)))}, **more)
        for n in range(-(-len(values) // 24))
    ]


def intents(after: dict[str, float], each: int = 1, steps: int = 2 * HOURS) -> list[ScoredSlice]:
    """Labels of 40 traces every five minutes, `each` of the same a trace, then of another mix."""
    rng = np.random.default_rng(7)
    before = {"billing": 0.6, "refund": 0.3, "outage": 0.1}
    mixes = [before] * BEFORE + [after] * steps
    counts = [dict(zip(mix, (each * rng.multinomial(40, list(mix.values()))).tolist(), strict=True)) for mix in mixes]
    return [
        labels_slice(n, {MONDAY + STEP * i: counts[i] for i in range(n * 24, min(n * 24 + 24, len(counts)))}, 40)
        for n in range(-(-len(counts) // 24))
    ]


def together(one: ScoredSlice, other: ScoredSlice) -> ScoredSlice:
    tables = {name: pa.concat_tables([table, other.tables[name]]) for name, table in one.tables.items()}
    return dataclasses.replace(one, tables={**tables, "ledger": one.tables["ledger"]})


def numbered(scored: ScoredSlice, number: int) -> ScoredSlice:
    return dataclasses.replace(scored, from_offset=number, to_offset=number + 1)
