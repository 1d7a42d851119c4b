"""Writes values of a running program as short JSON, without running its code."""

from __future__ import annotations

import inspect
import json
import math
import re
from enum import Enum
from types import MemberDescriptorType, ModuleType
from typing import Any

#: Characters of a written value; the rest is cut.
MOST_CHARACTERS = 20_000
#: Characters of what a model was sent, which a judge reads beside the reply; of more the middle is cut.
MOST_OF_PROMPT = 60_000
#: Members of a list or a mapping that are written, and levels, which only values that hold themselves come near to.
_MOST_MEMBERS, _MOST_LEVELS = 100, 16
#: Members that hold the text of a document, a passage or a message, and those beside it that say which one it is.
TEXTS = ("page_content", "text", "content")
_BESIDE = frozenset(
    ["id", "id_", "role", "type", "name", "title", "url", "source", "score", "metadata", "payload", "tool_calls"]
)
#: Least numbers of a list that is a vector; no reader looks at one.
_VECTOR = 33
#: Characters that a value beside its own text costs: commas, quotes, brackets.
_SIGNS = 4
#: Members that are written without their value.
_SECRETS = re.compile(r"api_?key|secret|passw(or)?d|authorization|credential|(access|auth|refresh|bearer)_?token", re.I)


def text_of_value(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Return a value as text: texts as they are, all else as JSON, cut to `MOST_CHARACTERS`, or in its middle to more.

    An object is written by its content, its fields or its class. Only what it stores is read: neither its properties
    nor its `repr` run. What is deep inside is written as long as there is room, so that passages in a state can be
    read; where an object has a text, it is written first, with what says which text it is.

    Args:
        value: The value.
        most: Most characters.
    """
    text = value if type(value) is str else json.dumps(_Writer(most).plain(value, _MOST_LEVELS), ensure_ascii=False)
    if most <= MOST_CHARACTERS or len(text) <= most:
        return text[:most]
    return f"{text[: most // 2]}\n[...]\n{text[-most // 2 :]}"


def plain(value: Any) -> Any:
    """Return a value of plain types, as `text_of_value` writes it."""
    return _Writer(MOST_CHARACTERS).plain(value, _MOST_LEVELS)


class _Writer:
    """Writes one value; its room is shared by all that is in it."""

    def __init__(self, room: int) -> None:
        # What is cut in its middle is needed whole first.
        self._room = room if room <= MOST_CHARACTERS else 10 * room

    def plain(self, value: Any, levels: int) -> Any:
        kind = type(value)
        self._room -= _SIGNS
        if value is None or kind in (bool, int):
            return value
        if isinstance(value, float):  # NumPy's own are floats, too.
            number = float.__float__(value)
            return number if math.isfinite(number) else str(number)
        if isinstance(value, str):
            text = str.__str__(value) if not isinstance(value, Enum) else str(value._value_)
            text = text[: max(self._room, 0)]
            self._room -= len(text)
            return text
        if isinstance(value, Enum):
            return self.plain(value._value_, levels - 1)
        if levels <= 0 or self._room <= 0:
            return f"<{kind.__name__}>"
        if isinstance(value, dict) and kind.__iter__ is dict.__iter__:
            return self._mapping({str(k)[:200]: v for k, v in list(dict.items(value))[:_MOST_MEMBERS]}, levels)
        if isinstance(value, tuple) and (names := _names(kind)):
            return self._mapping(dict(zip(names, tuple.__iter__(value), strict=False)), levels)
        if kind in (list, tuple, set, frozenset):
            return self._members(list(value), levels)
        fields = stored_fields(value)
        if "content" in fields and ("type" in fields or "role" in fields):  # a message
            said = {"role": fields.get("role", fields.get("type")), "content": fields["content"]}
            calls = fields.get("tool_calls")
            return self._mapping(said | ({"tool_calls": calls} if type(calls) is list and calls else {}), levels)
        texts = {n: fields[n] for n in TEXTS if type(fields.get(n)) is str and fields[n]}
        if texts:
            beside = {n: v for n, v in fields.items() if n in _BESIDE and not _is_absent(v)}
            return self._mapping(texts | beside, levels)
        public = {k: v for k, v in fields.items() if not k.startswith("_")}
        if public and len(fields) <= _MOST_MEMBERS and not any(callable(v) for v in fields.values()):
            return self._mapping(public, levels)
        return f"<{kind.__name__}>"

    def _mapping(self, members: dict[str, Any], levels: int) -> dict[str, Any]:
        self._room -= sum(map(len, members))
        written: dict[str, Any] = {}
        # A client or a graph among the arguments takes the room that the texts beside it leave.
        for name in sorted(members, key=lambda name: _is_machinery(members[name])):
            is_secret = type(value := members[name]) is str and value and _SECRETS.search(name)
            written[name] = "<secret>" if is_secret else self.plain(value, levels - 1)
        return written

    def _members(self, values: list[Any], levels: int) -> Any:
        if len(values) >= _VECTOR and all(isinstance(v, float | int) for v in values):
            return f"<{len(values)} numbers>"
        written = []
        for value in values[:_MOST_MEMBERS]:
            if self._room <= 0:
                break
            written.append(self.plain(value, levels - 1))
        return written


def _names(kind: type) -> tuple[str, ...]:
    """Return the names of the members of a named tuple; none of other types."""
    found = inspect.getattr_static(kind, "_fields", ())
    return found if type(found) is tuple else ()


def _is_machinery(value: Any) -> bool:
    """Return whether a value is an object without a text of its own."""
    if value is None or isinstance(value, str | bool | int | float | dict | list | tuple | set | frozenset | Enum):
        return False
    return stored_fields(value).keys().isdisjoint((*TEXTS, "messages"))


def _is_absent(value: Any) -> bool:
    return value is None or (type(value) in (str, list, dict, tuple) and not value)


def stored_fields(value: Any) -> dict[str, Any]:
    """Return the fields that an object stores, in its dictionary or its slots; neither properties nor descriptors."""
    if isinstance(value, type | ModuleType):
        return {}
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return _slots(value)
    if type(found) is not dict:
        return {}
    more = found.get("__pydantic_extra__")
    return found | more if type(more) is dict else found or _slots(value)


def _slots(value: Any) -> dict[str, Any]:
    found = {}
    for base in type(value).__mro__[:-1]:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            slot = inspect.getattr_static(type(value), name, None)
            if isinstance(slot, MemberDescriptorType):
                try:
                    found[name] = slot.__get__(value)
                except AttributeError:
                    continue
    return found
