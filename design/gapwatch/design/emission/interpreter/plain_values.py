"""Writes values of a running program as short JSON, without running its code."""

from __future__ import annotations

import json
from typing import Any

#: Characters of a written value; the rest is cut.
MOST_CHARACTERS = 20_000
#: Characters of what a model was sent, which a judge reads beside the reply; of more the middle is cut.
MOST_OF_PROMPT = 60_000
#: Members of a list or a mapping, and levels, that are written.
_MOST_MEMBERS, _MOST_LEVELS = 100, 5


def text_of_value(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Return a value as text: texts as they are, all else as JSON, cut to `MOST_CHARACTERS`, or in its middle to more.

    Args:
        value: The value.
        most: Most characters.
    """
    text = value if type(value) is str else json.dumps(plain(value), ensure_ascii=False)
    if most <= MOST_CHARACTERS or len(text) <= most:
        return text[:most]
    return f"{text[: most // 2]}\n[...]\n{text[-most // 2 :]}"


def plain(value: Any, levels: int = _MOST_LEVELS) -> Any:
    """Return a value of plain types; an object by its content, its fields or its class.

    Only the dictionary of an object is read: neither its properties nor its `repr` run.
    """
    kind = type(value)
    if value is None or kind in (bool, int):
        return value
    if kind is float:
        return value if value == value and abs(value) != float("inf") else str(value)
    if kind is str:
        return value[:MOST_CHARACTERS]
    if levels <= 0:
        return f"<{kind.__name__}>"
    if isinstance(value, dict) and kind.__iter__ is dict.__iter__:
        return {str(k)[:200]: plain(v, levels - 1) for k, v in list(value.items())[:_MOST_MEMBERS]}
    if kind in (list, tuple, set, frozenset):
        return [plain(v, levels - 1) for v in list(value)[:_MOST_MEMBERS]]
    fields = _fields(value)
    if "content" in fields and ("type" in fields or "role" in fields):  # a message
        return {"role": fields.get("role", fields.get("type")), "content": plain(fields["content"], levels - 1)}
    if fields and len(fields) <= _MOST_MEMBERS and not any(callable(v) for v in fields.values()):
        return {k: plain(v, levels - 1) for k, v in fields.items() if not k.startswith("_")}
    return f"<{kind.__name__}>"


def _fields(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}
