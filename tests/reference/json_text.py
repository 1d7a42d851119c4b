"""Reads and writes JSON by the grammar of RFC 8259, without a library whose leniency could change the meaning.

The last of two equal keys counts, a lone surrogate escape is U+FFFD, numbers keep their spelling.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias


@dataclass(frozen=True)
class JsonNumber:
    """Number with its spelling."""

    spelling: str

    @property
    def is_whole(self) -> bool:
        """True if the number is spelled without fraction and exponent."""
        return not any(mark in self.spelling for mark in ".eE")


@dataclass(frozen=True)
class JsonObject:
    """Members of an object in their order; of a repeated key the last value, in the place of the first."""

    members: tuple[tuple[str, Json], ...]

    def get(self, key: str) -> Json:
        """Return the value of the member with this key; None for null and for a missing key."""
        return next((value for name, value in self.members if name == key), None)


Json: TypeAlias = "bool | str | JsonNumber | JsonObject | list[Json] | None"


class NotJsonError(Exception):
    """The text is not JSON."""


class TooDeepError(Exception):
    """The text is nested deeper than the given limit."""


_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: tuple[tuple[str, Json], ...] = (("null", None), ("true", True), ("false", False))


class _Open:
    """List or object that is not closed yet."""

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.key = ""
        self.items: list[Json] = []
        self.members: list[tuple[str, Json]] = []

    def add(self, value: Json) -> None:
        if self.is_object:
            self.members.append((self.key, value))
        else:
            self.items.append(value)

    def closed(self) -> Json:
        return JsonObject(tuple(dict(self.members).items())) if self.is_object else self.items


class _Reader:
    """Reads one document without recursion, so that depth costs memory only."""

    def __init__(self, text: str, max_depth: int | None) -> None:
        self.text = text
        self.at = 0
        self.max_depth = max_depth

    def document(self) -> Json:
        stack: list[_Open] = []
        self.skip_space()
        while True:
            value, opened = self.value_or_open()
            if opened is not None:
                stack.append(opened)
                if self.max_depth is not None and len(stack) > self.max_depth:
                    raise TooDeepError
                if not self.closes(opened):
                    self.key_if_object(opened)
                    continue
                value = stack.pop().closed()
            while stack:
                stack[-1].add(value)
                self.skip_space()
                if self.take(","):
                    self.skip_space()
                    self.key_if_object(stack[-1])
                    break
                if not self.closes(stack[-1]):
                    raise NotJsonError
                value = stack.pop().closed()
            else:
                self.skip_space()
                if self.at != len(self.text):
                    raise NotJsonError
                return value

    def value_or_open(self) -> tuple[Json, _Open | None]:
        head = self.text[self.at : self.at + 1]
        if head in ("{", "["):
            self.at += 1
            self.skip_space()
            return None, _Open(head == "{")
        if head == '"':
            return self.string(), None
        for word, value in _WORDS:
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value, None
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            raise NotJsonError
        self.at = number.end()
        return JsonNumber(number.group()), None

    def key_if_object(self, container: _Open) -> None:
        if not container.is_object:
            return
        if self.text[self.at : self.at + 1] != '"':
            raise NotJsonError
        container.key = self.string()
        self.skip_space()
        if not self.take(":"):
            raise NotJsonError
        self.skip_space()

    def closes(self, container: _Open) -> bool:
        return self.take("}" if container.is_object else "]")

    def string(self) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self.text, self.at)
            assert plain is not None
            parts.append(plain.group())
            self.at = plain.end()
            if self.take('"'):
                return "".join(parts)
            if not self.take("\\"):
                raise NotJsonError
            parts.append(self.escaped())

    def escaped(self) -> str:
        mark = self.text[self.at : self.at + 1]
        self.at += 1
        if mark in _ESCAPES:
            return _ESCAPES[mark]
        if mark != "u":
            raise NotJsonError
        unit = self.code_unit()
        if 0xD800 <= unit < 0xDC00 and self.text.startswith("\\u", self.at):
            before = self.at
            self.at += 2
            low = self.code_unit()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
            self.at = before
        return "�" if 0xD800 <= unit < 0xE000 else chr(unit)

    def code_unit(self) -> int:
        digits = _HEX.match(self.text, self.at)
        if digits is None:
            raise NotJsonError
        self.at = digits.end()
        return int(digits.group(), 16)

    def take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def skip_space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        assert space is not None
        self.at = space.end()


def parse_json(text: str, max_depth: int | None = None) -> Json:
    """Read one JSON document.

    Raises:
        NotJsonError: The text is not JSON.
        TooDeepError: It opens more than `max_depth` lists and objects inside each other.
    """
    return _Reader(text, max_depth).document()


@dataclass(frozen=True)
class _Literally:
    """Punctuation that is still to be written."""

    text: str


def write_json(value: Json) -> str:
    """Return compact JSON: no white space, members as they were written, non-ASCII unescaped; without recursion."""
    written: list[str] = []
    waiting: list[Json | _Literally] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, _Literally):
            written.append(item.text)
        elif isinstance(item, JsonObject):
            pieces = [
                piece for key, member in item.members for piece in (_Literally(","), key, _Literally(":"), member)
            ]
            waiting += [_Literally("}"), *reversed(pieces[1:]), _Literally("{")]
        elif isinstance(item, list):
            listed = [piece for element in item for piece in (_Literally(","), element)]
            waiting += [_Literally("]"), *reversed(listed[1:]), _Literally("[")]
        else:
            written.append(_write_scalar(item))
    return "".join(written)


def _write_scalar(value: bool | str | JsonNumber | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, JsonNumber):
        return write_number(value)
    return '"' + "".join(_escape(character) for character in value) + '"'


_WRITTEN = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(character: str) -> str:
    if character in _WRITTEN:
        return _WRITTEN[character]
    return f"\\u{ord(character):04x}" if character < " " else character


def write_number(number: JsonNumber) -> str:
    """Return a number as compact JSON writes it: a whole one as spelled, another as its shortest double."""
    if number.is_whole:
        return "0" if number.spelling == "-0" else number.spelling
    value = float(number.spelling)
    if not math.isfinite(value):
        return number.spelling
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    return ("-" if sign else "") + _shortest("".join(map(str, digits)), exponent)


def _shortest(digits: str, exponent: int) -> str:
    point = len(digits) + exponent  # position of the decimal point after the first digit
    if 0 < point <= 21:
        whole = digits[:point].ljust(point, "0")
        return f"{whole}.{digits[point:] or '0'}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1}"
