"""Reads fields of spans and traces as text or number, or gives the reason for a missing value."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from tests.reference.envelope import Trace, text_of
from tests.reference.json_text import Json, JsonNumber, JsonObject, NotJsonError, parse_json


@dataclass(frozen=True)
class Absent:
    """Missing value, with the reason."""

    reason: str


@dataclass(frozen=True)
class Place:
    """Place that a metric evaluates: one span of a trace, or with `index` -1 the trace itself."""

    trace: Trace
    index: int

    @property
    def span(self) -> JsonObject:
        """The span; only for a place that is a span."""
        assert self.index >= 0
        return self.trace.spans[self.index]


#: A JSON value that is not null, or a number that was worked out.
Found: TypeAlias = "bool | str | JsonNumber | JsonObject | list[Json] | float"

ABSENT = Absent("absent")
WRONG_TYPE = Absent("wrong_type")
NOT_JSON = Absent("not_json")
NO_TIME = Absent("no_time")
NO_MODEL_SPAN = Absent("no_model_span")

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INDEX = re.compile(r"0|[1-9][0-9]*")
_TEXT_FIELDS = ("input", "output", "status", "error_type", "model", "tier", "name", "kind")
_MODEL_KINDS = ("llm", "embedding", "rerank")


def number_of(value: Json) -> float | Absent:
    """Return the finite number that a JSON value is or spells."""
    if value is None:
        return ABSENT
    if isinstance(value, JsonNumber):
        return _finite(float(value.spelling))
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return _finite(float(value))
    return WRONG_TYPE


def _finite(number: float) -> float | Absent:
    return number if math.isfinite(number) else WRONG_TYPE


def read_text(field: str, place: Place) -> str | Absent:
    """Return the field as a text."""
    found = read_field(field, place)
    if isinstance(found, Absent):
        return found
    assert not isinstance(found, float), "a text predicate on a number field is refused when a portfolio is loaded"
    return text_of(found)


def read_number(field: str, place: Place) -> float | Absent:
    """Return the field as a finite number."""
    found = read_field(field, place)
    return found if isinstance(found, Absent | float) else number_of(found)


def read_json(field: str, place: Place) -> Json | Absent:
    """Return the JSON in the field's text."""
    text = read_text(field, place)
    return text if isinstance(text, Absent) else json_of(text)


def json_of(text: str) -> Json | Absent:
    """Return the JSON in a text."""
    try:
        return parse_json(text)
    except NotJsonError:
        return NOT_JSON


def is_present(field: str, place: Place) -> bool:
    """Return whether the field is neither null nor the empty text; a value of a wrong type is not present."""
    found = read_field(field, place)
    return not isinstance(found, Absent) and found != ""


def read_field(field: str, place: Place) -> Found | Absent:
    """Return the value of a field; `a#/b` follows a pointer into the JSON in the text of `a`."""
    name, mark, pointer = field.partition("#")
    found = _read_trace_field(name, place.trace) if name.startswith("trace.") else _read_span_field(name, place)
    if isinstance(found, Absent) or not mark:
        return found
    assert not isinstance(found, float)
    document = json_of(text_of(found))
    if isinstance(document, Absent):
        return document
    pointed = point(document, pointer)
    return ABSENT if pointed is None else pointed


def point(document: Json, pointer: str) -> Json:
    """Return the value at an RFC 6901 pointer; None for null and for a missing value."""
    value = document
    for step in pointer.split("/")[1:]:
        token = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, JsonObject):
            value = value.get(token)
        elif isinstance(value, list) and _INDEX.fullmatch(token):
            value = value[int(token)] if int(token) < len(value) else None
        else:
            return None
    return value


def _read_span_field(name: str, place: Place) -> Found | Absent:
    span = place.span
    if name in _TEXT_FIELDS:
        value = span.get(name)
        return ABSENT if value is None else value
    if name.startswith("attributes."):
        return _member(span, "attributes", name.removeprefix("attributes."))
    if name in ("started_at", "ended_at"):
        return number_of(span.get(name))
    if name == "latency":
        return elapsed(span)
    if name == "latency_ms":
        seconds = elapsed(span)
        return seconds * 1_000.0 if isinstance(seconds, float | int) else seconds
    if name == "usage.total_tokens":
        return total_tokens(span)
    assert name in ("usage.input_tokens", "usage.output_tokens", "usage.cost_usd"), name
    return usage(span, name.removeprefix("usage."))


def _member(owner: JsonObject, holder: str, key: str) -> Found | Absent:
    held = owner.get(holder)
    if held is None:
        return ABSENT
    if not isinstance(held, JsonObject):
        return WRONG_TYPE
    value = held.get(key)
    return ABSENT if value is None else value


def usage(span: JsonObject, key: str) -> float | Absent:
    """Return a number of the span's `usage`."""
    found = _member(span, "usage", key)
    if isinstance(found, Absent):
        return found
    assert not isinstance(found, float)
    return number_of(found)


def elapsed(owner: JsonObject) -> float | Absent:
    """Return end minus start of a span or a trace, in seconds; negative where they are reversed."""
    start, end = number_of(owner.get("started_at")), number_of(owner.get("ended_at"))
    if ABSENT in (start, end):
        return NO_TIME
    if isinstance(start, Absent) or isinstance(end, Absent):
        return WRONG_TYPE
    return _finite(end - start)


def total_tokens(span: JsonObject) -> float | Absent:
    """Return input plus output tokens; those of the output may be missing for an embedding or a rerank."""
    tokens_in, tokens_out = usage(span, "input_tokens"), usage(span, "output_tokens")
    if isinstance(tokens_in, Absent):
        return tokens_in
    if tokens_out == ABSENT and _kind(span) in ("embedding", "rerank"):
        return tokens_in
    if isinstance(tokens_out, Absent):
        return tokens_out
    return _finite(tokens_in + tokens_out)


def _kind(span: JsonObject) -> str | None:
    value = span.get("kind")
    return None if value is None else text_of(value)


def _is_model_span(span: JsonObject) -> bool:
    kind = _kind(span)
    return kind is None or kind in _MODEL_KINDS


def _read_trace_field(name: str, trace: Trace) -> Found | Absent:
    if name.startswith("trace.attributes."):
        return _member(trace.record, "attributes", name.removeprefix("trace.attributes."))
    if name.startswith("trace.count("):
        component = name.removeprefix("trace.count(").removesuffix(")")
        return float(sum(text_of(span.get("component")) == component for span in trace.spans))
    if name == "trace.duration":
        return elapsed(trace.record)
    if name == "trace.span_count":
        return float(len(trace.spans))
    if name == "trace.error_count":
        return float(sum(text_of(span.get("status")) == "error" for span in trace.spans))
    if name == "trace.cost_usd":
        return _sum_over_model_spans(trace, [usage(span, "cost_usd") for span in trace.spans])
    assert name == "trace.total_tokens", name
    return _sum_over_model_spans(trace, [total_tokens(span) for span in trace.spans])


def _sum_over_model_spans(trace: Trace, numbers: list[float | Absent]) -> float | Absent:
    of_models = [number for span, number in zip(trace.spans, numbers, strict=True) if _is_model_span(span)]
    if not of_models:
        return NO_MODEL_SPAN if any(isinstance(number, float) for number in numbers) else 0.0
    total = 0.0
    for number in of_models:
        if isinstance(number, Absent):
            return number
        total += number
    return _finite(total)
