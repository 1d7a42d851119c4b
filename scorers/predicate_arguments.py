"""Reads the arguments of predicates: bounds, texts, patterns, the shape of a JSON."""

from __future__ import annotations

import math
import re

from scorers.predicate import Bounds
from scorers.printable import shown
from scorers.problem_list import KeyPath, ProblemList, nearest, one_of
from scorers.re2 import pattern_problem

FORMATS = ("json", "url", "email", "iso_date", "uuid", "number", "integer")
JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object")
OPERATORS = ("<", "<=", ">", ">=", "==", "!=")

_SIDES = {"range": ("min", "max", "above", "below"), "length": ("min", "max"), "count": ("min", "max")}
_POINTER = re.compile(r"(/([^~]|~[01])*)?", re.DOTALL)


def read_texts(raw: object, path: KeyPath, problems: ProblemList) -> tuple[str, ...]:
    """Read the texts of `one_of`."""
    if not isinstance(raw, list) or not raw:
        message = "an empty list" if raw == [] else f"a list of texts is expected, not {shown(raw)}"
        problems.add(path, message, "at least one text")
        return ()
    for position, text in enumerate(raw):
        if not isinstance(text, str):
            note_no_text(text, (*path, position), problems)
    return tuple(text for text in raw if isinstance(text, str))


def note_no_text(value: object, path: KeyPath, problems: ProblemList) -> None:
    """Note that a value is no text; YAML reads a bare `yes`, `no`, `on`, `off` as a boolean."""
    if isinstance(value, bool):
        word = "yes" if value else "no"
        problems.add(path, f"a text is expected, not the boolean {shown(value)}", "quotes around it", f'"{word}"')
    elif isinstance(value, int | float):
        problems.add(
            path, f"a text is expected, not the number {shown(value)}", "quotes around it", f'"{shown(value)}"'
        )
    else:
        problems.add(path, f"a text is expected, not {shown(value)}")


def read_pattern(raw: object, path: KeyPath, problems: ProblemList) -> str | None:
    """Read a regular expression; RE2, unanchored."""
    if not isinstance(raw, str):
        note_no_text(raw, path, problems)
        return None
    problem = pattern_problem(raw)
    if problem is not None:
        problems.add(path, f"not RE2: {problem}")
        return None
    return raw


def read_json(raw: object, path: KeyPath, problems: ProblemList) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Read `required` and `types` of the predicate `json`."""
    if not isinstance(raw, dict):
        problems.add(path, f"a map is expected, not {shown(raw)}", "{required: [/a], types: {/a: string}}")
        return (), ()
    for key in raw:
        if key not in ("required", "types"):
            problems.add((*path, key), "no such key", "required and types", nearest(key, ("required", "types")))
    required, types = raw.get("required", []), raw.get("types", {})
    if not isinstance(required, list):
        problems.add((*path, "required"), f"a list of pointers is expected, not {shown(required)}", "[/a, /b]")
        required = []
    if not isinstance(types, dict):
        problems.add((*path, "types"), f"a map is expected, not {shown(types)}", "{/a: string}")
        types = {}
    for position, pointer in enumerate(required):
        _check_pointer(pointer, (*path, "required", position), problems)
    for pointer, kind in types.items():
        _check_pointer(pointer, (*path, "types", pointer), problems)
        if kind not in JSON_TYPES:
            message = f"no type named {shown(kind)}"
            problems.add((*path, "types", pointer), message, one_of(JSON_TYPES), nearest(kind, JSON_TYPES))
    return tuple(map(str, required)), tuple((pointer, str(kind)) for pointer, kind in types.items())


def _check_pointer(pointer: object, path: KeyPath, problems: ProblemList) -> None:
    if not isinstance(pointer, str):
        note_no_text(pointer, path, problems)
    elif not pointer.startswith("/") and pointer:
        problems.add(
            path, f"{shown(pointer)!r} is no JSON Pointer", "a pointer that begins with /", f"/{shown(pointer)}"
        )
    elif not _POINTER.fullmatch(pointer) or "\x00" in pointer:
        problems.add(path, f"{shown(pointer)!r} is no JSON Pointer", "~ written as ~0 and / inside a key as ~1")


def read_bounds(
    name: str, raw: object, path: KeyPath, own: bool, problems: ProblemList
) -> tuple[Bounds | None, Bounds | None]:
    """Read the bounds of `range`, `length` or `count`, and their tighter `warn`.

    Args:
        name: The predicate.
        raw: Its map.
        path: Where it stands.
        own: Whether it is a claim's own predicate, which alone may have `warn`.
        problems: Where problems are noted.

    Returns:
        Bounds and warn; None where not given or not readable.
    """
    bounds = _bounds(name, raw, path, problems, ("warn",))
    if not isinstance(raw, dict) or "warn" not in raw:
        return bounds, None
    path = (*path, "warn")
    if not own:
        problems.add(path, "warn belongs to a claim's own predicate, not to a part of one or a when")
        return bounds, None
    warn = _bounds(name, raw["warn"], path, problems, ())
    if bounds is not None and warn is not None:
        _check_warn(bounds, warn, path, problems)
    return bounds, warn


def _bounds(name: str, raw: object, path: KeyPath, problems: ProblemList, others: tuple[str, ...]) -> Bounds | None:
    sides = _SIDES[name]
    if not isinstance(raw, dict):
        problems.add(path, f"a map of bounds is expected, not {shown(raw)}", f"{{{sides[0]}: 1}}")
        return None
    whole = name != "range"
    for key in raw:
        if key not in sides and key not in others:
            problems.add((*path, key), "no such bound", one_of(sides), nearest(key, sides))
        elif key in sides:
            check_number((*path, key), raw[key], whole, problems)
    given = {side: float(raw[side]) for side in sides if side in raw and _is_number(raw[side])}
    if not any(side in raw for side in sides):
        problems.add(path, "no bound", one_of(sides))
        return None
    for pair in (("min", "above"), ("max", "below")):
        if all(side in raw for side in pair):
            kind = "lower" if pair[0] == "min" else "upper"
            problems.add(path, f"{pair[0]} and {pair[1]} are both {kind} bounds", f"one {kind} bound")
            return None
    bounds = Bounds(**given)
    lower, upper = interval(bounds)
    if lower > upper or (whole and upper < 0) or math.inf in (lower, -upper):
        problems.add(path, f"nothing can meet {shown(_in_words(raw, sides))}", "bounds that something can meet")
        return None
    return bounds


def _in_words(raw: dict[str, object], sides: tuple[str, ...]) -> str:
    return ", ".join(f"{side} {shown(raw[side])}" for side in sides if side in raw)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_number(path: KeyPath, value: object, whole: bool, problems: ProblemList) -> None:
    """Note where a value is no number, or no whole one where that is asked."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        problems.add(path, f"a number is expected, not {shown(value)!r}", "a whole number" if whole else "a number")
    elif whole and value != int(value):
        problems.add(path, f"{shown(value)} is no whole number", "a whole number")


def _check_warn(bounds: Bounds, warn: Bounds, path: KeyPath, problems: ProblemList) -> None:
    lower, upper = interval(bounds)
    least, greatest = interval(warn)
    if (least != -math.inf and not lower <= least <= upper) or (
        greatest != math.inf and not lower <= greatest <= upper
    ):
        problems.add(path, "warn is not inside the bounds", "bounds as tight or tighter")


def interval(bounds: Bounds) -> tuple[float, float]:
    """Return the least and the greatest double that bounds let through; infinities where there is no bound."""
    lower, upper = -math.inf, math.inf
    if bounds.min is not None:
        lower = bounds.min
    elif bounds.above is not None:
        lower = math.nextafter(bounds.above, math.inf)
    if bounds.max is not None:
        upper = bounds.max
    elif bounds.below is not None:
        upper = math.nextafter(bounds.below, -math.inf)
    return lower, upper
