"""Types into which records are decoded: only the keys that the portfolios mention, as msgspec Structs.

Other keys are checked to be JSON, and skipped. A record that these types refuse, such as one with a number where a text
is expected, is read by `RecordTypes.from_values` from its parsed JSON, into the same types with the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from gapwatch.scorers.plan.strict_json import number_in, text_in
from gapwatch.scorers.portfolio.envelope import Content, Level, fields_of
from gapwatch.scorers.portfolio.field import SPAN_TEXT_FIELDS, TRACE_TEXT_FIELDS, Field
from gapwatch.scorers.transcripts.trace_turns import TRANSCRIPT_KEYS

_USAGE = tuple(f.name for f in fields_of(Level.USAGE))
_TRACE_TEXTS = tuple(f.name for f in fields_of(Level.TRACE, Content.TEXT))
_TRACE_NUMBERS = tuple(f.name for f in fields_of(Level.TRACE, Content.NUMBER))
_SPAN_IDS = tuple(f.name for f in fields_of(Level.SPAN, Content.TEXT) if f.required)
_SPAN_NUMBERS = tuple(f.name for f in fields_of(Level.SPAN, Content.NUMBER))
#: Texts of a span that every plan reads: rows and facets need them.
_ALWAYS = ("tier", "model")

#: Keys that every plan reads, in the notation of the documentation.
TRACE_KEYS = (*_TRACE_TEXTS, *_TRACE_NUMBERS)
SPAN_KEYS = (*_SPAN_IDS, *_SPAN_NUMBERS)
USAGE_KEYS = tuple(f"usage.{name}" for name in _USAGE)

#: Number field whose value is no number; unlike None, which is an absent value. No comparison with it is true.
WRONG_NUMBER = float("nan")


@dataclass(frozen=True)
class ParsedKeys:
    """Keys of the envelope that a plan reads besides those that every plan reads.

    Attributes:
        texts: Text fields of a span.
        usage: Whether the numbers of `usage` are read.
        attributes: Member of the Struct by attribute key of a span.
        trace_attributes: Member of the Struct by attribute key of the trace.
    """

    texts: tuple[str, ...]
    usage: bool
    attributes: dict[str, str]
    trace_attributes: dict[str, str]


def parsed_keys(fields: Iterable[Field]) -> ParsedKeys:
    """Return the keys of a record that the given fields need."""
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
        elif field.base in TRACE_TEXT_FIELDS:
            texts.update(TRANSCRIPT_KEYS)
        elif field.base == "trace.error_count":
            texts.add("status")
    return ParsedKeys(
        tuple(name for name in SPAN_TEXT_FIELDS if name in texts),
        usage,
        {key: f"a{i}" for i, key in enumerate(keys)},
        {key: f"a{i}" for i, key in enumerate(trace_keys)},
    )


class RecordTypes:
    """Structs of a plan's traces and spans, and their decoder.

    Attributes:
        decode: Reads the bytes of a record, which are UTF-8, to a trace; raises `msgspec.DecodeError` or
            RecursionError where `from_values` must decide.
        wrong_usage: `usage` of a span where it is no object; all its numbers are None.
        wrong_attributes: `attributes` where they are no object, of a span; all are None.
        wrong_trace_attributes: The same of a trace.
    """

    decode: Callable[[bytes | memoryview], Any]

    def __init__(self, keys: ParsedKeys) -> None:
        self._keys = keys
        text, number = str | None, float | None
        self._usage = msgspec.defstruct("Usage", [(name, number, None) for name in _USAGE], gc=False)
        self._attributes, of_span = _attributes_type("Attributes", keys.attributes)
        self._trace_attributes, of_trace = _attributes_type("TraceAttributes", keys.trace_attributes)
        is_exact = dict[str, Any] not in (of_span, of_trace)
        members: list[Any] = [
            *((name, str) for name in _SPAN_IDS),
            *((name, number, None) for name in _SPAN_NUMBERS),
            *((name, text, None) for name in keys.texts),
        ]
        members += [("usage", self._usage | None, None)] if keys.usage else []
        members += [("attributes", of_span | None, None)] if keys.attributes else []
        self._span = msgspec.defstruct("Span", members, gc=False)
        required = [f.name for f in fields_of(Level.TRACE, Content.TEXT) if f.required]
        members = [
            *((name, str) for name in required),
            ("spans", list[self._span]),  # type: ignore[name-defined]
            *((name, text, None) for name in _TRACE_TEXTS if name not in required),
            *((name, number, None) for name in _TRACE_NUMBERS),
        ]
        members += [("attributes", of_trace | None, None)] if keys.trace_attributes else []
        self._trace = msgspec.defstruct("Trace", members, gc=False)
        self.wrong_usage = self._usage()
        self.wrong_attributes = self._attributes()
        self.wrong_trace_attributes = self._trace_attributes()
        decode = msgspec.json.Decoder(self._trace).decode
        self.decode = decode if is_exact else lambda record: self._with_members(decode(record))

    def from_values(self, record: dict[str, Any]) -> Any:
        """Return a trace from the values of its JSON, which `records.examine` has found to be a trace."""
        trace: Any = self._trace(
            **{name: _text(record.get(name)) for name in _TRACE_TEXTS},
            **{name: _number(record.get(name)) for name in _TRACE_NUMBERS},
            spans=[self._span_from(span) for span in record["spans"]],
        )
        if self._keys.trace_attributes:
            trace.attributes = _filled(
                record.get("attributes"),
                self._trace_attributes,
                self._keys.trace_attributes,
                self.wrong_trace_attributes,
            )
        return trace

    def _span_from(self, values: dict[str, Any]) -> Any:
        span: Any = self._span(
            **{name: _text(values.get(name)) for name in (*_SPAN_IDS, *self._keys.texts)},
            **{name: _number(values.get(name)) for name in _SPAN_NUMBERS},
        )
        if self._keys.usage:
            span.usage = self._usage_from(values.get("usage"))
        if self._keys.attributes:
            span.attributes = _filled(
                values.get("attributes"), self._attributes, self._keys.attributes, self.wrong_attributes
            )
        return span

    def _usage_from(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return None if value is None else self.wrong_usage
        return self._usage(*(_number(value.get(name)) for name in _USAGE))

    def _with_members(self, trace: Any) -> Any:
        """Replace attributes that were decoded as a dict, because of their keys, by their Struct."""
        if self._keys.trace_attributes:
            trace.attributes = _filled(
                trace.attributes, self._trace_attributes, self._keys.trace_attributes, self.wrong_trace_attributes
            )
        if self._keys.attributes:
            for span in trace.spans:
                span.attributes = _filled(
                    span.attributes, self._attributes, self._keys.attributes, self.wrong_attributes
                )
        return trace


def _attributes_type(name: str, keys: dict[str, str]) -> tuple[Any, Any]:
    """Return the Struct of some attributes, and the type to decode; Structs cannot have every key."""
    try:
        struct = msgspec.defstruct(
            name,
            [(member, Any, None) for member in keys.values()],
            rename={member: key for key, member in keys.items()},
            gc=False,
        )
        msgspec.json.Decoder(struct)
    except ValueError:
        return msgspec.defstruct(name, [(member, Any, None) for member in keys.values()], gc=False), dict[str, Any]
    return struct, struct


def _filled(values: Any, struct: Any, keys: dict[str, str], wrong: Any) -> Any:
    if isinstance(values, dict):
        return struct(*map(values.get, keys))
    return values if values is None or isinstance(values, struct) else wrong


def _text(value: Any) -> str | None:
    return None if value is None else text_in(value)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    number = number_in(value)
    return WRONG_NUMBER if number is None else number
