"""What a closed tick can bring: a detector that speaks, or a bound that breaks."""

from __future__ import annotations

from dataclasses import dataclass

from streams.alerting.breach import Breach
from streams.alerting.slice_units import SeriesKey
from streams.detectors.watch import Transition


@dataclass(frozen=True, order=True)
class Watched:
    """One row of a fleet: a series, and what of it is watched (`allotment.KINDS`)."""

    series: SeriesKey
    kind: str


@dataclass(frozen=True)
class Finding:
    """Something that a closed tick brought.

    Attributes:
        watched: Where.
        tick: When, by event time.
        transition: What a detector says; None for a bound.
        breach: What a bound says; None for a detector.
    """

    watched: Watched
    tick: int
    transition: Transition | None = None
    breach: Breach | None = None
