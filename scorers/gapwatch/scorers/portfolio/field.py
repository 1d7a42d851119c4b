"""A reference to a value of a span or a trace, as a portfolio writes it: `output#/answer/text`."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from gapwatch.scorers.portfolio.envelope import Content, Level, fields_of

# A claim cannot be about an id.
_IDENTITIES = ("span_id", "parent_id", "component")
SPAN_TEXT_FIELDS = tuple(f.name for f in fields_of(Level.SPAN, Content.TEXT) if f.name not in _IDENTITIES)
SPAN_NUMBER_FIELDS = (
    *(f.name for f in fields_of(Level.SPAN, Content.NUMBER)),
    *(f"usage.{f.name}" for f in fields_of(Level.USAGE)),
    "latency",
    "latency_ms",
    "usage.total_tokens",
)
TRACE_NUMBER_FIELDS = (
    "trace.duration",
    "trace.cost_usd",
    "trace.total_tokens",
    "trace.span_count",
    "trace.error_count",
)
#: Text of a trace: what its spans read and wrote, as a JSON list of messages.
TRACE_TEXT_FIELDS = ("trace.transcript",)

_BAD_ESCAPE = re.compile(r"~(?![01])")
_COUNT = re.compile(r"trace\.count\((.+)\)\Z", re.DOTALL)


class FieldKind(enum.Enum):
    """Type of values that a field can have: texts, numbers, or either."""

    TEXT = "text"
    NUMBER = "number"
    EITHER = "either"


@dataclass(frozen=True)
class Field:
    """Parsed reference to a field.

    Attributes:
        text: The reference as written.
        base: The field without its pointer: `output`, `attributes.meta`, `trace.count(c)`.
        scope: "span" or "trace".
        kind: Type of its values; with a pointer it can be either.
        key: Attribute key for `attributes.<key>` and `trace.attributes.<key>`, else None.
        counted_component: Component for `trace.count(<component>)`, else None.
        counted_members: Its members, whose spans are counted; empty for a component that stands for itself.
        pointer: RFC 6901 pointer into the JSON in the field's text; None without `#`, "" for the whole value.
    """

    text: str
    base: str
    scope: str
    kind: FieldKind
    key: str | None = None
    counted_component: str | None = None
    pointer: str | None = None
    counted_members: tuple[str, ...] = ()


def parse_field(text: str, scope: str) -> Field | None:
    """Parse a field reference; return None for a text that is not a field of that scope.

    Args:
        text: As written in a portfolio.
        scope: "span" for a metric of a component, "trace" for `scope: trace`.
    """
    base, sharp, pointer = text.partition("#")
    if "\x00" in text:
        return None
    if sharp and (_BAD_ESCAPE.search(pointer) or (pointer and not pointer.startswith("/"))):
        return None
    key = counted = None
    prefix = "attributes." if scope == "span" else "trace.attributes."
    if base.startswith(prefix):
        key = base[len(prefix) :]
        if not key:
            return None
        kind = FieldKind.EITHER
    elif (scope == "span" and base in SPAN_TEXT_FIELDS) or (scope == "trace" and base in TRACE_TEXT_FIELDS):
        kind = FieldKind.TEXT
    elif (scope == "span" and base in SPAN_NUMBER_FIELDS) or (scope == "trace" and base in TRACE_NUMBER_FIELDS):
        kind = FieldKind.NUMBER
    elif scope == "trace" and (match := _COUNT.match(base)):
        counted, kind = match.group(1), FieldKind.NUMBER
    else:
        return None
    if sharp:
        if kind is FieldKind.NUMBER:
            return None
        return Field(text, base, scope, FieldKind.EITHER, key, counted, pointer)
    return Field(text, base, scope, kind, key, counted)


def pointer_steps(pointer: str) -> list[str]:
    """Return the unescaped reference tokens of an RFC 6901 pointer; the empty pointer has none."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
