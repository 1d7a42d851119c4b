"""Rows of a lane's fleets: the series and quantity of each row, its alert rule, and its thresholds."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from gapwatch.scorers.printable import shown
from gapwatch.streams.alerting.evaluation.series_detectors import SeriesDetectors
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule
from gapwatch.streams.alerting.rules.budget_shares import BudgetShares
from gapwatch.streams.alerting.rules.finding import Finding, Part, Watched
from gapwatch.streams.alerting.series.open_tick import WINDOW_TICKS, window_end
from gapwatch.streams.alerting.series.series_book import HourBook, SeriesBook
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.budgets.volume import set_allowed
from gapwatch.streams.detectors.contexts import tick_start
from gapwatch.streams.detectors.fleet import LEAST_BAD_PER_HOUR, LEAST_RATIO, Fleet
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.recovery import MOST_MOVED
from gapwatch.streams.detectors.watch import Transition

log = logging.getLogger("gapwatch.detectors")

#: Transitions without a message to people; dashboards show the phase.
_QUIET = (Event.SUSPECTED, Event.CLEARED, Event.NOTICED)


class SeriesRows:
    """Rows of all fleets of one lane; both families make their rows here.

    Args:
        rules: Alert rules.
        budgets: Pipeline to its false-alarm budget.

    Attributes:
        rules: (pipeline, metric) to its alert rule.
        watched: Fleet to the series and quantity of its rows, by row.
    """

    def __init__(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> None:
        self.budgets = budgets
        self.rules = {(rule.pipeline, rule.metric): rule for rule in rules}
        self.watched: dict[str, list[Watched]] = {}
        self._shares = {
            pipeline: BudgetShares(budget, [rule for rule in rules if rule.pipeline == pipeline])
            for pipeline, budget in budgets.items()
        }
        self._book = SeriesBook()
        self._hours = HourBook()
        self._share_keys: dict[Watched, str] = {}
        self._row_of: dict[tuple[int, str], int] = {}
        # The same as arrays by number, made again when a kind has new rows.
        self._rows_of_kind: dict[str, Ints] = {}

    # ---- series ----

    @property
    def series(self) -> list[SeriesKey]:
        """Series, by number."""
        return self._book.series

    def number_of(self, key: SeriesKey) -> int:
        """Return the number of a series."""
        return self._book.number_of(key)

    def rule(self, series: SeriesKey) -> AlertRule:
        """Return the rule of a series."""
        return self.rules[series.pipeline, series.metric]

    def rule_of(self, number: int) -> AlertRule:
        """Return the rule of a series, by its number."""
        return self.rule(self.series[number])

    def hour(self, number: int, tick: int) -> int:
        """Return the hour of the week of a tick, in the time zone of a series."""
        return self._hours.hour(tick, self.rule_of(number).time_zone)

    def hours(self, numbers: Ints, ticks: Ints) -> Ints:
        """Return the hour of the week of each tick, in the time zone of its series.

        Args:
            numbers: Number of the series of each entry.
            ticks: Tick of each entry.
        """
        distinct, which = np.unique(numbers, return_inverse=True)
        zones = [self.rule_of(number).time_zone for number in distinct.tolist()]
        result = np.zeros(len(ticks), np.int64)
        for zone in dict.fromkeys(zones):
            mine = np.array([one == zone for one in zones])[which]
            result[mine] = self._hours.hours(ticks[mine], zone)
        return result

    # ---- rows ----

    def rows(self, numbers: Ints, kind: str) -> Ints:
        """Return the rows of some series and one kind in their fleet; -1 for those without a row."""
        if kind not in self._rows_of_kind:
            self._rows_of_kind[kind] = np.full(len(self.series) + 1, -1, np.int64)
            for (number, one), row in self._row_of.items():
                if one == kind:
                    self._rows_of_kind[kind][number] = row
        known = self._rows_of_kind[kind]
        # A series that came after the array was made has no row, as the last entry says.
        return known.take(numbers, mode="clip")

    def row(self, number: int, kind: str) -> int:
        """Return the row of a series and kind in its fleet; KeyError where it has no row."""
        return self._row_of[number, kind]

    def without_row(self, wanted: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return the (number, kind) without a row, each once, in their order."""
        return [key for key in dict.fromkeys(wanted) if key not in self._row_of]

    def make(self, family: SeriesDetectors[Any], name: str, wanted: Iterable[tuple[int, str]]) -> None:
        """Add a row for each (number, kind) without one, all at once because each addition copies the fleet."""
        new = self.without_row(wanted)
        if not new:
            return
        rows = family.grow(name, len(new))
        fleet = family.fleets[name]
        for row, (number, kind) in zip(rows.tolist(), new, strict=True):
            watched = Watched(self.series[number], kind)
            rule = self.rule(watched.series)
            self.watched[name].append(watched)
            self._row_of[number, kind] = row
            self._rows_of_kind.pop(kind, None)
            self._share_keys[watched] = self._shares[rule.pipeline].key_for(
                rule, kind, repr(watched.series), watched.series.environment
            )
            fleet.state["bad_side"][row] = rule.side_of(kind)
            self._set_limits(fleet, row, watched)

    def take_findings(
        self,
        name: str,
        tick: int,
        bucket: int,
        steps: Sequence[Transition],
        part_of: Callable[[Transition], Part | None] = lambda _: None,
    ) -> list[Finding]:
        """Return the transitions that people are told of, as findings.

        Args:
            name: Name of the fleet.
            tick: Tick of the findings.
            bucket: Folded bucket: the tick, or the first tick of the window that ends with it.
            steps: Transitions of the fleet after the bucket.
            part_of: Returns the part of the values that moved.
        """
        for one in steps:
            if one.event is Event.NOTICED:
                _log_noticed(self.watched[name][one.row], one)
        reported = (one for one in steps if one.event not in _QUIET)
        return [
            Finding(
                self.watched[name][one.row],
                tick,
                transition=_in_window(one, ends=bucket == tick),
                part=part_of(one),
            )
            for one in reported
        ]

    # ---- the budget ----

    def start_period(self, tick: int) -> list[str]:
        """Split budgets again where a period of 30 days has begun; return the pipelines whose thresholds change."""
        return [pipeline for pipeline in self._shares if self._is_dealt(pipeline, tick)]

    def _is_dealt(self, pipeline: str, tick: int) -> bool:
        shares = self._shares[pipeline]
        if not shares.is_over(tick):
            return False
        there = [
            (key, watched.series.metric)
            for watched, key in self._share_keys.items()
            if watched.series.pipeline == pipeline
        ]
        return shares.start_period(tick, there)

    def set_limits(self, fleets: Mapping[str, Fleet], pipeline: str) -> None:
        """Set the thresholds of a pipeline's rows from its budget."""
        for name, fleet in fleets.items():
            for row, watched in enumerate(self.watched[name]):
                if watched.series.pipeline == pipeline:
                    self._set_limits(fleet, row, watched)

    def _set_limits(self, fleet: Fleet, row: int, watched: Watched) -> None:
        rule = self.rule(watched.series)
        tickets, pages = self._shares[rule.pipeline].allowed(rule, watched.kind, self._share_keys[watched])
        set_allowed(fleet.state, np.array([row]), tickets, pages, rule.units_per_month)
        fleet.state["min_ratio"][row] = rule.min_ratio or LEAST_RATIO
        bad_per_hour = LEAST_BAD_PER_HOUR if rule.min_bad_per_hour is None else rule.min_bad_per_hour
        fleet.state["min_bad_per_hour"][row] = bad_per_hour
        fleet.state["min_factor"][row], fleet.state["min_share"][row] = rule.min_factor, rule.min_share
        # A metric that decides half of its traces again is not blind; a rate that is still high is not well.
        fleet.state["most_moved"][row] = math.inf if watched.kind == "unknown" else MOST_MOVED

    def is_in_force(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> bool:
        """Return whether these rules and budgets are those in force; rules of other metrics do not matter."""
        return all(self.rules.get((rule.pipeline, rule.metric)) == rule for rule in rules) and self.budgets == budgets

    def use_rules(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> list[str]:
        """Change the rules; return the pipelines whose thresholds change.

        Series of a metric without a rule keep its last one.
        """
        self.budgets = {**self.budgets, **budgets}
        for rule in rules:
            self.rules[rule.pipeline, rule.metric] = rule
        for pipeline, budget in budgets.items():
            dealt = self._shares.get(pipeline)
            mine = [rule for rule in self.rules.values() if rule.pipeline == pipeline]
            self._shares[pipeline] = BudgetShares(budget, mine)
            if dealt is not None:
                self._shares[pipeline].take_json(dealt.as_json())
        return [pipeline for pipeline in budgets if self._shares[pipeline].period]

    # ---- the state ----

    def as_json(self) -> dict[str, Any]:
        """Return the rows as JSON values."""
        return {
            "series": [list(astuple(key)) for key in self.series],
            "rows": {
                name: [[self.number_of(w.series), w.kind, self._share_keys[w]] for w in rows]
                for name, rows in self.watched.items()
            },
            "allotments": {pipeline: shares.as_json() for pipeline, shares in self._shares.items()},
            "cards": [rule.as_json() for rule in self.rules.values()],
            "budgets": {name: [budget.pages, budget.tickets] for name, budget in self.budgets.items()},
        }

    def take_json(self, value: Mapping[str, Any]) -> None:
        """Restore the rows from `as_json`; the rules and budgets must be the saved ones."""
        self._book.learn(SeriesKey(*texts) for texts in value["series"])
        for name, rows in value["rows"].items():
            for row, (number, kind, share) in enumerate(rows):
                watched = Watched(self.series[number], kind)
                self.watched[name].append(watched)
                self._row_of[number, kind] = row
                self._share_keys[watched] = share
        for pipeline, dealt in value["allotments"].items():
            if pipeline in self._shares:
                self._shares[pipeline].take_json(dealt)


def _log_noticed(watched: Watched, step: Transition) -> None:
    """Log a change that is seen and not told, because it is not surely worth telling."""
    key, change = watched.series, step.change
    move = "" if change is None else f": {change.before.value:.1%} to {change.after.value:.1%} of {change.units:.0f}"
    log.info(
        "seen, not told: %s of %s (%s, %s) moved, not surely beyond min_change and a usual day%s; in the data of %sZ",
        watched.kind, shown(key.metric), shown(key.pipeline), shown(key.environment), move,
        tick_start(step.bucket).isoformat(),
    )  # fmt: skip


def _in_window(transition: Transition, *, ends: bool) -> Transition:
    """Return a transition whose change begins with a window, and whose 95 % set covers whole windows at both ends.

    Args:
        transition: Transition of a fleet in which buckets may be windows of five minutes.
        ends: True where a window has the number of its last tick, False where it has that of its first tick.
    """
    change = transition.change
    if change is None:
        return transition
    if not ends:
        return replace(transition, change=replace(change, to_bucket=change.to_bucket + WINDOW_TICKS - 1))
    began = change.change_bucket
    if window_end(began) == began:  # a window, unless ticks before it were folded one by one
        began = max(began - WINDOW_TICKS + 1, change.previous_bucket + 1)
    earliest = change.from_bucket
    if window_end(earliest) == earliest:
        earliest -= WINDOW_TICKS - 1
    return replace(transition, change=replace(change, change_bucket=began, from_bucket=min(earliest, began)))
