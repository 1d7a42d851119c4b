"""Turns findings into steps of alerts, with one open alert a series, and each alert in its incident."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.incidents.incident_book import IncidentBook, Onset
from gapwatch.streams.alerting.incidents.severity import SEVERITIES, at_most
from gapwatch.streams.alerting.rules.alert_rule import AlertRule
from gapwatch.streams.alerting.rules.finding import Finding, Watched
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.contexts import TICKS_A_DAY
from gapwatch.streams.detectors.lifecycle import Event

# An improvement is noted once a week at most: until the baseline has learned the better level, the evidence reaches
# the threshold again and again.
_NOTE_TICKS = 7 * TICKS_A_DAY


@dataclass(frozen=True)
class OpenAlert:
    """One alert, in its present state.

    Attributes:
        alert_id, shift_id: Ids, functions of the series and the tick.
        watched: Series and quantity that moved; its kind is `bound` for a broken bound.
        severity: page, ticket or note.
        fired: Tick at which the alert was found.
        began: Earliest tick at which the change may have begun.
        incident_id: Id of its incident; empty for a note on an improvement, which belongs to none.
        side: 1 where the share (of numbers: the number) rose, -1 where it fell, 0 where that is not known.
    """

    alert_id: str
    shift_id: str
    watched: Watched
    severity: str
    fired: int
    began: int
    incident_id: str
    side: int = 0


@dataclass(frozen=True)
class Step:
    """One step of an alert that people are told of.

    Attributes:
        state: open, resolved or noted.
        alert: The alert.
        finding: Finding that caused the step.
        why: Reason, in words.
    """

    state: str
    alert: OpenAlert
    finding: Finding
    why: str


class AlertBook:
    """Open alerts of one lane; its state is a function of the findings, in order.

    Args:
        lane: Name of the lane; it is part of the ids.
        graph_of: Returns the graph of a pipeline; without one, time alone says which alerts belong together.
    """

    def __init__(self, lane: str, graph_of: Callable[[str], ComponentGraph] = lambda _: ComponentGraph()) -> None:
        self._lane = lane
        self.open: dict[Watched, OpenAlert] = {}
        self._incidents = IncidentBook(graph_of)
        self._noted: dict[Watched, int] = {}

    def take(self, finding: Finding, rule: AlertRule) -> Step | None:
        """Return the step that a finding causes; None where people need not be told."""
        if finding.breach is not None:
            if finding.breach.is_broken:
                if self._has_loud_shift(finding.watched.series, rule.severity):
                    return None
                return self._begin(finding, rule.severity, _bound_onset(finding), "bound broken")
            return self._end(finding, self._why_bound_ends(finding))
        transition = finding.transition
        assert transition is not None
        event = transition.event
        if self._is_in_the_rate(finding, at_most(rule.severity, "ticket")):
            return None
        if event is Event.TICKETED:
            return self._begin(
                finding, at_most(rule.severity, "ticket"), _onset(finding), "evidence at the ticket threshold"
            )
        if event is Event.PAGED:
            if finding.watched in self.open:
                grown = replace(self.open[finding.watched], severity="page")
                self.open[finding.watched] = grown
                return Step("open", grown, finding, "became a page")
            return self._begin(finding, "page", _onset(finding), "evidence at the page threshold")
        if event is Event.RECOVERED:
            return self._end(
                finding, "recovered: the evidence that the change is over reached the threshold that opened the alert"
            )
        if event is Event.ASKED:
            if finding.watched not in self.open:
                return None
            return Step("open", self.open[finding.watched], finding, "open for 7 days: is this the new baseline?")
        if event is Event.IMPROVED:
            return self._note(finding)
        return None

    def _note(self, finding: Finding) -> Step | None:
        """Return the note on an improvement; it belongs to no incident."""
        last = self._noted.get(finding.watched)
        if last is not None and finding.tick - last < _NOTE_TICKS:
            return None
        self._noted[finding.watched] = finding.tick
        return Step("noted", self._make(finding, "note", _onset(finding).earliest, ""), finding, "improved")

    def _why_bound_ends(self, finding: Finding) -> str:
        breach, series = finding.breach, finding.watched.series
        assert breach is not None
        if breach.bound.of != "failure_rate":
            return breach.why
        shifts = [self.open[one] for kind in ("rate", "sessions") if (one := Watched(series, kind)) in self.open]
        if not shifts:
            return breach.why
        return f"{breach.why}; the rate is still shifted: alert {shifts[0].alert_id} is open"

    def _begin(self, finding: Finding, severity: str, onset: Onset, why: str) -> Step:
        incident_id = self._incidents.join(_id("a", self._lane, finding), finding.watched.series, onset, finding.tick)
        alert = self._make(finding, severity, onset.earliest, incident_id)
        self.open[finding.watched] = alert
        return Step("open", alert, finding, why)

    def _make(self, finding: Finding, severity: str, began: int, incident_id: str) -> OpenAlert:
        alert_id, shift_id = _id("a", self._lane, finding), _id("s", self._lane, finding)
        side = _side(finding)
        return OpenAlert(alert_id, shift_id, finding.watched, severity, finding.tick, began, incident_id, side)

    def _has_loud_shift(self, series: SeriesKey, severity: str) -> bool:
        """Return True where a shift of the series is open with at least this severity: it also breaks the bound."""
        shifts = (self.open.get(Watched(series, kind)) for kind in ("rate", "sessions"))
        return any(SEVERITIES.index(s.severity) >= SEVERITIES.index(severity) for s in shifts if s is not None)

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
        alert = self.open.pop(finding.watched, None)
        if alert is None:
            return None
        self._incidents.end(alert.alert_id, finding.tick)
        return Step("resolved", alert, finding, why)

    def close(self, alert: OpenAlert, tick: int) -> None:
        """Close an open alert that a person has decided on, at a tick."""
        del self.open[alert.watched]
        self._incidents.end(alert.alert_id, tick)

    def sides(self) -> dict[Watched, int]:
        """Return to which side the series of each open alert moved: 1 up, -1 down, 0 where that is not known."""
        return {watched: alert.side for watched, alert in self.open.items()}

    def drop(self, gone: Sequence[Watched], tick: int) -> list[OpenAlert]:
        """Close the open alerts of these series, which a new direction calls better, and return them."""
        dropped = [self.open[watched] for watched in gone if watched in self.open]
        for alert in dropped:
            self.close(alert, tick)
        return dropped

    def as_json(self) -> dict[str, Any]:
        """Return the open alerts, and the tick of the last note of each series, as JSON values."""
        noted = [[asdict(watched), tick] for watched, tick in self._noted.items()]
        open_now = [asdict(alert) for alert in self.open.values()]
        return {"open": open_now, "noted": noted, "incidents": self._incidents.as_json()}

    def take_json(self, value: dict[str, Any]) -> None:
        """Restore the state from `as_json`."""
        for fields in value["open"]:
            watched = _watched(fields["watched"])
            self.open[watched] = OpenAlert(**{**fields, "watched": watched})
        self._noted = {_watched(fields): tick for fields, tick in value["noted"]}
        self._incidents.take_json(value["incidents"])


def _watched(fields: dict[str, Any]) -> Watched:
    return Watched(SeriesKey(**fields["series"]), fields["kind"])


def _onset(finding: Finding) -> Onset:
    """Return when the change of a finding began; the tick of the finding where it names no change."""
    change = finding.transition.change if finding.transition is not None else None
    if change is None:
        return Onset(finding.tick, finding.tick, finding.tick)
    return Onset(change.change_bucket, change.from_bucket, change.to_bucket)


def _bound_onset(finding: Finding) -> Onset:
    """Return the window of a broken bound, at most an hour: it does not tell when the failures began."""
    assert finding.breach is not None
    since = max(finding.breach.since, finding.tick - 120)
    return Onset((since + finding.tick) // 2, since, finding.tick)


def _side(finding: Finding) -> int:
    change = finding.transition.change if finding.transition is not None else None
    if change is None:
        return 0
    # For numbers the side of the bet counts, not its share: more numbers below the old p5 means that they fell.
    if finding.watched.kind == "numbers" and change.side:
        return change.side
    return 1 if change.after.value >= change.before.value else -1


def _id(letter: str, lane: str, finding: Finding) -> str:
    watched = finding.watched
    text = repr((lane, watched, finding.tick))
    return letter + hashlib.sha256(text.encode()).hexdigest()[:9]
