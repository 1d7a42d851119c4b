"""Evaluates predicates in three-valued logic: true, false, or absent with a reason."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import re2

from tests.reference.citations import is_cited
from tests.reference.envelope import text_of
from tests.reference.json_text import Json, JsonNumber, JsonObject
from tests.reference.lower_case import lower
from tests.reference.values import (
    NOT_JSON,
    WRONG_TYPE,
    Absent,
    Place,
    is_present,
    json_of,
    point,
    read_json,
    read_number,
    read_text,
)

#: What a portfolio writes, as YAML gives it.
Written: TypeAlias = Mapping[str, Any]
Truth: TypeAlias = bool | Absent

FORMATS = {
    "url": r"^https?://[^\s/?#]+([/?#]\S*)?$",
    "email": r"^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$",
    "iso_date": r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?$",
    "uuid": r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
    "number": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$",
    "integer": r"^[+-]?[0-9]+$",
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def holds(written: Written, place: Place, enclosing_field: str = "") -> Truth:
    """Return whether a predicate, or a composition of predicates, holds at a place.

    Args:
        written: The predicate with its own `field`, if it has one.
        place: Where to look.
        enclosing_field: Field of the composition around it, which it inherits.
    """
    field = written.get("field", enclosing_field)
    (name,) = [key for key in written if key in _PREDICATES]
    return _PREDICATES[name](field, written[name], place, written)


def in_bounds(number: float, bounds: Written) -> bool:
    """Return whether a number is within all given bounds."""
    return (
        ("min" not in bounds or number >= bounds["min"])
        and ("max" not in bounds or number <= bounds["max"])
        and ("above" not in bounds or number > bounds["above"])
        and ("below" not in bounds or number < bounds["below"])
    )


def bounded_number(name: str, field: str, place: Place) -> float | Absent:
    """Return the number that `range`, `length` or `count` compares with its bounds."""
    if name == "range":
        return read_number(field, place)
    if name == "length":
        text = read_text(field, place)
        return text if isinstance(text, Absent) else float(len(text))
    items = _list(field, place)
    return items if isinstance(items, Absent) else float(len(items))


def _list(field: str, place: Place) -> list[Json] | Absent:
    value = read_json(field, place)
    return value if isinstance(value, Absent | list) else WRONG_TYPE


def _bounded(name: str) -> Callable[[str, Any, Place, Written], Truth]:
    def predicate(field: str, bounds: Any, place: Place, _: Written) -> Truth:
        number = bounded_number(name, field, place)
        return number if isinstance(number, Absent) else in_bounds(number, bounds)

    return predicate


def _on_text(test: Callable[[str, Any], bool]) -> Callable[[str, Any, Place, Written], Truth]:
    def predicate(field: str, argument: Any, place: Place, _: Written) -> Truth:
        text = read_text(field, place)
        return text if isinstance(text, Absent) else test(text, argument)

    return predicate


def _found_by(text: str, pattern: str) -> bool:
    return re2.search(pattern, text) is not None


def _has_format(text: str, name: str) -> bool:
    return json_of(text) != NOT_JSON if name == "json" else _found_by(text, FORMATS[name])


def _has_shape(text: str, shape: Written) -> bool:
    document = json_of(text)
    if isinstance(document, Absent):
        return False
    if any(point(document, pointer) is None for pointer in shape.get("required", [])):
        return False
    pointed = [(point(document, pointer), name) for pointer, name in shape.get("types", {}).items()]
    return all(value is None or _is_of_type(value, name) for value, name in pointed)


def _is_of_type(value: Json, name: str) -> bool:
    if name == "integer":
        return isinstance(value, JsonNumber) and not _has_fraction(float(value.spelling))
    kinds: dict[str, type] = {
        "string": str,
        "number": JsonNumber,
        "boolean": bool,
        "array": list,
        "object": JsonObject,
    }
    return isinstance(value, kinds[name])


def _has_fraction(number: float) -> bool:
    """Return whether a number has a fraction; one too large for a double has no fraction."""
    return math.isfinite(number) and not number.is_integer()


def _substring(field: str, other: str, place: Place, written: Written) -> Truth:
    needles: list[str] | Absent
    if written.get("each"):
        items = _list(field, place)
        needles = items if isinstance(items, Absent) else [text_of(item) for item in items if item is not None]
    else:
        text = read_text(field, place)
        needles = text if isinstance(text, Absent) else [text]
    haystack = read_text(other, place)
    if isinstance(needles, Absent):
        return needles
    if isinstance(haystack, Absent):
        return haystack
    return all(lower(needle) in lower(haystack) for needle in needles)


def _compares(field: str, argument: Written, place: Place, _: Written) -> Truth:
    this, other = read_number(field, place), read_number(argument["other"], place)
    if isinstance(this, Absent):
        return this
    return other if isinstance(other, Absent) else _COMPARISONS[argument["operator"]](this, other)


def _all_of(field: str, parts: list[Written], place: Place, _: Written) -> Truth:
    return _kleene([holds(part, place, field) for part in parts], deciding=False)


def _any_of(field: str, parts: list[Written], place: Place, _: Written) -> Truth:
    return _kleene([holds(part, place, field) for part in parts], deciding=True)


def _kleene(truths: list[Truth], deciding: bool) -> Truth:
    if any(truth is deciding for truth in truths):
        return deciding
    return next((truth for truth in truths if isinstance(truth, Absent)), not deciding)


def _not(field: str, part: Written, place: Place, _: Written) -> Truth:
    truth = holds(part, place, field)
    return truth if isinstance(truth, Absent) else not truth


_PREDICATES: dict[str, Callable[[str, Any, Place, Written], Truth]] = {
    "present": lambda field, _, place, __: is_present(field, place),
    "absent": lambda field, _, place, __: not is_present(field, place),
    "sibling": lambda field, other, place, _: not is_present(field, place) or is_present(other, place),
    "one_of": _on_text(lambda text, texts: text in texts),
    "range": _bounded("range"),
    "length": _bounded("length"),
    "count": _bounded("count"),
    "matches": _on_text(_found_by),
    "not_matches": _on_text(lambda text, pattern: not _found_by(text, pattern)),
    "format": _on_text(_has_format),
    "json": _on_text(_has_shape),
    "substring_of": _substring,
    "cited_in": lambda field, other, place, _: is_cited(field, other, place),
    "compares": _compares,
    "all_of": _all_of,
    "any_of": _any_of,
    "not": _not,
}
