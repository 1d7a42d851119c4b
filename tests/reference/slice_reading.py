"""Scores a slice by the reference: outcomes, stored rows, ledger, ticks, units and dead letters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.reference.claims import Around, Functions, Outcome, is_inline, outcome_of, places_of
from tests.reference.envelope import DeadLetter, Foreign, Trace, read_record, text_of
from tests.reference.predicates import Written
from tests.reference.selection import (
    Chance,
    bucket_of,
    chance_of,
    event_moment,
    keep_rate,
    position,
    publisher_probability,
    text_or_none,
    unit_moment,
)
from tests.reference.units import Unit, unit_of
from tests.reference.values import Place

#: Default rates at which rows are stored.
DEFAULT_KEEP = {"fail": 1.0, "pass": 0.02}


class Row(NamedTuple):
    """Gap row, with the columns that the contract defines."""

    offset: int
    pipeline: str
    environment: str
    release: str | None
    session_id: str | None
    trace_id: str
    span_id: str | None
    component: str
    tier: str | None
    model: str | None
    metric: str
    outcome: str
    score: float | None
    label: str | None
    reason: str | None
    span_index: int
    p_evaluated: float
    p_kept: float
    stratum: str | None
    event_at: float | None


class TickKey(NamedTuple):
    """Key of a tick's counts."""

    pipeline: str
    environment: str
    component: str
    metric: str
    level: str
    facet: str
    value: str | None
    outcome: str
    bucket: int | None
    p: float


@dataclass
class Tick:
    """Counts of one tick."""

    n: int = 0
    scores: list[float] = field(default_factory=list)

    @property
    def histogram(self) -> dict[int, int]:
        """Number of scores by cell; stored for the facet `all` only."""
        return dict(Counter(map(histogram_cell, self.scores)))


class LedgerKey(NamedTuple):
    """Key of a ledger line; without a metric the line counts records."""

    pipeline: str | None
    metric: str | None
    state: str


class SeenOutcome(NamedTuple):
    """Outcome of one metric at one place, stored or not."""

    offset: int
    pipeline: str
    span_index: int
    metric: str
    outcome: Outcome


class SeenUnit(NamedTuple):
    """Unit: one trace as evidence for one metric."""

    offset: int
    pipeline: str
    metric: str
    unit: Unit


class SessionKey(NamedTuple):
    """Key of a session's counts of units."""

    pipeline: str
    environment: str
    component: str
    metric: str
    bucket: int | None
    session_id: str
    p: float
    state: str


@dataclass
class Reading:
    """Everything that scoring a slice must give."""

    outcomes: list[SeenOutcome] = field(default_factory=list)
    units: list[SeenUnit] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    ledger: Counter[LedgerKey] = field(default_factory=Counter)
    ticks: dict[TickKey, Tick] = field(default_factory=dict)
    sessions: Counter[SessionKey] = field(default_factory=Counter)
    dead_letters: list[tuple[int, DeadLetter]] = field(default_factory=list)
    spans: int = 0


def histogram_cell(score: float) -> int:
    """Return the cell of a score: cells grow by 1 % from 1e-12 on, on both sides of 0."""
    size = abs(score)
    if size < 1e-12:
        return 0
    cell = math.floor(math.log(size) / math.log(1.01)) + 2778
    return cell if score > 0 else -cell


def read_slice(
    values: Sequence[bytes | None],
    portfolios: Sequence[Written],
    *,
    offsets: Sequence[int] | None = None,
    timestamps: Sequence[float | None] | None = None,
    functions: Functions | None = None,
) -> Reading:
    """Read raw records one by one.

    Args:
        values: The raw records.
        portfolios: Portfolios as YAML gives them, each of its own pipeline.
        offsets: Offset of each record; by default 0, 1, 2, ...
        timestamps: Epoch seconds of each record, None where unknown.
        functions: The Python scorers.
    """
    reading = Reading()
    by_pipeline = {portfolio["pipeline"]: portfolio for portfolio in portfolios}
    for number, value in enumerate(values):
        offset = number if offsets is None else offsets[number]
        record = read_record(value, by_pipeline)
        if isinstance(record, DeadLetter):
            reading.dead_letters.append((offset, record))
            reading.ledger[LedgerKey(None, None, "dead_letter")] += 1
        elif isinstance(record, Foreign):
            # Anyone can send any name: a pipeline of nobody's is not counted by its name.
            reading.ledger[LedgerKey(None, None, "foreign")] += 1
        else:
            reading.ledger[LedgerKey(record.pipeline, None, "read")] += 1
            reading.spans += len(record.spans)
            timestamp = None if timestamps is None else timestamps[number]
            _TraceReader(reading, offset, record, timestamp).read(by_pipeline[record.pipeline], functions or {})
    return reading


class _TraceReader:
    """Adds one trace to the reading of its slice."""

    def __init__(self, reading: Reading, offset: int, trace: Trace, timestamp: float | None) -> None:
        self.reading = reading
        self.offset = offset
        self.trace = trace
        self.timestamp = timestamp
        self.u = position(trace.trace_id)
        self.publisher_p = publisher_probability(trace)
        environment = text_or_none(trace.record.get("environment"))
        self.environment = "production" if environment is None else environment
        self.release = text_or_none(trace.record.get("release"))
        self.session_id = text_or_none(trace.record.get("session_id"))
        self.bucket = bucket_of(unit_moment(trace, timestamp))

    def read(self, portfolio: Written, functions: Functions) -> None:
        members = {part["id"]: part["members"] for part in portfolio["components"] if part.get("members")}
        metrics = {
            metric["name"]: metric | ({"of": members[of]} if (of := metric.get("component")) in members else {})
            for metric in portfolio["metrics"]
        }
        around = Around(metrics, functions, self.u)
        for metric in metrics.values():
            evaluated: list[tuple[Outcome, float]] = []
            waits = False
            for place in places_of(metric, self.trace):
                outcome = outcome_of(metric, place, around)
                self._count(metric, outcome.state)
                waits = waits or outcome.state == "pending"
                if outcome.state in ("pending", "sampled_out"):
                    continue
                chance = chance_of(metric, place)
                p = self.publisher_p * (1.0 if is_inline(metric) else chance.rate)
                evaluated.append((outcome, p))
                self._see(metric, place, chance, outcome, p)
            if evaluated and not waits:
                # The trace is evaluated as soon as its likeliest span is: all spans hang on the same `u`.
                unit = unit_of(metric, [outcome for outcome, _ in evaluated])
                self._see_unit(metric, unit, max(p for _, p in evaluated))

    def _count(self, metric: Written, state: str) -> None:
        self.reading.ledger[LedgerKey(self.trace.pipeline, metric["name"], state)] += 1

    def _see(self, metric: Written, place: Place, chance: Chance, outcome: Outcome, p: float) -> None:
        self.reading.outcomes.append(
            SeenOutcome(self.offset, self.trace.pipeline, place.index, metric["name"], outcome)
        )
        keep = keep_rate(metric, outcome.state, DEFAULT_KEEP)
        if self.u < chance.rate * keep:
            p_kept = chance.rate * keep if is_inline(metric) else keep
            self.reading.rows.append(self._row(metric, place, chance, outcome, p, p_kept))
        for facet, value in self._span_facets(metric, place, chance, outcome):
            self._tick(metric, "span", facet, value, outcome.state, p, outcome.score)

    def _row(self, metric: Written, place: Place, chance: Chance, outcome: Outcome, p: float, p_kept: float) -> Row:
        is_span = place.index >= 0
        return Row(
            offset=self.offset,
            pipeline=self.trace.pipeline,
            environment=self.environment,
            release=self.release,
            session_id=self.session_id,
            trace_id=self.trace.trace_id,
            span_id=text_of(place.span.get("span_id")) if is_span else None,
            component=metric.get("component", ""),
            tier=_tier(metric, place) if is_span else None,
            model=text_or_none(place.span.get("model")) if is_span else None,
            metric=metric["name"],
            outcome=outcome.state,
            score=outcome.score,
            label=outcome.label,
            reason=outcome.reason,
            span_index=place.index,
            p_evaluated=p,
            p_kept=p_kept,
            stratum=chance.stratum,
            event_at=event_moment(place, self.timestamp),
        )

    def _span_facets(
        self, metric: Written, place: Place, chance: Chance, outcome: Outcome
    ) -> Iterable[tuple[str, str | None]]:
        span = place.span if place.index >= 0 else None
        yield "all", None
        yield "tier", _tier(metric, place) if span is not None else None
        yield "release", self.release
        yield "model", text_or_none(span.get("model")) if span is not None else None
        if (metric.get("sample") or {}).get("strata"):
            yield "stratum", chance.stratum
        if metric["claim"]["form"] in ("label", "python"):
            yield "label", outcome.label

    def _see_unit(self, metric: Written, unit: Unit, p: float) -> None:
        self.reading.units.append(SeenUnit(self.offset, self.trace.pipeline, metric["name"], unit))
        component = metric.get("component", "")
        if self.session_id and unit.state in ("good", "bad"):
            place = (self.trace.pipeline, self.environment, component, metric["name"], self.bucket, self.session_id)
            self.reading.sessions[SessionKey(*place, p, unit.state)] += 1
        facets: list[tuple[str, str | None]] = [("all", None), ("release", self.release)]
        if metric["claim"]["form"] == "label" and metric.get("per_trace") == "worst":
            facets.append(("label", unit.label))
        for facet, value in facets:
            self._tick(metric, "unit", facet, value, unit.state, p, unit.number)

    def _tick(
        self, metric: Written, level: str, facet: str, value: str | None, outcome: str, p: float, score: float | None
    ) -> None:
        if value is None and facet != "all":
            return  # a side facet counts what has a value of it
        key = TickKey(
            self.trace.pipeline,
            self.environment,
            metric.get("component", ""),
            metric["name"],
            level,
            facet,
            value,
            outcome,
            self.bucket,
            p,
        )
        tick = self.reading.ticks.setdefault(key, Tick())
        tick.n += 1
        if score is not None and facet not in ("stratum", "label"):
            tick.scores.append(score)


def _tier(metric: Written, place: Place) -> str | None:
    """Return the tier of a span; of a component that stands for several, which of them the span is of."""
    return text_or_none(place.span.get("component" if "of" in metric else "tier"))
