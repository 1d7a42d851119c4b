"""Reads a predicate as a portfolio writes it, and says everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from scorers.field import SPAN_NUMBER_FIELDS, SPAN_TEXT_FIELDS, TRACE_NUMBER_FIELDS, Field, FieldKind, parse_field
from scorers.predicate import Predicate
from scorers.predicate_arguments import FORMATS, OPERATORS, read_bounds, read_json, read_pattern, read_texts
from scorers.printable import shown
from scorers.problem_list import KeyPath, ProblemList, dotted, nearest, one_of

PREDICATES = (
    "present",
    "absent",
    "sibling",
    "one_of",
    "range",
    "length",
    "matches",
    "not_matches",
    "format",
    "json",
    "substring_of",
    "cited_in",
    "compares",
    "count",
    "all_of",
    "any_of",
    "not",
)
#: Characters of a field with its key and pointer; each becomes a piece of SQL.
MAX_FIELD_LENGTH = 1_000
COMPOSITIONS = ("all_of", "any_of", "not")
_NEEDS_NUMBER = ("range", "compares")
_TAKES_ALL = ("present", "absent", "sibling")
#: Stands for a predicate that could not be read; its problem is in the list, so nobody ever meets it.
UNREADABLE = Predicate("present", None)


@dataclass(frozen=True)
class MetricScope:
    """What a metric's fields may be.

    Attributes:
        scope: "span" or "trace".
        components: Ids that `trace.count()` may name.
        root: Path of the metric; predicates name themselves from there.
    """

    scope: str
    components: frozenset[str]
    root: KeyPath


def read_field(raw: object, path: KeyPath, scope: MetricScope, problems: ProblemList) -> Field | None:
    """Take a written field apart, or note why it is none and return None."""
    if not isinstance(raw, str):
        problems.add(path, f"a text is expected, not {shown(raw)}", "the name of a field")
        return None
    if len(raw) > MAX_FIELD_LENGTH:
        problems.add(path, f"{len(raw):,} characters", f"at most {MAX_FIELD_LENGTH:,}")
        return None
    field = parse_field(raw, scope.scope)
    if field is None:
        problems.add(path, f"{shown(raw)!r} is not a field of a {scope.scope}", *_field_help(raw, scope.scope))
        return None
    if field.counted_component is not None and field.counted_component not in scope.components:
        close = nearest(field.counted_component, scope.components)
        suggestion = f"trace.count({close})" if close else ""
        problems.add(path, f"no component named {shown(field.counted_component)}", suggestion=suggestion)
        return None
    return field


def _field_help(raw: str, scope: str) -> tuple[str, str]:
    base, sharp, _ = raw.partition("#")
    field = parse_field(base, scope) if sharp else None
    if field is not None:
        if field.kind is FieldKind.NUMBER:
            return "no pointer: this field is a number", base
        return "a JSON Pointer after #: it begins with /, and writes ~ as ~0 and / as ~1", ""
    known: tuple[str, ...]
    if scope == "trace":
        known = (*TRACE_NUMBER_FIELDS, "trace.attributes.<key>", "trace.count(<component>)")
    else:
        known = (*SPAN_TEXT_FIELDS, *SPAN_NUMBER_FIELDS, "attributes.<key>")
    first, _, rest = base.partition(".")
    if scope == "span" and first in SPAN_TEXT_FIELDS and rest:
        return one_of(known), f"{first}#/{rest.replace('.', '/')}"
    close = nearest(base, (*known, *(name.lower() for name in known)))
    if not close and scope == "span" and base.replace("_", "").isalnum() and base.isascii():
        close = f"attributes.{base}"
    return one_of(known), close


def read_predicate(
    raw: object,
    path: KeyPath,
    scope: MetricScope,
    problems: ProblemList,
    inherited: Field | None = None,
    own: bool = False,
    beside: tuple[str, ...] = (),
) -> Predicate:
    """Read one predicate and all its parts.

    Args:
        raw: As written.
        path: Where it stands.
        scope: Which fields there are.
        problems: Where problems are noted.
        inherited: The field of the composition around it.
        own: Whether it is a claim's own predicate, which alone may have `warn`.
        beside: Keys that stand beside the predicate's and mean nothing here (`form`, `optional`).

    Returns:
        The predicate; `UNREADABLE`, or one with such parts, where a problem was noted.
    """
    if not isinstance(raw, dict):
        problems.add(path, f"a predicate is a map, not {shown(raw)}", "{field: status, one_of: [error]}")
        return UNREADABLE
    name = _predicate_name(raw, path, scope, problems, beside)
    if name is None:
        return UNREADABLE
    field = inherited
    if "field" in raw:
        field = read_field(raw["field"], (*path, "field"), scope, problems)
        if field is None and name not in COMPOSITIONS:
            return UNREADABLE
    elif field is None and name not in COMPOSITIONS:
        problems.add((*path, "field"), f"{name} needs a field", "a field of this predicate, or of one around it")
        return UNREADABLE
    broken = "field" in raw and field is None
    return _Reader(path, scope, problems, field, own, broken).read(name, raw)


def _predicate_name(
    raw: dict[str, object], path: KeyPath, scope: MetricScope, problems: ProblemList, beside: tuple[str, ...]
) -> str | None:
    names = [key for key in raw if key in PREDICATES]
    unknown = [key for key in raw if key not in (*PREDICATES, "field", "each", *beside)]
    for key in unknown:
        if parse_field(key, scope.scope) is not None and key != "field":
            value = shown(raw[key])
            problems.add((*path, key), "no such predicate", suggestion=f"{{field: {key}, one_of: [{value}, ...]}}")
        else:
            problems.add((*path, key), "no such predicate", one_of(PREDICATES), nearest(key, (*PREDICATES, *beside)))
    if not names and not unknown:
        problems.add(path, "no predicate", one_of(PREDICATES))
    if len(names) > 1:
        parts = ", ".join(f"{{{name}: ...}}" for name in names)
        problems.add(path, f"more than one predicate: {', '.join(names)}", "one", f"all_of: [{parts}]")
    if "each" in raw and "substring_of" not in raw:
        problems.add((*path, "each"), "each belongs to substring_of")
    return names[0] if len(names) == 1 and not unknown else None


class _Reader:
    """Reads the argument of one predicate; one method a kind of argument."""

    def __init__(
        self, path: KeyPath, scope: MetricScope, problems: ProblemList, field: Field | None, own: bool, broken: bool
    ) -> None:
        self._path = path
        self._scope = scope
        self._problems = problems
        self._field = field
        self._own = own
        self._broken = broken  # the composition's own field could not be read: its parts are judged no further

    def read(self, name: str, raw: dict[str, object]) -> Predicate:
        """Read the predicate `name` of the map `raw`."""
        argument, path = raw[name], (*self._path, name)
        if name in COMPOSITIONS:
            return self._composition(name, argument, path)
        assert self._field is not None  # read_predicate saw to it
        if name not in _TAKES_ALL and not self._fits(self._field, path, name in _NEEDS_NUMBER):
            return UNREADABLE
        where = dotted(path[len(self._scope.root) :])
        predicate = Predicate(name, self._field, where)
        if name in ("present", "absent"):
            self._true(name, argument, path)
            return predicate
        if name in ("range", "length", "count"):
            bounds, warn = read_bounds(name, argument, path, self._own, self._problems)
            return Predicate(name, self._field, where, bounds=bounds, warn=warn)
        if name in ("matches", "not_matches"):
            return Predicate(name, self._field, where, pattern=read_pattern(argument, path, self._problems))
        if name == "one_of":
            return Predicate(name, self._field, where, texts=read_texts(argument, path, self._problems))
        if name == "format":
            return Predicate(name, self._field, where, format=self._word(argument, path, FORMATS, "format"))
        if name == "json":
            required, types = read_json(argument, path, self._problems)
            return Predicate(name, self._field, where, required=required, types=types)
        if name == "compares":
            return self._compares(argument, path, where)
        return self._other_field(name, raw, path, where)

    def _composition(self, name: str, argument: object, path: KeyPath) -> Predicate:
        where = dotted(path[len(self._scope.root) :])
        if self._broken:
            return UNREADABLE
        if name == "not":
            parts = [self._part(argument, path)]
        elif not isinstance(argument, list) or not argument:
            message = "an empty list" if argument == [] else f"a list is expected, not {shown(argument)}"
            self._problems.add(path, message, "a list of predicates")
            parts = []
        else:
            parts = [self._part(part, (*path, position)) for position, part in enumerate(argument)]
        return Predicate(name, None, where, parts=tuple(parts))

    def _part(self, raw: object, path: KeyPath) -> Predicate:
        return read_predicate(raw, path, self._scope, self._problems, inherited=self._field)

    def _fits(self, field: Field, path: KeyPath, needs_number: bool) -> bool:
        if needs_number and field.kind is FieldKind.TEXT:
            message = f"{shown(path[-1])} needs a number, {field.text} is a text"
            self._problems.add(path, message, "a number field, an attribute or a pointer", f"{field.text}#")
            return False
        if not needs_number and field.kind is FieldKind.NUMBER:
            message = f"{shown(path[-1])} needs a text, {field.text} is a number"
            self._problems.add(path, message, "range or compares on a number field")
            return False
        return True

    def _true(self, name: str, argument: object, path: KeyPath) -> None:
        if argument is not True:
            other = "absent" if name == "present" else "present"
            suggestion = f"{other}: true" if argument is False else f"{name}: true"
            self._problems.add(path, f"{shown(argument)} says nothing", "true", suggestion)

    def _word(self, argument: object, path: KeyPath, words: tuple[str, ...], what: str) -> str | None:
        if isinstance(argument, str) and argument in words:
            return argument
        self._problems.add(path, f"no {what} named {shown(argument)}", one_of(words), nearest(argument, words))
        return None

    def _compares(self, argument: object, path: KeyPath, where: str) -> Predicate:
        if not isinstance(argument, dict):
            self._problems.add(path, f"a map is expected, not {shown(argument)}", '{operator: "<", other: field}')
            return UNREADABLE
        for key in argument:
            if key not in ("operator", "other"):
                self._problems.add(
                    (*path, key), "no such key", "operator and other", nearest(key, ("operator", "other"))
                )
        for key in ("operator", "other"):
            if key not in argument:
                self._problems.add((*path, key), "is required")
        operator = other = None
        if "operator" in argument:
            operator = self._word(argument["operator"], (*path, "operator"), OPERATORS, "operator")
        if "other" in argument:
            other = read_field(argument["other"], (*path, "other"), self._scope, self._problems)
            if other is not None:
                self._fits(other, (*path, "other"), True)
        return Predicate("compares", self._field, where, other=other, operator=operator)

    def _other_field(self, name: str, raw: dict[str, object], path: KeyPath, where: str) -> Predicate:
        other = read_field(raw[name], path, self._scope, self._problems)
        if other is not None and name != "sibling":
            self._fits(other, path, False)
        if name == "cited_in" and self._scope.scope == "trace":
            self._problems.add(path, "a trace has no field_meta", "cited_in in the metric of a component")
        each = raw.get("each", False)
        if not isinstance(each, bool):
            self._problems.add((*self._path, "each"), f"{shown(each)} is neither true nor false", "true")
            each = False
        return Predicate(name, self._field, where, other=other, each=each)
