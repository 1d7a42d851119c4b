"""Writes values of a program for `span_recording`, of whose text this module becomes a part in a patched program."""

from __future__ import annotations

import functools
import itertools
import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from gapwatch.design.emission.hidden_secrets import hide_secrets

_Function = TypeVar("_Function")
MOST = 20_000  # characters of an input or an output


def quiet(otherwise: Any = None) -> Callable[[_Function], _Function]:
    """Return a decorator of functions of the recorder: what one raises is logged, for a program must not notice it.

    Args:
        otherwise: What the function gives then; a type makes a new value.
    """

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception:
                logging.getLogger("span_recording").debug("%s failed", function.__name__, exc_info=True)
                return otherwise() if isinstance(otherwise, type) else otherwise

        return run

    return decorate


def written(value: Any, most: int = MOST) -> str:
    """Return a value as text without secrets: texts as they are, all else as JSON.

    Args:
        value: The value.
        most: Characters; of more the middle is cut.
    """
    if value is None:
        return ""
    try:
        made = hide_secrets(value if isinstance(value, str) else stored(value))
        text = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False, default=told)
    except Exception:
        return f"<{type(value).__name__}>"
    return _cut(text, most)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = (most - 50) // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


#: Members that hold the text of a document or a message, and those beside it that say which one it is.
_TEXTS = ("page_content", "text", "content")
#: Members that hold what a result says, be it one word.
_RESULTS = ("title", "snippet", "summary", "result", "answer", "description", "body")
_BESIDE = ("id", "id_", "role", "type", "name", "title", "url", "source", "score", "metadata", "payload", "tool_calls")
#: Where a row of a database, or a response, holds its values.
_DATA = ("_data", "_data_store", "_store", "__root__")
_ROWS = ("Row", "RowMapping", "Record")


def told(value: Any) -> str:
    """Return an object in the words of its program, without secrets; by its class where it fails to say any."""
    try:
        return str(hide_secrets(str(value)))[:MOST]
    except Exception:
        return f"<{type(value).__name__}>"


def stored(value: Any, levels: int = 10, room: list[int] | None = None) -> Any:
    """Return a value with its objects as mappings of what they store, so that JSON holds the texts of documents.

    A list of at least 33 numbers is a vector, of which nobody reads a number; of other lists the first 100 members are
    taken. An object without a text in it is written as the program does; one that cannot be looked at, by its class.

    Args:
        value: The value.
        levels: Most levels that are gone down.
        room: Number of values that may still be gone into, shared by all of them; None for the default.
    """
    room = [5_000] if room is None else room
    room[0] -= 1
    try:
        return _stored(value, levels, room)
    except Exception:
        return f"<{type(value).__name__}>"


def _stored(value: Any, levels: int, room: list[int]) -> Any:
    if isinstance(value, str | bytes | bytearray):
        room[0] -= min(len(value) // MOST, 4) * 100
        return _cut(value, 4 * MOST) if isinstance(value, str) else str(bytes(value[:MOST]))
    if isinstance(value, int | float | None):
        return value
    if levels <= 0 or room[0] <= 0:
        return f"<{type(value).__name__}>"
    if isinstance(value, list | tuple | set | frozenset):
        members = [*itertools.islice(value, 100)]
        if len(value) > 32 and all(type(v) in (int, float) for v in members):
            return f"<{len(value)} numbers>"
        return [stored(v, levels - 1, room) for v in members]
    if isinstance(value, dict):
        items = [*itertools.islice(value.items(), 100)]
        return {told(n): stored(v, levels - 1, room) for n, v in items}
    if type(value).__name__ in _ROWS and callable(held(value, "keys")):
        return stored(dict(value), levels - 1, room)
    if type(value).__name__ == "ndarray":
        return "<ndarray>"
    fields = held(value, "__dict__") or _slots(value)
    own = next((fields[n] for n in _DATA if isinstance(fields.get(n), dict | list | tuple)), None)
    texts = [n for n in _TEXTS if isinstance(fields.get(n), str) and fields[n]]
    public = [n for n in fields if str(n)[:1] != "_"]
    names = [*texts, *(n for n in _BESIDE if fields.get(n) is not None)] if texts else public
    made = stored(own if own is not None and not names else {n: fields[n] for n in names}, levels - 1, room)
    says = any(isinstance(fields.get(n), str | int | float | list | tuple | dict) for n in _RESULTS)
    return made if texts or says or _has_text(made) or hide_secrets(made) != made else value


def _slots(value: Any) -> dict[str, Any]:
    named = (c.__dict__.get("__slots__", ()) for c in type(value).__mro__)
    return {n: held(value, n) for some in named for n in ((some,) if isinstance(some, str) else some)}


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
