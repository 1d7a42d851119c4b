"""The series as they stand: what each is, how far its evidence has come, and what it could not have seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from gapwatch.sinks.store.detector_states import WatchedRow, write_watched_rows
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_detectors import Learned
from gapwatch.streams.alerting.rules.alert_rule import AlertRule
from gapwatch.streams.alerting.rules.finding import Watched
from gapwatch.streams.alerting.series.series_book import HourBook
from gapwatch.streams.detectors.budget import smallest_rate_ratio
from gapwatch.streams.detectors.contexts import tick_start
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.lifecycle import Phase
from gapwatch.streams.detectors.watch import evidence_by_side

#: What a row can be, the most restless last.
PHASES = ("unwatched", "learning", "blind", "calm", "suspect", "ticket", "page")

# The smallest change that is seen is told for what comes in one day at the declared volume.
_DAYS = 30.0
_DIRECTIONS = {1: "up", -1: "down", 0: "unverified"}
# Of numbers and labels a share of this size is what growth is told of.
_TAIL = 0.05


@dataclass(frozen=True)
class SeriesState:
    """One watched row, now.

    Attributes:
        watched: What it is.
        rule: Of its metric.
        phase: One of `PHASES`.
        direction: up, down, or unverified: which way is bad.
        units: Of the baseline.
        rate: Of the baseline, all hours together; NaN for numbers and labels.
        evidence_log10: log10 of M towards bad; -inf without any.
        ticket_log10: log10 of A for tickets; inf where none is asked for.
        page_log10: log10 of A for pages.
        smallest_ratio: Smallest growth that would be seen within a day of units, as a median; inf for none, and in an
            hour of the day that is not known yet. For numbers and labels it is that of a share of 5 %, such as of those
            above the 95th percentile.
        is_blind: That is above the metric's `blind_above_ratio`.
        last_unit_at: Begin of the last tick with a unit, naive UTC; None without one.
        expected_false_alarms: Units / A so far: a bound on the tickets and pages to expect without a cause.
    """

    watched: Watched
    rule: AlertRule
    phase: str
    direction: str
    units: float
    rate: float
    evidence_log10: float
    ticket_log10: float
    page_log10: float
    smallest_ratio: float
    is_blind: bool
    last_unit_at: datetime | None
    expected_false_alarms: float


def series_states(detectors: LaneDetectors) -> Iterator[SeriesState]:
    """Yield the state of every row, in the order in which they came."""
    for family in detectors.families:
        for name, fleet in family.fleets.items():
            watched_rows = detectors.rows.watched[name]
            rules = [detectors.rows.rule(watched.series) for watched in watched_rows]
            if rules:
                yield from _fleet_states(fleet, watched_rows, rules, family.learned(name))
    for watched in detectors.values.left_out():
        rule = detectors.rows.rule(watched.series)
        yield SeriesState(
            watched=watched,
            rule=rule,
            phase="unwatched",
            direction=_DIRECTIONS[rule.side_of(watched.kind)],
            units=0.0,
            rate=math.nan,
            evidence_log10=-math.inf,
            ticket_log10=math.inf,
            page_log10=math.inf,
            smallest_ratio=math.inf,
            is_blind=False,
            last_unit_at=None,
            expected_false_alarms=0.0,
        )


def _fleet_states(
    fleet: Fleet, rows: Sequence[Watched], rules: Sequence[AlertRule], learned: Learned
) -> Iterator[SeriesState]:
    s = fleet.state
    sides = evidence_by_side(fleet)
    # In an hour that is not known yet only what lies beyond the margin counts.
    evidence = np.maximum(sides.bad, sides.bad_beyond_margin)
    book = HourBook()
    ticks = zip(s["last_bucket"].tolist(), rules, strict=True)
    has_baseline = fleet.has_baseline(
        np.array([book.hour(int(tick), rule.time_zone) for tick, rule in ticks], np.int64)
    )
    units = learned.units
    rate = np.full(len(rows), _TAIL) if learned.rates is None else learned.rates
    a_day = np.array([rule.units_per_month / _DAYS for rule in rules])
    ratio = smallest_rate_ratio(rate, np.maximum(units, 1.0), a_day, s["ticket_threshold"], np.zeros(len(rows)))
    for row, (watched, rule) in enumerate(zip(rows, rules, strict=True)):
        is_blind = rule.blind_above_ratio is not None and bool(ratio[row] > rule.blind_above_ratio)
        last = int(s["last_bucket"][row])
        yield SeriesState(
            watched=watched,
            rule=rule,
            phase=_phase(int(s["phase"][row]), bool(has_baseline[row]), is_blind),
            direction=_DIRECTIONS[rule.side_of(watched.kind)],
            units=float(units[row]),
            rate=math.nan if learned.rates is None else float(rate[row]),
            evidence_log10=_log10(evidence[row]),
            ticket_log10=_log10(s["ticket_threshold"][row]),
            page_log10=_log10(s["page_threshold"][row]),
            smallest_ratio=float(ratio[row]) if has_baseline[row] else math.inf,
            is_blind=is_blind,
            last_unit_at=tick_start(last) if last else None,
            expected_false_alarms=float(s["expected_tickets"][row] + s["expected_pages"][row]),
        )


def _phase(phase: int, has_baseline: bool, is_blind: bool) -> str:
    if phase >= Phase.SUSPECT:
        return Phase(phase).name.lower()
    if not has_baseline:
        return "learning"
    return "blind" if is_blind else "calm"


def _log10(value: float) -> float:
    return math.log10(value) if value > 0.0 else -math.inf


def write_watched(con: Connection, lane: str, seq: int, detectors: LaneDetectors) -> None:
    """Write the state of every row in the place of the last one of this lane."""
    rows = [
        WatchedRow(
            series=state.watched.series,
            kind=state.watched.kind,
            phase=state.phase,
            direction=state.direction,
            units=round(state.units),
            rate=_finite(state.rate),
            evidence_log10=_finite(state.evidence_log10),
            ticket_log10=_finite(state.ticket_log10),
            page_log10=_finite(state.page_log10),
            smallest_ratio=_finite(state.smallest_ratio),
            is_blind=state.is_blind,
            last_unit_at=state.last_unit_at,
            expected_false_alarms=state.expected_false_alarms,
        )
        for state in series_states(detectors)
    ]
    write_watched_rows(con, lane, seq, rows)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
