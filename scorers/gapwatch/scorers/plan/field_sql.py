"""Compiles a field of a span or a trace to SQL: its text, its number, and the reason for a missing value."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.scorers.plan.codes import unknown
from gapwatch.scorers.plan.shared_columns import Expressions
from gapwatch.scorers.plan.sql_text import literal
from gapwatch.scorers.portfolio.field import Field, FieldKind

ABSENT, WRONG_TYPE, NOT_JSON = unknown("absent"), unknown("wrong_type"), unknown("not_json")
NO_TIME, NO_MODEL_SPAN = unknown("no_time"), unknown("no_model_span")


@dataclass(frozen=True)
class FieldSql:
    """SQL of one field.

    Attributes:
        text: Expression of its text, null where absent; None for a field that is always a number.
        number: Expression of its number, null where it has no number; None for a field that is always a text.
        text_reason: Expression of the reason code; valid where `text` is null.
        number_reason: Expression of the reason code; valid where `number` is null.
        inputs: Derived columns that the expressions read.
    """

    text: str | None
    number: str | None
    text_reason: str
    number_reason: str
    inputs: tuple[str, ...] = ()

    @property
    def readable_text(self) -> str:
        """The text, where the loader has checked that the field has texts."""
        assert self.text is not None
        return self.text

    @property
    def readable_number(self) -> str:
        """The number, where the loader has checked that the field has numbers."""
        assert self.number is not None
        return self.number


class FieldCompiler:
    """Compiles the fields of one block; a value that several metrics need is computed once.

    Args:
        expressions: Registry of derived columns.
        attributes: Base column of each attribute key, of spans or of the trace.
        counted: Base column with the number of spans of each component, for `trace.count(...)`.
    """

    def __init__(self, expressions: Expressions, attributes: dict[str, str], counted: dict[str, str]) -> None:
        self._expressions = expressions
        self._attributes = attributes
        self._counted = counted

    def field(self, field: Field) -> FieldSql:
        """Return the SQL of a field."""
        if field.pointer is not None:
            return self._pointer(field)
        if field.key is not None:
            return self._attribute(field)
        if field.kind is FieldKind.TEXT:
            return FieldSql(field.base, None, str(ABSENT), str(ABSENT))
        if field.scope == "trace":
            return self._trace_number(field)
        return self._span_number(field)

    def present(self, field: Field) -> str:
        """Return the condition that a field is neither null nor the empty text; the condition is never null."""
        sql = self.field(field)
        if sql.text is None:
            return f"({sql.number} IS NOT NULL)"
        return f"coalesce({sql.text} <> '', false)"

    def json(self, sql: FieldSql) -> str:
        """Return the name of the column with the field's text if it is JSON by RFC 8259, else null."""
        return self._expressions.column(f"strict({sql.text})", *sql.inputs)

    def lower(self, sql: FieldSql) -> str:
        """Return the name of the column with the lower-cased text."""
        return self._expressions.column(f"lower({sql.text})", *sql.inputs)

    def number_of(self, column: str, *inputs: str) -> str:
        """Return the name of the column with the number that a text column spells, null where it spells no number."""
        return self._expressions.column(f"num({column})", *inputs)

    def _pointer(self, field: Field) -> FieldSql:
        base = self.field(Field(field.base, field.base, field.scope, FieldKind.TEXT, field.key))
        column = self.json(base)
        text = self._expressions.at_pointer("json_extract_string", column, field.pointer or "")
        values = self._expressions.pointer_column("json_extract_string", column)
        number = self.number_of(text, values)
        reason = (
            f"CASE WHEN {base.text} IS NULL THEN {base.text_reason} WHEN {column} IS NULL THEN {NOT_JSON} "
            f"WHEN {text} IS NULL THEN {ABSENT} ELSE {WRONG_TYPE} END"
        )
        return FieldSql(text, number, reason, reason, (values, column))

    def _attribute(self, field: Field) -> FieldSql:
        column = self._attributes[field.key or ""]
        reason = (
            f"CASE WHEN {column} IS NOT NULL THEN {WRONG_TYPE} ELSE {missing_column('attributes', field.scope)} END"
        )
        return FieldSql(column, self.number_of(column), reason, reason)

    def _span_number(self, field: Field) -> FieldSql:
        name = field.base
        if name == "latency":
            return _difference("span_start", "span_end", "started_at", "ended_at")
        if name == "usage.total_tokens":
            return self._total_tokens()
        if name in ("started_at", "ended_at"):
            number = "span_start" if name == "started_at" else "span_end"
            reason = f"CASE WHEN {name} IS NOT NULL THEN {WRONG_TYPE} ELSE {ABSENT} END"
            return FieldSql(None, number, reason, reason)
        column = name.replace("usage.", "usage_")
        reason = f"CASE WHEN {column} IS NOT NULL THEN {WRONG_TYPE} ELSE {missing_column('usage', 'span')} END"
        return FieldSql(None, self.number_of(column), reason, reason)

    def _total_tokens(self) -> FieldSql:
        given = self._span_number(Field("usage.input_tokens", "usage.input_tokens", "span", FieldKind.NUMBER))
        made = self._span_number(Field("usage.output_tokens", "usage.output_tokens", "span", FieldKind.NUMBER))
        # Embeddings and reranks have no output tokens: only there the count may be missing.
        output = (
            f"CASE WHEN kind IN ('embedding', 'rerank') AND usage_output_tokens IS NULL THEN 0 ELSE {made.number} END"
        )
        inputs = (given.readable_number, made.readable_number)
        number = self._expressions.column(f"finite({given.number} + {output})", *inputs)
        reason = f"CASE WHEN {given.number} IS NULL THEN {given.number_reason} ELSE {made.number_reason} END"
        return FieldSql(None, number, reason, reason, (number, *inputs))

    def _trace_number(self, field: Field) -> FieldSql:
        name = field.base.removeprefix("trace.")
        if name == "duration":
            return _difference("trace_start", "trace_end", "trace_started_at", "trace_ended_at")
        if field.counted_component is not None:
            return FieldSql(None, self._counted[field.counted_component], str(ABSENT), str(ABSENT))
        if name in ("span_count", "error_count"):
            return FieldSql(None, name, str(ABSENT), str(ABSENT))
        total = self._expressions.column(
            f"CASE WHEN {name}_lacking IS NOT NULL THEN NULL WHEN model_spans > 0 THEN finite({name}_sum) "
            f"WHEN {name}_elsewhere THEN NULL ELSE 0 END"
        )
        reason = f"coalesce({name}_lacking, CASE WHEN model_spans > 0 THEN {WRONG_TYPE} ELSE {NO_MODEL_SPAN} END)"
        return FieldSql(None, total, reason, reason, (total,))


def _difference(start: str, end: str, start_text: str, end_text: str) -> FieldSql:
    reason = f"CASE WHEN {start_text} IS NULL OR {end_text} IS NULL THEN {NO_TIME} ELSE {WRONG_TYPE} END"
    return FieldSql(None, f"finite({end} - {start})", reason, reason)


def missing_column(name: str, scope: str) -> str:
    """Return the name of the column with the reason for a missing member of `usage` or `attributes`.

    The member may be absent, or `usage` or `attributes` itself may not be an object.
    """
    return f"{scope}_{name}_missing"


def missing_sql(name: str, scope: str) -> str:
    """Return the expression of `missing_column`.

    The column `odd` has the record only where a cheap check found that one of the two may not be an object.
    """
    path = f"'/{name}'" if scope == "trace" else f"'/spans/' || span_index || '/{name}'"
    found = f"coalesce(json_type(odd, {path}), 'NULL')"
    reason = f"CASE WHEN odd IS NOT NULL AND {found} NOT IN ('NULL', 'OBJECT') THEN {WRONG_TYPE} ELSE {ABSENT} END"
    return f"({reason})::UTINYINT AS {missing_column(name, scope)}"


def member(key: str) -> str:
    """Return the RFC 6901 step of a key as an SQL text literal, with its slash."""
    return literal("/" + key.replace("~", "~0").replace("/", "~1"))
