"""Groups alerts whose series moved together into incidents, and knows which incident a new alert belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.series.slice_units import SeriesKey

# Two changes moved together where their 95 % sets lie at most this far apart: a change takes minutes to reach the next
# component, and numbers are dated to five minutes. Larger joins what is unrelated, smaller splits one incident.
_APART_TICKS = 20
# A 95 % set counts up to so far from its most likely tick: that of a small change has hours, and would join everything.
# Between two metrics of one component it counts as a whole, where it holds the most likely tick of the other one.
_SET_TICKS = 60
# For so long after its end an incident opens again where one of its series moves again; later it is another one.
_AGAIN_TICKS = 120


@dataclass(frozen=True)
class Onset:
    """Ticks in which a change may have begun: its 95 % set.

    Attributes:
        at: Most likely tick.
        earliest: First tick of the set.
        latest: Last tick of the set.
    """

    at: int
    earliest: int
    latest: int

    def meets(self, other: Onset) -> bool:
        """Return True where both changes may have begun together."""
        (first, last), (begin, end) = self._near, other._near
        return first - _APART_TICKS <= end and begin - _APART_TICKS <= last

    def holds(self, other: Onset) -> bool:
        """Return True where the change may have begun at the most likely tick of another one."""
        return self.earliest <= other.at <= self.latest

    @property
    def _near(self) -> tuple[int, int]:
        return max(self.earliest, self.at - _SET_TICKS), min(self.latest, self.at + _SET_TICKS)


@dataclass(frozen=True)
class IncidentMember:
    """Alert of an incident.

    Attributes:
        alert_id: Its id.
        series: Its series.
        onset: When its change began.
        ended: Tick at which the alert ended; None while it is open.
    """

    alert_id: str
    series: SeriesKey
    onset: Onset
    ended: int | None = None


class IncidentBook:
    """Open incidents of one lane, and those that ended within the hour; a function of the alerts, in order.

    Args:
        graph_of: Returns the graph of a pipeline.
    """

    def __init__(self, graph_of: Callable[[str], ComponentGraph]) -> None:
        self._graph_of = graph_of
        self._members: dict[str, list[IncidentMember]] = {}

    def join(self, alert_id: str, series: SeriesKey, onset: Onset, tick: int) -> str:
        """Return the id of the incident of a new alert: the first one that it belongs to, or a new one.

        An alert belongs to an open incident of its pipeline and environment if its change may have begun together with
        that of a member, unless the graph has no way between the components, or if the 95 % set of one of both holds
        the most likely tick of the other and both are of one component; else to one of which its series is a member
        already. An incident that ended within the last hour opens again where one of its series moves again.

        Args:
            alert_id: Id of the new alert.
            series: Its series.
            onset: When its change began.
            tick: Tick at which it was found.
        """
        self._forget(tick)
        member = IncidentMember(alert_id, series, onset)
        moved = (i for i, members in self._members.items() if self._moved_together(member, members))
        again = (i for i, members in self._members.items() if any(one.series == series for one in members))
        incident_id = next(moved, None) or next(again, None) or incident_id_of(alert_id)
        self._members.setdefault(incident_id, []).append(member)
        return incident_id

    def _moved_together(self, member: IncidentMember, members: list[IncidentMember]) -> bool:
        series = member.series
        if (members[0].series.pipeline, members[0].series.environment) != (series.pipeline, series.environment):
            return False
        if all(one.ended is not None for one in members):
            return False
        graph = self._graph_of(series.pipeline)
        return any(
            (one.onset.meets(member.onset) and not graph.are_apart(one.series.component, series.component))
            or (
                one.series.component == series.component
                and (one.onset.holds(member.onset) or member.onset.holds(one.onset))
            )
            for one in members
        )

    def end(self, alert_id: str, tick: int) -> None:
        """Record that an alert has ended."""
        for members in self._members.values():
            members[:] = [replace(one, ended=tick) if one.alert_id == alert_id else one for one in members]

    def _forget(self, tick: int) -> None:
        over = [
            incident
            for incident, members in self._members.items()
            if all(one.ended is not None and one.ended < tick - _AGAIN_TICKS for one in members)
        ]
        for incident in over:
            del self._members[incident]

    def as_json(self) -> dict[str, Any]:
        """Return the incidents as JSON values."""
        return {incident: [asdict(one) for one in members] for incident, members in self._members.items()}

    def take_json(self, value: dict[str, Any]) -> None:
        """Restore the incidents from `as_json`."""
        self._members = {incident: list(_members(members)) for incident, members in value.items()}


def incident_id_of(first_alert_id: str) -> str:
    """Return the id of the incident that an alert began; `migration` computes the same in SQL."""
    return "i" + hashlib.sha256(first_alert_id.encode()).hexdigest()[:9]


def _members(values: list[dict[str, Any]]) -> Iterator[IncidentMember]:
    for value in values:
        yield IncidentMember(value["alert_id"], SeriesKey(**value["series"]), Onset(**value["onset"]), value["ended"])
