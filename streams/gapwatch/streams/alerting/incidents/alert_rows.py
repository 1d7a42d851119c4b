"""Steps of alerts as rows of the store; each changes its incident, of which people are told."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.incidents.incident_query import IncidentRow, incident_row
from gapwatch.sinks.reading.alert_query import AlertFilter, opening_attribution, stored_incident
from gapwatch.sinks.store.alert_tables import AlertStepRow, ShiftRow, insert_alert_step, insert_shift
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.incidents.alert_book import OpenAlert, Step
from gapwatch.streams.alerting.incidents.alert_cause import Cause
from gapwatch.streams.alerting.incidents.alert_facts import (
    AlertEvidence,
    AlertFacts,
    ChangePoint,
    Counts,
    PromisedBound,
    ShareEstimate,
)
from gapwatch.streams.alerting.incidents.attribution import Moved, attribute
from gapwatch.streams.alerting.incidents.incident_steps import (
    HANDLED,
    NOTHING_SAID,
    IncidentNews,
    Said,
    send,
    write_incident,
)
from gapwatch.streams.alerting.incidents.links import runbook_link, trace_link
from gapwatch.streams.alerting.incidents.restatement import without_restatement
from gapwatch.streams.alerting.incidents.severity import SEVERITIES
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, read_alerts
from gapwatch.streams.alerting.rules.alert_rule import AlertRule
from gapwatch.streams.alerting.rules.bound import Bound
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.detectors.change import Change, Interval
from gapwatch.streams.detectors.contexts import tick_start
from gapwatch.streams.detectors.lifecycle import Event

_BY = "gapwatch"


@dataclass(frozen=True)
class StepRows:
    """A step of an alert, with everything that its rows are made from.

    Attributes:
        step: The step.
        rule: Alert rule of the metric.
        limit_log10: log10 of the threshold that the evidence had to reach; None for a bound.
        portfolio: Portfolio of the pipeline; None where it is not known.
        busiest_day: Units of the busiest day so far, where they set the threshold; None with a declared volume.
    """

    step: Step
    rule: AlertRule
    limit_log10: float | None
    portfolio: Portfolio | None = None
    busiest_day: float | None = None


def kind_of(kind: str, is_cascade: bool) -> str:
    """Return the kind of an alert: cascade (a shift of a step from one way to another), shift, unknown or bound.

    Args:
        kind: Monitored quantity of the series.
        is_cascade: The metric says which way a step went: a tier, a fallback, a retry, a route.
    """
    if kind in ("unknown", "bound"):
        return kind
    return "cascade" if is_cascade else "shift"


def polarity_of(rule: AlertRule, kind: str, went_up: bool) -> str:
    """Return worse, better, or unknown where nobody confirmed the direction."""
    side = rule.side_of(kind)
    if kind == "bound":
        return "worse"
    if side == 0:
        return "unknown"
    return "worse" if (side == 1) == went_up else "better"


def write_steps(con: Connection, lane: str, seq: int, steps: list[StepRows]) -> None:
    """Insert the steps of one commit, and then one step of each incident that they change.

    Args:
        con: Connection in the transaction that holds the ticks of the steps.
        lane: Lane of all steps.
        seq: Number of the commit.
        steps: Steps in the order in which they were found.
    """
    told: list[IncidentNews] = []
    for _, together in itertools.groupby(steps, key=lambda rows: rows.step.finding.tick):
        told += _write_tick(con, lane, seq, list(together))
    send(con, seq, told)


def _write_tick(con: Connection, lane: str, seq: int, steps: list[StepRows]) -> list[IncidentNews]:
    """Insert the steps of one tick. Incidents change by ticks, so that it does not matter where slices end."""
    changed: dict[str, StepRows] = {}
    reminded: dict[str, Said] = {}
    for rows in steps:
        incident_id = _write_step(con, lane, seq, rows)
        if incident_id is None:
            continue
        changed[incident_id] = rows
        transition = rows.step.finding.transition
        if rows.step.state == "open" and transition is not None and transition.event is Event.ASKED:
            reminded[incident_id] = Said("reminded", why=rows.step.why)
    told: list[IncidentNews] = []
    for incident_id, rows in changed.items():
        at = tick_start(rows.step.finding.tick + 1)
        before = incident_row(con, incident_id, at)
        if before is not None and before.step.state in HANDLED:
            _hand_on(con, seq, before, at)
        told += write_incident(con, seq, incident_id, at, rows.portfolio, reminded.get(incident_id, NOTHING_SAID))
    return told


def _write_step(con: Connection, lane: str, seq: int, rows: StepRows) -> str | None:
    """Insert a step of an alert, and return the id of its incident; None for a note."""
    step = rows.step
    facts = describe(step, rows.rule, rows.limit_log10, rows.busiest_day)
    if step.finding.tick == step.alert.fired:
        facts = replace(facts, cause=_find_cause(con, lane, rows, facts))
        insert_shift(con, seq, _shift_row(lane, step, facts))
    elif step.state == "open":
        facts = _as_opened(con, step.alert.alert_id, facts)
    at = tick_start(step.finding.tick + 1)
    row = _step_row(con, lane, step.alert, step.state, at, _BY, step.why, facts.to_json())
    insert_alert_step(con, seq, row)
    return row.incident_id


def _hand_on(con: Connection, seq: int, before: IncidentRow, at: datetime) -> None:
    """Give new alerts of an acknowledged or silenced incident its state: whoever knows of it knows of them.

    An alert that is louder than the incident is not handed on, because people are told of it.
    """
    state, told = before.step.state, before.step.told
    for alert in read_alerts(con, AlertFilter(incident_id=before.step.incident_id)):
        is_louder = SEVERITIES.index(alert.row.severity) > SEVERITIES.index(before.step.severity)
        if alert.row.state != "open" or is_louder:
            continue
        until = {"until": told["until"]} if "until" in told else None
        why = f"joined the incident {before.step.incident_id}, which is {state}"
        insert_alert_step(con, seq, alert_step(alert, state, at, told.get("by", _BY), why, until))


def _as_opened(con: Connection, alert_id: str, facts: AlertFacts) -> AlertFacts:
    """Return the facts of an alert that is told again, such as a ticket that became a page: those of its opening.

    The evidence and the direction are those of now.
    """
    stored = opening_attribution(con, alert_id)
    if stored is None:
        return facts
    opened = AlertFacts.from_json(stored)
    return replace(opened, evidence=facts.evidence, polarity=facts.polarity, kind=facts.kind, question=facts.question)


def _find_cause(con: Connection, lane: str, rows: StepRows, facts: AlertFacts) -> Cause:
    """Return the cause of an alert that opens, with the addresses that the portfolio gives."""
    step, breach = rows.step, rows.step.finding.breach
    series = step.alert.watched.series
    if breach is not None and breach.bound.parts is not None:  # a ratio has no rows: those of its numerator
        series = replace(series, metric=breach.bound.parts.numerator)
    moved = Moved(
        lane=lane,
        series=series,
        is_unknown=step.alert.watched.kind == "unknown",
        grew=facts.part_grew,
        since=tick_start(_since(step)),
        until=tick_start(step.finding.tick + 1),
        share_before=(facts.before and facts.before.value) or 0.0,
        promised=breach.bound.value if breach is not None and breach.bound.of == "failure_rate" else None,
    )
    cause = attribute(con, moved, step.finding.part)
    examples = tuple(replace(one, url=trace_link(rows.portfolio, one.trace_id)) for one in cause.examples)
    metrics = () if rows.portfolio is None else rows.portfolio.metrics
    metric = next((one for one in metrics if one.name == rows.rule.metric), None)
    cause = without_restatement(cause, metric, is_rate=step.finding.part is None)
    return replace(cause, examples=examples, runbook_url=runbook_link(rows.portfolio, rows.rule.metric))


def _since(step: Step) -> int:
    transition, breach = step.finding.transition, step.finding.breach
    if transition is not None and transition.change is not None:
        return transition.change.change_bucket
    return step.alert.began if breach is None else breach.since


def describe(step: Step, rule: AlertRule, limit_log10: float | None, busiest_day: float | None = None) -> AlertFacts:
    """Return the facts that need no query of the store."""
    finding, kind = step.finding, step.alert.watched.kind
    breach, transition = finding.breach, finding.transition
    change = transition.change if transition is not None else None
    went_up = _went_up(finding, rule, kind)
    polarity = _polarity(step, rule, went_up)
    return AlertFacts(
        unit="session" if kind == "sessions" else "trace",
        is_cascade=rule.is_cascade,
        units_per_month=rule.units_per_month,
        busiest_day=busiest_day,
        before=None if change is None else _estimate(change.before),
        after=_estimate(breach.measured) if breach is not None else None if change is None else _estimate(change.after),
        ratio=None if change is None else _estimate(change.ratio),
        question=rule.question if rule.side_of(kind) == 0 and kind != "labels" else None,
        watched=kind,
        went_up=went_up,
        polarity=polarity,
        kind=kind_of(kind, rule.is_cascade),
        part=finding.part,
        number_unit=rule.number_unit if breach is None else breach.bound.unit,
        evidence=None if transition is None else AlertEvidence(_finite(transition.evidence_log10), limit_log10),
        counts=_counts(finding),
        bound=None if breach is None else _promised(breach.bound),
        change=None if change is None else _change_point(change),
        is_of_hours=change is not None and change.is_of_hours,
    )


def _went_up(finding: Finding, rule: AlertRule, kind: str) -> bool:
    """Return True where the share (of numbers: the number) rose."""
    if finding.breach is not None:
        return finding.breach.measured.value > finding.breach.bound.value
    change = finding.transition.change if finding.transition is not None else None
    if change is None:
        return True
    # For numbers the side of the bet counts, not its share: more numbers below the old p5 means that they fell.
    return change.side > 0 if kind == "numbers" and change.side else _grew(change)


def _grew(change: Change) -> bool:
    return change.after.value >= change.before.value


def _polarity(step: Step, rule: AlertRule, went_up: bool) -> str | None:
    if step.state == "noted":
        return "better"
    is_said = step.state == "open" or step.finding.breach is not None
    return polarity_of(rule, step.alert.watched.kind, went_up) if is_said else None


def _counts(finding: Finding) -> Counts | None:
    if finding.breach is not None:
        return Counts(finding.breach.units, finding.breach.moved)
    change = finding.transition.change if finding.transition is not None else None
    return None if change is None else Counts(round(change.units), round(change.after.value * change.units))


def _promised(bound: Bound) -> PromisedBound:
    return PromisedBound(bound.operator, bound.value, bound.window_seconds, bound.quantity, bound.unit)


def _change_point(change: Change) -> ChangePoint:
    return ChangePoint(
        learned=round(change.learned),
        bad_per_hour=_finite(change.bad_per_hour),
        at=tick_start(change.change_bucket),
        earliest=tick_start(change.from_bucket),
        latest=tick_start(change.to_bucket + 1),
        is_truncated=change.is_truncated,
        part_grew=_grew(change),
    )


def _estimate(interval: Interval) -> ShareEstimate:
    return ShareEstimate(_finite(interval.value), _finite(interval.lower), _finite(interval.upper))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _shift_row(lane: str, step: Step, facts: AlertFacts) -> ShiftRow:
    change, began = facts.change, tick_start(step.alert.began)
    found = tick_start(step.finding.tick + 1)
    after = facts.after or ShareEstimate(None, None, None)
    return ShiftRow(
        shift_id=step.alert.shift_id,
        lane=lane,
        series=step.alert.watched.series,
        kind=facts.kind,
        found_at=found,
        change_at=began if change is None else change.at,
        change_from=began if change is None else change.earliest,
        change_to=found if change is None else change.latest,
        moved="up" if facts.went_up else "down",
        verdict=facts.polarity,
        question=facts.question,
        evidence_log10=None if facts.evidence is None else facts.evidence.log10,
        rate_before=None if facts.before is None else facts.before.value,
        rate_after=after.value,
        lower=after.lower,
        upper=after.upper,
        units=None if facts.counts is None else facts.counts.units,
    )


def _step_row(
    con: Connection,
    lane: str,
    alert: OpenAlert,
    state: str,
    at: datetime,
    by: str,
    why: str,
    attribution: Mapping[str, Any] | None,
) -> AlertStepRow:
    return AlertStepRow(
        alert_id=alert.alert_id,
        shift_id=alert.shift_id,
        # A converted store has put its alerts into incidents by the rules of then.
        incident_id=stored_incident(con, alert.alert_id) or alert.incident_id or None,
        lane=lane,
        series=alert.watched.series,
        state=state,
        severity=alert.severity,
        at=at,
        by=by,
        why=why,
        attribution=attribution,
    )


def alert_step(
    alert: StoredAlert, state: str, at: datetime, by: str, why: str, attribution: Mapping[str, Any] | None = None
) -> AlertStepRow:
    """Return a step of a stored alert that follows from no tick, such as the decision of a person.

    Args:
        alert: The alert.
        state: Its new state.
        at: Time of the step, naive UTC.
        by: Name of the person, or gapwatch.
        why: Reason, in words.
        attribution: End of a silence as `until`; None where the state lasts until the next step.
    """
    row = alert.row
    return AlertStepRow(
        row.alert_id, row.shift_id, row.incident_id, row.lane, alert.series, state, row.severity, at, by, why,
        attribution,
    )  # fmt: skip


def end_alert(con: Connection, lane: str, seq: int, alert: OpenAlert, state: str, at: datetime, said: Said) -> str:
    """Insert the step that closes an open alert for another reason than its ticks, and return its incident's id.

    Args:
        con: Connection in a transaction.
        lane: Lane of the alert.
        seq: Number of the commit.
        alert: The alert.
        state: accepted or resolved.
        at: Time of the step, naive UTC.
        said: By whom, and why.
    """
    row = _step_row(con, lane, alert, state, at, said.by, said.why, None)
    insert_alert_step(con, seq, row)
    return row.incident_id or ""
