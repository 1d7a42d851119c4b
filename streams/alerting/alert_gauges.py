"""What `/metrics` says of alerts and of the series behind them; names and meanings are in `sinks.metric_families`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

from sinks.alert_query import alert_counts, alert_states
from sinks.keeping import Connection
from sinks.noted_events import last_noted_seconds
from streams.alerting.attribution import tick_start
from streams.alerting.rows import kind_of
from streams.alerting.shift_watch import ShiftWatch
from streams.alerting.slice_units import SeriesKey
from streams.alerting.value_gauges import Samples, ValueGauges
from streams.alerting.watched_rows import PHASES, SeriesState, series_states

#: Rows with gauges of their own. More make a page that Prometheus is slow to take; fewer hide rows that rest.
DETAIL_LIMIT = 2_500

_DETAIL = (
    "gapwatch_evidence_log10",
    "gapwatch_evidence_threshold_log10",
    "gapwatch_baseline_ratio",
    "gapwatch_smallest_change_ratio",
)

_PHASE = "gapwatch_series_phase"


def alert_samples(
    watch: ShiftWatch, con: Connection, values: ValueGauges, environment: Callable[[str], str]
) -> Samples:
    """Return all samples of a lane, by name and label values; on the keeper's thread, between two slices.

    Args:
        watch: Of the lane.
        con: Reading; sees what was committed.
        values: What was seen of numbers and labels.
        environment: Gives the label of an environment's name.
    """
    samples: Samples = {name: {} for name in (*_DETAIL, _PHASE)}
    states = list(series_states(watch.bank))
    phases: Counter[tuple[str, ...]] = Counter()
    expected: dict[tuple[str, ...], float] = {}
    for state in states:
        place = (state.watched.series.pipeline, environment(state.watched.series.environment))
        phases[*place, state.phase] += 1
        expected[place] = expected.get(place, 0.0) + state.expected_false_alarms
    for pipeline, label in expected:
        for phase in PHASES:  # a phase that nobody is in is a 0 and no gap
            phases[pipeline, label, phase] += 0
    shown = sorted(states, key=_interest)[:DETAIL_LIMIT]
    for state in shown:
        _add_series(samples, state, environment)
    samples |= values.samples(
        watch.bank, con, watch.lane, watch.clock.closed, shown, lambda series: _labels(series, environment)
    )
    samples["gapwatch_series"] = {key: float(n) for key, n in phases.items()}
    samples["gapwatch_expected_false_alarms_total"] = expected
    samples["gapwatch_late_units_total"] = {(): float(watch.bank.late_units)}
    _add_alerts(samples, watch, con, environment)
    _add_annotations(samples, watch, con)
    return samples


def _interest(state: SeriesState) -> tuple[int, float]:
    return -PHASES.index(state.phase), -state.evidence_log10


def _labels(series: SeriesKey, environment: Callable[[str], str]) -> tuple[str, ...]:
    return series.pipeline, environment(series.environment), series.component, series.metric, series.judge


def _add_series(samples: Samples, state: SeriesState, environment: Callable[[str], str]) -> None:
    key = (*_labels(state.watched.series, environment), state.watched.kind)
    samples[_PHASE][*key, state.phase] = 1.0
    if state.phase == "unwatched":
        return
    values = (
        max(state.evidence_log10, 0.0), min(state.ticket_log10, state.page_log10), state.rate, state.smallest_ratio,
    )  # fmt: skip
    for name, value in zip(_DETAIL, values, strict=True):
        if not math.isnan(value):
            samples[name][key] = value


def _add_alerts(samples: Samples, watch: ShiftWatch, con: Connection, environment: Callable[[str], str]) -> None:
    states = alert_states(con, watch.lane, datetime.now(UTC).replace(tzinfo=None))
    state_of: dict[tuple[str, ...], float] = {}
    began: dict[tuple[str, ...], float] = {}
    for incident in watch.incidents.open.values():
        card = watch.bank.card(incident.watched.series)
        kind = kind_of(incident.watched.kind, "worse" if card.bad_side else "unknown")
        key = (*_labels(incident.watched.series, environment), kind, incident.severity)
        state_of[*key, states.get(incident.alert_id, "open")] = 1.0
        began[key] = tick_start(incident.began).replace(tzinfo=UTC).timestamp()
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
