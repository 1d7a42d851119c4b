"""Steps of alerts as rows of the store, and as messages of the topic `alerts`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.reading.alert_query import opening_attribution
from gapwatch.sinks.store.alert_tables import AlertStepRow, ShiftRow, insert_alert_step, insert_shift
from gapwatch.sinks.store.outbox import OutboxRow, insert_messages
from gapwatch.sinks.store.series_columns import series_values
from gapwatch.sinks.store.topics import ALERTS_TOPIC
from gapwatch.sinks.store.transaction import Connection
from gapwatch.sinks.store.utc_text import utc_text
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
from gapwatch.streams.alerting.incidents.incident import Incident, Step
from gapwatch.streams.alerting.incidents.links import runbook_link, trace_link
from gapwatch.streams.alerting.rules.alert_rule import AlertRule
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.detectors.change import Change, Interval
from gapwatch.streams.detectors.contexts import TICK_SECONDS, tick_start

_BY = "gapwatch"


@dataclass(frozen=True)
class StepRows:
    """A step of an alert, with everything that its rows are made from.

    Attributes:
        step: The step.
        rule: Alert rule of the metric.
        limit_log10: log10 of the threshold that the evidence had to reach; None for a bound.
        portfolio: Portfolio of the pipeline; None where it is not known.
    """

    step: Step
    rule: AlertRule
    limit_log10: float | None
    portfolio: Portfolio | None = None


def kind_of(kind: str, polarity: str | None) -> str:
    """Return the kind of an alert: cascade (a shift in a confirmed bad direction), shift, unknown or bound."""
    if kind in ("unknown", "bound"):
        return kind
    return "cascade" if polarity == "worse" else "shift"


def polarity_of(rule: AlertRule, kind: str, went_up: bool) -> str:
    """Return worse, better, or unknown where nobody confirmed the direction."""
    side = rule.side_of(kind)
    if kind == "bound":
        return "worse"
    if side == 0:
        return "unknown"
    return "worse" if (side == 1) == went_up else "better"


def told_severity(state: str, severity: str) -> str:
    """Return the severity of a message: one step lower once somebody works on the alert."""
    return {"page": "ticket", "ticket": "note"}.get(severity, severity) if state == "acknowledged" else severity


def write_steps(con: Connection, lane: str, seq: int, steps: list[StepRows]) -> None:
    """Insert the steps of one commit.

    Args:
        con: Connection in the transaction that holds the ticks of the steps.
        lane: Lane of all steps.
        seq: Number of the commit.
        steps: Steps in the order in which they were found. Of the steps of one alert that opens and grows in this
            commit only the last is sent.
    """
    last = {rows.step.incident.alert_id: i for i, rows in enumerate(steps) if rows.step.state == "open"}
    for i, rows in enumerate(steps):
        _write_step(con, lane, seq, rows, is_sent=last.get(rows.step.incident.alert_id, i) <= i)


def _write_step(con: Connection, lane: str, seq: int, rows: StepRows, *, is_sent: bool) -> None:
    step = rows.step
    facts = describe(step, rows.rule, rows.limit_log10)
    if step.finding.tick == step.incident.fired:
        facts = replace(facts, cause=_find_cause(con, lane, rows, facts))
        insert_shift(con, seq, _shift_row(lane, step, facts))
    elif step.state == "open":
        facts = _as_opened(con, step.incident.alert_id, facts)
    at = tick_start(step.finding.tick + 1)
    row = _step_row(lane, step.incident, step.state, at, _BY, step.why, facts.to_json())
    _write_alert(con, seq, row, {}, is_sent=is_sent)


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
    step, limit = rows.step, rows.rule.limit
    series = step.incident.watched.series
    moved = Moved(
        lane=lane,
        series=series,
        is_unknown=step.incident.watched.kind == "unknown",
        grew=facts.part_grew,
        since=tick_start(_since(step)),
        until=tick_start(step.finding.tick + 1),
        share_before=(facts.before and facts.before.value) or 0.0,
        promised=limit.value if step.finding.breach is not None and limit is not None else None,
    )
    cause = attribute(con, moved, step.finding.part)
    examples = tuple(replace(one, url=trace_link(rows.portfolio, one.trace_id)) for one in cause.examples)
    return replace(cause, examples=examples, runbook_url=runbook_link(rows.portfolio, series.metric))


def _since(step: Step) -> int:
    transition, breach = step.finding.transition, step.finding.breach
    if transition is not None and transition.change is not None:
        return transition.change.change_bucket
    return step.incident.began if breach is None else breach.since


def describe(step: Step, rule: AlertRule, limit_log10: float | None) -> AlertFacts:
    """Return the facts that need no query of the store."""
    finding, kind = step.finding, step.incident.watched.kind
    breach, transition = finding.breach, finding.transition
    change = transition.change if transition is not None else None
    went_up = _went_up(finding, rule, kind)
    polarity = _polarity(step, rule, went_up)
    return AlertFacts(
        unit="session" if kind == "sessions" else "trace",
        is_cascade=rule.is_cascade,
        units_per_month=rule.units_per_month,
        before=None if change is None else _estimate(change.before),
        after=_estimate(breach.rate) if breach is not None else None if change is None else _estimate(change.after),
        ratio=None if change is None else _estimate(change.ratio),
        question=rule.question if rule.side_of(kind) == 0 and kind != "labels" else None,
        watched=kind,
        went_up=went_up,
        polarity=polarity,
        kind=kind_of(kind, polarity),
        part=finding.part,
        number_unit=rule.number_unit,
        evidence=None if transition is None else AlertEvidence(_finite(transition.evidence_log10), limit_log10),
        counts=_counts(finding),
        bound=None if breach is None else _promised(rule),
        change=None if change is None else _change_point(change),
        is_of_hours=change is not None and change.is_of_hours,
    )


def _went_up(finding: Finding, rule: AlertRule, kind: str) -> bool:
    """Return True where the share (of numbers: the number) rose."""
    if finding.breach is not None:
        return rule.limit is None or finding.breach.rate.value > rule.limit.value
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
    return polarity_of(rule, step.incident.watched.kind, went_up) if is_said else None


def _counts(finding: Finding) -> Counts | None:
    if finding.breach is not None:
        return Counts(finding.breach.units, finding.breach.bad)
    change = finding.transition.change if finding.transition is not None else None
    return None if change is None else Counts(round(change.units), round(change.after.value * change.units))


def _promised(rule: AlertRule) -> PromisedBound | None:
    limit = rule.limit
    return None if limit is None else PromisedBound(limit.operator, limit.value, limit.window_ticks * TICK_SECONDS)


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
    change, began = facts.change, tick_start(step.incident.began)
    found = tick_start(step.finding.tick + 1)
    after = facts.after or ShareEstimate(None, None, None)
    return ShiftRow(
        shift_id=step.incident.shift_id,
        lane=lane,
        series=step.incident.watched.series,
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
    lane: str,
    incident: Incident,
    state: str,
    at: datetime,
    by: str,
    why: str,
    attribution: Mapping[str, Any] | None,
) -> AlertStepRow:
    return AlertStepRow(
        alert_id=incident.alert_id,
        shift_id=incident.shift_id,
        group_id=incident.group_id,
        lane=lane,
        series=incident.watched.series,
        state=state,
        severity=incident.severity,
        at=at,
        by=by,
        why=why,
        attribution=attribution,
    )


def record_step(
    con: Connection,
    lane: str,
    seq: int,
    incident: Incident,
    state: str,
    at: datetime,
    by: str,
    why: str,
    until: datetime | None = None,
) -> None:
    """Insert a step that follows from no tick, such as the decision of a person, and its message for the topic.

    Args:
        con: Connection in a transaction.
        lane: Lane of the alert.
        seq: Number of the commit.
        incident: The alert.
        state: New state of the alert.
        at: Time of the step, naive UTC.
        by: Name of the person, or gapwatch.
        why: Reason, in words.
        until: End of the state, naive UTC; None where it lasts until the next step.
    """
    attribution = None if until is None else {"until": utc_text(until)}
    row = _step_row(lane, incident, state, at, by, why, attribution)
    _write_alert(con, seq, row, {"by": by, "why": why})


def _write_alert(
    con: Connection, seq: int, row: AlertStepRow, said: Mapping[str, str], *, is_sent: bool = True
) -> None:
    """Insert a step, and put its message into the outbox; other lanes than `live` and notes send no message.

    Args:
        con: Connection in a transaction.
        seq: Number of the commit.
        row: The step.
        said: Fields of the message besides the columns and the attribution of the row.
        is_sent: False where a later step of the same commit says more.
    """
    insert_alert_step(con, seq, row)
    if is_sent and row.lane == "live" and row.severity != "note":
        insert_messages(con, seq, ALERTS_TOPIC, [_message(row, said)])


def _message(row: AlertStepRow, said: Mapping[str, str]) -> OutboxRow:
    """Return the message of a step. Its id is a function of the step, so receivers can drop repeated messages."""
    message = {
        "alert_id": row.alert_id,
        "group_id": row.group_id,
        "state": row.state,
        "severity": told_severity(row.state, row.severity),
        **({"acknowledged": True} if row.state == "acknowledged" else {}),
        "at": utc_text(row.at),
        "pipeline": row.series.pipeline,
        "environment": row.series.environment,
        "component": row.series.component or None,
        "metric": row.series.metric,
        **said,
        **(row.attribution or {}),
    }
    ident = f"{row.alert_id}/{row.state}/{row.severity}/{row.at.isoformat()}"
    key = "/".join(text or "" for text in series_values(row.lane, row.series))
    return OutboxRow(ident, key, json.dumps(message).encode())
