"""All detectors of one lane: folds closed ticks, in order, and says what moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sinks.label_sets import ENVIRONMENT_LIMIT, OTHER
from streams.alerting.allotment import Allotment
from streams.alerting.breach import BoundWatch
from streams.alerting.card import Budget, Card
from streams.alerting.finding import Finding, Watched
from streams.alerting.slice_units import SeriesKey, SliceUnits
from streams.detectors.bets import rate_bets
from streams.detectors.contexts import hour_of_week
from streams.detectors.fleet import LEAST_BAD_PER_HOUR, LEAST_RATIO, Fleet
from streams.detectors.fleet_config import FleetConfig
from streams.detectors.lifecycle import Event
from streams.detectors.sessions import SessionBook
from streams.detectors.watch import settle, turn

RATES = FleetConfig(rate_bets())
SESSIONS = FleetConfig(rate_bets(), sessions=True)
# Time zones differ from UTC by whole quarters of an hour: within one, the hour of the week is the same.
_TICKS_A_QUARTER = 30
# Environments come from traces: whoever names a new one in each would have a series for each, ten kilobytes of it.
_NAME_LIMIT = 100
#: Changes of a series that nobody is told of: dashboards show the phase.
_QUIET = (Event.SUSPECTED, Event.CLEARED)


@dataclass
class _Pending:
    """Units of one open tick."""

    counts: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    sessions: list[tuple[int, str, int, int]] = field(default_factory=list)


class Bank:
    """Detectors and bounds of one lane, and the ticks that are still open.

    Its state is a function of the calls, in order: the same slices give the same findings, bit for bit.

    Args:
        cards: By (pipeline, metric).
        budgets: By pipeline.
    """

    def __init__(self, cards: Sequence[Card], budgets: dict[str, Budget]) -> None:
        self.budgets = budgets
        self.cards = {(card.pipeline, card.metric): card for card in cards}
        self.allotments = {
            pipeline: Allotment(budget, [card for card in cards if card.pipeline == pipeline])
            for pipeline, budget in budgets.items()
        }
        self.series: list[SeriesKey] = []
        self._number: dict[SeriesKey, int] = {}
        self._environments: dict[str, set[str]] = defaultdict(set)
        self._rate: list[Watched] = []
        self._unknown: list[Watched] = []
        self.fleets = {"units": Fleet(RATES), "sessions": Fleet(SESSIONS)}
        self.rows: dict[str, list[Watched]] = {"units": [], "sessions": []}
        self.share_keys: dict[Watched, str] = {}
        self._place: dict[Watched, int] = {}
        self.book = SessionBook()
        self.pending: dict[int, _Pending] = {}
        self.bounds: dict[int, BoundWatch] = {}
        self._hours: dict[tuple[int, str], int] = {}
        self.folded = 0
        self.late_units = 0

    # ---- taking in ----

    def add(self, units: SliceUnits, earliest: int, latest: int | None) -> None:
        """Put the units of a slice into the open ticks; late ones join the current tick, with the hour of their own.

        Args:
            units: Of the slice.
            earliest: First tick that is open.
            latest: As `slice_units.fold_buckets`.
        """
        numbers = np.array([self.number_of(key) for key in units.series], np.int64)
        late = units.ticks < earliest
        self.late_units += int(units.counts[:, late].sum())
        last = units.ticks if latest is None else np.minimum(units.ticks, max(latest, earliest))
        folded = np.maximum(last, earliest)
        columns = zip(
            numbers[units.which].tolist(), units.ticks.tolist(), folded.tolist(), *units.counts.tolist(), strict=True
        )
        for number, tick, target, good, bad, unknown in columns:
            hour = self._hour(tick, self.cards[self._card_key(number)].time_zone)
            cell = self._open(target).counts[number, hour]
            cell[0] += good
            cell[1] += bad
            cell[2] += unknown
        for session in units.sessions:
            target = max(session.tick if latest is None else min(session.tick, max(latest, earliest)), earliest)
            entry = (self.number_of(session.series), session.session, session.units, session.bad)
            self._open(target).sessions.append(entry)

    def _open(self, tick: int) -> _Pending:
        return self.pending.setdefault(tick, _Pending())

    def number_of(self, key: SeriesKey) -> int:
        """Return the number of a series, which it keeps; environments beyond the limit share one, `other`."""
        if key not in self._number:
            known = self._environments[key.pipeline]
            is_named = len(key.environment) <= _NAME_LIMIT and len(known) < ENVIRONMENT_LIMIT
            if key.environment not in known and not is_named:
                key = replace(key, environment=OTHER)
        if key not in self._number:
            self._learn_series([*self.series, key])
        return self._number[key]

    def _learn_series(self, series: list[SeriesKey]) -> None:
        for key in series[len(self.series) :]:
            self._number[key] = len(self.series)
            self.series.append(key)
            if key.environment != OTHER:
                self._environments[key.pipeline].add(key.environment)
            self._rate.append(Watched(key, "rate"))
            self._unknown.append(Watched(key, "unknown"))

    def _card_key(self, number: int) -> tuple[str, str]:
        return self.series[number].pipeline, self.series[number].metric

    def card(self, series: SeriesKey) -> Card:
        """Return the card of a series."""
        return self.cards[series.pipeline, series.metric]

    def _hour(self, tick: int, time_zone: str) -> int:
        quarter = tick // _TICKS_A_QUARTER * _TICKS_A_QUARTER
        if (quarter, time_zone) not in self._hours:
            if len(self._hours) > 10_000:
                self._hours.clear()
            self._hours[quarter, time_zone] = hour_of_week(quarter, time_zone)
        return self._hours[quarter, time_zone]

    # ---- closing ----

    def close(self, closed: int) -> list[Finding]:
        """Fold every open tick up to `closed`, in order, and return what they brought."""
        findings: list[Finding] = []
        for tick in sorted(tick for tick in self.pending if tick <= closed):
            pending = self.pending.pop(tick)
            self._start_period(tick)
            findings += self._fold_units(tick, pending)
            findings += self._fold_sessions(tick, pending)
            self.folded = tick
        return findings

    def _start_period(self, tick: int) -> None:
        for pipeline, allotment in self.allotments.items():
            there = [
                (key, watched.series.metric)
                for watched, key in self.share_keys.items()
                if watched.series.pipeline == pipeline
            ]
            if allotment.start_period(tick, there):
                self.deal(pipeline)

    def deal(self, pipeline: str) -> None:
        """Set the thresholds of a pipeline's rows by its budget."""
        for name, rows in self.rows.items():
            for row, watched in enumerate(rows):
                if watched.series.pipeline == pipeline:
                    self._set_limits(self.fleets[name], row, watched)

    def _set_limits(self, fleet: Fleet, row: int, watched: Watched) -> None:
        card = self.card(watched.series)
        allotment = self.allotments[card.pipeline]
        limits = allotment.limits(card, watched.kind, self.share_keys[watched])
        fleet.state["ticket_threshold"][row], fleet.state["page_threshold"][row] = limits
        fleet.state["min_ratio"][row] = card.min_ratio or LEAST_RATIO
        bad_per_hour = LEAST_BAD_PER_HOUR if card.min_bad_per_hour is None else card.min_bad_per_hour
        fleet.state["min_bad_per_hour"][row] = bad_per_hour

    def _make_rows(self, fleet_name: str, wanted: Sequence[Watched]) -> None:
        """Add a row for each that has none: all at once, for each addition copies the fleet."""
        new = [watched for watched in dict.fromkeys(wanted) if watched not in self._place]
        if not new:
            return
        fleet = self.fleets[fleet_name]
        for row, watched in zip(fleet.add_series(len(new)).tolist(), new, strict=True):
            card = self.card(watched.series)
            self.rows[fleet_name].append(watched)
            self._place[watched] = row
            self.share_keys[watched] = self.allotments[card.pipeline].key_for(
                card, watched.kind, repr(watched.series), watched.series.environment
            )
            fleet.state["bad_side"][row] = bad_side(card, watched.kind)
            self._set_limits(fleet, row, watched)

    def _fold_units(self, tick: int, pending: _Pending) -> list[Finding]:
        by_hour: dict[int, dict[Watched, tuple[int, int]]] = defaultdict(dict)
        whole: dict[int, list[int]] = {}
        for (number, hour), (good, bad, unknown) in sorted(pending.counts.items()):
            if good + bad:
                by_hour[hour][self._rate[number]] = (good, bad)
            by_hour[hour][self._unknown[number]] = (good + bad, unknown)
            sums = whole.setdefault(number, [0, 0])
            sums[0] += good
            sums[1] += bad
        self._make_rows("units", [watched for _, cells in sorted(by_hour.items()) for watched in cells])
        for hour, cells in sorted(by_hour.items()):
            rows = np.array([self._place[watched] for watched in cells], np.int64)
            self.fleets["units"].fold(tick, np.array(list(cells.values()), np.float64).T, rows, hour)
        findings = self._settle("units", tick) if by_hour else []
        for number, _, units, bad in pending.sessions:
            sums = whole.setdefault(number, [0, 0])
            sums[0] += units - bad
            sums[1] += bad
        return findings + self._hold_to_bounds(tick, whole)

    def _hold_to_bounds(self, tick: int, whole: dict[int, list[int]]) -> list[Finding]:
        findings = []
        for number, (good, bad) in sorted(whole.items()):
            limit = self.cards[self._card_key(number)].limit
            if limit is None or not good + bad:
                continue
            bound = self.bounds.setdefault(number, BoundWatch(limit))
            breach = bound.add(tick, good, bad)
            if breach is not None:
                findings.append(Finding(Watched(self.series[number], "bound"), tick, breach=breach))
        return findings

    def _fold_sessions(self, tick: int, pending: _Pending) -> list[Finding]:
        for number, session, units, bad in sorted(pending.sessions):
            self.book.add(tick, number, session, units, bad)
        if not self.book.open:
            return []
        numbers, means, _ = self.book.close(tick)
        if not len(numbers):
            return []
        self._make_rows("sessions", [Watched(self.series[number], "sessions") for number in numbers.tolist()])
        by_hour: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, mean in zip(numbers.tolist(), means.tolist(), strict=True):
            row = self._place[Watched(self.series[number], "sessions")]
            by_hour[self._hour(tick, self.cards[self._card_key(number)].time_zone)].append((row, mean))
        for hour, ended in sorted(by_hour.items()):
            which = np.array([row for row, _ in ended], np.int64)
            self.fleets["sessions"].fold_sessions(tick, which, np.array([mean for _, mean in ended]), hour)
        return self._settle("sessions", tick)

    def _settle(self, name: str, tick: int) -> list[Finding]:
        transitions = settle(self.fleets[name], tick)
        rows = self.rows[name]
        return [Finding(rows[t.row], tick, transition=t) for t in transitions if t.event not in _QUIET]

    # ---- what people decide ----

    def use_cards(self, cards: Sequence[Card], budgets: dict[str, Budget]) -> list[Watched]:
        """Go on with other cards; return the rows whose direction turned. Open alerts of those are closed.

        Series of a metric that has no card any more are kept and fed no longer.
        """
        self.budgets = {**self.budgets, **budgets}
        for card in cards:
            self.cards[card.pipeline, card.metric] = card
        for pipeline, budget in budgets.items():
            dealt = self.allotments.get(pipeline)
            mine = [card for card in self.cards.values() if card.pipeline == pipeline]
            self.allotments[pipeline] = Allotment(budget, mine)
            if dealt is not None:
                self.allotments[pipeline].take_json(dealt.as_json())
        for number, bound in self.bounds.items():
            limit = self.cards[self._card_key(number)].limit
            bound.limit = limit or bound.limit
        turned = []
        for name, rows in self.rows.items():
            fleet = self.fleets[name]
            for row, watched in enumerate(rows):
                side = bad_side(self.card(watched.series), watched.kind)
                if fleet.state["bad_side"][row] != side:
                    turn(fleet, np.array([row], np.int64), side)
                    turned.append(watched)
        for pipeline in budgets:
            if self.allotments[pipeline].period:
                self.deal(pipeline)
        return turned

    def find(self, watched: Watched) -> tuple[Fleet, int]:
        """Return the fleet and the row of what is watched; KeyError where there is none."""
        return self.fleets["sessions" if watched.kind == "sessions" else "units"], self._place[watched]

    # ---- the state ----

    def as_json(self) -> dict[str, Any]:
        """Return all but the fleets as JSON values."""
        return {
            "series": [_texts(key) for key in self.series],
            "rows": {
                name: [[self._number[w.series], w.kind, self.share_keys[w]] for w in rows]
                for name, rows in self.rows.items()
            },
            "pending": [
                [tick, [[*at, *cell] for at, cell in sorted(p.counts.items())], p.sessions]
                for tick, p in sorted(self.pending.items())
            ],
            "book": [[*key, *entry] for key, entry in self.book.open.items()],
            "bounds": [[number, bound.as_json()] for number, bound in sorted(self.bounds.items())],
            "allotments": {pipeline: allotment.as_json() for pipeline, allotment in self.allotments.items()},
            "cards": [card.as_json() for card in self.cards.values()],
            "budgets": {name: [budget.pages, budget.tickets] for name, budget in self.budgets.items()},
            "folded": self.folded,
            "late_units": self.late_units,
        }

    def take_json(self, value: dict[str, Any], fleets: dict[str, Fleet]) -> None:
        """Go on from what `as_json` gave and the fleets that belong to it. The cards must be those of then."""
        self.fleets = fleets
        self._learn_series([SeriesKey(*texts) for texts in value["series"]])
        for name, rows in value["rows"].items():
            for row, (number, kind, share) in enumerate(rows):
                watched = Watched(self.series[number], kind)
                self.rows[name].append(watched)
                self._place[watched] = row
                self.share_keys[watched] = share
        for tick, counts, sessions in value["pending"]:
            pending = self._open(tick)
            for number, hour, *cell in counts:
                pending.counts[number, hour] = cell
            pending.sessions = [(number, session, units, bad) for number, session, units, bad in sessions]
        for number, session, last, units, bad in value["book"]:
            self.book.open[number, session] = [last, units, bad]
        for number, bound in value["bounds"]:
            limit = self.cards[self._card_key(number)].limit
            if limit is not None:
                self.bounds[number] = BoundWatch.from_json(limit, bound)
        for pipeline, dealt in value["allotments"].items():
            if pipeline in self.allotments:
                self.allotments[pipeline].take_json(dealt)
        self.folded, self.late_units = value["folded"], value["late_units"]


def bad_side(card: Card, kind: str) -> int:
    """Return which way is bad for what is watched: that fewer units can be told is bad, whatever the metric."""
    return 1 if kind == "unknown" else card.bad_side


def _texts(key: SeriesKey) -> list[str]:
    return [key.pipeline, key.environment, key.component, key.metric, key.metric_version, key.judge, key.epoch]
