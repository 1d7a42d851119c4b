"""Reads a part of a portfolio into its model, and explains in plain words what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gapwatch.scorers.loading.problems import MAX_PROBLEMS, KeyPath, ProblemList, nearest, one_of
from gapwatch.scorers.portfolio.claim import CLAIM_FORMS
from gapwatch.scorers.printable import shown

ModelT = TypeVar("ModelT", bound=BaseModel)

#: Names that authors give to reference answers.
REFERENCE_NAMES = (
    "reference",
    "reference_answer",
    "expected",
    "expected_output",
    "expected_answer",
    "ground_truth",
    "gold",
    "gold_answer",
    "correct_answer",
)
_PATTERNS = {
    r"^(failure_rate|share|mean|sum|ratio|p[1-9][0-9]?(_[0-9]{1,3})?)$": (
        "is no quantity that a threshold bounds",
        "failure_rate, share, p50, p95 or another quantile, mean, sum or ratio",
    ),
    r"^[a-z][a-z0-9_]*$": ("is not lower_snake_case", "lower-case letters, digits and _, a letter first"),
    r"^[1-9][0-9]{0,5}[smhdw]$": ("is not a window", "a number and s, m, h, d or w, like 1h"),
    r"^resource\..+$": ("is no attribute of a resource", "resource.<key>, like resource.service.name"),
    r"^[A-Za-z_][A-Za-z0-9_.]*$": ("is not a name of a scorer", "letters, digits, _ and ."),
}


def read_model(
    model: type[ModelT],
    raw: object,
    path: KeyPath,
    problems: ProblemList,
    stand_ins: Mapping[str, object] = MappingProxyType({}),
) -> ModelT | None:
    """Validate one part and note every problem of it.

    Values that do not fit are removed and the rest is validated again, so that rules over the whole portfolio still see
    this part.

    Args:
        model: The model to make.
        raw: The part as written, or as prepared.
        path: Its place in the file.
        problems: List to which problems are added.
        stand_ins: Values of required keys that replace unfit ones; a portfolio that needs them is refused anyway.

    Returns:
        The model; None where it cannot be made even without the unfit values.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        details = error.errors(include_url=False)[:MAX_PROBLEMS]
    for detail in details:
        _note(detail, model, raw, path, problems)
    rest = _without(raw, [_steps(raw, detail) for detail in details])
    fillings = [rest]
    if isinstance(rest, dict):
        # One at a time first: a name that can be read stays, or two such parts would seem to share the stand-in's.
        fillings += [{**rest, key: value} for key, value in stand_ins.items()] + [{**rest, **stand_ins}]
    for filling in fillings:
        try:
            return model.model_validate(filling)
        except ValidationError:
            continue
    return None


def _without(raw: object, bad: list[KeyPath]) -> object:
    pruned = _copied(raw)
    for path in sorted(bad, key=lambda path: tuple(map(str, path)), reverse=True):
        target: Any = pruned
        for step in path[:-1]:
            target = target[step]
        if path and isinstance(target, dict):
            target.pop(path[-1], None)
    return pruned


def _copied(raw: object) -> object:
    if isinstance(raw, dict):
        return {key: _copied(value) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_copied(value) for value in raw]
    return raw


def _steps(raw: object, detail: ErrorDetails) -> KeyPath:
    """Return the place of an error in `raw`: its location without the names of pydantic's union branches."""
    steps: list[str | int] = []
    here: Any = raw
    location: tuple[Any, ...] = detail["loc"]
    for position, part in enumerate(location):
        in_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if in_list or (isinstance(here, dict) and part in here):
            here = here[part]
        elif not (position == len(location) - 1 and detail["type"] == "missing"):
            continue
        steps.append(part)
    if detail["type"].startswith("union_tag"):
        steps.append("form")
    if key := detail.get("ctx", {}).get("key"):
        steps.append(key)
    return tuple(steps)


def _note(detail: ErrorDetails, model: type[BaseModel], raw: object, path: KeyPath, problems: ProblemList) -> None:
    where = (*path, *_steps(raw, detail))
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "string_type":
        _note_no_text(value, where, problems)
    elif kind == "extra_forbidden":
        _note_unknown_key(where, _keys_at(model, detail["loc"]), problems)
    elif kind == "literal_error":
        _note_word(where, value, _words_of(context["expected"]), problems)
    elif kind == "union_tag_invalid":
        _note_word(where, context["tag"], list(CLAIM_FORMS), problems)
    elif kind == "string_pattern_mismatch":
        message, expected = _PATTERNS[context["pattern"]]
        problems.add(where, f"{shown(value)!r} {message}", expected)
    elif kind in _SAYINGS:
        message, expected = _SAYINGS[kind](value, context)
        problems.add(where, message, expected)
    else:
        problems.add(where, detail["msg"], str(context.get("expected", "")), str(context.get("suggestion", "")))


_Saying = Callable[[object, dict[str, Any]], tuple[str, str]]
_SAYINGS: dict[str, _Saying] = {
    "missing": lambda value, context: ("is required", ""),
    "union_tag_not_found": lambda value, context: ("is required", one_of(CLAIM_FORMS)),
    "int_type": lambda value, context: (f"a whole number is expected, not {shown(value)!r}", ""),
    "int_from_float": lambda value, context: (f"a whole number is expected, not {shown(value)!r}", ""),
    "float_type": lambda value, context: (f"a number is expected, not {shown(value)!r}", ""),
    "bool_type": lambda value, context: (f"{shown(value)!r} is neither true nor false", "true or false"),
    "tuple_type": lambda value, context: (f"a list is expected, not {shown(value)!r}", ""),
    "dict_type": lambda value, context: (f"a map is expected, not {shown(value)!r}", ""),
    "model_type": lambda value, context: (f"a map is expected, not {shown(value)!r}", ""),
    "model_attributes_type": lambda value, context: (f"a map is expected, not {shown(value)!r}", ""),
    "string_too_short": lambda value, context: ("is empty", "a text"),
    "string_too_long": lambda value, context: (
        f"a text of {len(str(value)):,} characters",
        f"at most {context['max_length']:,}",
    ),
    "too_short": lambda value, context: (
        "is empty" if not context["actual_length"] else f"has {context['actual_length']} members",
        f"at least {context['min_length']}",
    ),
    "greater_than_equal": lambda value, context: (f"{shown(value)} is below {context['ge']:g}", "more"),
    "greater_than": lambda value, context: (f"{shown(value)} is not above {context['gt']:g}", "more"),
    "less_than_equal": lambda value, context: (f"{shown(value)} is above {context['le']:g}", "less"),
}


def _note_no_text(value: object, path: KeyPath, problems: ProblemList) -> None:
    """Note that a value is not a text; YAML reads a bare `yes`, `no`, `on`, `off` as a boolean."""
    if isinstance(value, bool):
        word = "yes" if value else "no"
        problems.add(path, f"a text is expected, not the boolean {shown(value)}", "quotes around it", f'"{word}"')
    elif isinstance(value, int | float):
        number = shown(value)
        problems.add(path, f"a text is expected, not the number {number}", "quotes around it", f'"{number}"')
    else:
        problems.add(path, f"a text is expected, not {shown(value)}")


def _note_unknown_key(where: KeyPath, keys: list[str], problems: ProblemList) -> None:
    key = str(where[-1])
    if key in REFERENCE_NAMES:
        problems.add(
            where,
            "no such key; reference answers are for offline evaluation: gapwatch eval reads them from its data set",
        )
    else:
        close = nearest(key, keys)
        problems.add(where, "no such key", "" if close or not keys else one_of(keys), close)


def _note_word(where: KeyPath, value: object, words: list[str], problems: ProblemList) -> None:
    problems.add(where, f"{shown(value)!r} is not allowed here", one_of(words), nearest(value, words))


def _words_of(expected: str) -> list[str]:
    """Return the words of pydantic's `'a', 'b' or 'c'`."""
    return [word.strip("' ") for word in expected.replace(" or ", ", ").split(", ")]


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that are allowed in place of the last part of a location."""
    models = [model]
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        inner = [found for one in models for found in _models_of(_annotation(one, part))]
        models = inner or [one for one in models if part in get_args(_annotation(one, "form"))] or models
    return [field.alias or name for one in models for name, field in one.model_fields.items()]


def _annotation(model: type[BaseModel], key: str) -> object:
    for name, field in model.model_fields.items():
        if key == (field.alias or name):
            return field.annotation
    return None


def _models_of(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and get_origin(annotation) is None:
        return [annotation]
    if get_origin(annotation) is Literal:
        return []
    return [found for argument in get_args(annotation) for found in _models_of(argument)]
