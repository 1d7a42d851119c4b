"""Truth of a predicate in a row: True, False, or the code of the reason why neither is known (Kleene's logic)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from gapwatch.scorers.plan.row_values import (
    NO_TEXT,
    NOT_JSON,
    WRONG_TYPE,
    BlockRows,
    RowInputs,
    TextReader,
    point,
)
from gapwatch.scorers.plan.strict_json import NOT_JSON_TEXT, text_in, write_compactly
from gapwatch.scorers.plan.value_tests import FORMATS, is_cited, is_inside, is_of_type, within
from gapwatch.scorers.portfolio.field import Field, FieldKind, parse_field, pointer_steps
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

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
Truth = Callable[[BlockRows, int], bool | int]
#: Text or number that a stored row shows; None for none.
Shown = Callable[[BlockRows, int], str | float | None]


class TruthCompiler:
    """Compiles the predicates of one block to functions.

    Args:
        inputs: Registry of the values that they read.
    """

    def __init__(self, inputs: RowInputs) -> None:
        self._inputs = inputs
        self._by_kind: dict[type[Predicate], Callable[[Any], Truth]] = {
            Present: lambda p: self._inputs.is_present(p.field),
            Absent: self._absent,
            Sibling: self._sibling,
            OneOf: self._one_of,
            Range: lambda p: _bounded(p.bounds, self._inputs.number(p.field)),
            Length: self._length,
            Matches: self._matches,
            NotMatches: lambda p: _negated(self._matches(p)),
            Format: self._format,
            Json: self._json,
            SubstringOf: self._substring_of,
            CitedIn: self._cited_in,
            Compares: self._compares,
            Count: lambda p: _bounded(p.bounds, self._count(p.field)),
            AllOf: lambda p: _joined([self.compile(part) for part in p.parts], deciding=False),
            AnyOf: lambda p: _joined([self.compile(part) for part in p.parts], deciding=True),
            Not: lambda p: _negated(self.compile(p.part)),
        }

    def compile(self, predicate: Predicate) -> Truth:
        """Return the truth of a predicate of a loaded portfolio."""
        return self._by_kind[type(predicate)](predicate)

    def warns(self, predicate: Predicate) -> Truth | None:
        """Return the truth of the tighter bounds, or None for a predicate without them."""
        if not isinstance(predicate, Range | Length | Count) or predicate.bounds.warn is None:
            return None
        return _bounded(predicate.bounds.warn, self._bounded_number(predicate))

    def _bounded_number(self, predicate: Range | Length | Count) -> Callable[[BlockRows, int], float | int]:
        if isinstance(predicate, Range):
            return self._inputs.number(predicate.field)
        if isinstance(predicate, Count):
            return self._count(predicate.field)
        return self._characters(predicate.field)

    def _absent(self, predicate: Absent) -> Truth:
        present = self._inputs.is_present(predicate.field)
        return lambda rows, i: not present(rows, i)

    def _sibling(self, predicate: Sibling) -> Truth:
        this, other = self._inputs.is_present(predicate.field), self._inputs.is_present(predicate.other)
        return lambda rows, i: not this(rows, i) or other(rows, i)

    def _one_of(self, predicate: OneOf) -> Truth:
        text, texts = self._inputs.text(predicate.field), frozenset(predicate.texts)

        def test(rows: BlockRows, i: int) -> bool | int:
            found = text(rows, i)
            return found in texts if found.__class__ is str else found  # type: ignore[return-value]

        return test

    def _characters(self, field: Field) -> Callable[[BlockRows, int], float | int]:
        text = self._inputs.text(field)

        def count(rows: BlockRows, i: int) -> float | int:
            found = text(rows, i)
            return found if isinstance(found, int) else float(len(found))

        return count

    def _length(self, predicate: Length) -> Truth:
        return _bounded(predicate.bounds, self._characters(predicate.field))

    def _pattern(self, field: Field, pattern: str) -> Truth:
        number, text = self._inputs.hits(field, pattern), self._inputs.text(field)

        def test(rows: BlockRows, i: int) -> bool | int:
            hit = rows.hits[number][i]
            return text(rows, i) if hit is None else hit  # type: ignore[return-value]

        return test

    def _matches(self, predicate: Matches | NotMatches) -> Truth:
        return self._pattern(predicate.field, predicate.pattern)

    def _format(self, predicate: Format) -> Truth:
        if predicate.format != "json":
            return self._pattern(predicate.field, FORMATS[predicate.format])
        number, text = self._inputs.document(predicate.field), self._inputs.text(predicate.field)

        def test(rows: BlockRows, i: int) -> bool | int:
            document = rows.documents[number][i]
            return text(rows, i) if document is NO_TEXT else document is not NOT_JSON_TEXT  # type: ignore[return-value]

        return test

    def _json(self, predicate: Json) -> Truth:
        number, text = self._inputs.document(predicate.field), self._inputs.text(predicate.field)
        required = [pointer_steps(pointer) for pointer in predicate.shape.required]
        types = [(pointer_steps(pointer), name) for pointer, name in predicate.shape.types.items()]

        def test(rows: BlockRows, i: int) -> bool | int:
            document = rows.documents[number][i]
            if document is NO_TEXT:
                return text(rows, i)  # type: ignore[return-value]
            return (
                document is not NOT_JSON_TEXT
                and all(point(document, steps) is not None for steps in required)
                and all(is_of_type(point(document, steps), name) for steps, name in types)
            )

        return test

    def _listed(self, field: Field) -> Callable[[BlockRows, int], list[Any] | int]:
        """Return the reader of the JSON list in a field."""
        number, text = self._inputs.document(field), self._inputs.text(field)

        def read(rows: BlockRows, i: int) -> list[Any] | int:
            document = rows.documents[number][i]
            if isinstance(document, list):
                return document
            if document is NO_TEXT:
                return text(rows, i)  # type: ignore[return-value]
            return NOT_JSON if document is NOT_JSON_TEXT else WRONG_TYPE

        return read

    def _count(self, field: Field) -> Callable[[BlockRows, int], float | int]:
        elements = self._listed(field)

        def count(rows: BlockRows, i: int) -> float | int:
            found = elements(rows, i)
            return found if isinstance(found, int) else float(len(found))

        return count

    def _substring_of(self, predicate: SubstringOf) -> Truth:
        haystack = self._inputs.text(predicate.other)
        if predicate.each:
            outside = self._outside(predicate)

            def test_each(rows: BlockRows, i: int) -> bool | int:
                found = outside(rows, i)
                return found if isinstance(found, int) else not found

            return test_each
        needle = self._inputs.text(predicate.field)

        def test(rows: BlockRows, i: int) -> bool | int:
            inner, outer = needle(rows, i), haystack(rows, i)
            if isinstance(inner, int):
                return inner
            return outer if isinstance(outer, int) else is_inside(inner, outer)

        return test

    def _outside(self, predicate: SubstringOf) -> Callable[[BlockRows, int], list[str] | int]:
        """Return the reader of the listed texts that do not occur in the other field."""
        elements, haystack = self._listed(predicate.field), self._inputs.text(predicate.other)

        def read(rows: BlockRows, i: int) -> list[str] | int:
            inner, outer = elements(rows, i), haystack(rows, i)
            if isinstance(inner, int):
                return inner
            if isinstance(outer, int):
                return outer
            texts = [text_in(element) for element in inner if element is not None]
            return [text for text in texts if not is_inside(text, outer)]

        return read

    def _cited_in(self, predicate: CitedIn) -> Truth:
        uncited = self._uncited(predicate)

        def test(rows: BlockRows, i: int) -> bool | int:
            found = uncited(rows, i)
            return found if isinstance(found, int) else not found

        return test

    def _uncited(self, predicate: CitedIn) -> Callable[[BlockRows, int], list[str] | int]:
        """Return the reader of the members that a model wrote without a source in the other field."""
        field, own = predicate.field, predicate.field.text
        meta_field = parse_field("attributes.field_meta", "span")
        assert meta_field is not None
        needed = [self._inputs.text(of) for of in (field, predicate.other, meta_field)]
        meta_number, content_number = self._inputs.document(meta_field), self._inputs.document(field)

        def read(rows: BlockRows, i: int) -> list[str] | int:
            this, other, meta_text = (text(rows, i) for text in needed)
            for found in (this, other, meta_text):
                if isinstance(found, int):
                    return found
            meta, content = rows.documents[meta_number][i], rows.documents[content_number][i]
            if not isinstance(meta, dict):
                return WRONG_TYPE
            entries = {k: e for k, e in meta.items() if isinstance(e, dict) and e.get("source") == "llm"}
            uncited = []
            for name, entry in entries.items():
                value = this if name == own else content.get(name) if isinstance(content, dict) else None
                if value is not None and value != "" and not is_cited(entry.get("source_span"), str(other)):
                    uncited.append(name)
            if not uncited and not isinstance(content, dict) and entries.keys() - {own}:
                return NOT_JSON if content is NOT_JSON_TEXT else WRONG_TYPE
            return uncited

        return read

    def _compares(self, predicate: Compares) -> Truth:
        this, other = self._inputs.number(predicate.field), self._inputs.number(predicate.other)
        holds = _OPERATORS[predicate.comparison.operator]

        def test(rows: BlockRows, i: int) -> bool | int:
            one, two = this(rows, i), other(rows, i)
            if one.__class__ is int:
                return one
            return two if two.__class__ is int else holds(one, two)

        return test

    def shown(self, predicate: Predicate) -> Shown:
        """Return the reader of the value that a row shows.

        For a list, the row shows the elements that break the predicate; for an all_of, the first part that is false.
        """
        if isinstance(predicate, AllOf | AnyOf):
            return self._shown_of_parts(predicate)
        if isinstance(predicate, Not):
            return self.shown(predicate.part)
        field = predicate.field
        if isinstance(predicate, SubstringOf) and predicate.each:
            return self._faults_or_text(field, self._outside(predicate), write_compactly)
        if isinstance(predicate, CitedIn):
            uncited = self._uncited(predicate)
            return self._faults_or_text(field, uncited, lambda names: "not cited: " + ", ".join(names))
        if field.kind is FieldKind.NUMBER:
            number = self._inputs.number(field)
            return lambda rows, i: number_or_none(number(rows, i))
        text = self._inputs.text(field)
        return lambda rows, i: text_or_none(text(rows, i))

    def _faults_or_text(
        self, field: Field, faults: Callable[[BlockRows, int], list[str] | int], write: Callable[[list[str]], str]
    ) -> Shown:
        text: TextReader = self._inputs.text(field)

        def read(rows: BlockRows, i: int) -> str | float | None:
            found = faults(rows, i)
            return write(found) if isinstance(found, list) and found else text_or_none(text(rows, i))

        return read

    def _shown_of_parts(self, predicate: AllOf | AnyOf) -> Shown:
        truths = [self.compile(part) for part in predicate.parts]
        shown = [self.shown(part) for part in predicate.parts]
        is_any = isinstance(predicate, AnyOf)

        def read(rows: BlockRows, i: int) -> str | float | None:
            failing = (k for k, truth in enumerate(truths) if truth(rows, i) is False)
            value = shown[0 if is_any else next(failing, 0)](rows, i)
            return write_compactly(value) if isinstance(value, float) else value

        return read


def shown_field(predicate: Predicate) -> Field | None:
    """Return the field whose value a row shows, or None where it shows something else of the predicate."""
    if isinstance(predicate, Not):
        return shown_field(predicate.part)
    if isinstance(predicate, AllOf | AnyOf | CitedIn) or (isinstance(predicate, SubstringOf) and predicate.each):
        return None
    return predicate.field


def number_or_none(found: float | int) -> float | None:
    """Return a number that was read, or None for the reason why there is none."""
    return found if found.__class__ is float else None


def text_or_none(found: str | int) -> str | None:
    """Return a text that was read, or None for the reason why there is none."""
    return found if isinstance(found, str) else None


def _bounded(bounds: Bounds, number: Callable[[BlockRows, int], float | int]) -> Truth:
    inside = within(bounds)

    def test(rows: BlockRows, i: int) -> bool | int:
        found = number(rows, i)
        return inside(found) if found.__class__ is float else found  # type: ignore[return-value]

    return test


def _negated(truth: Truth) -> Truth:
    def test(rows: BlockRows, i: int) -> bool | int:
        found = truth(rows, i)
        return not found if found.__class__ is bool else found

    return test


def _joined(truths: Sequence[Truth], deciding: bool) -> Truth:
    """Return the truth of a composition; of unknown parts, the first gives the reason."""

    def test(rows: BlockRows, i: int) -> bool | int:
        reason: bool | int = not deciding
        for truth in truths:
            found = truth(rows, i)
            if found is deciding:
                return deciding
            if found.__class__ is int and reason.__class__ is bool:
                reason = found
        return reason

    return test
