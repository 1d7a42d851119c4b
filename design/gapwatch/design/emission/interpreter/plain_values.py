"""Writes values of a running program as short JSON, without running its code."""

from __future__ import annotations

import inspect
import json
import math
from enum import Enum
from types import MemberDescriptorType, ModuleType
from typing import Any

from gapwatch.design.emission.hidden_secrets import hide_secrets

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
#: Members that hold what a result says, be it one word.
_RESULTS = ("title", "snippet", "summary", "result", "answer", "description", "body")
#: Where a row of a database, or a response, holds its values.
_DATA = ("_data", "_data_store", "__root__")
_HOLDERS = (dict, list, tuple)
#: Classes of rows, whose values only their library reads, and the libraries.
_ROWS = frozenset({"Row", "RowMapping", "Record"})
_DATABASES = frozenset({"sqlalchemy", "sqlite3", "asyncpg", "psycopg2"})
#: Least numbers of a list that is a vector; no reader looks at one.
_VECTOR = 33
#: Characters from which a text, and members from which a list, is long: others are written before it.
_LONG, _MANY = 2_000, 20
#: Characters that a value beside its own text costs: commas, quotes, brackets.
_SIGNS = 4


def text_of_value(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Return a value as text without secrets: texts as they are, all else as JSON, of at most `most` characters.

    An object is written by its content, its fields or its class. Only what it stores is read: neither its properties
    nor its `repr` run. What is deep inside is written as long as there is room, so that passages in a state can be
    read; where an object has a text, it is written first, with what says which text it is. Of too much the longest
    texts are cut in their middle: short ones, and the last member of a list, stay whole.

    Args:
        value: The value.
        most: Most characters.
    """
    if type(value) is str:
        return _cut(hide_secrets(value), most)
    text = _json(written := hide_secrets(_Writer(most).plain(value, _MOST_LEVELS)))
    return text if len(text) <= most else _cut(_json(_fitted(written, most)), most)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, most: int) -> str:
    """Return a text without its middle, where it has more than some characters, and say there how much is left out."""
    if len(text) <= most:
        return text
    room = max(most - len(told := _left_out(len(text), "characters")), 0)
    told = _left_out(len(text) - room, "characters")
    return f"{text[: room // 2]}{told}{text[len(text) - room + room // 2 :]}"


def _left_out(count: int, what: str) -> str:
    """Return what stands for a part that is left out, as a judge is told of it."""
    return f"\n[... {count} {what} left out ...]\n"


def _fitted(value: Any, room: int) -> Any:
    """Return plain data whose longest texts are cut, so that its JSON has about `room` characters."""
    length = len(_json(value))
    if length <= room or not isinstance(value, str | dict | list):
        return value
    if isinstance(value, str):
        return _cut(value, max(room - _SIGNS, 0) * len(value) // length)
    if isinstance(value, dict):
        costs = {name: len(name) + 2 * _SIGNS for name in value}
        shares = _shares([len(_json(v)) for v in value.values()], room - sum(costs.values()))
        return {name: _fitted(v, share) for (name, v), share in zip(value.items(), shares, strict=True)}
    *others, last = value
    rest = room - min(len(_json(last)), room // 2)
    shares = _shares([len(_json(v)) + _SIGNS for v in others], rest)
    kept = [_fitted(v, s) for v, s in zip(others, shares, strict=True) if s > 2 * _SIGNS]
    left = len(others) - len(kept)
    return [*kept, *([_left_out(left, "members").strip()] if left else []), _fitted(last, room // 2)]


def _shares(lengths: list[int], room: int) -> list[int]:
    """Return how much each has of a room: short ones all that they need, the longest the same."""
    shares = [0] * len(lengths)
    for done, position in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        shares[position] = min(lengths[position], max(room, 0) // (len(lengths) - done))
        room -= shares[position]
    return shares


def plain(value: Any) -> Any:
    """Return a value of plain types, as `text_of_value` writes it."""
    return hide_secrets(_Writer(MOST_CHARACTERS).plain(value, _MOST_LEVELS))


class _Writer:
    """Writes one value; its room is shared by all that is in it."""

    def __init__(self, room: int) -> None:
        # What is cut in its middle is needed whole first.
        self._room = 10 * room

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
        if (row := _row(value)) is not None:
            return self.plain(row, levels - 1)
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
        if (
            not public
            and (own := next((fields[n] for n in _DATA if type(fields.get(n)) in _HOLDERS), None)) is not None
        ):
            return self.plain(own, levels - 1)
        if public and len(fields) <= _MOST_MEMBERS and not any(callable(v) for v in fields.values()):
            return self._mapping(public, levels)
        said = {n: fields[n] for n in _RESULTS if type(fields.get(n)) in (str, int, float, list, tuple, dict)}
        if said:
            beside = {n: v for n, v in fields.items() if n in _BESIDE and not _is_absent(v)}
            return self._mapping(said | beside, levels)
        return f"<{kind.__name__}>"

    def _mapping(self, members: dict[str, Any], levels: int) -> dict[str, Any]:
        self._room -= sum(map(len, members))
        written: dict[str, Any] = {}
        # A client or a graph among the arguments takes the room that the texts beside it leave.
        names = sorted(members, key=lambda name: _is_machinery(members[name]))
        for name in sorted(names, key=lambda name: (_is_machinery(members[name]), _is_long(members[name]))):
            written[name] = self.plain(members[name], levels - 1)
        return {name: written[name] for name in names}

    def _members(self, values: list[Any], levels: int) -> Any:
        if len(values) >= _VECTOR and all(isinstance(v, float | int) for v in values):
            return f"<{len(values)} numbers>"
        if len(values) > _MOST_MEMBERS:
            told = _left_out(len(values) - _MOST_MEMBERS, "members").strip()
            values = [*values[: _MOST_MEMBERS // 2], told, *values[-_MOST_MEMBERS // 2 :]]
        # The last message, or step, is the one that is answered.
        last = [self.plain(value, levels - 1) for value in values[-1:]]
        written = []
        for value in values[:-1]:
            if self._room <= 0:
                break
            written.append(self.plain(value, levels - 1))
        return written + last


def _row(value: Any) -> dict[str, Any] | list[Any] | None:
    """Return the values of a row that a database's library gives, by their columns where it says them; else None."""
    if (type(value).__module__ or "").partition(".")[0] not in _DATABASES or type(value).__name__ not in _ROWS:
        return None
    try:
        return {str(name): value[name] for name in value.keys()} if hasattr(value, "keys") else list(value)  # noqa: SIM118
    except Exception:
        return None


def _names(kind: type) -> tuple[str, ...]:
    """Return the names of the members of a named tuple; none of other types."""
    found = inspect.getattr_static(kind, "_fields", ())
    return found if type(found) is tuple else ()


def _is_machinery(value: Any) -> bool:
    """Return whether a value is an object without a text of its own."""
    if value is None or isinstance(value, str | bool | int | float | dict | list | tuple | set | frozenset | Enum):
        return False
    return stored_fields(value).keys().isdisjoint((*TEXTS, "messages"))


def _is_long(value: Any) -> bool:
    """Return whether a value may need much room."""
    if type(value) is str:
        return len(value) > _LONG
    if type(value) in (list, tuple):
        return len(value) > _MANY
    return not isinstance(value, str | int | float | None)


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
