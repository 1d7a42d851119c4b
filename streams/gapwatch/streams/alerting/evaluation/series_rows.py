"""The rows of a lane's fleets: which series and kind each row watches, and how much evidence it needs to alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from gapwatch.streams.alerting.evaluation.series_detectors import SeriesDetectors
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule
from gapwatch.streams.alerting.rules.budget_shares import BudgetShares
from gapwatch.streams.alerting.rules.finding import Finding, Part, Watched
from gapwatch.streams.alerting.series.open_tick import WINDOW_TICKS, window_end
from gapwatch.streams.alerting.series.series_book import HourBook, SeriesBook
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.fleet import LEAST_BAD_PER_HOUR, LEAST_RATIO, Fleet
from gapwatch.streams.detectors.lifecycle import Event
from gapwatch.streams.detectors.watch import Transition, advance_phases

#: Transitions of a series that nobody is told of: dashboards show the phase.
_QUIET = (Event.SUSPECTED, Event.CLEARED)


class SeriesRows:
    """Rows of all fleets of one lane; both families make their rows here.

    Args:
        rules: Of the metrics that may alert.
        budgets: By pipeline.

    Attributes:
        rules: By (pipeline, metric).
        watched: Fleet to what its rows watch, by row.
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

    # ---- series ----

    @property
    def series(self) -> list[SeriesKey]:
        """The series, by number."""
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

    # ---- rows ----

    def row(self, number: int, kind: str) -> int:
        """Return the row of a series and kind in its fleet; KeyError where there is none."""
        return self._row_of[number, kind]

    def without_row(self, wanted: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return those (number, kind) that have no row, each once, in their order."""
        return [key for key in dict.fromkeys(wanted) if key not in self._row_of]

    def make(self, family: SeriesDetectors[Any], name: str, wanted: Iterable[tuple[int, str]]) -> None:
        """Add a row for each (number, kind) that has none: all at once, for each addition copies the fleet."""
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
            self._share_keys[watched] = self._shares[rule.pipeline].key_for(
                rule, kind, repr(watched.series), watched.series.environment
            )
            fleet.state["bad_side"][row] = rule.side_of(kind)
            self._set_limits(fleet, row, watched)

    def take_findings(
        self,
        family: SeriesDetectors[Any],
        name: str,
        tick: int,
        bucket: int,
        part_of: Callable[[Transition], Part | None] = lambda _: None,
    ) -> list[Finding]:
        """Return what the detectors of a fleet say of a folded bucket, but for what nobody is told of.

        Args:
            family: With the fleet.
            name: Of the fleet.
            tick: At which it is said.
            bucket: As folded: the tick, or the first tick of the window that ends with it.
            part_of: Names the part of the values that moved.
        """
        told = (one for one in advance_phases(family.fleets[name], bucket) if one.event not in _QUIET)
        return [
            Finding(
                self.watched[name][one.row],
                tick,
                transition=_in_window(one, ends=bucket == tick),
                part=part_of(one),
            )
            for one in told
        ]

    # ---- the budget ----

    def start_period(self, tick: int) -> list[str]:
        """Deal the budgets anew where a month began, and return the pipelines whose limits are to be set again."""
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
        """Set the thresholds of a pipeline's rows by its budget."""
        for name, fleet in fleets.items():
            for row, watched in enumerate(self.watched[name]):
                if watched.series.pipeline == pipeline:
                    self._set_limits(fleet, row, watched)

    def _set_limits(self, fleet: Fleet, row: int, watched: Watched) -> None:
        rule = self.rule(watched.series)
        limits = self._shares[rule.pipeline].limits(rule, watched.kind, self._share_keys[watched])
        fleet.state["ticket_threshold"][row], fleet.state["page_threshold"][row] = limits
        fleet.state["min_ratio"][row] = rule.min_ratio or LEAST_RATIO
        bad_per_hour = LEAST_BAD_PER_HOUR if rule.min_bad_per_hour is None else rule.min_bad_per_hour
        fleet.state["min_bad_per_hour"][row] = bad_per_hour

    def use_rules(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> list[str]:
        """Go on with other rules; return the pipelines whose limits are to be set again.

        Series of a metric that has no rule any more keep the last one.
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
        """Return it as JSON values."""
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
        """Go on from what `as_json` gave; the rules and budgets must be those of then."""
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


def _in_window(transition: Transition, *, ends: bool) -> Transition:
    """Return a transition whose change may have come anywhere in the windows at both ends of its interval.

    Args:
        transition: Of a fleet some or all of whose buckets are windows.
        ends: Buckets have the number of the last tick of their window (where it is one at all), not of the first.
    """
    change = transition.change
    if change is None:
        return transition
    if not ends:
        return replace(transition, change=replace(change, to_bucket=change.to_bucket + WINDOW_TICKS - 1))
    if window_end(change.from_bucket) != change.from_bucket:
        return transition
    return replace(transition, change=replace(change, from_bucket=change.from_bucket - WINDOW_TICKS + 1))
