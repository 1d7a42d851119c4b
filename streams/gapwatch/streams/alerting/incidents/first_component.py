"""Component that moved first in an incident, from the 95 % sets of its changes and the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert

# One component surely moved before another one where its 95 % set ends by more than this before the other's begins. A
# tick has 30 seconds, and numbers are dated to five minutes.
_SURELY = timedelta(minutes=5)


@dataclass(frozen=True)
class MovedFrom:
    """Times at which a component may have begun to move, naive UTC: the 95 % set of one of its changes."""

    component: str
    at: datetime
    earliest: datetime
    latest: datetime


def moved_from(alerts: Iterable[StoredAlert]) -> list[MovedFrom]:
    """Return when each component of an incident began to move, in the order of their ids.

    Improvements do not count. Of several metrics of a component the one that surely moved first counts; a bound counts
    where nothing else is known, with its window.
    """
    found: dict[str, tuple[bool, datetime, MovedFrom]] = {}
    for alert in alerts:
        component, change = alert.row.component, alert.facts.change
        if component is None or alert.facts.polarity == "better":
            continue
        if change is not None:
            moved = MovedFrom(component, change.at, change.earliest, change.latest)
        else:
            moved = MovedFrom(component, alert.rows_since, alert.rows_since, alert.row.found_at)
        key = change is None, moved.latest
        if component not in found or key < found[component][:2]:
            found[component] = (*key, moved)
    return [found[component][2] for component in sorted(found)]


def first_components(moved: Sequence[MovedFrom], graph: ComponentGraph) -> list[str]:
    """Return the components that may have moved first; where the 95 % sets overlap, those upstream of the others.

    A component that surely moved after another one is not the first. Of the rest, one that lies downstream of another
    is more likely a victim than the cause. Several are left where neither times nor graph order them; the one with the
    earliest likely time comes first.

    Args:
        moved: When each component may have begun to move.
        graph: Graph of the pipeline.
    """
    left = [one for one in moved if not any(other.latest + _SURELY < one.earliest for other in moved)]
    heads = [
        one
        for one in left
        if not any(
            one.component in graph.downstream(other.component)
            and other.component not in graph.downstream(one.component)
            for other in left
            if other is not one
        )
    ]
    return [one.component for one in sorted(heads or left, key=lambda one: (one.at, one.component))]
