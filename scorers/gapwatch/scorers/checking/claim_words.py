"""Describes in plain words what a metric expects, for an engineer who has never read the portfolio."""

from __future__ import annotations

from collections.abc import Sequence

from gapwatch.scorers.portfolio.claim import (
    Claim,
    CompositeClaim,
    FeedbackClaim,
    JudgedClaim,
    LabelClaim,
    Limit,
    MeasureClaim,
    PythonClaim,
    RatioClaim,
)
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.predicate import (
    Absent,
    AllOf,
    AnyOf,
    CitedIn,
    Compares,
    Count,
    FieldPredicate,
    Format,
    Json,
    Length,
    Matches,
    Not,
    NotMatches,
    OneOf,
    Predicate,
    Present,
    Range,
    Sibling,
    SubstringOf,
    other_field,
)
from gapwatch.scorers.portfolio.predicate_arguments import Bounds, JsonShape
from gapwatch.scorers.printable import shown

# A text in a portfolio may be a megabyte long; a line in a table of alerts may not.
_MAX_LENGTH = 600
_FORMATS = {
    "json": "JSON",
    "url": "a URL",
    "email": "an email address",
    "iso_date": "an ISO 8601 date",
    "uuid": "a UUID",
    "number": "a number",
    "integer": "a whole number",
}
_ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object"}


def expected_words(metric: Metric) -> str:
    """Return what a metric expects, on one line of at most about 600 characters.

    Args:
        metric: A metric of a loaded portfolio.

    Returns:
        Words such as "output is JSON and has /answer and /citations, where tier is primary".
    """
    words = _claim_words(metric.claim)
    if metric.when is not None:
        words += f", where {predicate_words(metric.when)}"
    return shown(words, _MAX_LENGTH)


def _claim_words(claim: Claim) -> str:
    if isinstance(claim, MeasureClaim):
        return f"{shown(claim.field.text)} in {shown(claim.unit)}{_limit_words(claim.limit)}"
    if isinstance(claim, LabelClaim):
        return _label_words(claim)
    if isinstance(claim, JudgedClaim):
        return _judged_words(claim)
    if isinstance(claim, CompositeClaim):
        parts = " + ".join(f"{weight:g} {name}" for name, weight in claim.parts.items())
        return parts if claim.pass_at is None else f"{parts} is at least {claim.pass_at:g}"
    if isinstance(claim, RatioClaim):
        return f"{claim.numerator} divided by {claim.denominator}, each summed by {claim.per}"
    if isinstance(claim, FeedbackClaim):
        return f"people give {'more than 0' if claim.pass_at is None else f'at least {claim.pass_at:g}'}, or a thumb up"
    if isinstance(claim, PythonClaim):
        fields = ", ".join(shown(field.text) for field in claim.fields)
        return f"the Python scorer {claim.scorer} passes {fields}".rstrip()
    return predicate_words(claim.predicate)


def _limit_words(limit: Limit | None) -> str:
    if limit is None:
        return ", no limit"
    bound, side = (limit.max, "at most") if limit.max is not None else (limit.min, "at least")
    words = f" is {side} {_number(bound or 0.0)}"
    if limit.warn is not None:
        words += f" (warns {'above' if limit.max is not None else 'below'} {_number(limit.warn)})"
    return words


def _label_words(claim: LabelClaim) -> str:
    field = shown(claim.field.text)
    good = [label for label in claim.labels or () if label not in claim.bad]
    if not good and not claim.bad:
        return f"{field} has any value"
    sides = [_listed(good)] if good else []
    if claim.bad:
        sides.append(f"not {_listed(claim.bad)}")
    return f"{field} is {', '.join(sides)}"


def _judged_words(claim: JudgedClaim) -> str:
    judges = _listed([judge.name or judge.model for judge in claim.judges], "and")
    words = f"{shown(claim.rubric.criterion, 200)} (judged by {judges}"
    if claim.rubric.pass_at is not None:
        pass_at = claim.rubric.pass_at
        words += f", passes at {shown(pass_at) if isinstance(pass_at, str) else _number(pass_at)}"
    return words + ")"


def predicate_words(predicate: Predicate) -> str:
    """Return the condition of a predicate in words."""
    if isinstance(predicate, AllOf | AnyOf):
        joint = " and " if isinstance(predicate, AllOf) else " or "
        return joint.join(_part_words(part) for part in predicate.parts)
    if not isinstance(predicate, Not):
        return _plain_words(predicate)
    part = predicate.part
    if isinstance(part, OneOf):
        return f"{shown(part.field.text)} is not {_listed(part.texts)}"
    if isinstance(part, Present):
        return f"{shown(part.field.text)} is missing"
    return f"not ({predicate_words(part)})"


def _part_words(part: Predicate) -> str:
    words = predicate_words(part)
    return f"({words})" if isinstance(part, AllOf | AnyOf) and len(part.parts) > 1 else words


def _plain_words(predicate: FieldPredicate) -> str:
    field, second = shown(predicate.field.text), other_field(predicate)
    other = shown(second.text) if second is not None else ""
    match predicate:
        case OneOf():
            return f"{field} is {_listed(predicate.texts)}"
        case Range():
            return f"{field} is {_bounds_words(predicate.bounds)}{_warn_words(predicate.bounds.warn)}"
        case Length() | Count():
            unit = "characters" if isinstance(predicate, Length) else "elements"
            return f"{field} has {_bounds_words(predicate.bounds)} {unit}{_warn_words(predicate.bounds.warn)}"
        case Format():
            return f"{field} is {_FORMATS[predicate.format]}"
        case Json():
            return _json_words(field, predicate.shape)
        case Present():
            return f"{field} is present"
        case Absent():
            return f"{field} is missing"
        case Sibling():
            return f"{other} is present whenever {field} is"
        case Matches():
            return f"{field} matches {shown(predicate.pattern, 100)}"
        case NotMatches():
            return f"{field} does not match {shown(predicate.pattern, 100)}"
        case SubstringOf():
            return f"{'every text of ' if predicate.each else ''}{field} is inside {other}"
        case CitedIn():
            return f"every text of {field} that a model wrote cites a part of {other}"
        case Compares():
            return f"{field} {predicate.comparison.operator} {other}"


def _json_words(field: str, shape: JsonShape) -> str:
    words = f"{field} is JSON"
    if shape.required:
        words += f" and has {_listed(shape.required, 'and')}"
    if shape.types:
        types = [
            f"{shown(pointer) or 'the whole value'} {_ARTICLES.get(kind, f'a {kind}')}"
            for pointer, kind in shape.types.items()
        ]
        words += f", with {', '.join(types)}"
    return words


def _warn_words(warn: Bounds | None) -> str:
    return f" (warns unless {_bounds_words(warn)})" if warn is not None else ""


def _bounds_words(bounds: Bounds) -> str:
    given = bounds.given
    if "min" in given and given["min"] == given.get("max"):
        return f"exactly {_number(given['min'])}"
    sides = (("at least", "min"), ("above", "above"), ("at most", "max"), ("below", "below"))
    return " and ".join(f"{words} {_number(given[side])}" for words, side in sides if side in given)


def _number(value: float) -> str:
    return f"{value:.12g}"


def _listed(texts: Sequence[str], joint: str = "or") -> str:
    """List texts, at most eight; the empty text is shown as quotes."""
    words = [shown(text) if text else '""' for text in texts[:8]]
    if len(texts) > 8:
        words.append(f"{len(texts) - 8} more")
    *first, last = words
    return f"{', '.join(first)} {joint} {last}" if first else last
