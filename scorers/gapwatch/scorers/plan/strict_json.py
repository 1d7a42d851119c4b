"""Reads JSON exactly by RFC 8259, at any depth, and writes values as compact JSON.

msgspec reads nearly every text. It refuses what is rare and still JSON: lone surrogate escapes, numbers that overflow
a double, deep nesting. This module reads those texts again, with the same result for all others.
"""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring
from typing import Any, Final, NoReturn

import msgspec

_decode = msgspec.json.Decoder().decode


class NumberText(str):
    """Number that overflows a double, with its spelling."""

    __slots__ = ()


class _NotJson:
    """Type of `NOT_JSON_TEXT`."""

    __slots__ = ()


#: Result of `parse_text` for a text that is not JSON.
NOT_JSON_TEXT: Final = _NotJson()

#: Last character of JSON by its first one; what msgspec refuses takes several times as long as this check.
_ENDS = {"{": "}", "[": "]", '"': '"'}
_WORDS = {"true": True, "false": False, "null": None}
_LETTERS = frozenset("tfn")
_WHITE = " \t\r\n"
_BEGINS = frozenset("-0123456789tfn \t\r\n")
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
# Longest integer that becomes an int: Python refuses to convert one of 4,300 digits.
_MOST_DIGITS = 4_000

# A surrogate pair, a lone surrogate (group 1), or any other escape.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_text(text: str) -> Any:
    """Read a text as JSON; of equal keys the last counts, a lone surrogate escape is U+FFFD.

    Returns:
        None, bool, int, float, str, list, dict, or `NumberText` for a number that overflows a double; `NOT_JSON_TEXT`
        for a text that is not JSON.
    """
    end = _ENDS.get(text[:1])
    if end is None:
        return _plain_value(text) if text[:1] in _BEGINS else NOT_JSON_TEXT
    if text[-1] != end and text.rstrip(_WHITE)[-1:] != end:
        return NOT_JSON_TEXT
    try:
        return _decode(text)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        return _at_any_depth(text)
    return _strictly(text)


def _plain_value(text: str) -> Any:
    """Read a text that does not begin with a list, an object or a quoted text."""
    stripped = text.strip(_WHITE)
    if stripped[:1] in _ENDS:
        return parse_text(stripped)
    if stripped[:1] in _LETTERS:
        return _WORDS[stripped] if len(stripped) <= 5 and stripped in _WORDS else NOT_JSON_TEXT
    return _strictly(stripped) if _PLAIN_NUMBER.fullmatch(stripped) else NOT_JSON_TEXT


def _strictly(text: str) -> Any:
    try:
        return _parse_exactly(text)
    except ValueError:
        return NOT_JSON_TEXT
    except RecursionError:
        return _at_any_depth(text)


def _at_any_depth(text: str) -> Any:
    try:
        return _parse_deeply(replace_lone_surrogates(text))
    except ValueError:
        return NOT_JSON_TEXT


def parse_strictly(text: str) -> Any:
    """Read JSON exactly by its grammar; the values are those of `parse_text`.

    Raises:
        ValueError: The text is not JSON.
        RecursionError: The text is nested too deeply.
    """
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return _parse_exactly(text)


def _parse_exactly(text: str) -> Any:
    if "\\u" in text:
        text = replace_lone_surrogates(text)
    return json.loads(text, parse_constant=_refuse, parse_int=_whole, parse_float=_fraction)


def replace_lone_surrogates(text: str) -> str:
    r"""Return JSON text with each escape of a lone surrogate replaced by \ufffd."""
    return _ESCAPE.sub(lambda match: "\\ufffd" if match.group(1) else match.group(0), text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _whole(spelling: str) -> int | NumberText:
    return int(spelling) if len(spelling) < _MOST_DIGITS else NumberText(spelling)


def _fraction(spelling: str) -> float | NumberText:
    number = float(spelling)
    return number if math.isfinite(number) else NumberText(spelling)


def number_in(value: Any) -> float | None:
    """Return the finite double that a JSON value is or spells, else None; true and false are no numbers."""
    kind = value.__class__
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind is int:
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = float(value)
        return number if math.isfinite(number) else None
    return None


def text_in(value: Any) -> str:
    """Return the text of a JSON value that is not null: the text itself, or its compact JSON."""
    return value if value.__class__ is str else write_compactly(value)


def write_compactly(value: Any) -> str:
    """Return a value as JSON without white space: members in their order, non-ASCII unescaped; without recursion."""
    if not isinstance(value, list | dict):
        return _scalar(value)
    written: list[str] = []
    # Values to write, last first; a pair (text,) is written as it is.
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            written.append(item[0])
        elif isinstance(item, dict):
            pieces = [piece for key, member in item.items() for piece in ((f",{encode_basestring(key)}:",), member)]
            if pieces:
                pieces[0] = (pieces[0][0][1:],)
            waiting += [("}",), *reversed(pieces), ("{",)]
        elif isinstance(item, list):
            pieces = [piece for element in item for piece in ((",",), element)]
            waiting += [("]",), *reversed(pieces[1:]), ("[",)]
        else:
            written.append(_scalar(item))
    return "".join(written)


def _scalar(value: Any) -> str:
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


_TOKEN = re.compile(
    r'[ \t\r\n]*+(?:([\[\]{},:])|("(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    r"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null))"
)
_END = re.compile(r"[ \t\r\n]*")
_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _AFTER = range(6)


def _parse_deeply(text: str) -> Any:
    """Read JSON without recursion, in time proportional to its length: up to 1 us for a bracket or a value.

    Raises:
        ValueError: The text is not JSON.
    """
    root: list[Any] = []
    # The open lists and objects, and the key of each (None for a list).
    opened: list[Any] = [root]
    keys: list[str | None] = [None]
    wanted, at = _VALUE, 0
    match = _TOKEN.match
    while wanted != _AFTER or len(opened) > 1:
        token = match(text, at)
        if token is None:
            raise ValueError(f"not JSON at character {at}")
        at = token.end()
        mark, quoted, _ = token.groups()
        if mark is None:
            if quoted is not None and wanted in (_KEY, _KEY_OR_END):
                keys[-1], wanted = json.loads(quoted), _COLON
            elif wanted <= _VALUE_OR_END:
                _put(opened[-1], keys[-1], parse_strictly(quoted or token.group(3)))
                wanted = _AFTER
            else:
                raise ValueError(f"not JSON before character {at}")
        elif mark in "[{" and wanted <= _VALUE_OR_END:
            inner: Any = [] if mark == "[" else {}
            _put(opened[-1], keys[-1], inner)
            opened.append(inner)
            keys.append(None)
            wanted = _VALUE_OR_END if mark == "[" else _KEY_OR_END
        elif mark == ":" and wanted == _COLON:
            wanted = _VALUE
        elif mark == "," and wanted == _AFTER:
            wanted = _VALUE if isinstance(opened[-1], list) else _KEY
        elif mark in "]}" and wanted in (_AFTER, _VALUE_OR_END if mark == "]" else _KEY_OR_END):
            if isinstance(opened.pop(), list) != (mark == "]"):
                raise ValueError(f"not JSON before character {at}")
            keys.pop()
            wanted = _AFTER
        else:
            raise ValueError(f"not JSON before character {at}")
    end = _END.match(text, at)
    if end is None or end.end() != len(text):
        raise ValueError(f"not JSON at character {at}")
    return root[0]


def _put(owner: Any, key: str | None, value: Any) -> None:
    if key is None:
        owner.append(value)
    else:
        owner[key] = value
