"""Breach: a bound of the portfolio that has just been broken, or that has ended."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.streams.alerting.rules.bound import Bound
from gapwatch.streams.detectors.change import Interval


@dataclass(frozen=True)
class Breach:
    """A bound that has just been broken, or whose breach is over.

    Attributes:
        bound: The bound.
        is_broken: True where the bound has been broken; False where the breach is over.
        since: First tick of the window.
        measured: Quantity of the window with its confidence limits; infinite where none can be given.
        units: Decided units in the window.
        moved: Units that count for the share, or beyond the bound of a quantile; None for other quantities.
        why: Reason in words.
    """

    bound: Bound
    is_broken: bool
    since: int
    measured: Interval
    units: int
    moved: int | None
    why: str
