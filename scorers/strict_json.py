"""JSON by its grammar, RFC 8259, for the few texts that the scoring engine reads more laxly or more strictly.

DuckDB takes trailing commas, NaN and Infinity, and refuses lone surrogate escapes. A regular expression finds the texts
that could hold one of these; they are looked at here, one by one.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_WHITE = r"[ \t\r\n]*"
_NOT_FINITE = r"-?(?:[nN][aA][nN]|[iI][nN][fF])"

#: RE2. A text that matches none of these and that DuckDB takes for JSON is JSON. Each begins with one literal byte,
#: which costs 2.3 us for 2.8 KB; as one expression they cost four times that.
SUSPICIOUS = (
    rf",{_WHITE}(?:[\]}}]|{_NOT_FINITE})",
    rf":{_WHITE}{_NOT_FINITE}",
    rf"\[{_WHITE}{_NOT_FINITE}",
)
#: RE2. The whole text is a number that is not finite.
SUSPICIOUS_WHOLE = rf"^{_WHITE}{_NOT_FINITE}"
#: RE2. Without this a text that DuckDB refuses is no JSON.
SURROGATE = r"\\u[dD][89a-fA-F]"

# A surrogate pair, a lone surrogate (group 1), or any other escape.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


class NumberText(str):
    """A number as it is spelt."""

    __slots__ = ()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of which the first of equal keys counts."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        result.setdefault(key, value)
    return result


def parse_strictly(text: str) -> Any:
    """Read JSON exactly by its grammar; the first of equal keys counts, numbers stay their spelling.

    Raises:
        ValueError: The text is no JSON.
        RecursionError: It is nested too deeply to be read.
    """
    return json.loads(
        text, parse_constant=_refuse, parse_int=NumberText, parse_float=NumberText, object_pairs_hook=first_wins
    )


def replace_lone_surrogates(text: str) -> str:
    r"""Return JSON text with each escape of a lone surrogate replaced by \ufffd."""
    return _ESCAPE.sub(lambda match: "\\ufffd" if match.group(1) else match.group(0), text)


def repair_json(text: str | None) -> str | None:
    """Return the text if it is JSON, with lone surrogates replaced, else None."""
    if text is None:
        return None
    try:
        json.loads(text, parse_constant=_refuse, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return None
    return replace_lone_surrogates(text)
