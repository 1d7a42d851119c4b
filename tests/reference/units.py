"""Folds one trace to its unit for a metric: good, bad, unknown or error, its number and its label."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.reference.claims import Outcome, hold_against_limit
from tests.reference.predicates import Written


@dataclass(frozen=True)
class Unit:
    """Unit: one trace as evidence for one metric."""

    state: str
    number: float | None = None
    label: str | None = None


UNKNOWN = Unit("unknown")
ERROR = Unit("error")


def unit_of(metric: Written, outcomes: list[Outcome]) -> Unit:
    """Fold the outcomes of those spans of one trace, in their order, to which the metric applies.

    Args:
        metric: As written.
        outcomes: At least one.
    """
    known = [outcome for outcome in outcomes if outcome.state in ("pass", "warn", "fail")]
    fold = metric.get("per_trace", "any")
    if not known and any(outcome.state == "error" for outcome in outcomes):
        return ERROR  # nothing was decided, because a judge or a scorer failed
    if not known or (fold == "sum" and any(outcome.state == "unknown" for outcome in outcomes)):
        return UNKNOWN
    if fold == "any":
        state = "bad" if any(outcome.state == "fail" for outcome in known) else "good"
        return Unit(state, _number_under_any(metric, known))
    if fold == "worst":
        return _worst(metric["claim"], known)
    scores = [outcome.score for outcome in known if outcome.score is not None]
    number = _FOLDS[fold](scores)
    is_bad = hold_against_limit(number, metric["claim"].get("limit") or {}) == "fail"
    # A sum too large for a double is beyond every limit, but no number that could be added to others.
    return Unit("bad" if is_bad else "good", number if math.isfinite(number) else None)


def _sum(scores: list[float]) -> float:
    total = 0.0
    for score in scores:
        total += score
    return total


_FOLDS: dict[str, Callable[[list[float]], float]] = {
    "max": max,
    "last": lambda scores: scores[-1],
    "sum": _sum,
    "mean": lambda scores: _sum(scores) / len(scores),
}


def _number_under_any(metric: Written, known: list[Outcome]) -> float | None:
    scores = [outcome.score for outcome in known if outcome.score is not None]
    if not scores:
        return None
    return min(scores) if "min" in (metric["claim"].get("limit") or {}) else max(scores)


def _worst(claim: Written, known: list[Outcome]) -> Unit:
    seen = {outcome.label for outcome in known}
    label = [label for label in claim["labels"] if label in seen][-1]
    return Unit("bad" if label in claim.get("bad", []) else "good", label=label)
