"""Examines a record that the plan's types refuse: a dead letter with its cause, or the values of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.plan.strict_json import NumberText, parse_strictly

MAX_RECORD_BYTES = 10_000_000


@dataclass(frozen=True)
class DeadLetter:
    """Cause for which a record could not be read.

    Attributes:
        cause: The first that applies of too_large, not_utf8, too_deep, not_json, not_object, missing_field, bad_spans.
        detail: Place and problem, without any content of the record.
    """

    cause: str
    detail: str


def examine(record: bytes | None) -> DeadLetter | dict[str, Any]:
    """Examine one raw record.

    Args:
        record: Bytes of the record; None where it has no value.

    Returns:
        The dead letter, or the values of the record's JSON, which is a trace.
    """
    if record is None:
        return DeadLetter("not_json", "no value")
    if len(record) > MAX_RECORD_BYTES:
        return DeadLetter("too_large", f"{len(record)} bytes, at most {MAX_RECORD_BYTES} are read")
    try:
        text = record.decode("utf-8")
    except UnicodeDecodeError as error:
        return DeadLetter("not_utf8", f"byte {error.start}: {error.reason}")
    try:
        value = parse_strictly(text)
    except RecursionError:
        return DeadLetter("too_deep", "nested too deeply")
    except ValueError as error:
        return DeadLetter("not_json", _position(error))
    return _structure(value) or value


def _position(error: ValueError) -> str:
    position = getattr(error, "pos", None)
    message = getattr(error, "msg", None)
    return f"{message} at character {position}" if message else str(error)


def _structure(value: object) -> DeadLetter | None:
    """Return the dead letter of a parsed record with a wrong structure, else None."""
    if not isinstance(value, dict):
        return DeadLetter("not_object", f"a JSON {_type_name(value)} instead of an object")
    for key in ("trace_id", "pipeline", "spans"):
        if value.get(key) is None:
            return DeadLetter("missing_field", _missing(key, key in value))
    spans = value["spans"]
    if not isinstance(spans, list):
        return DeadLetter("bad_spans", f"spans is a JSON {_type_name(spans)} instead of a list")
    for index, span in enumerate(spans):
        if isinstance(span, dict):
            for key in ("span_id", "component"):
                if span.get(key) is None:
                    return DeadLetter("missing_field", _missing(f"spans[{index}].{key}", key in span))
    for index, span in enumerate(spans):
        if not isinstance(span, dict):
            return DeadLetter("bad_spans", f"spans[{index}] is a JSON {_type_name(span)} instead of an object")
    return None


def _missing(key: str, is_null: bool) -> str:
    return f"{key} is {'null' if is_null else 'missing'}"


def _type_name(value: object) -> str:
    names = {
        dict: "object",
        list: "list",
        bool: "boolean",
        type(None): "null",
        str: "text",
        NumberText: "number",
        int: "number",
        float: "number",
    }
    return names[type(value)]
