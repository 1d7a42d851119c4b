"""Hides secrets in what both recorders write; its text becomes a part of a patched program."""

from __future__ import annotations

import json
import re
import traceback
from typing import Any

from gapwatch.design.source.secret_shapes import RANDOM_TEXT, SECRET_NAMES, SECRET_SHAPES

#: What stands for a secret, as in the files of a design.
HIDDEN = "[secret]"
_NAMED = re.compile(SECRET_NAMES, re.I)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Names under which only what looks like a secret is one.
_MAYBE = re.compile(r"(?:.*[\W_])?(?:tokens?|keys?|auth|jwt|sig|signature|pwd|otp)", re.I | re.S)
_RANDOM = re.compile(RANDOM_TEXT, re.S)
_SHAPES = tuple((words, re.compile(shape)) for words, shape in SECRET_SHAPES)
#: Members that say of the others beside them what they are, and those that hold the value then.
_NAMES = frozenset({"name", "key", "label", "title", "field", "header", "id", "displayname", "variable"})
_TYPES = frozenset({"type", "kind", "format", "inputtype", "fieldtype", "widget"})
_SWITCHES = frozenset({"secret", "issecret", "password", "ispassword", "sensitive", "issensitive"})
_VALUES = frozenset({"value", "values", "default", "defaultvalue", "current", "currentvalue"})
_LONGEST_NAME, _LONGEST_JSON = 200, 400_000
#: A name of a secret inside of a text, and what follows: text in quotes, a list or a mapping, a header, or a word.
_IN_TEXT = re.compile(
    rf"(?i:{SECRET_NAMES})[\w-]{{0,20}}\\{{0,3}}[\"']?\]?\s{{0,3}}(?::|=>?)\s{{0,3}}"
    r"(?:[bruf]{0,2}\\{0,3}[\"']([^\"'\\\n]+)|([\[{(][^\[\]{}]{1,2000})"
    r"|(?i:(?:bearer|basic|digest|token)\s+([^\s\"',;\\]{6,}))|([^\s\"',;&)}\]\\{\[(<$]{6,400}))"
)
_QUOTED = re.compile(r"([\"'])((?:(?!\1)[^\\\n])+)\1(\s*:)?")
_OTHERS = (
    # Members of an address, a header of cookies, and a setting of which another member says that it is a password.
    re.compile(
        r"[?&#;][\w.-]{0,40}(?:key|token|sig|signature|secret|passw(?:or)?d|pwd|credential)=([^\s\"'&#<>\\]{4,})", re.I
    ),
    re.compile(r"\bcookie\\{0,3}[\"']?\s*:\s*\\{0,3}[\"']?([^\s\"',:=]{1,100}=[^\n\"'\\]*)", re.I),
    re.compile(
        r"[\"']type[\"']\s*:\s*[\"'](?:password|secret)[\"'][^{}]{0,300}?[\"'](?:value|default)[\"']\s*:\s*[\"']([^\"'\\\n]+)"
    ),
    re.compile(
        r"[\"'](?:value|default)[\"']\s*:\s*[\"']([^\"'\\\n]+)[\"'][^{}]{0,300}?[\"']type[\"']\s*:\s*[\"'](?:password|secret)[\"']"
    ),
)


def hide_secrets(value: Any, levels: int = 40) -> Any:
    """Return a text, or plain data, with `[secret]` for each secret in it; what is neither stays as it is.

    All that stands under the name of a secret is hidden, as are the value of a member of which those beside it say that
    it is a secret, the second of a pair that such a name begins, keys that are known by their form, and passwords in
    addresses. Numbers, switches and empty texts are no secrets.

    Args:
        value: The text or the data: members of lists, tuples and mappings are looked at.
        levels: Most levels that are gone down; what lies deeper is hidden.
    """
    if isinstance(value, str):
        return _without_secrets_in(value, levels)
    if isinstance(value, dict | list | tuple) and levels <= 0:
        return HIDDEN
    if isinstance(value, dict):
        hidden = _hidden_names(value)
        return {
            _hidden_in_name(n): HIDDEN if n in hidden and _may_hold(v) else hide_secrets(v, levels - 1)
            for n, v in value.items()
        }
    if isinstance(value, list | tuple):
        first = value[0] if len(value) == 2 else None
        if isinstance(first, str | bytes) and is_secret_name(first) and _may_hold(value[1]):
            return [first if isinstance(first, str) else str(first), HIDDEN]
        return [hide_secrets(v, levels - 1) for v in value]
    return value


def error_texts(error: BaseException) -> dict[str, str]:
    """Return what an exception and its trace say, without secrets, as attributes of an event of OpenTelemetry."""
    texts = {"exception.message": str(error), "exception.stacktrace": "".join(traceback.format_exception(error))}
    return {name: hide_secrets(text) for name, text in texts.items()}


def is_secret_name(name: Any) -> bool:
    """Return whether a name is one of a secret, whatever its case, and whether its words have gaps, dashes or none."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    text = text[:_LONGEST_NAME]
    return bool(_NAMED.search(text) or _NAMED.search(_HUMP.sub(" ", text)))


def _hidden_names(members: dict[Any, Any]) -> set[Any]:
    """Return the names of a mapping's members that hold secrets."""
    hidden, told = set(), False
    for name, value in members.items():
        plain = re.sub(r"[\W_]", "", str(name)[:_LONGEST_NAME]).lower()
        if is_secret_name(name) or (_MAYBE.fullmatch(str(name)[:_LONGEST_NAME]) and _looks_secret(value)):
            hidden.add(name)
        if plain in _SWITCHES:
            told = told or value is True
        elif plain in _NAMES or plain in _TYPES:
            told = told or (isinstance(value, str) and len(value) <= _LONGEST_NAME and is_secret_name(value))
    if told:
        hidden |= {n for n in members if re.sub(r"[\W_]", "", str(n)[:_LONGEST_NAME]).lower() in _VALUES}
    return hidden


def _looks_secret(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= 16 and " " not in value and bool(_RANDOM.search(value[:400]))


def _may_hold(value: Any) -> bool:
    return not (value is None or isinstance(value, bool | int | float) or (hasattr(value, "__len__") and not value))


def _hidden_in_name(name: Any) -> Any:
    return _without_shapes(name) if isinstance(name, str) else name


def _without_secrets_in(text: str, levels: int) -> str:
    begin, end = text[:1000].lstrip()[:1], text[-1000:].rstrip()[-1:]
    if (begin + end) in ("{}", "[]") and len(text) <= _LONGEST_JSON and levels > 0:
        try:
            data = json.loads(text)
            after = hide_secrets(data, levels - 1)
            return text if after == data else json.dumps(after, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # Not JSON: text like all other.
    text = _without_shapes(text)
    if any(sign in text for sign in ":="):
        for pattern in _OTHERS:
            text = pattern.sub(_masked, text)
        text = _IN_TEXT.sub(_after_name, text)
    return text


def _without_shapes(text: str) -> str:
    for words, shape in _SHAPES:
        if any(word in text for word in words):
            text = shape.sub(_masked, text)
    return text


def _after_name(found: re.Match[str]) -> str:
    if (block := found[2]) is not None:
        return found[0][: -len(block)] + _QUOTED.sub(lambda m: m[0] if m[3] else f"{m[1]}{HIDDEN}{m[1]}", block)
    return found[0] if found[4] is not None and not _RANDOM.search(found[4]) else _masked(found)


def _masked(found: re.Match[str]) -> str:
    """Return a match with its group hidden; all of it where it has none."""
    begin, end = (n - found.start() for n in found.span(found.lastindex or 0))
    return f"{found[0][:begin]}{HIDDEN}{found[0][end:]}"
