"""Reads a predicate as a portfolio writes it, and notes every problem of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gapwatch.scorers.loading.problems import KeyPath, ProblemList, nearest, one_of
from gapwatch.scorers.loading.re2 import note_pattern
from gapwatch.scorers.loading.schema_reader import read_model
from gapwatch.scorers.portfolio.field import (
    SPAN_NUMBER_FIELDS,
    SPAN_TEXT_FIELDS,
    TRACE_NUMBER_FIELDS,
    TRACE_TEXT_FIELDS,
    Field,
    FieldKind,
    parse_field,
)
from gapwatch.scorers.portfolio.predicate import (
    PREDICATE_KINDS,
    AllOf,
    AnyOf,
    CitedIn,
    Compares,
    Not,
    Predicate,
    Present,
    Sibling,
    SubstringOf,
)
from gapwatch.scorers.printable import shown

#: Characters of a field with its key and pointer; each field becomes a piece of SQL.
MAX_FIELD_LENGTH = 1_000
#: Replaces a field that could not be read. Its problem is in the list, so no loaded portfolio contains it.
UNREADABLE_FIELD = Field("", "", "span", FieldKind.EITHER)
#: Replaces a predicate that could not be read.
UNREADABLE = Present(field=UNREADABLE_FIELD, present=True)


@dataclass(frozen=True)
class MetricScope:
    """Fields that a metric may use.

    Attributes:
        scope: "span" or "trace".
        components: Members of each component that `trace.count()` may name, by its id; none where it is one itself.
        root: Path of the metric in the file.
    """

    scope: str
    components: Mapping[str, tuple[str, ...]]
    root: KeyPath


def read_field(raw: object, path: KeyPath, scope: MetricScope, problems: ProblemList) -> Field | None:
    """Parse a field as written; where that fails, note the problem and return None."""
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
    members = scope.components.get(field.counted_component or "", ())
    return replace(field, counted_members=members) if members else field


def _field_help(raw: str, scope: str) -> tuple[str, str]:
    base, sharp, _ = raw.partition("#")
    field = parse_field(base, scope) if sharp else None
    if field is not None:
        if field.kind is FieldKind.NUMBER:
            return "the field without a pointer, for it is a number", base
        return "a JSON Pointer after #: it begins with /, and writes ~ as ~0 and / as ~1", ""
    known: tuple[str, ...]
    if scope == "trace":
        known = (*TRACE_TEXT_FIELDS, *TRACE_NUMBER_FIELDS, "trace.attributes.<key>", "trace.count(<component>)")
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
        path: Its place in the file.
        scope: Fields that the metric may use.
        problems: List to which problems are added.
        inherited: The field of the enclosing composition.
        own: Whether it is a claim's own predicate; only such a predicate may have `warn`.
        beside: Further keys of the same map that are not part of the predicate (`form`, `optional`).

    Returns:
        The predicate. Where a problem was noted, it is `UNREADABLE` or has such parts.
    """
    if not isinstance(raw, dict):
        problems.add(path, f"a predicate must be a map, not {shown(raw)}", "{field: status, one_of: [error]}")
        return UNREADABLE
    name = _predicate_name(raw, path, scope, problems, beside)
    if name is None:
        return UNREADABLE
    field = read_field(raw["field"], (*path, "field"), scope, problems) if "field" in raw else inherited
    if issubclass(PREDICATE_KINDS[name], AllOf | AnyOf | Not):
        # Where the composition's own field could not be read, its parts are not checked.
        readable = field is not None or "field" not in raw
        return _composition(name, raw[name], (*path, name), scope, problems, field) if readable else UNREADABLE
    if field is None:
        if "field" not in raw:
            expected = "a field of this predicate, or of an enclosing composition"
            problems.add((*path, "field"), f"{name} needs a field", expected)
        return UNREADABLE
    return _on_field(name, raw, field, path, scope, problems, own)


def _predicate_name(
    raw: dict[str, object], path: KeyPath, scope: MetricScope, problems: ProblemList, beside: tuple[str, ...]
) -> str | None:
    names = [key for key in raw if key in PREDICATE_KINDS]
    unknown = [key for key in raw if key not in (*PREDICATE_KINDS, "field", "each", *beside)]
    for key in unknown:
        if parse_field(key, scope.scope) is not None and key != "field":
            value = shown(raw[key])
            problems.add((*path, key), "no such predicate", suggestion=f"{{field: {key}, one_of: [{value}, ...]}}")
        else:
            problems.add(
                (*path, key), "no such predicate", one_of(PREDICATE_KINDS), nearest(key, (*PREDICATE_KINDS, *beside))
            )
    if not names and not unknown:
        problems.add(path, "no predicate", one_of(PREDICATE_KINDS))
    if len(names) > 1:
        parts = ", ".join(f"{{{name}: ...}}" for name in names)
        problems.add(path, f"more than one predicate: {', '.join(names)}", "one", f"all_of: [{parts}]")
    if "each" in raw and "substring_of" not in raw:
        problems.add((*path, "each"), "each is an option of substring_of only")
    return names[0] if len(names) == 1 and not unknown else None


def _composition(
    name: str, raw: object, path: KeyPath, scope: MetricScope, problems: ProblemList, field: Field | None
) -> Predicate:
    def part(written: object, where: KeyPath) -> Predicate:
        return read_predicate(written, where, scope, problems, inherited=field)

    parts: object = raw
    if name == "not":
        parts = part(raw, path)
    elif isinstance(raw, list):
        parts = [part(written, (*path, position)) for position, written in enumerate(raw)]
    return read_model(PREDICATE_KINDS[name], {name: parts}, path[:-1], problems) or UNREADABLE


def _on_field(
    name: str,
    raw: dict[str, object],
    field: Field,
    path: KeyPath,
    scope: MetricScope,
    problems: ProblemList,
    own: bool,
) -> Predicate:
    kind, argument, where = PREDICATE_KINDS[name], raw[name], (*path, name)
    if not _fits(field, kind, where, problems):
        return UNREADABLE
    each = {"each": raw["each"]} if "each" in raw else {}
    if issubclass(kind, Sibling | SubstringOf | CitedIn):
        argument = _other(argument, kind, where, scope, problems)
    elif isinstance(argument, dict) and kind is Compares and "other" in argument:
        argument = {**argument, "other": _other(argument["other"], kind, (*where, "other"), scope, problems)}
    elif isinstance(argument, dict) and "warn" in argument and not own and "bounds" in kind.model_fields:
        message = "only a claim's own predicate may have warn, not a part of it and not a when"
        problems.add((*where, "warn"), message)
    elif isinstance(argument, str) and "pattern" in kind.model_fields:
        note_pattern(argument, where, problems)
    if kind is CitedIn and scope.scope == "trace":
        problems.add(where, "a trace has no field_meta", "cited_in in the metric of a component")
    # A copy: callers compare with `is UNREADABLE`, which means that even the kind is unknown.
    return read_model(kind, {"field": field, name: argument, **each}, path, problems) or UNREADABLE.model_copy()


def _other(raw: object, kind: type[Predicate], path: KeyPath, scope: MetricScope, problems: ProblemList) -> Field:
    other = read_field(raw, path, scope, problems) or UNREADABLE_FIELD
    _fits(other, kind, path, problems)
    return other


def _fits(field: Field, kind: type[Predicate], path: KeyPath, problems: ProblemList) -> bool:
    if kind.holds is FieldKind.NUMBER and field.kind is FieldKind.TEXT:
        message = f"{shown(path[-1])} needs a number, but {field.text} is a text"
        problems.add(path, message, "a number field, an attribute or a pointer", f"{field.text}#")
    elif kind.holds is FieldKind.TEXT and field.kind is FieldKind.NUMBER:
        message = f"{shown(path[-1])} needs a text, but {field.text} is a number"
        problems.add(path, message, "range or compares on a number field")
    else:
        return True
    return False
