"""Gauges of alerts and of monitored series for `/metrics`; `sinks.metrics.families` has their names and meanings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gapwatch.scorers.slices.facet_names import OTHER
from gapwatch.sinks.catalog.phases import PHASES
from gapwatch.sinks.reading.alert_query import alert_counts, alert_states
from gapwatch.sinks.reading.noted_events import last_noted_seconds
from gapwatch.sinks.reading.recent_values import recent_cells, recent_labels
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.evaluation.bound_gauges import bound_samples
from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.pipeline_watch import PipelineWatch
from gapwatch.streams.alerting.evaluation.series_status import SeriesState
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.incidents.alert_rows import kind_of
from gapwatch.streams.alerting.rules.finding import Watched
from gapwatch.streams.alerting.series.open_tick import WINDOW_TICKS
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.alerting.series.slice_values import LABEL_LIMIT
from gapwatch.streams.detectors.categories import MOST_LABELS
from gapwatch.streams.detectors.contexts import tick_start
from gapwatch.streams.detectors.grid import quantiles_of_bins, quantiles_of_cells

#: Most rows with gauges of their own. More make `/metrics` slow to scrape; fewer hide calm rows.
DETAIL_LIMIT = 2_500

_DETAIL = (
    "gapwatch_evidence_log10",
    "gapwatch_evidence_threshold_log10",
    "gapwatch_baseline_ratio",
    "gapwatch_smallest_change_ratio",
    "gapwatch_smallest_change_month_ratio",
)

_URGENCY = tuple(PHASES)

# Kinds of the rows that are quantities of values.
_VALUES = ("numbers", "labels")
_PHASE = "gapwatch_series_phase"

#: Quantiles that are shown of the last hour and of the baseline.
QUANTILES = (0.05, 0.5, 0.95)
#: Most rows of numbers and labels with gauges of their own.
VALUE_LIMIT = 500
#: Label value for all labels that are not among the eight most frequent of the burn-in.
OTHERS = OTHER

_HOUR = timedelta(hours=1)
# Units of a baseline below which its shares are not shown.
_LEAST_LEARNED = 100
# Prometheus drops an empty label value.
_NO_TEXT = "(empty)"
_NAMES = ("value_quantile", "baseline_quantile", "label_ratio", "baseline_label_ratio")

#: Family to label values to number.
Samples = dict[str, dict[tuple[str, ...], float]]


class AlertGauges:
    """Samples of one lane, taken between two slices on the writer thread.

    The values of the last hour are read once for each five minutes of event time.
    """

    def __init__(self) -> None:
        self._window: tuple[int, ...] = ()
        self._numbers: dict[SeriesKey, Counter[int]] = {}
        self._labels: dict[SeriesKey, Counter[str]] = {}

    def samples(self, watch: ShiftWatch, con: Connection, environment: Callable[[str], str]) -> Samples:
        """Return all samples, by name and label values.

        Args:
            watch: Watch of the lane.
            con: Connection for reading; sees committed rows only.
            environment: Returns the label value of an environment.
        """
        states = watch.board.states
        shown = sorted(states, key=_interest)[:DETAIL_LIMIT]
        samples: Samples = {name: {} for name in (*_DETAIL, _PHASE)}
        for state in shown:
            _add_series(samples, state, environment)
        samples |= self._value_samples(watch, con, shown, environment)
        samples |= _totals(states, environment)
        for one in watch.detectors:
            for name, values in bound_samples(one.bounds, environment).items():
                samples.setdefault(name, {}).update(values)
        samples["gapwatch_late_units_total"] = {
            (name,): float(one.detectors.rates.late_units) for name, one in watch.pipelines.items()
        }
        _add_alerts(samples, watch, con, environment)
        _add_annotations(samples, watch, con)
        return samples

    def _value_samples(
        self, watch: ShiftWatch, con: Connection, states: Sequence[SeriesState], environment: Callable[[str], str]
    ) -> Samples:
        """Return the samples of numbers with formed bins and of chosen labels; `states` says which come first."""
        samples: Samples = {f"gapwatch_{name}": {} for name in _NAMES}
        chosen = [one.watched for one in states if one.watched.kind in _VALUES and not one.is_new]
        window = tuple(one.clock.watermark // WINDOW_TICKS for one in watch.pipelines.values())
        if chosen and window != self._window:
            self._numbers, self._labels = defaultdict(Counter), defaultdict(Counter)
            for one in watch.pipelines.values():
                self._look(one, con, watch.lane)
            self._window = window
        # Several epochs of a metric have the same labels: the latest epoch is written last and wins.
        for watched in sorted(chosen[:VALUE_LIMIT], key=lambda one: _last_bucket(watch, one)):
            add = self._add_numbers if watched.kind == "numbers" else self._add_labels
            add(samples, watch.detectors_of(watched.series), watched, _labels(watched.series, environment))
        return samples

    def _look(self, one: PipelineWatch, con: Connection, lane: str) -> None:
        """Read the values of the last closed hour of a pipeline."""
        until, rows = tick_start(one.clock.watermark + 1), one.detectors.rows
        known = set(rows.series)
        for names, cell, n in recent_cells(con, lane, until - _HOUR, until):
            if names[0] == one.pipeline:
                self._numbers[_known(SeriesKey(*names), known)][cell] += n
        levels = {key: rule.labels for key, rule in rows.rules.items() if rule.labels}
        for names, level, label, n in recent_labels(con, lane, until - _HOUR, until):
            key = _known(SeriesKey(*names), known)
            if levels.get((key.pipeline, key.metric)) == level:
                self._labels[key][label[:LABEL_LIMIT]] += n

    def _add_numbers(self, samples: Samples, detectors: LaneDetectors, watched: Watched, key: tuple[str, ...]) -> None:
        fleet, row = detectors.find(watched)
        numbers = detectors.values.numbers
        if not numbers.formed[row]:
            return
        unit = detectors.rows.rule(watched.series).number_unit
        now = quantiles_of_cells(self._numbers.get(watched.series, {}), QUANTILES)
        before = quantiles_of_bins(numbers.edges[row], fleet.learned(row), QUANTILES)
        for name, values in (("value_quantile", now), ("baseline_quantile", before)):
            for q, value in zip(QUANTILES, values, strict=True):
                if value is not None:
                    samples[f"gapwatch_{name}"][*key, unit, f"{q:g}"] = value

    def _add_labels(self, samples: Samples, detectors: LaneDetectors, watched: Watched, key: tuple[str, ...]) -> None:
        fleet, row = detectors.find(watched)
        names = detectors.values.labels.names[row]
        learned = fleet.learned(row)
        if names is None or learned.sum() < _LEAST_LEARNED:
            return
        now = Counter(dict.fromkeys((*names, OTHERS), 0))
        for label, n in self._labels.get(watched.series, Counter[str]()).items():
            now[label if label in names else OTHERS] += n
        before = {name: float(learned[bin_]) for bin_, name in enumerate(names)}
        before[OTHERS] = before.get(OTHERS, 0.0) + float(learned[MOST_LABELS])
        shares: tuple[tuple[str, Mapping[str, float]], ...] = (("label_ratio", now), ("baseline_label_ratio", before))
        for name, counts in shares:
            whole = sum(counts.values())
            for label, count in counts.items() if whole else ():
                samples[f"gapwatch_{name}"][*key, label or _NO_TEXT] = count / whole


def _totals(states: Sequence[SeriesState], environment: Callable[[str], str]) -> Samples:
    """Return the number of rows by phase, and the false alarms to expect so far."""
    phases: Counter[tuple[str, ...]] = Counter()
    expected: dict[tuple[str, ...], float] = {}
    for state in states:
        key = (state.watched.series.pipeline, environment(state.watched.series.environment))
        phases[*key, state.phase] += 1
        expected[key] = expected.get(key, 0.0) + state.expected_false_alarms
    for pipeline, label in expected:
        for phase in PHASES:  # a phase without rows is shown as 0, not as missing
            phases[pipeline, label, phase] += 0
    return {
        "gapwatch_series": {key: float(n) for key, n in phases.items()},
        "gapwatch_expected_false_alarms_total": expected,
    }


def _interest(state: SeriesState) -> tuple[int, float]:
    return -_URGENCY.index(state.phase), -state.evidence_log10


def _labels(series: SeriesKey, environment: Callable[[str], str]) -> tuple[str, ...]:
    return series.pipeline, environment(series.environment), series.component, series.metric, series.judge


def _add_series(samples: Samples, state: SeriesState, environment: Callable[[str], str]) -> None:
    key = (*_labels(state.watched.series, environment), state.watched.kind)
    samples[_PHASE][*key, state.phase] = 1.0
    if state.is_new:  # also of what is not monitored
        return
    values = (
        max(state.evidence_log10, 0.0), min(state.ticket_log10, state.page_log10), state.rate, state.smallest_ratio,
        state.month_ratio,
    )  # fmt: skip
    for name, value in zip(_DETAIL, values, strict=True):
        if not math.isnan(value):
            samples[name][key] = value


def _known(key: SeriesKey, known: set[SeriesKey]) -> SeriesKey:
    """Return the series of a tick: environments beyond the limit share the series of `other`."""
    return key if key in known else replace(key, environment=OTHER)


def _last_bucket(watch: ShiftWatch, watched: Watched) -> int:
    fleet, row = watch.detectors_of(watched.series).find(watched)
    return int(fleet.state["last_bucket"][row])


def _add_alerts(samples: Samples, watch: ShiftWatch, con: Connection, environment: Callable[[str], str]) -> None:
    states = alert_states(con, watch.lane, datetime.now(UTC).replace(tzinfo=None))
    state_of: dict[tuple[str, ...], float] = {}
    began: dict[tuple[str, ...], float] = {}
    for alert in watch.alerts.open.values():
        rule = watch.detectors_of(alert.watched.series).rows.rule(alert.watched.series)
        kind = kind_of(alert.watched.kind, rule.is_cascade)
        key = (*_labels(alert.watched.series, environment), kind, alert.severity)
        state_of[*key, states.get(alert.alert_id, "open")] = 1.0
        began[key] = tick_start(alert.began).replace(tzinfo=UTC).timestamp()
    samples["gapwatch_alert_state"] = state_of
    samples["gapwatch_alert_began_timestamp_seconds"] = began
    total: dict[tuple[str, ...], float] = {}
    for pipeline, where, kind, severity, n in alert_counts(con, watch.lane):
        key = (pipeline, environment(where), kind, severity)
        total[key] = total.get(key, 0.0) + n
    samples["gapwatch_alerts_total"] = total


def _add_annotations(samples: Samples, watch: ShiftWatch, con: Connection) -> None:
    known = {portfolio.pipeline for portfolio in watch.portfolios}
    samples["gapwatch_last_annotation_timestamp_seconds"] = {
        (pipeline or "",): at
        for pipeline, at in last_noted_seconds(con).items()
        if pipeline is None or pipeline in known
    }
