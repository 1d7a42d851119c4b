"""The life of an alert as pure transitions: calm, suspect, ticket, page, and back only on evidence or by a person.

             M >= A/100           M >= A_ticket          M_margin >= A_page, and big enough
CALM <-----------------> SUSPECT ---------------> TICKET ---------------------------------> PAGE
  ^                                                  |                                        |
  +--------------------------- recovery >= A, or a person accepts ----------------------------+
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from streams.detectors.arrays import Array, Bools, Floats


class Phase(enum.IntEnum):
    """How far an alert has come. From TICKET on it is firing: the baseline stands still."""

    CALM = 0
    SUSPECT = 1
    TICKET = 2
    PAGE = 3


class Event(enum.Enum):
    """What a settled tick can report of a series."""

    SUSPECTED = "suspected"
    CLEARED = "cleared"
    TICKETED = "ticketed"
    PAGED = "paged"
    RECOVERED = "recovered"
    IMPROVED = "improved"
    ASKED = "asked"
    ACCEPTED = "accepted"


SUSPECT_DIVISOR = 100.0
"""A series is suspect at a hundredth of the ticket's threshold: on dashboards, never a notification. And it needs one
start that says so by itself (CUSUM of half the threshold's logarithm): where units carry little information, as in a
series that never fails, the sum over starts is about their number, which is no evidence."""


@dataclass(frozen=True)
class Evidence:
    """What the transitions look at, one value for each series.

    Attributes:
        bad: M of the bad side, or of all bets where the direction is unverified.
        bad_beyond_margin: The same with the paging margin; 0 where the direction is unverified, so it cannot page.
        ticket_threshold: A for tickets.
        page_threshold: A for pages; infinite where a page is not asked for.
        is_large: The lower bound of the ratio and the excess an hour are large enough for a page.
        recovery: M of the recovery detector.
        rise: The largest companion CUSUM of the bets that count.
    """

    bad: Floats
    bad_beyond_margin: Floats
    ticket_threshold: Floats
    page_threshold: Floats
    is_large: Bools
    recovery: Floats
    rise: Floats


def advance(phase: Array, evidence: Evidence) -> Array:
    """Return the next phase of each series.

    A firing series never falls back to SUSPECT or CALM but by recovery: hysteresis is inside the detector. One that
    recovers is CALM, whatever else holds in the same tick. A page that comes at once skips the ticket: one alert.

    Source: thresholds of `budget`. Promise: a firing alert whose series still is at 1.25 times the baseline odds or
    more is closed by mistake at most once in A units on average. See `recovery` for when it is not.
    """
    firing = phase >= Phase.TICKET
    ticket = firing | (evidence.bad >= evidence.ticket_threshold)
    page = (phase == Phase.PAGE) | (evidence.is_large & (evidence.bad_beyond_margin >= evidence.page_threshold))
    suspect = evidence.bad >= evidence.ticket_threshold / SUSPECT_DIVISOR
    suspect &= evidence.rise >= np.log(evidence.ticket_threshold) / 2.0
    # A page and its recovery are held to the page's threshold only where it is the only one that is set.
    limit = np.minimum(evidence.ticket_threshold, evidence.page_threshold)
    recovered = firing & (evidence.recovery >= limit)
    following = np.where(page, Phase.PAGE, np.where(ticket, Phase.TICKET, np.where(suspect, Phase.SUSPECT, Phase.CALM)))
    result: Array = np.where(recovered, Phase.CALM, following).astype(np.int8)
    return result


def event_of(before: int, after: int) -> Event | None:
    """Name the transition, or None where there is none to report."""
    if before == after:
        return None
    if after == Phase.PAGE:
        return Event.PAGED
    if after == Phase.TICKET:
        return Event.TICKETED
    if before >= Phase.TICKET:
        return Event.RECOVERED
    return Event.SUSPECTED if after == Phase.SUSPECT else Event.CLEARED
