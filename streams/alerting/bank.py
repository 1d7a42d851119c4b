"""All detectors of one lane: folds closed ticks, in order, and says what moved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from streams.alerting.allotment import Allotment
from streams.alerting.breach import BoundWatch, hold_to_bounds
from streams.alerting.card import AlarmBudget, AlertRule
from streams.alerting.finding import Finding, Watched
from streams.alerting.open_tick import WINDOW_TICKS, OpenTick, full_until, gather
from streams.alerting.series_book import HourBook, SeriesBook
from streams.alerting.slice_units import OpenTicks, SeriesKey, SliceUnits
from streams.alerting.slice_values import Labels, Numbers
from streams.alerting.state_file import Fleets
from streams.alerting.value_bank import ValueBank, one_window
from streams.detectors.bets import rate_bets
from streams.detectors.fleet import LEAST_BAD_PER_HOUR, LEAST_RATIO, Fleet
from streams.detectors.fleet_config import FleetConfig
from streams.detectors.lifecycle import Event
from streams.detectors.sessions import SessionBook
from streams.detectors.watch import settle, turn

RATES = FleetConfig(rate_bets())
SESSIONS = FleetConfig(rate_bets(), sessions=True)
#: Changes of a series that nobody is told of: dashboards show the phase.
_QUIET = (Event.SUSPECTED, Event.CLEARED)


class Bank:
    """Detectors and bounds of one lane, and the ticks that are still open.

    Its state is a function of the calls, in order: the same slices give the same findings, bit for bit.

    Args:
        cards: By (pipeline, metric).
        budgets: By pipeline.
    """

    def __init__(self, cards: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> None:
        self.budgets = budgets
        self.cards = {(card.pipeline, card.metric): card for card in cards}
        self.allotments = {
            pipeline: Allotment(budget, [card for card in cards if card.pipeline == pipeline])
            for pipeline, budget in budgets.items()
        }
        self._book = SeriesBook()
        self._hours = HourBook()
        self.values = ValueBank()
        self._units, self._sessions = Fleet(RATES), Fleet(SESSIONS)
        self.rows: dict[str, list[Watched]] = {name: [] for name in self.fleets}
        self.share_keys: dict[Watched, str] = {}
        self._place: dict[tuple[int, str], int] = {}
        self.book = SessionBook()
        self.pending: dict[int, OpenTick] = defaultdict(OpenTick)
        self.bounds: dict[int, BoundWatch] = {}
        self.left_out: set[tuple[int, str]] = set()
        self.folded = 0
        self.late_units = 0

    @property
    def fleets(self) -> dict[str, Fleet]:
        """All fleets, by name."""
        numbers, labels = self.values.numbers.fleet, self.values.labels.fleet
        return {"units": self._units, "sessions": self._sessions, "numbers": numbers, "labels": labels}

    # ---- taking in ----

    def add(self, units: SliceUnits, there: OpenTicks) -> None:
        """Put the units of a slice into the open ticks; late ones join the current tick, with the hour of their own."""
        numbers = np.array([self.number_of(key) for key in units.series], np.int64)
        self.late_units += int(units.counts[:, units.ticks < there.first].sum())
        folded = there.places(units.ticks).tolist()
        columns = zip(numbers[units.which].tolist(), units.ticks.tolist(), folded, *units.counts.tolist(), strict=True)
        for number, tick, target, good, bad, unknown in columns:
            cell = self.pending[target].counts[number, self._hour(number, tick)]
            cell[0] += good
            cell[1] += bad
            cell[2] += unknown
        for session in units.sessions:
            entry = (self.number_of(session.series), session.session, session.units, session.bad)
            self.pending[there.place(session.tick)].sessions.append(entry)

    def add_values(self, numbers: Numbers, labels: Labels, there: OpenTicks) -> None:
        """Put numbers and labels of a slice into the open windows; late ones as in `add`, which is called before."""
        own = np.array([self.number_of(key) for key in numbers.series], np.int64)
        if len(numbers.which):
            which = own[numbers.which]
            hours = np.zeros(len(which), np.int64)
            for number in np.unique(which).tolist():
                mine = which == number
                distinct, at = np.unique(numbers.ticks[mine], return_inverse=True)
                hours[mine] = np.array([self._hour(number, tick) for tick in distinct.tolist()], np.int64)[at]
            entries = np.stack([which, hours, numbers.cells, numbers.n])
            self.values.add_numbers(entries, there.places(numbers.ticks))
        for entry in labels.found:
            number = self.number_of(entry.series)
            tick, hour = there.place(entry.tick), self._hour(number, entry.tick)
            self.values.add_labels(number, hour, tick, entry.units, entry.counts)
        for kind, left_out in (("numbers", numbers.left_out), ("labels", labels.left_out)):
            self.left_out |= {(self.number_of(key), kind) for key in left_out}

    def number_of(self, key: SeriesKey) -> int:
        """Return the number of a series."""
        return self._book.number_of(key)

    @property
    def series(self) -> list[SeriesKey]:
        """The series, by number."""
        return self._book.series

    def card(self, series: SeriesKey) -> AlertRule:
        """Return the card of a series."""
        return self.cards[series.pipeline, series.metric]

    def _hour(self, number: int, tick: int) -> int:
        return self._hours.hour(tick, self.card(self.series[number]).time_zone)

    # ---- closing ----

    def full_until(self) -> int:
        """Return the last tick that must be closed for the open ones to fit into memory; 0 where they do."""
        sizes = Counter({tick: one.size for tick, one in self.pending.items()})
        sizes.update({tick: window.size for tick, window in self.values.pending.items()})
        return full_until(sizes)

    def close(self, closed: int) -> list[Finding]:
        """Fold every open tick up to `closed`, in order, and return what they brought."""
        findings: list[Finding] = []
        gather(self.pending, closed)
        for tick in sorted(tick for tick in {*self.pending, *self.values.pending} if tick <= closed):
            self._start_period(tick)
            if (pending := self.pending.pop(tick, None)) is not None:
                findings += self._fold_units(tick, pending)
                findings += self._fold_sessions(tick, pending)
            for name in self.values.close(tick, self._rows_of):
                findings += self._settle_values(name, tick)
            self.folded = tick
        return findings

    def _rows_of(self, name: str, numbers: Iterable[int]) -> dict[int, int]:
        wanted = [(number, name) for number in numbers]
        self._make_rows(name, wanted)
        return {place[0]: self._place[place] for place in wanted}

    def _settle_values(self, name: str, tick: int) -> list[Finding]:
        transitions = settle(self.fleets[name], tick - WINDOW_TICKS + 1)
        return [
            Finding(self.rows[name][t.row], tick, transition=one_window(t, ends=False), part=self.values.part(name, t))
            for t in transitions
            if t.event not in _QUIET
        ]

    def _start_period(self, tick: int) -> None:
        for pipeline, allotment in self.allotments.items():
            if not allotment.is_over(tick):
                continue
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

    def _make_rows(self, fleet_name: str, wanted: Iterable[tuple[int, str]]) -> None:
        """Add a row for each series and kind that has none: all at once, for each addition copies the fleet."""
        new = [place for place in dict.fromkeys(wanted) if place not in self._place]
        if not new:
            return
        fleet = self.fleets[fleet_name]
        grown = self.values.fleets.get(fleet_name, fleet)
        for row, (number, kind) in zip(grown.add_series(len(new)).tolist(), new, strict=True):
            watched = Watched(self.series[number], kind)
            card = self.card(watched.series)
            self.rows[fleet_name].append(watched)
            self._place[number, kind] = row
            self.share_keys[watched] = self.allotments[card.pipeline].key_for(
                card, kind, repr(watched.series), watched.series.environment
            )
            fleet.state["bad_side"][row] = card.side_of(kind)
            self._set_limits(fleet, row, watched)

    def _fold_units(self, tick: int, pending: OpenTick) -> list[Finding]:
        by_hour: dict[int, dict[tuple[int, str], tuple[int, int]]] = defaultdict(dict)
        whole: dict[int, list[int]] = {}
        for (number, hour), (good, bad, unknown) in sorted(pending.counts.items()):
            if good + bad:
                by_hour[hour][number, "rate"] = (good, bad)
            by_hour[hour][number, "unknown"] = (good + bad, unknown)
            sums = whole.setdefault(number, [0, 0])
            sums[0] += good
            sums[1] += bad
        self._make_rows("units", [place for _, cells in sorted(by_hour.items()) for place in cells])
        for hour, cells in sorted(by_hour.items()):
            rows = np.array([self._place[place] for place in cells], np.int64)
            self.fleets["units"].fold(tick, np.array(list(cells.values()), np.float64).T, rows, hour)
        findings = self._settle("units", tick) if by_hour else []
        for number, _, units, bad in pending.sessions:
            sums = whole.setdefault(number, [0, 0])
            sums[0] += units - bad
            sums[1] += bad
        return findings + self._hold_to_bounds(tick, whole)

    def _hold_to_bounds(self, tick: int, whole: dict[int, list[int]]) -> list[Finding]:
        limits = {number: self.card(self.series[number]).limit for number in whole}
        broken = hold_to_bounds(self.bounds, limits, tick, whole)
        return [Finding(Watched(self.series[number], "bound"), tick, breach=breach) for number, breach in broken]

    def _fold_sessions(self, tick: int, pending: OpenTick) -> list[Finding]:
        for number, session, units, bad in sorted(pending.sessions):
            self.book.add(tick, number, session, units, bad)
        if not self.book.open:
            return []
        numbers, means, _ = self.book.close(tick)
        if not len(numbers):
            return []
        self._make_rows("sessions", [(number, "sessions") for number in numbers.tolist()])
        by_hour: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, mean in zip(numbers.tolist(), means.tolist(), strict=True):
            row = self._place[number, "sessions"]
            by_hour[self._hour(number, tick)].append((row, mean))
        for hour, ended in sorted(by_hour.items()):
            which = np.array([row for row, _ in ended], np.int64)
            self.fleets["sessions"].fold_sessions(tick, which, np.array([mean for _, mean in ended]), hour)
        return self._settle("sessions", tick)

    def _settle(self, name: str, tick: int) -> list[Finding]:
        transitions = settle(self.fleets[name], tick)
        rows = self.rows[name]
        loud = (t for t in transitions if t.event not in _QUIET)
        return [Finding(rows[t.row], tick, transition=one_window(t, ends=True)) for t in loud]

    def unwatched(self) -> list[Watched]:
        """Return what has come, and was left out each time: numbers and labels of traces in sessions."""
        return [Watched(self.series[number], kind) for number, kind in sorted(self.left_out - self._place.keys())]

    # ---- what people decide ----

    def use_cards(self, cards: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> list[Watched]:
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
            limit = self.card(self.series[number]).limit
            bound.limit = limit or bound.limit
        turned = []
        for name, rows in self.rows.items():
            fleet = self.fleets[name]
            for row, watched in enumerate(rows):
                side = self.card(watched.series).side_of(watched.kind)
                if fleet.state["bad_side"][row] != side:
                    turn(fleet, np.array([row], np.int64), side)
                    turned.append(watched)
        for pipeline in budgets:
            if self.allotments[pipeline].period:
                self.deal(pipeline)
        return turned

    def find(self, watched: Watched) -> tuple[Fleet, int]:
        """Return the fleet and the row of what is watched; KeyError where there is none."""
        name = watched.kind if watched.kind in self.rows else "units"
        return self.fleets[name], self._place[self.number_of(watched.series), watched.kind]

    # ---- the state ----

    def state(self) -> Fleets:
        """Return all detectors."""
        values = self.values
        return {
            "units": self._units, "sessions": self._sessions, "numbers": values.numbers, "labels": values.labels,
        }  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return all but the fleets as JSON values."""
        return {
            "series": [list(astuple(key)) for key in self.series],
            "rows": {
                name: [[self.number_of(w.series), w.kind, self.share_keys[w]] for w in rows]
                for name, rows in self.rows.items()
            },
            "pending": [[tick, open_tick.as_json()] for tick, open_tick in sorted(self.pending.items())],
            "values": self.values.as_json(),
            "book": [[*key, *entry] for key, entry in self.book.open.items()],
            "bounds": [[number, bound.as_json()] for number, bound in sorted(self.bounds.items())],
            "allotments": {pipeline: allotment.as_json() for pipeline, allotment in self.allotments.items()},
            "cards": [card.as_json() for card in self.cards.values()],
            "budgets": {name: [budget.pages, budget.tickets] for name, budget in self.budgets.items()},
            "left_out": sorted(self.left_out),
            "folded": self.folded,
            "late_units": self.late_units,
        }

    def take_json(self, value: dict[str, Any], fleets: Fleets) -> None:
        """Go on from what `as_json` gave and the fleets that belong to it. The cards must be those of then."""
        self._units, self._sessions = fleets["units"], fleets["sessions"]
        self.values.numbers, self.values.labels = fleets["numbers"], fleets["labels"]
        self.values.take_json(value["values"])
        self._book.learn(SeriesKey(*texts) for texts in value["series"])
        for name, rows in value["rows"].items():
            for row, (number, kind, share) in enumerate(rows):
                watched = Watched(self.series[number], kind)
                self.rows[name].append(watched)
                self._place[number, kind] = row
                self.share_keys[watched] = share
        self.pending.update((tick, OpenTick.from_json(one)) for tick, one in value["pending"])
        for number, session, last, units, bad in value["book"]:
            self.book.open[number, session] = [last, units, bad]
        for number, bound in value["bounds"]:
            limit = self.card(self.series[number]).limit
            if limit is not None:
                self.bounds[number] = BoundWatch.from_json(limit, bound)
        for pipeline, dealt in value["allotments"].items():
            if pipeline in self.allotments:
                self.allotments[pipeline].take_json(dealt)
        self.left_out = {(number, kind) for number, kind in value["left_out"]}
        self.folded, self.late_units = value["folded"], value["late_units"]
