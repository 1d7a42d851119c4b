"""Rows of one block, and the values of their fields: texts, numbers and JSON, or the reason why there is none.

A reader takes the rows and the number of one of them. It returns a str or a float, or an int: the code of the reason
(`gapwatch.scorers.plan.codes`) for which the row has no such value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.scorers.plan.codes import unknown
from gapwatch.scorers.plan.record_types import ParsedKeys, RecordTypes
from gapwatch.scorers.plan.strict_json import NOT_JSON_TEXT, number_in, parse_text, text_in
from gapwatch.scorers.portfolio.field import TRACE_TEXT_FIELDS, Field, FieldKind, parse_field, pointer_steps
from gapwatch.scorers.transcripts.trace_turns import trace_transcript

IntArray = npt.NDArray[np.int64]

ABSENT, WRONG_TYPE, NOT_JSON = unknown("absent"), unknown("wrong_type"), unknown("not_json")
NO_TIME, NO_MODEL_SPAN = unknown("no_time"), unknown("no_model_span")
_MODEL_KINDS = (None, "llm", "embedding", "rerank")


class _NoText:
    """Type of `NO_TEXT`."""

    __slots__ = ()


#: JSON of a field without a text.
NO_TEXT: Final = _NoText()


@dataclass
class BlockRows:
    """Rows of one block.

    Attributes:
        owners: Span of each row, or trace.
        documents: Lists with the JSON of a field in each row, by the number that `RowInputs.document` gave.
        hits: Lists that say whether a pattern matches in each row, None without a text, by the number of
            `RowInputs.hits`.
    """

    owners: Sequence[Any]
    documents: list[list[Any]] = field(default_factory=list)
    hits: list[list[bool | None]] = field(default_factory=list)


TextReader = Callable[[BlockRows, int], str | int]
NumberReader = Callable[[BlockRows, int], float | int]


class RowInputs:
    """Values that the claims of one block need of all rows at once; each is computed once.

    Args:
        types: Types of the records.
        keys: Keys that they have.
    """

    def __init__(self, types: RecordTypes, keys: ParsedKeys) -> None:
        self._types = types
        self._keys = keys
        self._documents: dict[str, tuple[int, Callable[[BlockRows], list[Any]]]] = {}
        self._patterns: dict[str, dict[str, int]] = {}
        self._texts: dict[str, Callable[[BlockRows], list[str | None]]] = {}
        self._readers: dict[Field, TextReader] = {}
        self._numbers: dict[Field, NumberReader] = {}
        self._hits = 0

    def rows(self, owners: Sequence[Any]) -> BlockRows:
        """Return the rows of some spans or traces."""
        rows = BlockRows(owners)
        for _, make in self._documents.values():
            rows.documents.append(make(rows))
        rows.hits = [[] for _ in range(self._hits)]
        for name, patterns in self._patterns.items():
            texts = pa.array(self._texts[name](rows), pa.string())
            for pattern, hits in zip(patterns, _matches(texts, list(patterns)), strict=True):
                rows.hits[patterns[pattern]] = hits
        return rows

    def hits(self, field: Field, pattern: str) -> int:
        """Return the number of the list of `BlockRows.hits` for a pattern (RE2) in the texts of a field."""
        patterns = self._patterns.setdefault(field.text, {})
        self._texts[field.text] = self.texts(field)
        if pattern not in patterns:
            patterns[pattern], self._hits = self._hits, self._hits + 1
        return patterns[pattern]

    def document(self, field: Field) -> int:
        """Return the number of the list of `BlockRows.documents` with the JSON in the text of a field."""
        known = self._documents.get(field.text)
        if known is not None:
            return known[0]
        make = self._document_of(field)  # may itself need the document of the field without its pointer
        self._documents[field.text] = (len(self._documents), make)
        return len(self._documents) - 1

    def _document_of(self, field: Field) -> Callable[[BlockRows], list[Any]]:
        if field.pointer is not None:
            base, steps = self.document(without_pointer(field)), pointer_steps(field.pointer)
            return lambda rows: [_document_in(point(document, steps)) for document in rows.documents[base]]
        if field.key is None:
            of_owner = owner_text(field)
            return lambda rows: [NO_TEXT if text is None else parse_text(text) for text in map(of_owner, rows.owners)]
        member = self._member(field)
        return lambda rows: [
            NO_TEXT if owner.attributes is None else _document_in(getattr(owner.attributes, member))
            for owner in rows.owners
        ]

    def _member(self, field: Field) -> str:
        keys = self._keys.attributes if field.scope == "span" else self._keys.trace_attributes
        return keys[field.key or ""]

    def value(self, field: Field) -> Callable[[BlockRows, int], Any]:
        """Return the reader of an attribute, or of a value at a pointer, as a JSON value; None for a missing one."""
        if field.pointer is not None:
            number, steps = self.document(without_pointer(field)), pointer_steps(field.pointer)
            return lambda rows, i: point(rows.documents[number][i], steps)
        member = self._member(field)

        def read(rows: BlockRows, i: int) -> Any:
            attributes = rows.owners[i].attributes
            return None if attributes is None else getattr(attributes, member)

        return read

    def texts(self, field: Field) -> Callable[[BlockRows], list[str | None]]:
        """Return the function that gives a field's text in all rows, None where it has none."""
        if field.kind is FieldKind.TEXT:
            of_owner = owner_text(field)
            return lambda rows: list(map(of_owner, rows.owners))
        if field.pointer is None:
            member = self._member(field)

            def of_attribute(owner: Any) -> str | None:
                value = None if owner.attributes is None else getattr(owner.attributes, member)
                return value if value is None or value.__class__ is str else text_in(value)

            return lambda rows: list(map(of_attribute, rows.owners))
        read = self.text(field)
        return lambda rows: [
            text if isinstance(text, str) else None for text in (read(rows, i) for i in range(len(rows.owners)))
        ]

    def text(self, field: Field) -> TextReader:
        """Return the reader of a field's text; the field is not one that is always a number."""
        if field not in self._readers:
            self._readers[field] = self._text(field)
        return self._readers[field]

    def _text(self, field: Field) -> TextReader:
        if field.pointer is None and field.key is None:
            of_owner = owner_text(field)

            def read(rows: BlockRows, i: int) -> str | int:
                text = of_owner(rows.owners[i])
                return ABSENT if text is None else text

            return read
        value, lack = self.value(field), self._lack(field)

        def read_value(rows: BlockRows, i: int) -> str | int:
            found = value(rows, i)
            return lack(rows, i) if found is None else text_in(found)

        return read_value

    def _lack(self, field: Field) -> Callable[[BlockRows, int], int]:
        """Return the reason for a missing attribute or a missing value at a pointer."""
        if field.pointer is not None:
            base = without_pointer(field)
            number, text = self.document(base), self.text(base)

            def reason(rows: BlockRows, i: int) -> int:
                document = rows.documents[number][i]
                if document is NO_TEXT:
                    lacking = text(rows, i)
                    assert isinstance(lacking, int)
                    return lacking
                return NOT_JSON if document is NOT_JSON_TEXT else ABSENT

            return reason
        types = self._types
        wrong = types.wrong_attributes if field.scope == "span" else types.wrong_trace_attributes
        return lambda rows, i: WRONG_TYPE if rows.owners[i].attributes is wrong else ABSENT

    def number(self, field: Field) -> NumberReader:
        """Return the reader of a field's number; the field is not one that is always a text."""
        if field not in self._numbers:
            self._numbers[field] = self._number(field)
        return self._numbers[field]

    def _number(self, field: Field) -> NumberReader:
        if field.kind is FieldKind.EITHER:
            value, lack = self.value(field), self._lack(field)

            def read(rows: BlockRows, i: int) -> float | int:
                found = value(rows, i)
                if found is None:
                    return lack(rows, i)
                number = number_in(found)
                return WRONG_TYPE if number is None else number

            return read
        of = self._trace_number(field) if field.scope == "trace" else self._span_number(field.base)
        return lambda rows, i: of(rows.owners[i])

    def _span_number(self, name: str) -> Callable[[Any], float | int]:
        if name == "latency":
            return _elapsed
        if name == "latency_ms":
            return _elapsed_ms
        if name == "usage.total_tokens":
            wrong = self._types.wrong_usage
            return lambda span: _total_tokens(span, wrong)
        if name.startswith("usage."):
            return self._usage_number(name.removeprefix("usage."))
        return lambda span: _known(getattr(span, name))

    def _usage_number(self, member: str) -> Callable[[Any], float | int]:
        wrong = self._types.wrong_usage
        return lambda span: _used(span.usage, member, wrong)

    def _trace_number(self, field: Field) -> Callable[[Any], float | int]:
        name, component = field.base.removeprefix("trace."), field.counted_component
        if component is not None:
            counted = frozenset(field.counted_members or (component,))
            return lambda trace: float(sum(span.component in counted for span in trace.spans))
        if name == "duration":
            return _elapsed
        if name == "span_count":
            return lambda trace: float(len(trace.spans))
        if name == "error_count":
            return lambda trace: float(sum(span.status == "error" for span in trace.spans))
        number = self._span_number(f"usage.{name}")
        return lambda trace: _sum_over_model_spans(trace.spans, number)

    def is_present(self, field: Field) -> Callable[[BlockRows, int], bool]:
        """Return the function that says whether a field is neither missing nor the empty text."""
        if field.kind is FieldKind.NUMBER:
            number = self.number(field)
            return lambda rows, i: number(rows, i).__class__ is float
        text = self.text(field)

        def test(rows: BlockRows, i: int) -> bool:
            found = text(rows, i)
            return found.__class__ is str and found != ""

        return test


def owner_text(field: Field) -> Callable[[Any], str | None]:
    """Return the function that gives a text field of a span or a trace; None where it has none."""
    return trace_transcript if field.base in TRACE_TEXT_FIELDS else attrgetter(field.base)


def without_pointer(field: Field) -> Field:
    """Return the field whose text a pointer looks into."""
    base = parse_field(field.base, field.scope)
    assert base is not None
    return base


def point(document: Any, steps: Iterable[str]) -> Any:
    """Return the value at an RFC 6901 pointer; None for null, for a missing value, and where there is no JSON."""
    value = document
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and (step == "0" or step[0] != "0"):
            value = value[int(step)] if len(step) < 19 and int(step) < len(value) else None
        else:
            return None
    return None if value is NOT_JSON_TEXT or value is NO_TEXT else value


def _document_in(value: Any) -> Any:
    if value.__class__ is str:
        return parse_text(value)
    return NO_TEXT if value is None else value


def _matches(texts: pa.Array, patterns: list[str]) -> list[list[bool | None]]:
    """Return for each pattern in which texts it matches; None for no text.

    Most patterns match no text of a slice, so all are searched for at once before each is.
    """
    any_of = _matches_any(texts, patterns) if len(patterns) > 1 else None
    if any_of is not None:
        if not any_of.true_count:
            return [_list(any_of)] * len(patterns)
        places = np.flatnonzero(any_of.fill_null(False).to_numpy(zero_copy_only=False))
        if 2 * len(places) < len(texts):
            found = texts.take(pa.array(places))
            return [_spread(pc.match_substring_regex(found, pattern), places, any_of) for pattern in patterns]
    return [_list(pc.match_substring_regex(texts, pattern)) for pattern in patterns]


def _matches_any(texts: pa.Array, patterns: list[str]) -> pa.Array | None:
    """Return in which texts some pattern matches, or None where the patterns cannot be joined to one."""
    if any("\\Q" in pattern for pattern in patterns):  # it may quote all that follows
        return None
    try:
        return pc.match_substring_regex(texts, "|".join(f"(?:{pattern})" for pattern in patterns))
    except pa.ArrowInvalid:  # such as two groups of one name
        return None


def _list(flags: pa.Array) -> list[bool | None]:
    found: list[bool | None] = flags.to_numpy(zero_copy_only=False).tolist()
    return found


def _spread(flags: pa.Array, places: IntArray, any_of: pa.Array) -> list[bool | None]:
    """Return the flags at their places; elsewhere False, or None where `any_of` is null."""
    found = any_of.to_numpy(zero_copy_only=False).copy()
    found[places] = flags.to_numpy(zero_copy_only=False)
    spread: list[bool | None] = found.tolist()
    return spread


def _known(number: float | None) -> float | int:
    if number is None:
        return ABSENT
    return number if number == number else WRONG_TYPE  # NaN stands for a wrong type


def _finite(number: float) -> float | int:
    return number if math.isfinite(number) else WRONG_TYPE


def _elapsed(owner: Any) -> float | int:
    start, end = owner.started_at, owner.ended_at
    return NO_TIME if start is None or end is None else _finite(end - start)


def _elapsed_ms(owner: Any) -> float | int:
    start, end = owner.started_at, owner.ended_at
    return NO_TIME if start is None or end is None else _finite((end - start) * 1_000.0)


def _used(usage: Any, member: str, wrong: Any) -> float | int:
    if usage is None:
        return ABSENT
    return WRONG_TYPE if usage is wrong else _known(getattr(usage, member))


def _total_tokens(span: Any, wrong: Any) -> float | int:
    given, made = _used(span.usage, "input_tokens", wrong), _used(span.usage, "output_tokens", wrong)
    if given.__class__ is int:
        return given
    if made == ABSENT and made.__class__ is int and span.kind in ("embedding", "rerank"):
        return given  # these have no output
    return made if made.__class__ is int else _finite(given + made)


def _sum_over_model_spans(spans: Iterable[Any], number_of: Callable[[Any], float | int]) -> float | int:
    """Return the sum; the first model span without a number gives the reason."""
    total, models, others = 0.0, 0, False
    for span in spans:
        number = number_of(span)
        if span.kind in _MODEL_KINDS:
            if number.__class__ is int:
                return number
            total += number
            models += 1
        else:
            others = others or number.__class__ is float
    return _finite(total) if models or not others else NO_MODEL_SPAN
