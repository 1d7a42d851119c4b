"""Life cycle of an alert: calm, suspect, ticket, page, and back only on evidence or by a person.

             M_seen >= A/100      M >= A_ticket          M >= A_page, and big enough
CALM <-----------------> SUSPECT ---------------> TICKET ---------------------------------> PAGE
  ^                                                  |                                        |
  +--------------------------- recovery >= A, or a person accepts ----------------------------+
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from gapwatch.streams.detectors.arrays import Array, Bools, Floats


class Phase(enum.IntEnum):
    """Phase of a series. From TICKET on its alert is firing, and its baseline is frozen."""

    CALM = 0
    SUSPECT = 1
    TICKET = 2
    PAGE = 3


class Event(enum.Enum):
    """Event that a folded tick reports of a series."""

    SUSPECTED = "suspected"
    CLEARED = "cleared"
    NOTICED = "noticed"
    TICKETED = "ticketed"
    PAGED = "paged"
    RECOVERED = "recovered"
    IMPROVED = "improved"
    ASKED = "asked"
    ACCEPTED = "accepted"


SUSPECT_DIVISOR = 100.0
"""A series is suspect from a hundredth of the ticket threshold on: dashboards show it, nobody is notified."""


LEAST_PER_UNIT = 10.0
"""Evidence that each unit since the begin of the rise must carry; see `is_carried`."""


def is_carried(evidence: Floats, units: Floats) -> Bools:
    """Return True where M is evidence of a change, not only the number of starts that it sums over.

    Where units carry almost no information, as in a series that never fails, each start has a factor of about 1, and M
    grows by one to two for each unit until it reaches any threshold. A change that is detected after n units carries
    A / n for each, and n is small against A, or the change could not be detected in a period. The condition only lowers
    the number of false alarms.

    Args:
        evidence: M.
        units: Units since the rise of the leading bet began.
    """
    result: Bools = evidence >= LEAST_PER_UNIT * units
    return result


@dataclass(frozen=True)
class Evidence:
    """Inputs of the transitions, one value for each series.

    Attributes:
        seen: M of any change in the bad direction, or of all bets where the direction is unverified.
        bad: The same of a change that is worth telling; at most `seen`.
        ticket_threshold: A for tickets.
        page_threshold: A for pages; infinite for a series that may not page, or whose direction is unverified.
        is_large: The lower bound of the ratio and the excess an hour are large enough for a page.
        recovery: M of the recovery detector.
        units: Units since the rise of the leading bet began.
    """

    seen: Floats
    bad: Floats
    ticket_threshold: Floats
    page_threshold: Floats
    is_large: Bools
    recovery: Floats
    units: Floats


def advance(phase: Array, evidence: Evidence) -> Array:
    """Return the next phase of each series.

    A firing series goes back to CALM only by recovery: this is the hysteresis of the detector. A series that recovers
    is CALM whatever else holds in the same tick. A page that comes at once skips the ticket: one alert.

    Source: thresholds of `budget`. Promise: a firing alert whose series is still at 1.25 times the baseline odds or
    more is closed by mistake at most once in A units on average. See `recovery` for the exceptions.
    """
    firing = phase >= Phase.TICKET
    carried = is_carried(evidence.bad, evidence.units)
    ticket = firing | (carried & (evidence.bad >= evidence.ticket_threshold))
    page = (phase == Phase.PAGE) | (evidence.is_large & (evidence.bad >= evidence.page_threshold))
    suspect = is_carried(evidence.seen, evidence.units)
    suspect &= evidence.seen >= evidence.ticket_threshold / SUSPECT_DIVISOR
    # Recovery uses the lower of the thresholds that are set.
    limit = np.minimum(evidence.ticket_threshold, evidence.page_threshold)
    recovered = firing & (evidence.recovery >= limit)
    following = np.where(page, Phase.PAGE, np.where(ticket, Phase.TICKET, np.where(suspect, Phase.SUSPECT, Phase.CALM)))
    result: Array = np.where(recovered, Phase.CALM, following).astype(np.int8)
    return result


def event_of(before: int, after: int) -> Event | None:
    """Return the event of a transition between phases; None for an unchanged phase."""
    if before == after:
        return None
    if after == Phase.PAGE:
        return Event.PAGED
    if after == Phase.TICKET:
        return Event.TICKETED
    if before >= Phase.TICKET:
        return Event.RECOVERED
    return Event.SUSPECTED if after == Phase.SUSPECT else Event.CLEARED
