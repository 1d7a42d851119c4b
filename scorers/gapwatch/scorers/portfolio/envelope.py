"""Fields of the trace envelope, version 1, in one table.

The types into which records are decoded, the field references of a portfolio and the JSON Schema are generated from
`ENVELOPE`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

KINDS = (
    "llm",
    "embedding",
    "retrieval",
    "rerank",
    "tool",
    "agent",
    "chain",
    "guardrail",
    "parse",
    "cache",
    "other",
)
STATUSES = ("ok", "error")


class Level(enum.Enum):
    """Object of the envelope that a field is a member of."""

    TRACE = "trace"
    SPAN = "span"
    USAGE = "usage"


class Content(enum.Enum):
    """Type of a field's value."""

    TEXT = "text"  # any JSON value; a value that is not a string is read as its compact JSON
    NUMBER = "number"  # a finite number, or a text that spells one
    OBJECT = "object"
    SPANS = "spans"


@dataclass(frozen=True)
class EnvelopeField:
    """Field of the envelope.

    Attributes:
        name: Key in its object.
        level: Object that has it.
        content: Type of its value.
        meaning: Description for the schema and the docs, with the unit.
        required: A record without it is a dead letter.
        written: Values that a publisher writes; other texts are read, too. Empty for any value.
        default: Value that replaces an absent one; None leaves it absent.
    """

    name: str
    level: Level
    content: Content
    meaning: str
    required: bool = False
    written: tuple[str, ...] = ()
    default: str | float | None = None


_TRACE, _SPAN, _USAGE = Level.TRACE, Level.SPAN, Level.USAGE
_TEXT, _NUMBER, _OBJECT = Content.TEXT, Content.NUMBER, Content.OBJECT
_SECONDS = "seconds since the epoch, UTC"

ENVELOPE: tuple[EnvelopeField, ...] = (
    EnvelopeField("trace_id", _TRACE, _TEXT, "Id of the run, and key of the Kafka record.", required=True),
    EnvelopeField("pipeline", _TRACE, _TEXT, "Name of the pipeline; selects the portfolio.", required=True),
    EnvelopeField("environment", _TRACE, _TEXT, "Environment of the run.", default="production"),
    EnvelopeField("release", _TRACE, _TEXT, "Version of the pipeline."),
    EnvelopeField("session_id", _TRACE, _TEXT, "Conversation or user that the run belongs to."),
    EnvelopeField("started_at", _TRACE, _NUMBER, f"Start of the run, {_SECONDS}."),
    EnvelopeField("ended_at", _TRACE, _NUMBER, f"End of the run, {_SECONDS}."),
    EnvelopeField(
        "sampling_probability",
        _TRACE,
        _NUMBER,
        "Probability with which the publisher sent this trace, above 0 and at most 1.",
        default=1.0,
    ),
    EnvelopeField("attributes", _TRACE, _OBJECT, "Further values of the run, as a flat map."),
    EnvelopeField("spans", _TRACE, Content.SPANS, "The steps of the run; may be empty.", required=True),
    EnvelopeField("span_id", _SPAN, _TEXT, "Id of the step within the run.", required=True),
    EnvelopeField("parent_id", _SPAN, _TEXT, "Id of the enclosing step."),
    EnvelopeField("component", _SPAN, _TEXT, "Component of the pipeline that did the step.", required=True),
    EnvelopeField("name", _SPAN, _TEXT, "Name of the operation, such as chat, or of the tool."),
    EnvelopeField("kind", _SPAN, _TEXT, "Kind of the step.", written=KINDS),
    EnvelopeField("started_at", _SPAN, _NUMBER, f"Start of the step, {_SECONDS}."),
    EnvelopeField("ended_at", _SPAN, _NUMBER, f"End of the step, {_SECONDS}."),
    EnvelopeField("status", _SPAN, _TEXT, "Whether the step succeeded.", written=STATUSES),
    EnvelopeField("error_type", _SPAN, _TEXT, "Class of the error, such as RateLimitError."),
    EnvelopeField("model", _SPAN, _TEXT, "Model that answered."),
    EnvelopeField("tier", _SPAN, _TEXT, "Route inside the component, such as primary, fallback, cache."),
    EnvelopeField("input", _SPAN, _TEXT, "Input of the step."),
    EnvelopeField("output", _SPAN, _TEXT, "Output of the step."),
    EnvelopeField("usage", _SPAN, _OBJECT, "Tokens and cost of the step."),
    EnvelopeField("attributes", _SPAN, _OBJECT, "Further values of the step, as a flat map."),
    EnvelopeField("input_tokens", _USAGE, _NUMBER, "Tokens that the model read."),
    EnvelopeField("output_tokens", _USAGE, _NUMBER, "Tokens that the model wrote."),
    EnvelopeField("cost_usd", _USAGE, _NUMBER, "Price of the step in US dollars."),
)


def fields_of(level: Level, content: Content | None = None) -> Iterator[EnvelopeField]:
    """Yield the fields of one object of the envelope, in their order."""
    return (field for field in ENVELOPE if field.level is level and content in (None, field.content))


def envelope_schema() -> dict[str, Any]:
    """Return the JSON Schema of one record, as a publisher should write it.

    Gapwatch accepts more than this: any JSON value in a text field, and a text that spells a number in a number field.
    """
    usage = _object_schema(Level.USAGE, {})
    span = _object_schema(Level.SPAN, {"usage": usage})
    trace = _object_schema(Level.TRACE, {"spans": {"type": "array", "items": span}})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://gapwatch.dev/schemas/envelope-1.json",
        "title": "Gapwatch trace envelope, version 1",
        "description": "One run of a pipeline: one Kafka record, or one line of a file.",
        **trace,
    }


def _object_schema(level: Level, members: dict[str, Any]) -> dict[str, Any]:
    properties = {}
    for field in fields_of(level):
        properties[field.name] = {"description": field.meaning, **_value_schema(field, members.get(field.name))}
        if field.default is not None:
            properties[field.name]["default"] = field.default
    required = [field.name for field in fields_of(level) if field.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _value_schema(field: EnvelopeField, member: dict[str, Any] | None) -> dict[str, Any]:
    if field.content is Content.SPANS:
        assert member is not None
        return member
    if field.content is Content.OBJECT:
        schema = dict(member) if member is not None else {"type": "object"}
        return {**schema, "type": ["object", "null"]}
    if field.content is Content.NUMBER:
        bounds: dict[str, Any] = {"exclusiveMinimum": 0, "maximum": 1} if field.default is not None else {}
        return {"type": ["number", "null"], **bounds}
    if field.written:
        return {"enum": [*field.written, None]}
    # Inputs and outputs may be structures; ids are texts.
    if field.name in ("input", "output"):
        return {}
    return {"type": "string" if field.required else ["string", "null"]}
