"""JSON in texts: what libraries put into attributes that hold a text alone."""

from __future__ import annotations

import re
from typing import Any

import orjson

#: Beginning of JSON that a library wrote, unlike JSON that a model wrote.
_LIBRARY_JSON = re.compile(
    r'\s*\[*\{"(role|parts|type|choices|id|object|messages|generations|args|kwargs|content|candidates|index|toolCallId)"'
)


_JSON_STARTS = ("{", "[", '"')


def compact_text(value: Any) -> str:
    """Return a value as compact JSON; a text as it is."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError):
        return str(value)


def parsed(value: Any) -> Any:
    """Return the JSON in a text, or the value as it is; a text that only looks like JSON stays a text."""
    if isinstance(value, str) and value[:1] in _JSON_STARTS:
        try:
            return orjson.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def is_cut(value: Any, content: Any, *, is_answer: bool = False) -> bool:
    """Return whether a text is JSON that ends in the middle, as the limits of an SDK cut it.

    Args:
        value: The text.
        content: What `parsed` returned of it.
        is_answer: Whether a model may have written it: then only JSON counts that a library put around the answer.
    """
    if content is not value or not isinstance(value, str) or value[:2] not in ('{"', "[{", '["', "[["):
        return False
    if is_answer and not _LIBRARY_JSON.match(value):
        return False
    try:
        orjson.loads(value)
    except (ValueError, RecursionError) as error:
        text = str(error)
        return "unexpected end" in text or "EOF" in text or "UnexpectedEnd" in text
    return False


def listed(root: dict[str, Any]) -> list[Any]:
    """Return the values of an object whose keys are numbers, in the order of the numbers."""
    if len(root) == 1:
        return list(root.values())
    return [root[key] for key in sorted(root, key=_number_first)]


def _number_first(key: str) -> tuple[int, str]:
    return (int(key), "") if key.isdecimal() else (1 << 30, key)
