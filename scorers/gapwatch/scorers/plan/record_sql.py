"""First half of the query: parses records to spans, reading only the keys that the portfolios mention."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from gapwatch.scorers.plan.engine import suspicious
from gapwatch.scorers.plan.field_sql import member, missing_sql
from gapwatch.scorers.plan.sql_text import identifier, literal
from gapwatch.scorers.portfolio.envelope import Content, Level, fields_of
from gapwatch.scorers.portfolio.field import SPAN_TEXT_FIELDS, Field

_USAGE = tuple(f.name for f in fields_of(Level.USAGE))
_TRACE_COLUMNS = tuple(f.name for f in fields_of(Level.TRACE, Content.TEXT))
_TRACE_NUMBERS = tuple(f.name for f in fields_of(Level.TRACE, Content.NUMBER))
#: Fields of a span that every plan reads: rows and facets need them.
_ALWAYS = ("tier", "model")
#: RE2 of a member that is neither an object nor null.
_NO_OBJECT = r'"{}"[ \t\r\n]*:[ \t\r\n]*[^{{n \t\r\n]'

#: Keys that every plan reads, in the notation of the documentation.
TRACE_KEYS = (*_TRACE_COLUMNS, *_TRACE_NUMBERS)
SPAN_KEYS = ("span_id", "component", "started_at", "ended_at")
USAGE_KEYS = tuple(f"usage.{name}" for name in _USAGE)


@dataclass(frozen=True)
class ParsedColumns:
    """Values of the envelope that a plan reads, with their column names.

    Attributes:
        texts: Text fields of a span; each column has the field's name.
        usage: Whether the numbers of `usage` are read, as `usage_<name>`.
        attributes: Column of each attribute key of a span.
        trace_attributes: Column of each attribute key of the trace.
    """

    texts: tuple[str, ...]
    usage: bool
    attributes: dict[str, str]
    trace_attributes: dict[str, str]

    @property
    def structures(self) -> tuple[tuple[str, str], ...]:
        """Objects whose members are read: name, and whether a span or the trace has it."""
        read = (("usage", "span", self.usage), ("attributes", "span", self.attributes))
        all_ = (*read, ("attributes", "trace", self.trace_attributes))
        return tuple((name, scope) for name, scope, keys in all_ if keys)


def parsed_columns(fields: Iterable[Field]) -> ParsedColumns:
    """Return the values of a record that the given fields need."""
    texts, usage = set(_ALWAYS), False
    keys: dict[str, None] = {}
    trace_keys: dict[str, None] = {}
    for field in fields:
        if field.key is not None:
            (keys if field.scope == "span" else trace_keys).setdefault(field.key)
        elif field.base in SPAN_TEXT_FIELDS:
            texts.add(field.base)
        elif field.base.startswith("usage.") or field.base in ("trace.cost_usd", "trace.total_tokens"):
            usage = True
            texts.add("kind")
        elif field.base == "trace.error_count":
            texts.add("status")
    return ParsedColumns(
        tuple(name for name in SPAN_TEXT_FIELDS if name in texts),
        usage,
        {key: f"attribute_{i}" for i, key in enumerate(keys)},
        {key: f"trace_attribute_{i}" for i, key in enumerate(trace_keys)},
    )


def spans_sql(columns: ParsedColumns) -> str:
    """Return the SELECT with one row per span of `inbox(ord, v, trusted)`, in their order.

    A record without spans, and an unreadable one, has one row with `is_span` false. `readable` is false where
    `dead_letter.examine` must decide about the record. `<scope>_<name>_missing` is the reason for a missing member of
    that object.
    """
    structure = _structure(columns)
    checked = f"SELECT ord, v, CASE WHEN trusted OR NOT {suspicious('v', whole=False)} THEN v END AS checked FROM inbox"
    written = literal(json.dumps(structure, ensure_ascii=False))
    parsed = f"SELECT ord, v, TRY(json_transform(checked, {written})) AS t FROM ({checked})"
    readable = "t.trace_id IS NOT NULL AND t.pipeline IS NOT NULL AND t.spans IS NOT NULL"
    trace = [f"t.{name} AS {name}" for name in _TRACE_COLUMNS]
    trace += [f"t.{name} AS trace_{name}" for name in _TRACE_NUMBERS[:2]]
    trace += [
        "num(t.started_at) AS trace_start",
        "num(t.ended_at) AS trace_end",
        "num(t.sampling_probability) AS publisher_p",
        *_attribute_columns("t", columns.trace_attributes),
    ]
    if columns.trace_attributes:
        trace.append(f"{_has_nothing('t.attributes', columns.trace_attributes)} AS lacks_attributes")
    # `nullif(t.spans, [])` would compare the spans by value, which takes 2 us a trace.
    listed = "CASE WHEN len(t.spans) > 0 THEN t.spans ELSE [NULL] END"
    unnested = (
        f"SELECT ord, v, coalesce({readable}, false) AS has_structure, coalesce(len(t.spans) = 0, false) AS is_empty, "
        f"{', '.join(trace)}, unnest({listed}) AS s, generate_subscripts({listed}, 1) - 1 AS span_index FROM ({parsed})"
    )
    span = [
        "ord",
        "span_index",
        "s IS NOT NULL AS is_span",
        "has_structure AND (is_empty OR (s.span_id IS NOT NULL AND s.component IS NOT NULL)) AS readable",
        *_TRACE_COLUMNS,
        "trace_started_at",
        "trace_ended_at",
        "trace_start",
        "trace_end",
        "publisher_p",
        *([f"{_odd(columns)} AS odd"] if columns.structures else []),
        *columns.trace_attributes.values(),
        *[f"s.{name} AS {name}" for name in ("span_id", "component", "started_at", "ended_at", *columns.texts)],
        "num(s.started_at) AS span_start",
        "num(s.ended_at) AS span_end",
    ]
    if columns.usage:
        span += [f"s.usage.{name} AS usage_{name}" for name in _USAGE]
    if columns.attributes:
        span += _attribute_columns("s", columns.attributes)
    spans = f"SELECT {', '.join(span)} FROM ({unnested})"
    if not columns.structures:
        return spans
    missing = [missing_sql(name, scope) for name, scope in columns.structures]
    return f"SELECT * EXCLUDE (odd), {', '.join(missing)} FROM ({spans})"


def _structure(columns: ParsedColumns) -> dict[str, object]:
    """Return the structure for json_transform. All values are read as texts; other JSON values as compact JSON."""
    span: dict[str, object] = dict.fromkeys(
        ("span_id", "component", "started_at", "ended_at", *columns.texts), "VARCHAR"
    )
    if columns.usage:
        span["usage"] = dict.fromkeys(_USAGE, "VARCHAR")
    if columns.attributes:
        span["attributes"] = _attribute_structure(columns.attributes)
    trace: dict[str, object] = dict.fromkeys((*_TRACE_COLUMNS, *_TRACE_NUMBERS), "VARCHAR")
    if columns.trace_attributes:
        trace["attributes"] = _attribute_structure(columns.trace_attributes)
    return {**trace, "spans": [span]}


def _differ_by_case_only(keys: Iterable[str]) -> bool:
    keys = list(keys)
    return len({key.lower() for key in keys}) < len(keys)


def _attribute_structure(keys: dict[str, str]) -> object:
    # DuckDB does not distinguish members of a struct by case; keys that differ by case only are read as one JSON text.
    return "JSON" if _differ_by_case_only(keys) else dict.fromkeys(keys, "VARCHAR")


def _attribute_columns(source: str, keys: dict[str, str]) -> list[str]:
    whole = f"{source}.attributes"
    if not _differ_by_case_only(keys):
        return [f"{whole}.{identifier(key)} AS {column}" for key, column in keys.items()]
    is_object = f"json_type({whole}) = 'OBJECT'"
    return [
        f"CASE WHEN {is_object} THEN json_extract_string({whole}, {member(key)}) END AS {column}"
        for key, column in keys.items()
    ]


def _odd(columns: ParsedColumns) -> str:
    """Return the expression of `odd`: the record, where `usage` or `attributes` may not be an object.

    Where values of all these objects were read, the record is not searched: the search takes a quarter of the time of
    parsing. Keys may be spelt with escapes.
    """
    lacking = [_has_nothing("s.usage", _USAGE)] if columns.usage else []
    lacking += [_has_nothing("s.attributes", columns.attributes)] if columns.attributes else []
    lacking += ["lacks_attributes"] if columns.trace_attributes else []
    names = dict.fromkeys(name for name, _ in columns.structures)
    looks = [f"regexp_matches(v, {literal(_NO_OBJECT.format(name))})" for name in names]
    escaped = r"contains(v, '\u00')"
    return f"CASE WHEN {' OR '.join(lacking)} THEN CASE WHEN {' OR '.join([*looks, escaped])} THEN v END END"


def _has_nothing(struct: str, keys: Iterable[str]) -> str:
    """Return the condition that a member is present without any of its keys: it may not be an object."""
    keys = list(keys)
    if _differ_by_case_only(keys):  # the whole member is read as JSON
        return f"{struct} IS NOT NULL"
    return f"({struct} IS NOT NULL AND coalesce({', '.join(f'{struct}.{identifier(key)}' for key in keys)}) IS NULL)"
