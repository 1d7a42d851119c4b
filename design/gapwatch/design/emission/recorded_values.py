"""Writes values of a program for `span_recording`, of whose text this module becomes a part in a patched program."""

from __future__ import annotations

import json
import re
from typing import Any

MOST = 20_000  # characters of an input or an output


def written(value: Any, most: int = MOST) -> str:
    """Return a value as text: texts as they are, all else as JSON; of more than `most` characters the middle is cut."""
    if value is None:
        return ""
    try:
        text = value if isinstance(value, str) else json.dumps(stored(value), ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
    if len(text) <= most:
        return text
    half = (most - 50) // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


#: Members that hold the text of a document or a message, and those beside it that say which one it is.
_TEXTS = ("page_content", "text", "content")
_BESIDE = ("id", "id_", "role", "type", "name", "title", "url", "source", "score", "metadata", "payload", "tool_calls")
#: Where a row of a database, or a response, holds its values.
_DATA = ("_data", "_data_store", "_store", "__root__")
_ROWS = ("Row", "RowMapping", "Record")
_SECRETS = re.compile(r"api_?key|secret|passw(or)?d|authorization|credential|(access|auth|refresh|bearer)_?token", re.I)


def stored(value: Any, levels: int = 10, room: list[int] | None = None) -> Any:
    """Return a value with its objects as mappings of what they store, so that JSON holds the texts of documents.

    A list of at least 33 numbers is a vector, of which nobody reads a number; of other lists the first 100 members are
    taken. An object without a text in it is written as the program does.

    Args:
        value: The value.
        levels: Most levels that are gone down.
        room: Number of values that may still be gone into, shared by all of them; None for the default.
    """
    room = [5_000] if room is None else room
    room[0] -= 1
    if isinstance(value, str | int | float | None) or levels <= 0 or room[0] <= 0:
        return value
    if isinstance(value, list | tuple | set | frozenset):
        members = [*value]
        if len(members) > 32 and all(type(v) in (int, float) for v in members):
            return f"<{len(members)} numbers>"
        return [stored(v, levels - 1, room) for v in members[:100]]
    if isinstance(value, dict):
        hidden = [n for n, v in value.items() if isinstance(v, str) and v and _SECRETS.search(str(n))]
        shown = [*value.items()][:100]
        return {str(n): "<secret>" if n in hidden else stored(v, levels - 1, room) for n, v in shown}
    if type(value).__name__ in _ROWS and callable(held(value, "keys")):
        return stored(dict(value), levels - 1, room)
    if type(value).__name__ == "ndarray":
        return "<ndarray>"
    fields = getattr(value, "__dict__", None) or {n: held(value, n) for n in getattr(type(value), "__slots__", ())}
    own = next((fields[n] for n in _DATA if isinstance(fields.get(n), dict | list | tuple)), None)
    texts = [n for n in _TEXTS if isinstance(fields.get(n), str) and fields[n]]
    public = [n for n in fields if str(n)[:1] != "_"]
    names = [*texts, *(n for n in _BESIDE if fields.get(n) is not None)] if texts else public
    made = stored(own if own is not None and not names else {n: fields[n] for n in names}, levels - 1, room)
    return made if texts or _has_text(made) else value


def _has_text(value: Any) -> bool:
    """Return whether plain data holds an object's text: more than one word."""
    if isinstance(value, dict | list):
        return any(map(_has_text, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and " " in value.strip()


def held(value: Any, name: str) -> Any:
    """Return an attribute; None where there is none, or where it cannot be read yet."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None
