"""Collects what a generator gives: its texts, or those inside of the events, components and messages that it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gapwatch.design.emission.interpreter.model_replies import reply_text
from gapwatch.design.emission.interpreter.plain_values import MOST_CHARACTERS, stored_fields, text_of_value

#: Members of a piece that hold what is said, the surest first.
_SAID = ("content", "text", "delta", "page_content", "output_text", "answer", "response", "data")
#: Who speaks in messages that are no answer: who asks, after whom the answer comes, and tools.
_ASKERS = frozenset(["human", "user", "system", "developer"])
_SILENT = _ASKERS | {"tool", "function"}
#: Kinds of pieces whose texts are arguments of tools.
_OF_TOOLS = ("function_call", "tool_use", "input_json", "tool_call")
#: Levels and values of one piece that are looked at.
_MOST_LEVELS, _MOST_VALUES = 8, 400


class GivenPieces:
    """Texts of what a generator has given so far.

    Attributes:
        first: Seconds until its first piece; None for none.
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self._texts: list[str] = []
        self._said: list[str] = []
        self._length = 0
        self._written: list[str] = []
        self._first_text: float | None = None
        self._first_said: float | None = None
        self._room = MOST_CHARACTERS

    def add(self, value: Any, seconds: float) -> None:
        """Take a piece.

        Args:
            value: The piece.
            seconds: Since the generator began.
        """
        if self.first is None:
            self.first = seconds
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if type(value) is str:
            if self._first_text is None and value:
                self._first_text = seconds
            if self._room > 0:
                self._texts.append(value)
                self._room -= len(value)
        elif value is not None and self._room > 0:
            self._add_object(value, seconds)

    def _add_object(self, value: Any, seconds: float) -> None:
        found = _Texts()
        text = "\n".join(dict.fromkeys(found.of(value, _MOST_LEVELS)))
        if not text:
            if not self._said:
                self._written.append(written := text_of_value(value))
                self._room -= len(written)
            return
        if self._first_said is None:
            self._first_said = seconds
            self._room += sum(map(len, self._written))
            self._written.clear()
        is_as_long = len(self._said) > 1 and len(text) == self._length
        if is_as_long and text == "".join(self._said):
            return  # The last event says all that was said once more.
        if isinstance(value, list) and self._said and text.startswith(self._said[-1]):
            last = len(self._said.pop())  # A list of all messages so far.
            self._room += last
            self._length -= last
        if self._said and not found.is_part and not isinstance(value, list):
            text = f"\n{text}"
        self._said.append(text)
        self._length += len(text)
        self._room -= len(text)

    def text(self) -> str:
        """Return what was said; of events without any text, what they hold."""
        if self._are_objects():
            return "".join(self._said)[:MOST_CHARACTERS]
        return "".join(self._texts or ["\n".join(self._written)])[:MOST_CHARACTERS]

    def has_text(self) -> bool:
        """Return whether any piece says something."""
        return bool(self._texts or self._said)

    def first_said(self) -> float | None:
        """Return the seconds until the first piece that says something; without one, until the first piece."""
        found = self._first_said if self._are_objects() else self._first_text
        return self.first if found is None else found

    def _are_objects(self) -> bool:
        """Return whether the texts are in objects: one text among them is an id of the run, or the name of an event."""
        return bool(self._said) and len(self._texts) < 2


class _Texts:
    """Finds the texts inside of one piece.

    Attributes:
        is_part: Whether the piece is a part of a text, such as a token, and not a message or a component of its own.
    """

    def __init__(self) -> None:
        self._left = _MOST_VALUES
        self.is_part = False

    def of(self, value: Any, levels: int) -> Iterator[str]:
        """Yield the texts, in their order.

        Args:
            value: The piece, or what is in it.
            levels: Levels that are left.
        """
        self._left -= 1
        if levels <= 0 or self._left <= 0 or value is None or isinstance(value, str | bytes | int | float):
            return
        if isinstance(value, list | tuple):
            every = list(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))
            asked = (i for i, one in enumerate(every, 1) if not _ASKERS.isdisjoint(_speakers(one)))
            for member in every[max(asked, default=0) :]:
                yield from self.of(member, levels - 1)
            return
        members = _members(value)
        kind = members.get("type")
        words = f"{type(value).__name__} {kind if type(kind) is str else ''}".lower()
        is_part = "chunk" in words or "delta" in words or levels == _MOST_LEVELS
        if not _SILENT.isdisjoint(_speakers(value)):
            return
        if type(kind) is str and any(word in kind for word in _OF_TOOLS):
            return
        if "choices" in members:
            self.is_part = True
            if text := reply_text(value):
                yield text
            return
        named = next((n for n in _SAID if type(members.get(n)) is str and members[n]), None)
        if named is not None:
            self.is_part |= is_part or named == "delta"
            yield members[named]
            return
        for name, member in members.items():
            if not (type(name) is str and name.startswith("_")):
                yield from self.of(member, levels - 1)


def _members(value: Any) -> dict[Any, Any]:
    return dict(dict.items(value)) if isinstance(value, dict) else stored_fields(value)


def _speakers(value: Any) -> set[str]:
    """Return who speaks in a message, in the words of its role and of its class."""
    if value is None or isinstance(value, str | bytes | int | float | list | tuple):
        return set()
    members = _members(value)
    return {who for who in (members.get("role"), members.get("type")) if type(who) is str}
