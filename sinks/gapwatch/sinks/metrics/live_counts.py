"""Counts of the monitored series for `/metrics`, updated from the ticks of each slice and rebuilt from the store.

The same queries read both, so that the counters continue after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np

from gapwatch.scorers.slices.event_clock import TIME_STATES
from gapwatch.scorers.slices.facet_names import OTHER, OTHER_STATES
from gapwatch.scorers.slices.value_histogram import CELL_OFFSET, CELL_RATIO
from gapwatch.sinks.metrics.labels import NO_TIER, LabelSets
from gapwatch.sinks.metrics.rate_window import SLOT_SECONDS, SLOTS, FloatArray, RateWindow
from gapwatch.sinks.store.ledger import OUTCOME_STATES

#: Columns of the window of a series: the sums for `rate_interval.with_interval`, then weighted undecided units, good
#: and bad units, and weighted spans.
WB, WB2, WG, WG2, W3, W_UNKNOWN, UNITS, W_SPANS = range(8)

_SLOT = f"(epoch(bucket) // {SLOT_SECONDS})::BIGINT"
_ENVIRONMENT = f"CASE WHEN list_contains($environments, environment) THEN environment ELSE '{OTHER}' END AS environment"
_TIER = f"""CASE WHEN facet = 'all' OR "value" IS NULL OR list_contains($tiers, "value") THEN "value"
    ELSE '{OTHER}' END AS tier"""
_NAMES = f"pipeline, {_ENVIRONMENT}, metric, judge"
_COUNTED = "lane = $lane AND (facet = 'all' OR (facet = 'tier' AND level = 'span'))"

_TOTALS = f"""SELECT {_NAMES}, level, facet, {_TIER}, outcome,
        sum(n)::BIGINT, sum(n / p)::DOUBLE, sum(score_sum)::DOUBLE, max({_SLOT}) FILTER ({_SLOT} <= $latest)
    FROM ticks WHERE {_COUNTED} GROUP BY ALL"""
_NEWEST = f"""SELECT pipeline, max({_SLOT}) FROM ticks
    WHERE lane = $lane AND {_SLOT} <= $latest GROUP BY ALL"""
_WINDOWS = f"""SELECT {_NAMES}, metric_version, level, facet, {_TIER}, outcome, {_SLOT},
        sum(n)::BIGINT, sum(n / p)::DOUBLE, sum(n / (p * p))::DOUBLE, sum(n / (p * p * p))::DOUBLE
    FROM ticks WHERE {_COUNTED} AND (bucket IS NULL OR {_SLOT} > $oldest) GROUP BY ALL"""
_VALUES = f"""SELECT * EXCLUDE (entry), entry.key, sum(entry.value)::BIGINT FROM (
        SELECT {_NAMES}, unnest(map_entries(histogram)) AS entry
        FROM ticks WHERE lane = $lane AND facet = 'all' AND level = 'span' AND histogram IS NOT NULL)
    GROUP BY ALL"""
_LEDGER = """SELECT pipeline, metric, source_topic, state, sum(n)::BIGINT FROM ledger
    WHERE lane = $lane GROUP BY ALL"""
_DEAD_LETTERS = "SELECT source_topic, cause, count(*) FROM dead_letters WHERE lane = $lane GROUP BY ALL"
#: All ticks, those that have expired included (`gapwatch.sinks.upkeep.retention`).
_EVER = "FROM (FROM ticks UNION ALL BY NAME FROM internal.past_ticks)"
_PAST_DEAD_LETTERS = "SELECT source_topic, cause, n FROM internal.past_dead_letters WHERE lane = $lane"

SeriesKey = tuple[str, str, str, str, str]


@dataclass
class Series:
    """Counts of one monitored series.

    Attributes:
        key: Values of `SERIES_LABELS`.
        row: Row number in the window.
        bounds: Bucket bounds of its histogram.
        order: Position on the page; the same after a restart.
        spans: Number of spans by outcome.
        units: Number of units by outcome.
        weighted: Estimated number of units of the pipeline, by outcome.
        values: Counts by bucket; empty if no number was measured.
        value_sum: Sum of the measured numbers.
        newest: Number of the newest slot with a unit or span of the series.
    """

    key: SeriesKey
    row: int
    bounds: tuple[float, ...]
    order: tuple[int, str, str]
    spans: dict[str, int] = field(default_factory=lambda: {"pass": 0, "fail": 0})
    units: dict[str, int] = field(default_factory=lambda: {"good": 0, "bad": 0})
    weighted: dict[str, float] = field(default_factory=lambda: {"good": 0.0, "bad": 0.0})
    values: list[int] = field(default_factory=list)
    value_sum: float = 0.0
    newest: int | None = None


@dataclass
class TierKey:
    """Number of spans of one tier, and its row number in the window of tiers."""

    row: int
    spans: int = 0


class LiveCounts:
    """Counts of one lane. Not thread-safe.

    Attributes:
        series: Series by key.
        tiers: Tiers by the key of the series that counts them, and tier.
        records: Number of records by topic, pipeline and state.
        others: Number of read records of which something counts as `other`, by pipeline and facet.
        unscored: Number of spans that were not scored, by pipeline, metric and state.
        pending: Number of spans that wait for a judge, by pipeline and metric.
        dead_letters: Number of dead letters by topic and cause.
        window: Sums of the last hour of each series.
        tier_window: Weighted spans of the last hour of each tier.
    """

    def __init__(self, labels: LabelSets, lane: str = "live") -> None:
        self.labels, self.lane = labels, lane
        self.series: dict[SeriesKey, Series] = {}
        self.tiers: dict[SeriesKey, dict[str, TierKey]] = {}
        self.records: dict[tuple[str, str, str], int] = {}
        self.others: dict[tuple[str, str], int] = {}
        self.unscored: dict[tuple[str, str, str], int] = {}
        self.pending: dict[tuple[str, str], int] = {}
        self.dead_letters: dict[tuple[str, str], int] = {}
        self.window, self.tier_window = RateWindow(8), RateWindow(1)
        self._clocks: dict[str, int] = {}
        self._disagreement: dict[tuple[str | None, str, str], int] = {}

    # --- counts

    @property
    def consumed(self) -> dict[tuple[str, str, str], int]:
        """Counts of `records`, with a 0 for wrong times that have not come yet: Prometheus sees the first increase."""
        read = [key[:2] for key in self.records if key[2] == "read"]
        return {**{(*key, state): 0 for key in read for state in TIME_STATES.values()}, **self.records}

    @property
    def left_out(self) -> dict[tuple[str, str, str], int]:
        """Counts of `unscored`, with a 0 for each judged metric that has no such spans yet.

        Prometheus sees no increase in a counter that begins with 7, so it would miss the first spans.
        """
        judged = [key for key, metric in self.labels.metrics.items() if metric.judges]
        return {**{(*key, state): 0 for key in judged for state in ("shed_budget", "shed_load")}, **self.unscored}

    def newest_slot(self, pipeline: str) -> int | None:
        """Return the number of the newest slot of a pipeline; None if no record of it has a time."""
        return self.window.newest(self._clocks[pipeline]) if pipeline in self._clocks else None

    def spans_without_tier(self, key: SeriesKey) -> int:
        """Return the number of spans of a series that name no tier."""
        tiers = self.tiers.get(key, {})
        return sum(self.series[key].spans.values()) - sum(tier.spans for tier in tiers.values())

    @property
    def disagreement(self) -> int:
        """Number of spans by which the ledger and the counted ticks differ; 0 if they agree."""
        return sum(abs(n) for n in self._disagreement.values())

    @property
    def other_names(self) -> dict[tuple[str, str], int]:
        """Counts of `others`, with a 0 for facets whose names are all counted apart so far."""
        read = {pipeline for _, pipeline, state in self.records if state == "read"}
        return {**{(pipeline, facet): 0 for pipeline in sorted(read) for facet in OTHER_STATES}, **self.others}

    # --- counting

    def take(self, con: duckdb.DuckDBPyConnection, now: float, *, from_store: bool) -> None:
        """Count the rows of the lane in the tables `ticks`, `ledger` and `dead_letters` of a connection.

        Args:
            con: Connection to the store, or one where the tables of new slices have these names.
            now: Current time, seconds since 1970. Ticks more than a slot in the future do not advance a clock.
            from_store: Whether the tables are those of a whole store, at the start.
        """
        names = {
            "lane": self.lane,
            "environments": self.labels.environments,
            "tiers": sorted({tier for tiers in self.labels.tiers.values() for tier in tiers}),
        }
        latest = int(now // SLOT_SECONDS) + 1
        self._advance(con, latest)
        totals, values = (_ever(sql) if from_store else sql for sql in (_TOTALS, _VALUES))
        for row in _rows(con, totals, {**names, "latest": latest}):
            self._take_total(row)
        oldest = min((slot for name in self._clocks if (slot := self.newest_slot(name)) is not None), default=0) - SLOTS
        for row in _rows(con, _WINDOWS, {**names, "oldest": oldest}):
            if not (from_store and row[9] is None):  # ticks without a time count in the slot in which they came
                self._take_window(row)
        for pipeline, environment, metric, judge, cell, n in _rows(con, values, _without(names, "tiers")):
            if series := self._series(pipeline, environment, metric, judge):
                _add_value(series, cell, n)
        for row in _rows(con, _LEDGER, {"lane": self.lane}):
            self._take_ledger(row)
        for topic, cause, n in _rows(con, _DEAD_LETTERS, {"lane": self.lane}):
            _add(self.dead_letters, (topic, cause), n)
        if from_store:
            for topic, cause, n in _rows(con, _PAST_DEAD_LETTERS, {"lane": self.lane}):
                _add(self.dead_letters, (topic, cause), n)
            self._disagreement.clear()  # `gapwatch.sinks.store.ledger` counts the disagreement of the store

    def _advance(self, con: duckdb.DuckDBPyConnection, latest: int) -> None:
        for pipeline, slot in _rows(con, _NEWEST, {"lane": self.lane, "latest": latest}):
            clock = self._clock(pipeline)
            self.window.advance(clock, slot)
            self.tier_window.advance(clock, slot)

    def _clock(self, pipeline: str) -> int:
        return self._clocks.setdefault(pipeline, len(self._clocks))

    def _series(self, pipeline: str, environment: str, metric: str, judge: str | None) -> Series | None:
        """Return the series of a tick, created if needed; None if no portfolio in force has its metric."""
        named = self.labels.metrics.get((pipeline, metric))
        if named is None:
            return None
        judge = "" if judge is None else judge if judge in named.judges else OTHER
        key = (pipeline, environment, named.component, metric, judge)
        if key not in self.series:
            self.series[key] = Series(
                key, self.window.add_row(self._clock(pipeline)), named.bounds, (named.position, environment, judge)
            )
        return self.series[key]

    def _tier(self, series: Series, tier: str) -> TierKey | None:
        pipeline, _, component, metric, _ = series.key
        if self.labels.tier_metrics.get((pipeline, component)) != metric:
            return None
        tiers = self.tiers.setdefault(series.key, {})
        name = tier if tier in self.labels.tiers[pipeline, component] else OTHER
        if name not in tiers:
            tiers[name] = TierKey(self.tier_window.add_row(self._clock(pipeline)))
        return tiers[name]

    def _take_total(self, row: tuple[Any, ...]) -> None:
        pipeline, environment, metric, judge, level, facet, tier, outcome, n, weight, score_sum, slot = row
        series = self._series(pipeline, environment, metric, judge)
        if facet == "all" and level == "span":
            _add(self._disagreement, (pipeline, metric, outcome), n)
        if series is None:
            return
        if facet == "tier":
            if tier is not None and (counted := self._tier(series, tier)):
                counted.spans += n
            return
        if slot is not None:
            series.newest = max(slot, series.newest or slot)
        if level == "span":
            _add(series.spans, outcome, n)
            series.value_sum += score_sum or 0.0
        else:
            _add(series.units, outcome, n)
            series.weighted[outcome] = series.weighted.get(outcome, 0.0) + weight

    def _take_window(self, row: tuple[Any, ...]) -> None:
        pipeline, environment, metric, judge, version, level, facet, tier, outcome, slot, n, w, w2, w3 = row
        series = self._series(pipeline, environment, metric, judge)
        if series is None or version != self.labels.metrics[pipeline, metric].version:
            return
        if facet == "tier":
            if tier is not None and (counted := self._tier(series, tier)):
                self.tier_window.add(counted.row, slot, np.array([w]))
            return
        sums = np.zeros(8)
        if level == "span":
            sums[W_SPANS] = w
        elif outcome in ("unknown", "error"):
            sums[W_UNKNOWN] = w
        else:
            sums[[WB, WB2] if outcome == "bad" else [WG, WG2]] = w, w2
            sums[[W3, UNITS]] = w3, n
        self.window.add(series.row, slot, sums)

    def _take_ledger(self, row: tuple[Any, ...]) -> None:
        pipeline, metric, topic, state, n = row
        if metric is None and state in OTHER_STATES.values():
            _add(self.others, (self.labels.pipeline(pipeline), state.removeprefix("other_")), n)
        elif metric is None:
            _add(self.records, (topic, self.labels.pipeline(pipeline), state), n)
        elif state in OUTCOME_STATES:
            _add(self._disagreement, (pipeline, metric, state), -n)
        elif (pipeline, metric) not in self.labels.metrics:
            return
        elif state == "pending":
            _add(self.pending, (pipeline, metric), n)
        else:
            _add(self.unscored, (pipeline, metric, state), n)

    # --- shares of tiers

    def tier_shares(self, key: SeriesKey, windows: FloatArray, tier_windows: FloatArray) -> dict[str, float]:
        """Return the share of each tier in the spans of the last hour; empty if there was no span."""
        tiers = self.tiers[key]
        spans = windows[self.series[key].row, W_SPANS]
        if spans <= 0:
            return {}
        shares = {name: float(tier_windows[tier.row, 0] / spans) for name, tier in tiers.items()}
        if (rest := 1.0 - sum(shares.values())) > 1e-9:
            shares[NO_TIER] = shares.get(NO_TIER, 0.0) + rest
        return shares


def _rows(con: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    con.execute(sql, parameters)
    while batch := con.fetchmany(5_000):
        yield from batch


def _ever(sql: str) -> str:
    return sql.replace("FROM ticks", _EVER)


def _without(names: dict[str, Any], *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in names.items() if name not in left_out}


def _add(counts: dict[Any, int], key: Any, n: int) -> None:
    counts[key] = counts.get(key, 0) + n


def _add_value(series: Series, cell: int, n: int) -> None:
    if not series.values:
        series.values = [0] * (len(series.bounds) + 1)
    value = cell_value(cell)
    bucket = int(np.searchsorted(np.asarray(series.bounds), value, side="left"))
    series.values[bucket] += n


def cell_value(cell: int) -> float:
    """Return the number nearest to zero in a cell of a value histogram; all numbers of the cell lie within 1 % of it.

    A bucket bound such as 0.1 is the lower edge of its cell, within rounding, so it is counted below itself.
    """
    if cell == 0:
        return 0.0
    magnitude = CELL_RATIO ** (abs(cell) - CELL_OFFSET)
    return float(np.copysign(magnitude * (1 - 1e-9), cell))
