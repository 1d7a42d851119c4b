"""Quantities that a threshold can bound: which claim has which, and the ends that its numbers cannot pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gapwatch.scorers.portfolio.claim import (
    CheckClaim,
    Claim,
    CompositeClaim,
    FeedbackClaim,
    JudgedClaim,
    LabelClaim,
    MeasureClaim,
    RatioClaim,
)
from gapwatch.scorers.portfolio.direction import Threshold

#: Quantities whose values are shares, from 0 to 1.
SHARES = ("failure_rate", "share")
#: Seconds of each unit of a window.
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True)
class NumberRange:
    """Ends that the numbers of a claim cannot pass.

    Attributes:
        least: Smallest number.
        most: Largest number; inf where none is known.
    """

    least: float = 0.0
    most: float = math.inf


def quantile_level(of: str) -> float | None:
    """Return the level of a quantile in (0, 1): 0.95 for p95, 0.999 for p99_9; None for another quantity."""
    return float(of[1:].replace("_", ".")) / 100.0 if of[:1] == "p" and of[1:2].isdigit() else None


def is_ceiling(threshold: Threshold) -> bool:
    """Return whether a quantity must stay below its bound."""
    return threshold.operator in ("<", "<=")


def window_seconds(threshold: Threshold) -> int:
    """Return the length of the window of a threshold."""
    return int(threshold.window[:-1]) * _SECONDS[threshold.window[-1]]


def can_fail(claim: Claim) -> bool:
    """Return whether some value makes a claim fail; otherwise its failure rate is always 0."""
    if isinstance(claim, MeasureClaim):
        return claim.limit is not None
    if isinstance(claim, LabelClaim):
        return bool(claim.bad)
    if isinstance(claim, CompositeClaim):
        return claim.pass_at is not None
    return not isinstance(claim, RatioClaim)


def quantities_of(claim: Claim) -> tuple[str, ...]:
    """Return the quantities that a claim has; `p95` stands for every quantile."""
    if isinstance(claim, RatioClaim):
        return ("ratio",)
    failing = ("failure_rate",) if can_fail(claim) else ()
    if isinstance(claim, CheckClaim | FeedbackClaim):
        return failing
    if isinstance(claim, LabelClaim):
        return (*failing, "share")
    return (*failing, "p95", "mean", *(("sum",) if isinstance(claim, MeasureClaim) else ()))


def number_range(claim: Claim) -> NumberRange:
    """Return the ends of the numbers of a claim: those of the scale of a judge; else from 0 without an upper end."""
    if not isinstance(claim, JudgedClaim):
        return NumberRange()
    scale = claim.rubric.scale
    scores = list(scale.values()) if isinstance(scale, dict) else [b for b in scale if isinstance(b, float)]
    return NumberRange(min(scores), max(scores)) if scores else NumberRange(0.0, 1.0)  # words score from 1 to 0
