"""Checks of one event at a time, pydantic for the records: what the programs of a first day's work have in common.

Each span is checked as its event comes, by the hand-written functions of `hand_fails`. What follows is easy: rows and
ticks are made by the loop's tuned code, 4,000 events at a time, and stored by the same `Store.write_slice`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import SCORED_TABLES
from gapwatch.sinks.store.store import Store
from tests.benchmarks import hand_fails
from tests.benchmarks.hand_found import FAIL, MAX_LATENCY, SELECTED, Found
from tests.benchmarks.hand_rows import Rows, Source, dead_letters_table, samples_table, trace_ids_table
from tests.benchmarks.hand_shape import Records
from tests.benchmarks.hand_ticks import ledger_table, ticks_and_ledger

try:
    from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from hashlib import sha256

EVENTS_A_COMMIT = 4_000
_SEARCHED = re.compile(hand_fails.SEARCHED)


class Usage(BaseModel):
    input_tokens: float
    output_tokens: float
    cost_usd: float


class RetrieveAttributes(BaseModel):
    index: str
    top_k: int | float
    score: int | float


class GenerateAttributes(BaseModel):
    finish_reason: str
    prompt_version: str


class ReplyAttributes(BaseModel):
    channel: str
    language: str
    retries: int | float


class Span(BaseModel):
    span_id: str
    started_at: float
    ended_at: float
    status: str
    error_type: str | None = None
    model: str
    tier: str
    input: str
    output: str
    usage: Usage


class Retrieve(Span):
    component: Literal["retrieve"]
    name: str
    attributes: RetrieveAttributes


class Generate(Span):
    component: Literal["generate"]
    attributes: GenerateAttributes


class Reply(Span):
    component: Literal["reply"]
    attributes: ReplyAttributes


class Trace(BaseModel):
    trace_id: str
    pipeline: Literal["support"]
    session_id: None = None
    ended_at: float
    spans: tuple[Retrieve, Generate, Reply]
    environment: str = "production"
    release: str | None = None
    sampling_probability: float = Field(default=1.0)


# The functions tell spans apart by the type of their attributes.
hand_fails.RetrieveAttributes = RetrieveAttributes  # type: ignore[assignment, misc]
hand_fails.GenerateAttributes = GenerateAttributes  # type: ignore[assignment, misc]


class EventScorer:
    """State of a program between two events."""

    def __init__(self, topic: str, portfolio: Path, store: Store) -> None:
        self._loaded, self._store, self._topic = load_portfolio(portfolio), store, topic
        policy = fixed_selection([self._loaded])
        store.register(self._loaded, policy.rows())
        self._source = Source("live", topic, policy.id, policy.sample_rates[self._loaded.sha])
        self._rows = Rows(self._loaded)
        self._found, self._records, self._from = Found(), Records(), 0

    def take(self, offset: int, value: bytes) -> None:
        """Check one event; every 4,000 are stored."""
        trace: Any = Trace.model_validate_json(value)
        records, found = self._records, self._found
        number = len(records.traces)
        records.traces.append(trace)
        records.offsets.append(offset)
        records.lines.append(value)
        drawn = sha256(b"gapwatch/1/" + trace.trace_id.encode()).digest()
        chosen = drawn < SELECTED
        looks = (hand_fails.look_at_retrieve, hand_fails.look_at_generate, hand_fails.look_at_reply)
        slowest, failed = 0.0, False
        for span, look, (keys, seconds) in zip(trace.spans, looks, found.others, strict=True):
            suspicious = _SEARCHED.search(span.output) is not None
            fails = look(found, number, trace, span, suspicious, chosen)
            latency = span.ended_at - span.started_at
            keys.append((trace.environment, trace.release, trace.ended_at // 30.0, trace.sampling_probability,
                         span.model, span.tier, fails))  # fmt: skip
            seconds.append(latency)
            slowest = max(slowest, latency)
            failed = failed or any(fail & 15 == FAIL for fail in fails)
        if chosen:
            found.selected.append((number, drawn, failed or slowest > MAX_LATENCY))
        if len(records.traces) >= EVENTS_A_COMMIT:
            self.store(offset + 1)

    def store(self, to_offset: int) -> None:
        """Keep what was found since the last time."""
        records, found, source = self._records, self._found, self._source
        if not records.traces:
            return
        ticks, totals = ticks_and_ledger(found, self._loaded, source.lane)
        states = {"read": len(records.traces), "dead_letter": 0, "foreign": 0}
        tables = {
            **{name: schema.empty_table() for name, schema in SCORED_TABLES.items()},
            "gaps": self._rows.table(found, records, source),
            "ticks": ticks,
            "ledger": ledger_table(totals, self._loaded, source.lane, source.topic, states),
            "dead_letters": dead_letters_table(records, source),
            "samples": samples_table(found, records, source),
            "trace_ids": trace_ids_table(records, source),
        }
        count = len(records.traces)
        scored = ScoredSlice(source.lane, self._topic, 0, self._from, to_offset, count, 3 * count, None, tables)
        self._store.write_slice(scored, datetime.now(UTC))
        self._found, self._records, self._from = Found(), Records(), to_offset
