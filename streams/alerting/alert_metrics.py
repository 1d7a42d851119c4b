"""What `/metrics` says of alerts and of the series behind them: names, meanings, and lines of the text format.

One lane, `live`; labels are those of a watched series. Rules and dashboards in `deploy/monitoring` use these names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sinks.keeping import Connection
from streams.alerting.rows import kind_of
from streams.alerting.shift_watch import ShiftWatch
from streams.alerting.slice_units import SeriesKey
from streams.alerting.watched_rows import SeriesState, series_states

_SERIES = ("pipeline", "environment", "component", "metric", "judge")


@dataclass(frozen=True)
class AlertFamily:
    """One name of the exposition.

    Attributes:
        name: As Prometheus sees it.
        kind: counter or gauge.
        labels: Names of its labels.
        meaning: The help text.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


_ALL = (
    AlertFamily(
        "gapwatch_alert_state", "gauge", (*_SERIES, "kind", "severity", "state"),
        "1 for each alert that is open; state: open, acknowledged or silenced. Closed ones are gone.",
    ),
    AlertFamily(
        "gapwatch_alerts_total", "counter", ("pipeline", "environment", "kind", "severity"),
        "Alerts opened so far, by the severity they began with; notes are not counted.",
    ),
    AlertFamily(
        "gapwatch_series", "gauge", ("pipeline", "environment", "phase"),
        "Watched series by phase: learning, blind, calm, suspect, ticket, page. Only calm ones are green.",
    ),
    AlertFamily(
        "gapwatch_evidence_log10", "gauge", (*_SERIES, "watched"),
        "log10 of the evidence that the series moved the bad way; watched: rate, sessions or unknown.",
    ),
    AlertFamily(
        "gapwatch_evidence_threshold_log10", "gauge", (*_SERIES, "watched"),
        "log10 of the evidence at which it is a ticket.",
    ),
    AlertFamily(
        "gapwatch_baseline_ratio", "gauge", (*_SERIES, "watched"),
        "The share that the series is held against, all hours together.",
    ),
    AlertFamily(
        "gapwatch_smallest_change_ratio", "gauge", (*_SERIES, "watched"),
        "The smallest growth, after / before, that a day of units would have shown, as a median; +Inf for none.",
    ),
    AlertFamily(
        "gapwatch_expected_false_alarms_total", "counter", ("pipeline", "environment"),
        "Alarms without a cause that the budget allows so far; hold the audited ones against it.",
    ),
    AlertFamily("gapwatch_late_units_total", "counter", (), "Traces that came after their tick was closed."),
)  # fmt: skip

ALERT_FAMILIES: dict[str, AlertFamily] = {family.name: family for family in _ALL}

#: Family to label values to number.
Samples = dict[str, dict[tuple[str, ...], float]]


def alert_samples(watch: ShiftWatch, con: Connection) -> Samples:
    """Return all samples of a lane, by name and label values; on the keeper's thread, between two slices.

    Args:
        watch: Of the lane.
        con: Reading; sees what was committed.
    """
    samples: Samples = {name: {} for name in ALERT_FAMILIES}
    phases: Counter[tuple[str, ...]] = Counter()
    expected: dict[tuple[str, ...], float] = {}
    for state in series_states(watch.bank):
        place = (state.watched.series.pipeline, state.watched.series.environment)
        phases[*place, state.phase] += 1
        expected[place] = expected.get(place, 0.0) + state.expected_false_alarms
        _add_series(samples, state)
    samples["gapwatch_series"] = {key: float(n) for key, n in phases.items()}
    samples["gapwatch_expected_false_alarms_total"] = expected
    samples["gapwatch_late_units_total"][()] = float(watch.bank.late_units)
    _add_alerts(samples, watch, con)
    return samples


def _labels(series: SeriesKey) -> tuple[str, ...]:
    return series.pipeline, series.environment, series.component, series.metric, series.judge


def _add_series(samples: Samples, state: SeriesState) -> None:
    key = (*_labels(state.watched.series), state.watched.kind)
    samples["gapwatch_evidence_log10"][key] = max(state.evidence_log10, 0.0)
    samples["gapwatch_evidence_threshold_log10"][key] = min(state.ticket_log10, state.page_log10)
    samples["gapwatch_baseline_ratio"][key] = state.rate
    samples["gapwatch_smallest_change_ratio"][key] = state.smallest_ratio


def _add_alerts(samples: Samples, watch: ShiftWatch, con: Connection) -> None:
    rows = con.execute(
        "SELECT alert_id, arg_max(state, rowid) FROM alerts WHERE lane = ? GROUP BY ALL", [watch.lane]
    ).fetchall()
    states = dict(rows)
    for incident in watch.incidents.open.values():
        card = watch.bank.card(incident.watched.series)
        kind = kind_of(incident.watched.kind, "worse" if card.bad_side else "unknown")
        state = states.get(incident.alert_id, "open")
        samples["gapwatch_alert_state"][*_labels(incident.watched.series), kind, incident.severity, state] = 1.0
    counted = con.execute(
        """SELECT pipeline, environment, kind, severity, count(*)::DOUBLE FROM (
            SELECT alert_id, pipeline, environment, arg_min(attribution->>'kind', rowid) AS kind,
                arg_min(severity, rowid) AS severity
            FROM alerts WHERE lane = ? AND severity <> 'note' GROUP BY ALL) GROUP BY ALL""",
        [watch.lane],
    ).fetchall()
    samples["gapwatch_alerts_total"] = {tuple(key): float(n) for *key, n in counted}


def exposition(samples: Samples) -> Iterator[str]:
    """Yield the lines of the text format, families in the order of the table, each with its newline."""
    for name, family in ALERT_FAMILIES.items():
        yield f"# HELP {name} {family.meaning}\n# TYPE {name} {family.kind}\n"
        for values, number in sorted(samples[name].items()):
            labels = ",".join(
                f'{label}="{_escaped(value)}"' for label, value in zip(family.labels, values, strict=True) if value
            )
            yield f"{name}{{{labels}}} {_number(number)}\n" if labels else f"{name} {_number(number)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
