"""Slices of units for the watch, and a portfolio that says what may alert."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import StoreTransaction
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.pipeline.watch_protocol import Steps
from tests.builders import scored_slice

#: Monday, 00:00 UTC, as a tick.
MONDAY = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) // 30
KEPT_AT = datetime(2026, 3, 20, tzinfo=UTC)

PORTFOLIO = """
gapwatch: 1
portfolio: p
version: 1
pipeline: shop
volume: {{traces_per_day: 20000}}
budget: {{pages_per_month: 1, tickets_per_month: 10}}
trace_url: "https://traces.example/{{trace_id}}"
components:
  - {{id: agent, role: ai_core, kind: llm}}
questions:
  - {{id: q-fallback, component: agent, text: "Is the fallback degraded service?", decides: [fallback_rate]}}
facts: [{facts}]
metrics:
  - name: parses
    component: agent
    claim: {{form: check, field: output, format: json}}
    direction: {{better: lower, verdict: verified, evidence: "a.py:1"}}
    alert: {{severity: page}}
    {threshold}
  - name: fallback_rate
    component: agent
    claim: {{form: label, field: tier, labels: [primary, fallback], bad: [fallback]}}
    direction: {{better: unknown}}
    alert: {{severity: ticket}}
  - name: watched_by_eye
    component: agent
    claim: {{form: check, field: output, present: true}}
"""

FALLBACK_IS_BAD = (
    "{id: f-1, kind: direction, component: agent, metric: fallback_rate, better: lower,"
    " value: degraded, by: maria, at: 2026-03-01}"
)
FALLBACK_IS_GOOD = FALLBACK_IS_BAD.replace("lower", "higher").replace("f-1", "f-2")


def portfolio(facts: str = "", threshold: str = "") -> Portfolio:
    return parse_portfolio(PORTFOLIO.format(facts=facts, threshold=threshold))


def at(tick: int) -> datetime:
    return datetime.fromtimestamp(tick * 30, UTC).replace(tzinfo=None)


def keep_with_breakdowns(
    path: Path, count: int, failing: set[int], keep: Callable[[Store, ShiftWatch, int, Steps], None]
) -> None:
    """Keep slices by number; at the end of some transactions all breaks down, and is opened again."""

    def break_down(_: StoreTransaction) -> None:
        raise InterruptedError

    number = 0
    while number < count:
        with Store.open(path, create=True) as store:
            watch = ShiftWatch.open(store, [portfolio()])
            while number < count:
                if number in failing:
                    failing.remove(number)
                    with pytest.raises(InterruptedError):
                        keep(store, watch, number, [("breakdown", break_down)])
                    break
                keep(store, watch, number, [])
                number += 1


#: tick, good, bad and unknown units.
Units = tuple[int, int, int, int]


def units_slice(
    number: int,
    units: Iterable[Units],
    *,
    metric: str = "parses",
    lane: str = "live",
    partition: int = 0,
    pipeline: str = "shop",
    component: str = "agent",
    sessions: Sequence[tuple[int, str, int, int]] = (),
) -> ScoredSlice:
    """Build the slice `number` of a partition, one record long; units of sessions must be among `units` as well."""
    series = {"lane": lane, "pipeline": pipeline, "component": component, "metric": metric}
    ticks = [
        {**series, "bucket": at(tick), "fold_bucket": at(tick), "outcome": outcome, "n": n}
        for tick, *counts in units
        for outcome, n in zip(("good", "bad", "unknown"), counts, strict=True)
        if n
    ]
    session_ticks = [
        {**series, "bucket": at(tick), "session_id": session, "units": n, "bad": bad}
        for tick, session, n, bad in sessions
    ]
    return scored_slice(number, number + 1, lane=lane, partition=partition, ticks=ticks, session_ticks=session_ticks)


def kept_at(number: int) -> datetime:
    return KEPT_AT + timedelta(seconds=number)
