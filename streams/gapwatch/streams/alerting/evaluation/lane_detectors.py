"""Detectors of one pipeline in one lane: all families fold the closed ticks, in order, and return findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gapwatch.streams.alerting.bounds.slice_bounds import read_bounds, uses_of
from gapwatch.streams.alerting.evaluation.lane_bounds import LaneBounds
from gapwatch.streams.alerting.evaluation.rate_detectors import RateDetectors
from gapwatch.streams.alerting.evaluation.series_detectors import SeriesDetectors
from gapwatch.streams.alerting.evaluation.series_rows import SeriesRows
from gapwatch.streams.alerting.evaluation.value_detectors import ValueDetectors
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule
from gapwatch.streams.alerting.rules.finding import Finding, Watched
from gapwatch.streams.alerting.series.open_tick import full_until
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceContent, read_units
from gapwatch.streams.alerting.series.slice_values import read_values
from gapwatch.streams.detectors.contexts import TICKS_AN_HOUR
from gapwatch.streams.detectors.fleet import Fleet
from gapwatch.streams.detectors.snapshot import SnapshotError
from gapwatch.streams.detectors.watch import turn

# Order of the fields in the state file: equal states give equal bytes, also those of earlier versions.
_FIELDS = (
    "series", "rows", "pending", "values", "book", "times", "bounds", "allotments", "cards", "budgets", "left_out",
    "folded", "late_units",
)  # fmt: skip
# Most entries of open ticks that are searched for new series.
_MOST_SEARCHED = 20_000


class LaneDetectors:
    """Detectors and bounds of one pipeline in one lane, and the ticks that are still open.

    The state is a function of the calls, in order: the same slices give the same findings, bit for bit.

    Args:
        rules: Alert rules; series of their metrics are fed.
        budgets: Pipeline to its false-alarm budget.

    Attributes:
        rows: Rows of all fleets, with the rules.
        rates, values, bounds: The three families.
        folded: Last folded tick.
    """

    def __init__(self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget]) -> None:
        self.rows = SeriesRows(rules, budgets)
        self.rates, self.values = RateDetectors(self.rows), ValueDetectors(self.rows)
        self.bounds = LaneBounds(self.rows)
        self.folded = 0
        self.feed(rules)

    @property
    def families(self) -> tuple[SeriesDetectors[Any], ...]:
        """Families, in the order in which they fold a tick."""
        return self.rates, self.bounds, self.values

    @property
    def fleets(self) -> dict[str, Fleet]:
        """Fleets of all families, by name."""
        return {name: fleet for family in self.families for name, fleet in family.fleets.items()}

    # ---- ticks ----

    @property
    def reads_units(self) -> bool:
        """True if some metric is monitored, so that event time matters."""
        return bool(self._watched)

    def feed(self, rules: Sequence[AlertRule]) -> None:
        """Feed the series of these metrics from now on; other series get no units."""
        self._watched = {(rule.pipeline, rule.metric) for rule in rules}
        self._measures = {(rule.pipeline, rule.metric) for rule in rules if rule.numbers}
        self._levels = {(rule.pipeline, rule.metric): rule.labels for rule in rules if rule.labels}
        self._uses = uses_of(rules)

    def add(self, content: SliceContent, there: OpenTicks) -> int | None:
        """Add the monitored units and values of a slice to the open ticks.

        Args:
            content: Counts of the slice.
            there: Ticks that are open.

        Returns:
            Latest tick of the monitored units by event time; None without units.
        """
        units = read_units(content, self._watched)
        self.rates.add(units, there)
        self.values.add(read_values(content, self._measures, self._levels), there)
        bounded = read_bounds(content, self._uses)
        self.bounds.add(bounded, there)
        return max((*([] if units.newest is None else [units.newest]), *(tick for _, tick in bounded)), default=None)

    def full_until(self) -> int:
        """Return the last tick to close so that the open ticks fit into memory; 0 where they do already."""
        return full_until(sum(family.most_entries() for family in self.families), self._sizes)

    def _sizes(self) -> Counter[int]:
        """Return the number of entries of each open tick."""
        sizes: Counter[int] = Counter()
        for family in self.families:
            sizes.update(family.sizes())
        return sizes

    def close(self, closed: int) -> list[Finding]:
        """Fold every open tick up to `closed`, in order, and return the findings.

        Neighbours of one hour are folded together, as far as they make no new row and thresholds stay.
        """
        findings: list[Finding] = []
        together: list[int] = []
        for tick in sorted({tick for family in self.families for tick in family.ready(closed)}):
            is_plain = all(family.is_plain(tick) for family in self.families)
            dealt = self.rows.start_period(tick)
            if together and (dealt or not is_plain or together[-1] // TICKS_AN_HOUR != tick // TICKS_AN_HOUR):
                findings += self._fold(together)
                together = []
            for pipeline in dealt:
                self.rows.set_limits(self.fleets, pipeline)
            if is_plain:
                together.append(tick)
            else:
                findings += self._fold([tick])
        return findings + self._fold(together)

    def _fold(self, ticks: list[int]) -> list[Finding]:
        """Fold some ticks, and return the findings by tick, those of one tick by family."""
        if not ticks:
            return []
        self.folded = ticks[-1]
        findings = [finding for family in self.families for finding in family.fold(ticks)]
        return sorted(findings, key=lambda finding: finding.tick)

    # ---- what people decide ----

    def use_rules(
        self, rules: Sequence[AlertRule], budgets: dict[str, AlarmBudget], sides: Mapping[Watched, int] | None = None
    ) -> list[Watched]:
        """Change the rules; return the rows whose open alerts are closed, because their move is not bad any more.

        Series of a metric without a rule stay; `feed` says which series get units.

        Args:
            rules: All rules.
            budgets: False-alarm budget of each pipeline.
            sides: Side to which the series of each open alert moved: 1 up, -1 down, 0 not known.
        """
        dealt = self.rows.use_rules(rules, budgets)
        self.bounds.use_bounds()
        turned = [
            watched
            for name, fleet in self.fleets.items()
            for watched in self._turn(fleet, self.rows.watched[name], sides or {})
        ]
        for pipeline in dealt:
            self.rows.set_limits(self.fleets, pipeline)
        return turned

    def _turn(self, fleet: Fleet, rows: Sequence[Watched], sides: Mapping[Watched, int]) -> list[Watched]:
        """Set the bad directions; an open alert on a move that is bad by the new direction too stays open."""
        turned = []
        for row, watched in enumerate(rows):
            side = self.rows.rule(watched.series).side_of(watched.kind)
            if fleet.state["bad_side"][row] == side:
                continue
            moved = sides.get(watched)
            if moved is not None and side in (0, moved):
                fleet.state["bad_side"][row] = side
                continue
            turn(fleet, np.array([row], np.int64), side)
            turned.append(watched)
        return turned

    def find(self, watched: Watched) -> tuple[Fleet, int]:
        """Return the fleet and the row of a series and quantity; KeyError where it has no row."""
        name = watched.kind if watched.kind in self.rows.watched else "units"
        return self.fleets[name], self.rows.row(self.rows.number_of(watched.series), watched.kind)

    def waiting(self) -> list[Watched]:
        """Return the quantities whose first units wait in open ticks: they are monitored, and have no row yet.

        While catching up, open ticks may hold very many entries; then none is returned.
        """
        if sum(self._sizes().values()) > _MOST_SEARCHED:
            return []
        wanted = sorted({key for family in self.families for key in family.waiting()})
        return [Watched(self.rows.series[number], kind) for number, kind in self.rows.without_row(wanted)]

    # ---- the state ----

    def as_json(self) -> dict[str, Any]:
        """Return everything but the fleets as JSON values."""
        whole = {**self.rows.as_json(), "folded": self.folded}
        for family in self.families:
            whole |= family.as_json()
        return {name: whole[name] for name in _FIELDS}

    def snapshots(self) -> dict[str, bytes]:
        """Return each fleet as bytes, by name."""
        return {name: blob for family in self.families for name, blob in family.snapshots().items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], snapshots: Mapping[str, bytes]) -> LaneDetectors:
        """Return the detectors from `as_json` and `snapshots`.

        Raises:
            SnapshotError: The fleets cannot be read, or belong to detectors of another version.
        """
        rules = [AlertRule.from_json(rule) for rule in value["cards"]]
        lane = cls(rules, {pipeline: AlarmBudget(*numbers) for pipeline, numbers in value["budgets"].items()})
        if set(snapshots) != set(lane.fleets):
            raise SnapshotError("the saved state holds other fleets; refold the ticks from the start")
        lane.rows.take_json(value)
        for family in lane.families:
            family.restore(snapshots)
            family.take_json(value)
        lane.folded = value["folded"]
        return lane
