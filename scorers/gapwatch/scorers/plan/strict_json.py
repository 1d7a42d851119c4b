"""Reads JSON exactly by RFC 8259, for the few texts on which DuckDB's JSON reader differs from it.

DuckDB accepts trailing commas, NaN and Infinity, and refuses lone surrogate escapes. Regular expressions find the texts
that may contain one of these; this module checks them one by one.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_WHITE = r"[ \t\r\n]*"
_NOT_FINITE = r"-?(?:[nN][aA][nN]|[iI][nN][fF])"

#: RE2. A text that DuckDB accepts and that matches none of these is JSON. Each pattern begins with one literal byte and
#: takes 2.3 us for 2.8 KB; as one expression they take four times as long.
SUSPICIOUS = (
    rf",{_WHITE}(?:[\]}}]|{_NOT_FINITE})",
    rf":{_WHITE}{_NOT_FINITE}",
    rf"\[{_WHITE}{_NOT_FINITE}",
)
#: RE2 of a whole text that is a number that is not finite.
SUSPICIOUS_WHOLE = rf"^{_WHITE}{_NOT_FINITE}"
#: RE2. A text that DuckDB refuses and that does not match this is not JSON.
SURROGATE = r"\\u[dD][89a-fA-F]"

# A surrogate pair, a lone surrogate (group 1), or any other escape.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


class NumberText(str):
    """Number with its spelling."""

    __slots__ = ()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its members; of equal keys the first counts."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        result.setdefault(key, value)
    return result


def parse_strictly(text: str) -> Any:
    """Read JSON exactly by its grammar; of equal keys the first counts, and numbers keep their spelling.

    Raises:
        ValueError: The text is not JSON.
        RecursionError: The text is nested too deeply.
    """
    return json.loads(
        text, parse_constant=_refuse, parse_int=NumberText, parse_float=NumberText, object_pairs_hook=first_wins
    )


def replace_lone_surrogates(text: str) -> str:
    r"""Return JSON text with each escape of a lone surrogate replaced by \ufffd."""
    return _ESCAPE.sub(lambda match: "\\ufffd" if match.group(1) else match.group(0), text)


def repair_json(text: str | None) -> str | None:
    """Return the text with lone surrogates replaced if it is JSON, at any depth, else None."""
    return replace_lone_surrogates(text) if text is not None and is_json(text) else None


def is_json(text: str) -> bool:
    """Return whether a text is JSON by its grammar, in time proportional to its length, at any depth."""
    try:
        json.loads(text, parse_constant=_refuse, parse_int=len, parse_float=len)
    except ValueError:
        return False
    except RecursionError:
        return _is_deep_json(text)
    return True


# Marks that replace tokens. They cannot be part of the text: JSON allows no control characters but white space.
_PLAIN, _QUOTED, _KEY = "\x01", "\x02", "\x03"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
# Possessive quantifiers never backtrack, so the time is linear. A text without its closing quote matches, too (group 1
# is empty then); otherwise each later quote would be tried as a beginning.
_TEXT_TOKEN = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+("?+)')
_WORD_TOKEN = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null")
_SPACE = str.maketrans("", "", " \t\r\n")


def _is_deep_json(text: str) -> bool:
    """Return whether a text is JSON, without recursion: 0.1 to 0.4 us per bracket or text, at most 4 s for 10 MB."""
    if _CONTROL.search(text):
        return False
    unquoted = _TEXT_TOKEN.sub(_QUOTED + r"\1", text)
    # Two adjacent values stay two marks, so the white space between them can be removed.
    skeleton = _WORD_TOKEN.sub(_PLAIN, unquoted).translate(_SPACE)
    ended = _QUOTED + '"'
    return _is_nested_well(skeleton.replace(ended + ":", _KEY).replace(ended, _PLAIN))


_VALUE, _VALUE_OR_END, _KEY_WANTED, _KEY_OR_END, _AFTER = range(5)


def _is_nested_well(skeleton: str) -> bool:
    """Return whether brackets, commas, keys (`_KEY`) and other values (`_PLAIN`) form one JSON value."""
    ends: list[str] = []
    wanted = _VALUE
    for mark in skeleton:
        if wanted == _AFTER:
            if not ends:
                return False
            if mark == ",":
                wanted = _VALUE if ends[-1] == "]" else _KEY_WANTED
            elif mark != ends.pop():
                return False
        elif wanted in (_KEY_WANTED, _KEY_OR_END):
            if mark == _KEY:
                wanted = _VALUE
            elif mark == "}" and wanted == _KEY_OR_END:
                ends.pop()
                wanted = _AFTER
            else:
                return False
        elif mark == _PLAIN:
            wanted = _AFTER
        elif mark == "[":
            ends.append("]")
            wanted = _VALUE_OR_END
        elif mark == "{":
            ends.append("}")
            wanted = _KEY_OR_END
        elif mark == "]" and wanted == _VALUE_OR_END:
            ends.pop()
            wanted = _AFTER
        else:
            return False
    return wanted == _AFTER and not ends
