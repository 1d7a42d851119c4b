"""Status of each monitored series (phase, baseline, evidence, minimum detectable change), and of each bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from gapwatch.sinks.store.detector_states import WatchedBoundRow, WatchedRow, write_watched_bounds, write_watched_rows
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.series_detectors import Learned
from gapwatch.streams.alerting.rules.alert_rule import AlertRule
from gapwatch.streams.alerting.rules.finding import Watched
from gapwatch.streams.alerting.series.series_book import HourBook
from gapwatch.streams.detectors.arrays import Array, Floats
from gapwatch.streams.detectors.bets import rate_bets
from gapwatch.streams.detectors.budgets.budget import smallest_rate_ratio
from gapwatch.streams.detectors.budgets.volume import units_a_day
from gapwatch.streams.detectors.contexts import TICK_SECONDS, tick_start
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.lifecycle import Phase, is_carried
from gapwatch.streams.detectors.margins.min_change import least_tilts
from gapwatch.streams.detectors.watch import evidence_by_side, risen_units

# Divides the monthly volume: the minimum detectable change is that of one day at the declared volume.
_DAYS = 30.0
_DIRECTIONS = {1: "up", -1: "down", 0: "unverified"}
# Share whose growth stands for the minimum detectable change of numbers and labels.
_TAIL = 0.05


@dataclass(frozen=True)
class SeriesState:
    """Status of one monitored row.

    Attributes:
        watched: Series and quantity.
        rule: Alert rule of the metric.
        phase: One of `sinks.catalog.phases.PHASES`.
        direction: Bad direction: up, down, or unverified.
        units: Units of the baseline.
        rate: Failure rate of the baseline, all hours together; NaN for numbers and labels, and without a unit.
        evidence_log10: log10 of the evidence M for a change in the bad direction that is worth telling; -inf without.
        ticket_log10: log10 of the threshold A for tickets; inf for a row without tickets.
        page_log10: log10 of the threshold A for pages; inf for a row that may not page.
        smallest_ratio: Minimum detectable change: smallest growth that is detected within one day of units, as a
            median. inf where no growth is, and during the burn-in. For numbers and labels it is
            the growth of a share of 5 %, such as that above the 95th percentile.
        month_ratio: The same within 30 days of units.
        is_blind: `smallest_ratio` is above the metric's `blind_above_ratio`.
        last_unit_at: Begin of the last tick with a unit, naive UTC; None without one.
        expected_false_alarms: Units / A so far: upper bound on the expected tickets and pages without a cause.
        is_new: No tick of the row is folded yet: its units wait in open ticks, and it has no place in a fleet.
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
    month_ratio: float
    is_blind: bool
    last_unit_at: datetime | None
    expected_false_alarms: float
    is_new: bool = False


def series_states(detectors: LaneDetectors) -> Iterator[SeriesState]:
    """Yield the status of every row, in the order in which the rows were added, then of series without a row."""
    for family in detectors.families:
        for name, fleet in family.fleets.items():
            watched_rows = detectors.rows.watched[name]
            rules = [detectors.rows.rule(watched.series) for watched in watched_rows]
            if rules:
                yield from _fleet_states(fleet, watched_rows, rules, family.learned(name))
    for watched in detectors.waiting():
        yield _without_row(detectors, watched, "learning")
    for watched in detectors.values.left_out():
        yield _without_row(detectors, watched, "unwatched")


def _without_row(detectors: LaneDetectors, watched: Watched, phase: str) -> SeriesState:
    rule = detectors.rows.rule(watched.series)
    return SeriesState(
        watched=watched,
        rule=rule,
        phase=phase,
        direction=_DIRECTIONS[rule.side_of(watched.kind)],
        units=0.0,
        rate=math.nan,
        evidence_log10=-math.inf,
        ticket_log10=math.inf,
        page_log10=math.inf,
        smallest_ratio=math.inf,
        month_ratio=math.inf,
        is_blind=False,
        last_unit_at=None,
        expected_false_alarms=0.0,
        is_new=True,
    )


def _fleet_states(
    fleet: Fleet, rows: Sequence[Watched], rules: Sequence[AlertRule], learned: Learned
) -> Iterator[SeriesState]:
    s = fleet.state
    evidence = evidence_by_side(fleet).bad
    # What only counts units moves no phase, so it is not shown as evidence either.
    evidence = np.where(is_carried(evidence, risen_units(fleet, 1)) | (s["phase"] >= Phase.SUSPECT), evidence, 0.0)
    book = HourBook()
    ticks = zip(s["last_bucket"].tolist(), rules, strict=True)
    has_baseline = fleet.has_baseline(
        np.array([book.hour(int(tick), rule.time_zone) for tick, rule in ticks], np.int64)
    )
    units = learned.units
    rate = np.full(len(rows), _TAIL) if learned.rates is None else learned.rates
    observed = units_a_day(s).tolist()
    a_day = np.array(
        [
            seen if rule.units_per_month is None else rule.units_per_month / _DAYS
            for rule, seen in zip(rules, observed, strict=True)
        ]
    )
    told = np.maximum(_least(s, rate), s["margin"])
    # In an hour without a baseline of its own a change must exceed what the hour may differ by as well.
    margin = np.maximum(np.where(has_baseline, 0.0, np.sqrt(s["season"])), told)
    ratio = smallest_rate_ratio(rate, np.maximum(units, 1.0), a_day, s["ticket_threshold"], margin)
    # Within a month every hour comes and becomes known, so its margin no longer applies.
    month = np.minimum(
        ratio, smallest_rate_ratio(rate, np.maximum(units, 1.0), a_day * _DAYS, s["ticket_threshold"], told)
    )
    is_monitored = fleet.has_burnt_in()
    for row, (watched, rule) in enumerate(zip(rows, rules, strict=True)):
        is_blind = rule.blind_above_ratio is not None and bool(ratio[row] > rule.blind_above_ratio)
        last = int(s["last_bucket"][row])
        yield SeriesState(
            watched=watched,
            rule=rule,
            phase=_phase(s, row, bool(is_monitored[row]), is_blind),
            direction=_DIRECTIONS[rule.side_of(watched.kind)],
            units=float(units[row]),
            rate=math.nan if learned.rates is None or not units[row] else float(rate[row]),
            evidence_log10=_log10(evidence[row]),
            ticket_log10=_log10(s["ticket_threshold"][row]),
            page_log10=_log10(s["page_threshold"][row]),
            smallest_ratio=float(ratio[row]) if is_monitored[row] else math.inf,
            month_ratio=float(month[row]) if is_monitored[row] else math.inf,
            is_blind=is_blind,
            last_unit_at=tick_start(last) if last else None,
            expected_false_alarms=float(s["expected_tickets"][row] + s["expected_pages"][row]),
        )


def _least(s: dict[str, Array], rate: Floats) -> Floats:
    """Return the smallest tilt of each rate that is worth telling, in its bad direction."""
    tilts = least_tilts(rate_bets(), np.stack([1.0 - rate, rate]), s["min_factor"] * 1.0, s["min_share"] * 1.0)
    result: Floats = np.where(s["bad_side"] < 0, tilts[0, 1], tilts[0, 0])
    return result


def _phase(s: dict[str, Array], row: int, has_burnt_in: bool, is_blind: bool) -> str:
    phase = int(s["phase"][row])
    if phase == Phase.SUSPECT and s["noticed"][row]:
        return "noticed"
    if phase >= Phase.SUSPECT:
        return Phase(phase).name.lower()
    if not has_burnt_in:
        return "learning"
    return "blind" if is_blind else "calm"


def _log10(value: float) -> float:
    return math.log10(value) if value > 0.0 else -math.inf


def write_watched(con: Connection, lane: str, seq: int, states: Iterable[SeriesState]) -> None:
    """Replace the stored status of all series of a lane."""
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
            month_ratio=_finite(state.month_ratio),
            is_blind=state.is_blind,
            last_unit_at=state.last_unit_at,
            expected_false_alarms=state.expected_false_alarms,
        )
        for state in states
    ]
    write_watched_rows(con, lane, seq, rows)


def write_bounds(con: Connection, lane: str, seq: int, detectors: Iterable[LaneDetectors]) -> None:
    """Replace the stored bounds of a lane."""
    rows = [
        WatchedBoundRow(
            series=series,
            quantity=watch.bound.quantity,
            operator=watch.bound.operator,
            bound=watch.bound.value,
            unit=watch.bound.unit,
            window_seconds=watch.bound.window_ticks * TICK_SECONDS,
            min_units=watch.bound.min_units,
            state=now.state,
            value=_finite(now.measured.value),
            lower=_finite(now.measured.lower),
            upper=_finite(now.measured.upper),
            units=now.units,
            last_unit_at=tick_start(now.newest),
        )
        for one in detectors
        for series, watch in one.bounds.held()
        for now in [watch.standing()]
    ]
    write_watched_bounds(con, lane, seq, rows)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
