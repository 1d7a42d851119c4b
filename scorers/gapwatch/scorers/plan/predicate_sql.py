"""Compiles a predicate to SQL: a three-valued truth, and the reason where it is null.

SQL's AND, OR and NOT are Kleene's logic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.plan.field_sql import NOT_JSON, WRONG_TYPE, FieldCompiler, FieldSql
from gapwatch.scorers.plan.shared_columns import Expressions
from gapwatch.scorers.plan.sql_text import double, literal, literals
from gapwatch.scorers.portfolio.field import Field, FieldKind
from gapwatch.scorers.portfolio.predicate import (
    Absent,
    AllOf,
    AnyOf,
    CitedIn,
    Compares,
    Count,
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
)
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

_JSON_TYPES = {
    "string": "('VARCHAR')",
    "number": "('UBIGINT', 'BIGINT', 'HUGEINT', 'UHUGEINT', 'DOUBLE')",
    "boolean": "('BOOLEAN')",
    "array": "('ARRAY')",
    "object": "('OBJECT')",
}
_WHOLE_TYPES = "('UBIGINT', 'BIGINT', 'HUGEINT', 'UHUGEINT')"
_OPERATORS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "=", "!=": "<>"}
_BOUND_OPERATORS = {"min": ">=", "max": "<=", "above": ">", "below": "<"}


@dataclass(frozen=True)
class PredicateSql:
    """SQL of one predicate.

    Attributes:
        truth: BOOLEAN expression; null for an unknown truth.
        reason: Expression of the reason code, valid where `truth` is null; None where it never is.
        warn: Truth of the tighter bounds, where the predicate has `warn`.
        seen: Text that a row shows where the truth is false; None for the value of the predicate's field.
    """

    truth: str
    reason: str | None
    warn: str | None = None
    seen: str | None = None


class PredicateCompiler:
    """Compiles the predicates of one block."""

    def __init__(self, expressions: Expressions, fields: FieldCompiler) -> None:
        self._expressions = expressions
        self._fields = fields
        self._by_kind: dict[type[Predicate], Callable[[Any], PredicateSql]] = {
            Present: lambda p: PredicateSql(self._fields.present(p.field), None),
            Absent: lambda p: PredicateSql(f"(NOT {self._fields.present(p.field)})", None),
            Sibling: self._sibling,
            OneOf: self._one_of,
            Range: self._range,
            Length: self._length,
            Matches: self._matches,
            NotMatches: self._matches,
            Format: self._format,
            Json: self._json,
            SubstringOf: self._substring_of,
            CitedIn: self._cited_in,
            Compares: self._compares,
            Count: self._count,
            AllOf: self._composition,
            AnyOf: self._composition,
            Not: self._negation,
        }

    def compile(self, predicate: Predicate) -> PredicateSql:
        """Return the SQL of a predicate of a loaded portfolio."""
        return self._by_kind[type(predicate)](predicate)

    def seen(self, predicate: Predicate) -> tuple[str, str]:
        """Return the value that a row shows: the slot kind (o for a text, y for a number) and its expression.

        For a list, the row shows the elements that break the predicate; for an all_of, the first part that is false.
        """
        if isinstance(predicate, AllOf | AnyOf):
            parts = [(self.compile(part).truth, self._seen_text(part)) for part in predicate.parts]
            if predicate.name == "any_of" or len(parts) == 1:
                return "o", parts[0][1]
            cases = " ".join(f"WHEN NOT {truth} THEN {text}" for truth, text in parts)
            return "o", f"CASE {cases} ELSE {parts[0][1]} END"
        if isinstance(predicate, Not):
            return self.seen(predicate.part)
        sql = self._fields.field(predicate.field)
        special = self.compile(predicate).seen
        if special is not None:
            return "o", f"CASE WHEN NOT {self.compile(predicate).truth} THEN {special} ELSE {sql.text} END"
        if sql.text is None or predicate.field.kind is FieldKind.NUMBER:
            return "y", sql.readable_number
        return "o", sql.text

    def _seen_text(self, predicate: Predicate) -> str:
        kind, expression = self.seen(predicate)
        return expression if kind == "o" else f"CAST({expression} AS VARCHAR)"

    def _composition(self, predicate: AllOf | AnyOf) -> PredicateSql:
        parts = [self.compile(part) for part in predicate.parts]
        operator = " AND " if predicate.name == "all_of" else " OR "
        truth = "(" + operator.join(part.truth for part in parts) + ")"
        # The first part with an unknown truth, in the order of the portfolio, gives the reason.
        cases = "".join(f" WHEN {part.truth} IS NULL THEN {part.reason}" for part in parts if part.reason is not None)
        return PredicateSql(truth, f"CASE{cases} END" if cases else None)

    def _negation(self, predicate: Not) -> PredicateSql:
        part = self.compile(predicate.part)
        return PredicateSql(f"(NOT {part.truth})", part.reason)

    def _sibling(self, predicate: Sibling) -> PredicateSql:
        this, other = self._fields.present(predicate.field), self._fields.present(predicate.other)
        return PredicateSql(f"(NOT {this} OR {other})", None)

    def _one_of(self, predicate: OneOf) -> PredicateSql:
        sql = self._fields.field(predicate.field)
        return PredicateSql(f"({sql.readable_text} IN ({literals(predicate.texts)}))", sql.text_reason)

    def _range(self, predicate: Range) -> PredicateSql:
        sql = self._fields.field(predicate.field)
        return _bounded(predicate, sql.readable_number, sql.number_reason)

    def _length(self, predicate: Length) -> PredicateSql:
        sql = self._fields.field(predicate.field)
        length = self._expressions.column(f"length({sql.readable_text})", *sql.inputs)
        return _bounded(predicate, length, sql.text_reason)

    def _matches(self, predicate: Matches | NotMatches) -> PredicateSql:
        sql = self._fields.field(predicate.field)
        truth = f"regexp_matches({sql.readable_text}, {literal(predicate.pattern)})"
        return PredicateSql(truth if predicate.name == "matches" else f"(NOT {truth})", sql.text_reason)

    def _format(self, predicate: Format) -> PredicateSql:
        sql = self._fields.field(predicate.field)
        if predicate.format == "json":
            valid = f"({self._fields.json(sql)} IS NOT NULL)"
            return PredicateSql(f"CASE WHEN {sql.readable_text} IS NOT NULL THEN {valid} END", sql.text_reason)
        pattern = literal(FORMATS[predicate.format])
        return PredicateSql(f"regexp_matches({sql.readable_text}, {pattern})", sql.text_reason)

    def _json(self, predicate: Json) -> PredicateSql:
        sql = self._fields.field(predicate.field)
        column = self._fields.json(sql)
        conditions = [f"{column} IS NOT NULL"]
        for pointer in predicate.shape.required:
            found = self._expressions.at_pointer("json_type", column, pointer)
            conditions.append(f"coalesce({found} <> 'NULL', false)")
        for pointer, name in predicate.shape.types.items():
            found = self._expressions.at_pointer("json_type", column, pointer)
            conditions.append(f"coalesce({found} = 'NULL' OR {self._is_type(column, pointer, found, name)}, true)")
        truth = f"CASE WHEN {sql.readable_text} IS NOT NULL THEN {' AND '.join(conditions)} END"
        return PredicateSql(truth, sql.text_reason)

    def _is_type(self, column: str, pointer: str, found: str, name: str) -> str:
        if name != "integer":
            return f"{found} IN {_JSON_TYPES[name]}"
        # 1.0 and 1e3 are integers.
        value = f"TRY_CAST({self._expressions.at_pointer('json_extract_string', column, pointer)} AS DOUBLE)"
        return f"({found} IN {_WHOLE_TYPES} OR ({found} = 'DOUBLE' AND {value} = trunc({value})))"

    def _substring_of(self, predicate: SubstringOf) -> PredicateSql:
        this, other = self._fields.field(predicate.field), self._fields.field(predicate.other)
        haystack = self._fields.lower(other)
        if not predicate.each:
            truth = f"contains({haystack}, {self._fields.lower(this)})"
            return PredicateSql(truth, _first_reason(this.readable_text, this.text_reason, other.text_reason))
        column, is_list, reason = self._list(this)
        elements = f"json_transform({column}, '[\"VARCHAR\"]')"
        outside = f"list_filter({elements}, lambda e: NOT contains({haystack}, lower(e)))"
        truth = f"CASE WHEN {is_list} AND {haystack} IS NOT NULL THEN len({outside}) = 0 END"
        reason = f"CASE WHEN {is_list} THEN {other.text_reason} ELSE {reason} END"
        return PredicateSql(truth, reason, seen=f"CAST(to_json({outside}) AS VARCHAR)")

    def _count(self, predicate: Count) -> PredicateSql:
        column, is_list, reason = self._list(self._fields.field(predicate.field))
        count = self._expressions.column(f"CASE WHEN {is_list} THEN json_array_length({column}) END", column)
        return _bounded(predicate, count, reason)

    def _list(self, sql: FieldSql) -> tuple[str, str, str]:
        """Return the column of a text's JSON, the condition that it is a list, and the reason if it is not."""
        column = self._fields.json(sql)
        is_list = f"coalesce(json_type({column}) = 'ARRAY', false)"
        reason = (
            f"CASE WHEN {sql.text} IS NULL THEN {sql.text_reason} WHEN {column} IS NULL THEN {NOT_JSON} "
            f"ELSE {WRONG_TYPE} END"
        )
        return column, is_list, reason

    def _compares(self, predicate: Compares) -> PredicateSql:
        this, other = self._fields.field(predicate.field), self._fields.field(predicate.other)
        truth = f"({this.readable_number} {_OPERATORS[predicate.comparison.operator]} {other.readable_number})"
        return PredicateSql(truth, _first_reason(this.readable_number, this.number_reason, other.number_reason))

    def _cited_in(self, predicate: CitedIn) -> PredicateSql:
        """Compile `cited_in`: every non-empty member by a model has a source_span in the other field (ADR-0033)."""
        field = predicate.field
        this, other = self._fields.field(field), self._fields.field(predicate.other)
        meta_sql = self._fields.field(
            Field("attributes.field_meta", "attributes.field_meta", "span", field.kind, "field_meta")
        )
        meta, content, haystack = self._fields.json(meta_sql), self._fields.json(this), self._fields.lower(other)
        step = "'/' || replace(replace(k, '~', '~0'), '/', '~1')"
        span = f"json_extract_string({meta}, {step} || '/source_span')"
        cited = f"coalesce({span} <> '' AND contains({haystack}, lower({span})), false)"
        is_object = f"coalesce(json_type({content}) = 'OBJECT', false)"
        own = literal(field.text)
        value = f"CASE WHEN k = {own} THEN {this.text} WHEN {is_object} THEN json_extract_string({content}, {step}) END"
        by_model = f"json_extract_string({meta}, {step} || '/source') = 'llm'"
        entries = f"list_filter(list_distinct(json_keys({meta})), lambda k: {by_model})"
        at_fault = f"list_filter({entries}, lambda k: coalesce(({value}) <> '', false) AND NOT {cited})"
        uncited = f"len({at_fault}) > 0"
        members = f"len(list_filter({entries}, lambda k: k <> {own})) > 0"
        absent = f"{this.text} IS NULL OR {other.text} IS NULL OR {meta_sql.text} IS NULL"
        truth = (
            f"CASE WHEN {absent} OR coalesce(json_type({meta}) <> 'OBJECT', true) THEN NULL WHEN {uncited} THEN false "
            f"WHEN {members} AND NOT {is_object} THEN NULL ELSE true END"
        )
        reason = (
            f"CASE WHEN {this.text} IS NULL THEN {this.text_reason} WHEN {other.text} IS NULL THEN {other.text_reason} "
            f"WHEN {meta_sql.text} IS NULL THEN {meta_sql.text_reason} "
            f"WHEN coalesce(json_type({meta}) <> 'OBJECT', true) THEN {WRONG_TYPE} "
            f"WHEN {content} IS NULL THEN {NOT_JSON} ELSE {WRONG_TYPE} END"
        )
        return PredicateSql(truth, reason, seen=f"'not cited: ' || array_to_string({at_fault}, ', ')")


def _first_reason(value: str, reason: str, other_reason: str) -> str:
    return f"CASE WHEN {value} IS NULL THEN {reason} ELSE {other_reason} END"


def _bounded(predicate: Range | Length | Count, value: str, reason: str) -> PredicateSql:
    warn = predicate.bounds.warn
    return PredicateSql(_within(predicate.bounds, value), reason, _within(warn, value) if warn is not None else None)


def _within(bounds: Bounds, value: str) -> str:
    conditions = (f"{value} {_BOUND_OPERATORS[side]} {double(bound)}" for side, bound in bounds.given.items())
    return f"({' AND '.join(conditions)})"
