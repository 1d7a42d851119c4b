"""Evaluates a metric's claim at one place: outcome, score, label, reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from tests.reference.envelope import Trace, text_of
from tests.reference.predicates import Written, bounded_number, holds, in_bounds
from tests.reference.selection import chance_of
from tests.reference.values import ABSENT, Absent, Place, read_field, read_number, read_text

#: A Python scorer under its name: from the texts of its fields (None where absent) to what it found.
Functions: TypeAlias = Mapping[str, Callable[[dict[str, str | None]], "Outcome"]]

INLINE_FORMS = ("check", "measure", "label", "composite")
_PREDICATES_WITH_WARN = ("range", "length", "count")


@dataclass(frozen=True)
class Outcome:
    """Outcome of one metric at one place.

    `state` is pass, warn, fail, skip, unknown or error; `pending` for what a judge must say, `sampled_out` for what
    it is not asked.
    """

    state: str
    score: float | None = None
    label: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Around:
    """Further values that a claim may need.

    Attributes:
        metrics: All metrics of the portfolio by name, for the parts of a composite.
        functions: The Python scorers.
        position: `u` of the trace, which selects what judges and Python scorers see.
    """

    metrics: Mapping[str, Written]
    functions: Functions
    position: float


def is_inline(metric: Written) -> bool:
    """Return whether the claim is evaluated on every trace, whatever its rates are."""
    return metric["claim"]["form"] in INLINE_FORMS


def applies(metric: Written, place: Place) -> bool:
    """Return whether the metric applies to this place: its component (or the members in `of`) and its `when`."""
    if metric["claim"]["form"] == "ratio":
        return False
    if metric.get("scope") == "trace":
        if place.index >= 0:
            return False
    elif place.index < 0 or text_of(place.span.get("component")) not in metric.get("of", [metric["component"]]):
        return False
    return "when" not in metric or holds(metric["when"], place) is True


def places_of(metric: Written, trace: Trace) -> list[Place]:
    """Return the places of a trace to which the metric applies, in their order."""
    return [place for index in range(-1, len(trace.spans)) if applies(metric, place := Place(trace, index))]


def outcome_of(metric: Written, place: Place, around: Around) -> Outcome:
    """Return the outcome of one metric at a place to which it applies."""
    claim = metric["claim"]
    form = claim["form"]
    if not is_inline(metric) and around.position >= chance_of(metric, place).rate:
        return Outcome("sampled_out")
    if form == "check":
        found = _check(claim, place)
    elif form == "measure":
        found = _measure(claim, place)
    elif form == "label":
        found = _label(claim, place)
    elif form == "composite":
        found = _composite(claim, place, around)
    elif form == "python":
        found = around.functions[claim["scorer"]](_texts(claim["fields"], place))
    else:
        found = Outcome("pending")
    if found.state == "unknown" and found.reason != "not_in_labels" and claim.get("optional"):
        return Outcome("skip", reason=found.reason)
    return found


def _check(claim: Written, place: Place) -> Outcome:
    truth = holds(claim, place)
    if isinstance(truth, Absent):
        return Outcome("unknown", reason=truth.reason)
    if truth and _is_beyond_warn(claim, place):
        return Outcome("warn")
    return Outcome("pass" if truth else "fail")


def _is_beyond_warn(claim: Written, place: Place) -> bool:
    for name in _PREDICATES_WITH_WARN:
        if name in claim and "warn" in claim[name]:
            number = bounded_number(name, claim["field"], place)
            assert isinstance(number, float)
            return not in_bounds(number, claim[name]["warn"])
    return False


def _measure(claim: Written, place: Place) -> Outcome:
    number = read_number(claim["field"], place)
    if isinstance(number, Absent):
        return Outcome("unknown", reason=number.reason)
    return Outcome(hold_against_limit(number, claim.get("limit") or {}), score=number)


def hold_against_limit(number: float, limit: Written) -> str:
    """Return the outcome of a number under the `limit` of a measure; the bound itself passes."""
    if "max" in limit:
        if number > limit["max"]:
            return "fail"
        return "warn" if number > limit.get("warn", math.inf) else "pass"
    if "min" in limit:
        if number < limit["min"]:
            return "fail"
        return "warn" if number < limit.get("warn", -math.inf) else "pass"
    return "pass"


def _label(claim: Written, place: Place) -> Outcome:
    text = read_text(claim["field"], place)
    if text == "":
        text = ABSENT
    if isinstance(text, Absent):
        return Outcome("unknown", reason=text.reason)
    if "labels" in claim and text not in claim["labels"]:
        return Outcome("unknown", label=text, reason="not_in_labels")
    return Outcome("fail" if text in claim.get("bad", []) else "pass", label=text)


def _composite(claim: Written, place: Place, around: Around) -> Outcome:
    """Return the weighted mean's outcome; the first part without a value, as written, decides the outcome."""
    total, exact_total = 0.0, Fraction(0)
    for name, weight in claim["parts"].items():
        if not applies(around.metrics[name], place):
            return Outcome("unknown", reason="part_not_applicable")
        part = outcome_of(around.metrics[name], place, around)
        if part.state in ("unknown", "skip", "error"):
            return Outcome("unknown", reason="part_unknown")
        if part.state in ("pending", "sampled_out"):
            return part
        total += weight * _worth(part)
        exact_total += _exact(weight) * _exact(_worth(part))
    is_enough = "pass_at" not in claim or exact_total >= _exact(claim["pass_at"])
    return Outcome("pass" if is_enough else "fail", score=total)


def _exact(number: float) -> Fraction:
    """Return a number as the decimal that a person wrote: three times 0.1 is 0.3."""
    return Fraction(repr(number))


def _worth(part: Outcome) -> float:
    return part.score if part.score is not None else {"pass": 1.0, "warn": 0.5}.get(part.state, 0.0)


def _texts(fields: list[str], place: Place) -> dict[str, str | None]:
    return {field: _text_or_number(field, place) for field in fields}


def _text_or_number(field: str, place: Place) -> Any:
    found = read_field(field, place)
    if isinstance(found, Absent):
        return None
    return found if isinstance(found, float) else text_of(found)
