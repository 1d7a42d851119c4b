"""Conditions, as Python source, under which a claim certainly passes; most rows are decided by them alone.

A condition that is false decides nothing: then the functions of `claim_outcomes` say what the claim's outcome is. So a
condition may be stricter than its predicate, and a predicate without a condition is only slower. The source has names
alone: every constant of a portfolio is in `Conditions.constants`, under a name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gapwatch.scorers.plan.record_types import ParsedKeys
from gapwatch.scorers.plan.row_values import NO_TEXT, RowInputs, without_pointer
from gapwatch.scorers.plan.strict_json import NOT_JSON_TEXT
from gapwatch.scorers.plan.value_tests import FORMATS
from gapwatch.scorers.portfolio.claim import CheckClaim, Claim, LabelClaim, MeasureClaim
from gapwatch.scorers.portfolio.field import TRACE_TEXT_FIELDS, Field, FieldKind, pointer_steps
from gapwatch.scorers.portfolio.predicate import (
    Absent,
    AllOf,
    AnyOf,
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

#: Largest bound that an int may be compared with: beyond it, neighbouring ints are equal as doubles.
_EXACT = 2.0**53
#: Most texts that are compared one by one, where a value may be one that cannot be a member of a set.
_FEW = 8
_TYPES = {"string": "text", "boolean": "flag", "array": "listed", "object": "object_"}


class Conditions:
    """Writes the conditions of one block.

    Args:
        inputs: Registry of the values of all rows.
        keys: Keys that records have.

    Attributes:
        constants: Values of the names in the source.
        lines: Assignments of local names, in the order in which they are needed.
        columns: Local name by the list that it is an element of: `documents[3]`, `hits[0]`.
    """

    def __init__(self, inputs: RowInputs, keys: ParsedKeys) -> None:
        self._inputs = inputs
        self._keys = keys
        self._locals: dict[str, str] = {}
        self._constants: dict[tuple[type, Any], str] = {}
        self.constants: dict[str, Any] = {
            "text": str, "flag": bool, "listed": list, "object_": dict, "whole": int, "real": float,
            "NO_TEXT": NO_TEXT, "NOT_JSON": NOT_JSON_TEXT, "each_inside": _each_inside, "LEAST": -sys.float_info.max,
            "MOST": sys.float_info.max,
        }  # fmt: skip
        self.lines: list[str] = []
        self.columns: dict[str, str] = {}
        self._by_kind: dict[type[Predicate], Callable[[Any], str | None]] = {
            Present: lambda p: self._present(p.field),
            Absent: lambda p: self._not(self._present(p.field)),
            Sibling: self._sibling,
            OneOf: lambda p: self._one_of(p.field, p.texts),
            Range: lambda p: self._number_within(p.field, p.bounds),
            Length: lambda p: self._sized(self._text(p.field), "text", p.field, p.bounds),
            Count: lambda p: self._sized(self._document(p.field), "listed", p.field, p.bounds, is_json=True),
            Matches: lambda p: self._hit(p.field, p.pattern),
            NotMatches: lambda p: f"{self._hit(p.field, p.pattern)} is False",
            Format: self._format,
            Json: self._json,
            SubstringOf: self._substring_of,
            Compares: self._compares,
            AllOf: lambda p: self._joined([self.holds(part) for part in p.parts], " and "),
            AnyOf: lambda p: self._joined([self.holds(part) for part in p.parts], " or "),
            Not: lambda p: self.fails(p.part),
        }

    def passes(self, claim: Claim) -> str | None:
        """Return a condition under which a claim passes, or None."""
        if isinstance(claim, CheckClaim):
            predicate = claim.predicate
            if isinstance(predicate, Range | Length | Count) and predicate.bounds.warn is not None:
                inner = predicate.model_copy(update={"bounds": predicate.bounds.warn})
                return self._joined([self.holds(predicate), self.holds(inner)], " and ")
            return self.holds(predicate)
        if isinstance(claim, LabelClaim):
            return self._label(claim)
        if isinstance(claim, MeasureClaim):
            limit = claim.limit
            if limit is None:
                return self._number_between(claim.field, {})
            inner_bound = limit.warn if limit.warn is not None else limit.max if limit.max is not None else limit.min
            assert inner_bound is not None
            return self._number_between(claim.field, {"max" if limit.max is not None else "min": inner_bound})
        return None

    def holds(self, predicate: Predicate) -> str | None:
        """Return a condition under which a predicate is true, or None."""
        compile_ = self._by_kind.get(type(predicate))
        return compile_(predicate) if compile_ is not None else None

    def fails(self, predicate: Predicate) -> str | None:
        """Return a condition under which a predicate is false, or None."""
        if isinstance(predicate, Not):
            return self.holds(predicate.part)
        if isinstance(predicate, Matches):
            return f"{self._hit(predicate.field, predicate.pattern)} is False"
        if isinstance(predicate, NotMatches):
            return self._hit(predicate.field, predicate.pattern)
        if isinstance(predicate, Present | Absent | Sibling):
            return self._not(self.holds(predicate))
        if isinstance(predicate, Format):
            if predicate.format != "json":
                return f"{self._hit(predicate.field, FORMATS[predicate.format])} is False"
            return f"{self._document(predicate.field)} is NOT_JSON"
        if isinstance(predicate, AllOf):
            return self._joined([self.fails(part) for part in predicate.parts], " or ")
        if isinstance(predicate, AnyOf):
            return self._joined([self.fails(part) for part in predicate.parts], " and ")
        return None

    def warns_else(self, claim: Claim) -> str | None:
        """Return a condition under which a claim warns where `passes` is false, or None."""
        if isinstance(claim, MeasureClaim) and claim.limit is not None and claim.limit.warn is not None:
            limit = claim.limit.model_copy(update={"warn": None})
            return self.passes(claim.model_copy(update={"limit": limit}))
        if isinstance(claim, CheckClaim) and isinstance(claim.predicate, Range | Length | Count):
            return self.holds(claim.predicate) if claim.predicate.bounds.warn is not None else None
        return None

    def fails_else(self, claim: Claim) -> str | None:
        """Return a condition under which a claim fails where it neither passes nor warns, or None."""
        if isinstance(claim, MeasureClaim):
            return self._number_between(claim.field, {})
        if isinstance(claim, LabelClaim):
            return self._one_of(claim.field, claim.bad) if claim.bad else None
        if not isinstance(claim, CheckClaim):
            return None
        predicate = claim.predicate
        if isinstance(predicate, OneOf):
            return self._is_text(predicate.field)
        if isinstance(predicate, Present | Absent):
            is_member = predicate.field.kind is FieldKind.TEXT and predicate.field.base not in TRACE_TEXT_FIELDS
            return "True" if is_member else None
        if isinstance(predicate, Matches | NotMatches):
            return f"{self._hit(predicate.field, predicate.pattern)} is {isinstance(predicate, NotMatches)}"
        if isinstance(predicate, Range):
            return self._number_between(predicate.field, {})
        if isinstance(predicate, Length):
            return self._is_text(predicate.field)
        if isinstance(predicate, Count):
            return f"{self._document(predicate.field)}.__class__ is listed"
        if isinstance(predicate, Json) or (isinstance(predicate, Format) and predicate.format == "json"):
            return f"{self._document(predicate.field)} is NOT_JSON"
        return None

    def _is_text(self, field: Field) -> str | None:
        value = self._text(field)
        return None if value is None else f"{value}.__class__ is text"

    def constant(self, value: Any) -> str:
        """Return the name of a constant."""
        return self.constants_name((type(value), value), value)

    def constants_name(self, key: tuple[type, Any], value: Any) -> str:
        """Return the name of a value that `key` identifies."""
        if key not in self._constants:
            self._constants[key] = f"k{len(self._constants)}"
            self.constants[self._constants[key]] = value
        return self._constants[key]

    def number(self, field: Field) -> str | None:
        """Return the local name of a number that is known where the claim passes, or None."""
        if field.kind is FieldKind.EITHER:
            return self._json_value(field)
        if field.scope == "trace" and field.base != "trace.duration":
            return None
        return self._typed_number(field)

    def _typed_number(self, field: Field) -> str | None:
        name = field.base.removeprefix("trace.")
        if name in ("latency", "duration"):
            start, end = self._local("s.started_at"), self._local("s.ended_at")
            return self._local(f"None if {start} is None or {end} is None else {end} - {start}")
        if name == "latency_ms":
            seconds = self._typed_number(_plain("latency"))
            return self._local(f"None if {seconds} is None else {seconds} * 1000.0")
        if name == "usage.total_tokens":
            given = self._typed_number(_plain("usage.input_tokens"))
            made = self._typed_number(_plain("usage.output_tokens"))
            return self._local(f"None if {given} is None or {made} is None else {given} + {made}")
        if name.startswith("usage."):
            usage = self._local("s.usage")
            return self._local(f"None if {usage} is None else {usage}.{name.removeprefix('usage.')}")
        return self._local(f"s.{name}")

    def _local(self, expression: str) -> str:
        if expression not in self._locals:
            self._locals[expression] = f"v{len(self._locals)}"
            self.lines.append(f"{self._locals[expression]} = {expression}")
        return self._locals[expression]

    def _column(self, source: str) -> str:
        return self.columns.setdefault(source, f"c{len(self.columns)}")

    def _hit(self, field: Field, pattern: str) -> str:
        return self._column(f"hits[{self._inputs.hits(field, pattern)}]")

    def _document(self, field: Field) -> str:
        return self._column(f"documents[{self._inputs.document(field)}]")

    def _json_value(self, field: Field) -> str | None:
        """Return the local name of an attribute or of a value at a short pointer, which may be any JSON value."""
        if field.pointer is None:
            of_span = field.scope == "span"
            members = self._keys.attributes if of_span else self._keys.trace_attributes
            owner = self._local("s.attributes")
            return self._local(f"None if {owner} is None else {owner}.{members[field.key or '']}")
        steps = pointer_steps(field.pointer)
        if len(steps) != 1:
            return None
        return self._member(self._document(without_pointer(field)), steps[0])

    def _member(self, document: str, key: str) -> str:
        return self._local(f"{document}.get({self.constant(key)}) if {document}.__class__ is object_ else None")

    def _text(self, field: Field) -> str | None:
        """Return the local name of a text; of an attribute or a pointed value it may be another JSON value."""
        if field.kind is FieldKind.EITHER:
            return self._json_value(field)
        if field.base in TRACE_TEXT_FIELDS:  # no member of the record
            return None
        return self._local(f"s.{field.base}")

    def _present(self, field: Field) -> str | None:
        if field.kind is FieldKind.NUMBER:
            return None
        if field.kind is FieldKind.TEXT:
            return self._text(field)
        if field.pointer is not None:
            return None
        value = self._json_value(field)
        return f"({value} is not None and {value} != '')"

    def _not(self, condition: str | None) -> str | None:
        return None if condition is None else f"not {condition}"

    def _sibling(self, predicate: Sibling) -> str | None:
        this, other = self._present(predicate.field), self._present(predicate.other)
        return None if this is None or other is None else f"(not {this} or {other})"

    def _one_of(self, field: Field, texts: tuple[str, ...]) -> str | None:
        value = self._text(field)
        if value is None:
            return None
        if field.kind is FieldKind.TEXT:
            return f"{value} in {self.constant(frozenset(texts))}"
        if len(texts) <= _FEW:
            return f"{value} in {self.constant(tuple(texts))}"
        return f"({value}.__class__ is text and {value} in {self.constant(frozenset(texts))})"

    def _label(self, claim: LabelClaim) -> str | None:
        if claim.labels is not None:
            return self._one_of(claim.field, tuple(name for name in claim.labels if name not in claim.bad))
        value = self._text(claim.field)
        if value is None:
            return None
        bad = self.constant(tuple(claim.bad))
        return f"({value}.__class__ is text and {value} and {value} not in {bad})"

    def _number_within(self, field: Field, bounds: Bounds) -> str | None:
        return self._number_between(field, bounds.given)

    def _number_between(self, field: Field, given: dict[str, float]) -> str | None:
        value = self.number(field)
        if value is None or any(abs(bound) >= _EXACT for bound in given.values()):
            return None
        is_number = f"{value} is not None"
        if field.kind is FieldKind.EITHER:
            is_number = f"({value}.__class__ is real or {value}.__class__ is whole)"
        # A difference, a sum or an int may be beyond all doubles, and NaN stands for a wrong type: none is a number.
        names = {side: self.constant(bound) for side, bound in given.items()}
        lower = f"{names['above']} <" if "above" in names else f"{names.get('min', 'LEAST')} <="
        upper = f"< {names['below']}" if "below" in names else f"<= {names.get('max', 'MOST')}"
        return f"({is_number} and {lower} {value} {upper})"

    def _sized(self, value: str | None, kind: str, field: Field, bounds: Bounds, is_json: bool = False) -> str | None:
        if value is None:
            return None
        is_text = field.kind is FieldKind.TEXT and not is_json
        is_kind = f"{value} is not None" if is_text else f"{value}.__class__ is {kind}"
        names = {side: self.constant(bound) for side, bound in bounds.given.items()}
        lower = f"{names['min']} <= " if "min" in names else ""
        upper = f" <= {names['max']}" if "max" in names else ""
        return f"({is_kind} and {lower}len({value}){upper})"

    def _format(self, predicate: Format) -> str:
        if predicate.format != "json":
            return self._hit(predicate.field, FORMATS[predicate.format])
        document = self._document(predicate.field)
        return f"({document} is not NOT_JSON and {document} is not NO_TEXT)"

    def _json(self, predicate: Json) -> str | None:
        shape = predicate.shape
        pointers = [*shape.required, *shape.types]
        if any(len(pointer_steps(pointer)) != 1 for pointer in pointers) or not pointers:
            return None
        document = self._document(predicate.field)
        conditions = [f"{document}.__class__ is object_"]
        for pointer in shape.required:
            conditions.append(f"{self._member(document, pointer_steps(pointer)[0])} is not None")
        for pointer, name in shape.types.items():
            value = self._member(document, pointer_steps(pointer)[0])
            if name in _TYPES:
                conditions.append(f"({value} is None or {value}.__class__ is {_TYPES[name]})")
            else:
                real = f" or {value}.__class__ is real" if name == "number" else ""
                conditions.append(f"({value} is None or {value}.__class__ is whole{real})")
        return f"({' and '.join(conditions)})"

    def _substring_of(self, predicate: SubstringOf) -> str | None:
        haystack = self._text(predicate.other)
        if haystack is None:
            return None
        if predicate.each:
            elements = self._json_value(predicate.field) if predicate.field.kind is FieldKind.EITHER else None
            elements = elements or self._document(predicate.field)
            return (
                f"({elements}.__class__ is listed and {haystack}.__class__ is text and "
                f"each_inside({elements}, {haystack}))"
            )
        needle = self._text(predicate.field)
        if needle is None:
            return None
        return f"({needle}.__class__ is text and {haystack}.__class__ is text and {needle} in {haystack})"

    def _compares(self, predicate: Compares) -> str | None:
        fields = (predicate.field, predicate.other)
        if any(field.kind is not FieldKind.NUMBER for field in fields):
            return None
        this, other = (self.number(field) for field in fields)
        if this is None or other is None:
            return None
        operator = predicate.comparison.operator
        return (
            f"({this} is not None and {other} is not None and {this} {operator} {other} "
            f"and LEAST <= {this} <= MOST and LEAST <= {other} <= MOST)"
        )

    def _joined(self, conditions: list[str | None], word: str) -> str | None:
        known = [condition for condition in conditions if condition is not None]
        return f"({word.join(known)})" if len(known) == len(conditions) else None


def _each_inside(elements: list[Any], haystack: str) -> bool:
    for element in elements:  # noqa: SIM110 - `all` with a generator takes three times as long for few elements
        if element.__class__ is not str or element not in haystack:
            return False
    return True


def _plain(name: str) -> Field:
    return Field(name, name, "span", FieldKind.NUMBER)
