"""Incidents: turns findings into steps of alerts, with one open alert a series and related alerts in one group."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gapwatch.streams.alerting.rules.alert_rule import AlertRule
from gapwatch.streams.alerting.rules.finding import Finding, Watched
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.contexts import TICKS_A_DAY
from gapwatch.streams.detectors.lifecycle import Event

# Alerts of one pipeline belong together where the later one's change began at most this long after the earlier fired.
_GROUP_TICKS = 20
# An improvement is noted once a week at most: until the baseline has learned the better level, the evidence reaches
# the threshold again and again.
_NOTE_TICKS = 7 * TICKS_A_DAY
_SEVERITIES = ("note", "ticket", "page")


@dataclass(frozen=True)
class Incident:
    """One alert, in its present state.

    Attributes:
        alert_id, shift_id: Ids, functions of the series and the tick.
        watched: Series and quantity that moved; its kind is `bound` for a broken bound.
        severity: page, ticket or note.
        fired: Tick at which the alert was found.
        began: Earliest tick at which the change may have begun.
        group_id: `alert_id` of the first alert of the group.
    """

    alert_id: str
    shift_id: str
    watched: Watched
    severity: str
    fired: int
    began: int
    group_id: str


@dataclass(frozen=True)
class Step:
    """One step of an alert that people are told of.

    Attributes:
        state: open, resolved or noted.
        incident: The alert.
        finding: Finding that caused the step.
        why: Reason, in words.
    """

    state: str
    incident: Incident
    finding: Finding
    why: str


class IncidentBook:
    """Open alerts of one lane; its state is a function of the findings, in order.

    Args:
        lane: Name of the lane; it is part of the ids.
    """

    def __init__(self, lane: str) -> None:
        self._lane = lane
        self.open: dict[Watched, Incident] = {}
        self._noted: dict[Watched, int] = {}

    def take(self, finding: Finding, rule: AlertRule) -> Step | None:
        """Return the step that a finding causes; None where people need not be told."""
        if finding.breach is not None:
            if finding.breach.is_broken:
                if self._has_loud_shift(finding.watched.series, rule.severity):
                    return None
                return self._begin(
                    finding, rule.severity, max(finding.breach.since, finding.tick - 120), "bound broken"
                )
            return self._end(finding, "back within the bound")
        transition = finding.transition
        assert transition is not None
        event, change = transition.event, transition.change
        began = change.from_bucket if change is not None else finding.tick
        if self._is_in_the_rate(finding, _at_most(rule.severity, "ticket")):
            return None
        if event is Event.TICKETED:
            return self._begin(finding, _at_most(rule.severity, "ticket"), began, "evidence at the ticket threshold")
        if event is Event.PAGED:
            if finding.watched in self.open:
                grown = replace(self.open[finding.watched], severity="page")
                self.open[finding.watched] = grown
                return Step("open", grown, finding, "became a page")
            return self._begin(finding, "page", began, "evidence at the page threshold")
        if event is Event.RECOVERED:
            return self._end(
                finding, "recovered: the evidence that the change is over reached the threshold that opened the alert"
            )
        if event is Event.ASKED:
            if finding.watched not in self.open:
                return None
            return Step("open", self.open[finding.watched], finding, "open for 7 days: is this the new baseline?")
        if event is Event.IMPROVED:
            last = self._noted.get(finding.watched)
            if last is not None and finding.tick - last < _NOTE_TICKS:
                return None
            self._noted[finding.watched] = finding.tick
            step = self._begin(finding, "note", began, "improved")
            del self.open[finding.watched]
            return replace(step, state="noted")
        return None

    def _begin(self, finding: Finding, severity: str, began: int, why: str) -> Step:
        shift_id = _id("s", self._lane, finding)
        alert_id = _id("a", self._lane, finding)
        group_id = self._group(finding.watched.series, began) or alert_id
        incident = Incident(alert_id, shift_id, finding.watched, severity, finding.tick, began, group_id)
        self.open[finding.watched] = incident
        return Step("open", incident, finding, why)

    def _has_loud_shift(self, series: SeriesKey, severity: str) -> bool:
        """Return True where a shift of the series is open with at least this severity: it also breaks the bound."""
        shifts = (self.open.get(Watched(series, kind)) for kind in ("rate", "sessions"))
        return any(_SEVERITIES.index(s.severity) >= _SEVERITIES.index(severity) for s in shifts if s is not None)

    def _is_in_the_rate(self, finding: Finding, severity: str) -> bool:
        """Return True where a shift of values repeats an open alert on the failure rate of the same series."""
        if finding.watched.kind not in ("numbers", "labels"):
            return False
        event = finding.transition.event if finding.transition is not None else None
        if event is Event.IMPROVED:
            last = self._noted.get(Watched(finding.watched.series, "rate"))
            return last is not None and finding.tick - last < _NOTE_TICKS
        return event is Event.TICKETED and self._has_loud_shift(finding.watched.series, severity)

    def _end(self, finding: Finding, why: str) -> Step | None:
        incident = self.open.pop(finding.watched, None)
        return None if incident is None else Step("resolved", incident, finding, why)

    def _group(self, series: SeriesKey, began: int) -> str | None:
        near = [
            incident
            for incident in self.open.values()
            if incident.watched.series.pipeline == series.pipeline
            and incident.watched.series.environment == series.environment
            and began <= incident.fired + _GROUP_TICKS
        ]
        # The first alert that fired after this change began. Later alerts may belong to another incident.
        first = min(near, key=lambda incident: (incident.fired, incident.alert_id), default=None)
        return None if first is None else first.group_id

    def drop(self, gone: Sequence[Watched]) -> list[Incident]:
        """Remove the open alerts of these series, whose direction was reversed, and return them."""
        return [self.open.pop(watched) for watched in gone if watched in self.open]

    def as_json(self) -> dict[str, Any]:
        """Return the open alerts, and the tick of the last note of each series, as JSON values."""
        noted = [[asdict(watched), tick] for watched, tick in self._noted.items()]
        return {"open": [asdict(incident) for incident in self.open.values()], "noted": noted}

    def take_json(self, value: dict[str, Any]) -> None:
        """Restore the state from `as_json`."""
        for fields in value["open"]:
            watched = _watched(fields["watched"])
            self.open[watched] = Incident(**{**fields, "watched": watched})
        self._noted = {_watched(fields): tick for fields, tick in value["noted"]}


def _watched(fields: dict[str, Any]) -> Watched:
    return Watched(SeriesKey(**fields["series"]), fields["kind"])


def _at_most(severity: str, most: str) -> str:
    return min(severity, most, key=_SEVERITIES.index)


def _id(letter: str, lane: str, finding: Finding) -> str:
    watched = finding.watched
    text = repr((lane, watched, finding.tick))
    return letter + hashlib.sha256(text.encode()).hexdigest()[:9]
