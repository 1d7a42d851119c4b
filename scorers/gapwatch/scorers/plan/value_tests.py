"""Tests of single values: formats, bounds, JSON types, texts inside others."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from gapwatch.scorers.plan.strict_json import NumberText, text_in
from gapwatch.scorers.portfolio.predicate_arguments import Bounds

#: RE2 of `format`, for the whole text; a parser decides `json`.
FORMATS = {
    "url": r"^https?://[^\s/?#]+([/?#]\S*)?$",
    "email": r"^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$",
    "iso_date": (
        r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([T ]([01][0-9]|2[0-3]):[0-5][0-9]"
        r"(:[0-5][0-9]([.][0-9]+)?)?(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?$"
    ),
    "uuid": r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
    "number": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$",
    "integer": r"^[+-]?[0-9]+$",
}

_BOUND_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "min": operator.ge, "max": operator.le, "above": operator.gt, "below": operator.lt,
}  # fmt: skip
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float, NumberText), "boolean": (bool,), "array": (list,), "object": (dict,),
}  # fmt: skip


def is_inside(needle: str, haystack: str) -> bool:
    """Return whether a text occurs in another, ignoring case."""
    return needle in haystack or lower(needle) in lower(haystack)


def lower(text: str) -> str:
    """Return a text with each code point lowered by itself: `İ` is `i`, and a final `Σ` is `σ`."""
    if text.isascii() or ("İ" not in text and "Σ" not in text):
        return text.lower()
    return "".join(character.lower()[0] for character in text)


def within(bounds: Bounds) -> Callable[[float], bool]:
    """Return the function that says whether a number is within bounds."""
    sides = [(_BOUND_OPERATORS[side], bound) for side, bound in bounds.given.items()]
    return lambda number: all(holds(number, bound) for holds, bound in sides)


def is_of_type(value: Any, name: str) -> bool:
    """Return whether a JSON value has a type of JSON Schema; a missing one has every type."""
    if value is None:
        return True
    if name == "integer":  # 1.0 and 1e3 are integers, and so is a number too large for a double
        is_whole = value.__class__ is int or isinstance(value, NumberText)
        return is_whole or (value.__class__ is float and value == math.floor(value))
    return value.__class__ in _JSON_TYPES[name]


def is_cited(source_span: Any, source: str) -> bool:
    """Return whether a source span is a text, not empty, that occurs in the source."""
    text = "" if source_span is None else text_in(source_span)
    return text != "" and is_inside(text, source)
