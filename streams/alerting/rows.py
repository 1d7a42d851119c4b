"""Steps of alerts as rows of the store, and as messages of the topic `alerts`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scorers.portfolio import Portfolio
from sinks.keeping import Connection
from sinks.topics import ALERTS_TOPIC
from streams.alerting.attribution import Moved, attribute, tick_start
from streams.alerting.card import Card
from streams.alerting.finding import Part
from streams.alerting.incident import Incident, Step
from streams.alerting.links import runbook_link, trace_link
from streams.alerting.slice_units import SeriesKey
from streams.alerting.value_attribution import attribute_values
from streams.detectors.change import Change, Interval

_BY = "gapwatch"


@dataclass(frozen=True)
class StepRows:
    """A step with what is told of it.

    Attributes:
        step: The step.
        card: Of its metric.
        limit_log10: log10 of the threshold that the evidence had to reach; None for a bound.
        portfolio: Of its pipeline; None where it is not known.
    """

    step: Step
    card: Card
    limit_log10: float | None
    portfolio: Portfolio | None = None


def kind_of(kind: str, verdict: str | None) -> str:
    """Return what sort of alert it is: cascade (a confirmed bad direction), shift, unknown or bound."""
    if kind in ("unknown", "bound"):
        return kind
    return "cascade" if verdict == "worse" else "shift"


def verdict_of(card: Card, kind: str, went_up: bool) -> str:
    """Return worse, better, or unknown where nobody confirmed which way is better."""
    side = card.side_of(kind)
    if kind == "bound":
        return "worse"
    if side == 0:
        return "unknown"
    return "worse" if (side == 1) == went_up else "better"


def write_steps(con: Connection, lane: str, seq: int, steps: list[StepRows]) -> None:
    """Insert the steps of one commit.

    Args:
        con: In the transaction that holds the ticks they follow from.
        lane: Of all.
        seq: Number of the commit.
        steps: In the order in which they were found.
    """
    for rows in steps:
        _write_step(con, lane, seq, rows)


def _write_step(con: Connection, lane: str, seq: int, rows: StepRows) -> None:
    step, card = rows.step, rows.card
    incident = step.incident
    told = describe(step, card, rows.limit_log10)
    is_new = step.finding.tick == incident.fired
    if is_new:
        moved = Moved(
            lane=lane,
            series=incident.watched.series,
            is_unknown=incident.watched.kind == "unknown",
            grew=bool(told.get("part_grew", told["went_up"])),
            since=tick_start(_since(step)),
            until=tick_start(step.finding.tick + 1),
            share_before=(told["before"] or [0.0])[0] or 0.0,
            promised=card.limit.value if step.finding.breach is not None and card.limit is not None else None,
        )
        part = step.finding.part
        told |= attribute(con, moved) if part is None else attribute_values(con, moved, part)
        for example in told["examples"]:
            example["url"] = trace_link(rows.portfolio, example["trace_id"])
        told["runbook_url"] = runbook_link(rows.portfolio, incident.watched.series.metric)
        _insert_shift(con, lane, seq, step, card, told)
    at = tick_start(step.finding.tick + 1)
    insert_alert(con, lane, seq, incident, step.state, at, _BY, step.why, told)
    if lane == "live" and incident.severity != "note":
        _post(con, seq, incident, step.state, at, told)


def _since(step: Step) -> int:
    transition, breach = step.finding.transition, step.finding.breach
    if transition is not None and transition.change is not None:
        return transition.change.change_bucket
    return step.incident.began if breach is None else breach.since


def describe(step: Step, card: Card, limit_log10: float | None) -> dict[str, Any]:
    """Return what is known without asking the store, as JSON values."""
    finding, kind = step.finding, step.incident.watched.kind
    told: dict[str, Any] = {
        "unit": "session" if kind == "sessions" else "trace",
        "cascade": card.is_cascade,
        "units_per_month": card.units_per_month,
        "before": None,
        "after": None,
        "ratio": None,
        "question": card.question if card.side_of(kind) == 0 and kind != "labels" else None,
        "watched": kind,
    }
    if finding.part is not None:
        told |= _describe_part(finding.part, card)
    breach, transition = finding.breach, finding.transition
    if breach is not None:
        told |= {
            "went_up": breach.rate.value > card.limit.value if card.limit else True,
            "after": _numbers(breach.rate),
            "units": breach.units,
            "moved": breach.bad,
            "bound": None if card.limit is None else [card.limit.operator, card.limit.value],
            "window_seconds": None if card.limit is None else card.limit.window_ticks * 30,
        }
    elif transition is not None:
        told |= {"evidence_log10": _finite(transition.evidence_log10), "limit_log10": limit_log10, "went_up": True}
        if transition.change is not None:
            told |= _describe_change(transition.change)
            told["part_grew"] = told["went_up"]
            if kind == "numbers" and transition.change.side:
                # Which way the numbers went: more of them below the old p5 means that they fell.
                told["went_up"] = transition.change.side > 0
    told["verdict"] = verdict_of(card, kind, bool(told["went_up"])) if step.state == "open" or breach else None
    if step.state == "noted":
        told["verdict"] = "better"
    told["kind"] = kind_of(kind, told["verdict"])
    return told


def _describe_change(change: Change) -> dict[str, Any]:
    return {
        "went_up": change.after.value >= change.before.value,
        "before": _numbers(change.before),
        "after": _numbers(change.after),
        "ratio": _numbers(change.ratio),
        "units": round(change.units),
        "moved": round(change.after.value * change.units),
        "learned": round(change.learned),
        "bad_per_hour": _finite(change.bad_per_hour),
        "change_at": _iso(change.change_bucket),
        "change_from": _iso(change.from_bucket),
        "change_to": _iso(change.to_bucket + 1),
        "is_truncated": change.is_truncated,
    }


def _describe_part(part: Part, card: Card) -> dict[str, Any]:
    if part.statistic is None:
        return {"part": part.name, "moved_labels": list(part.labels)}
    edges = {"above": part.above, "below": part.below, "outside": part.outside}
    return {"part": part.name, "number_unit": card.number_unit, "statistic": part.statistic, **edges}


def _iso(tick: int) -> str:
    return tick_start(tick).isoformat() + "Z"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _numbers(interval: Interval) -> list[float | None]:
    return [_finite(interval.value), _finite(interval.lower), _finite(interval.upper)]


def _series_values(lane: str, key: SeriesKey) -> list[str | None]:
    return [
        lane,
        key.pipeline,
        key.environment,
        key.component or None,
        key.metric,
        key.metric_version,
        key.judge or None,
        key.epoch,
    ]


def _insert_shift(con: Connection, lane: str, seq: int, step: Step, card: Card, told: dict[str, Any]) -> None:
    incident, transition = step.incident, step.finding.transition
    change = transition.change if transition is not None else None
    began = tick_start(incident.began)
    after = told["after"] or [None, None, None]
    values = [
        seq,
        incident.shift_id,
        *_series_values(lane, incident.watched.series),
        told["kind"],
        tick_start(step.finding.tick + 1),
        tick_start(change.change_bucket) if change else began,
        tick_start(change.from_bucket) if change else began,
        tick_start(change.to_bucket + 1) if change else tick_start(step.finding.tick + 1),
        "up" if told["went_up"] else "down",
        told["verdict"],
        told["question"],
        told.get("evidence_log10"),
        (told["before"] or [None])[0],
        *after,
        told.get("units"),
    ]
    con.execute(f"INSERT INTO shifts VALUES ({', '.join('?' * len(values))})", values)


def insert_alert(
    con: Connection,
    lane: str,
    seq: int,
    incident: Incident,
    state: str,
    at: datetime,
    by: str,
    why: str,
    told: dict[str, Any] | None,
) -> None:
    """Insert one step of an alert's life."""
    values = [
        seq,
        incident.alert_id,
        incident.shift_id,
        *_series_values(lane, incident.watched.series),
        state,
        incident.severity,
        at,
        by,
        why,
        incident.group_id,
        None if told is None else json.dumps(told),
    ]
    con.execute(f"INSERT INTO alerts VALUES ({', '.join('?' * len(values))})", values)


def say(
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
    """Insert a step that no tick brought, such as what a person said, and tell those who read the topic.

    Args:
        con: In a transaction.
        lane: Of the alert.
        seq: Number of the commit.
        incident: The alert.
        state: That it is in from now on.
        at: Now, naive UTC.
        by: Who says so.
        why: In words.
        until: How long the state lasts, naive UTC; None for as long as nobody says otherwise.
    """
    told = {} if until is None else {"until": until.isoformat() + "Z"}
    insert_alert(con, lane, seq, incident, state, at, by, why, told or None)
    if lane == "live" and incident.severity != "note":
        _post(con, seq, incident, state, at, {"by": by, "why": why, **told})


def _post(con: Connection, seq: int, incident: Incident, state: str, at: datetime, told: dict[str, Any]) -> None:
    """Lay a message for the topic `alerts` into the outbox; its id is the same however often it is sent."""
    key = "/".join(text or "" for text in _series_values("live", incident.watched.series))
    message = {
        "alert_id": incident.alert_id,
        "group_id": incident.group_id,
        "state": state,
        "severity": incident.severity,
        "at": at.isoformat() + "Z",
        "pipeline": incident.watched.series.pipeline,
        "environment": incident.watched.series.environment,
        "component": incident.watched.series.component or None,
        "metric": incident.watched.series.metric,
        **told,
    }
    ident = f"{incident.alert_id}/{state}/{incident.severity}/{at.isoformat()}"
    con.execute(
        "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?)",
        [seq, ident, ALERTS_TOPIC, key, json.dumps(message).encode(), "{}"],
    )
