"""Finds regular expressions that are nothing but one fixed text between anchors.

Such a pattern on a field that a model writes states the right answer, and a right answer belongs to offline
evaluation. The pattern is known to be RE2 here; whatever this reading does not understand is no fixed text.
"""

from __future__ import annotations

import re

_BEGIN, _END = "\ue000", "\ue001"  # stand for the anchors in what a pattern matches
_ESCAPED = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_FLAGS = re.compile(r"\?[imsU]*(?:-[imsU]+)?([:)])")
_NAMED = re.compile(r"\?P?<\w+>")
_REPEAT = re.compile(r"\{(\d+)(?:,(\d*))?\}\??")
_HEX = re.compile(r"x(?:\{([0-9a-fA-F]{1,8})\}|([0-9a-fA-F]{2}))")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
# A repeated group of a repeated group may not cost more than the pattern's own length many times over.
_MAX_LENGTH = 10_000


def fixed_text(pattern: str) -> str | None:
    r"""Return the one text that an anchored pattern matches, whatever the case, or None where there is no such text.

    Groups, flags, escapes, `\Q...\E`, classes of one character and exact repeats are seen through.

    Args:
        pattern: A regular expression of RE2.
    """
    try:
        text = _Pattern(pattern).whole()
    except (_NotFixedError, RecursionError):
        return None
    if text.startswith(_BEGIN) and text.endswith(_END):
        inner = text.replace(_BEGIN, "").replace(_END, "")
        before, after = len(text) - len(text.lstrip(_BEGIN)), len(text) - len(text.rstrip(_END))
        return inner if len(inner) == len(text) - before - after else None
    return None


class _NotFixedError(Exception):
    """The pattern matches more than one text, or something that is not understood."""


class _Pattern:
    """A reader of one pattern; each method returns the only text that its part matches."""

    def __init__(self, pattern: str) -> None:
        if _BEGIN in pattern or _END in pattern:
            raise _NotFixedError
        self._rest = pattern

    def whole(self) -> str:
        text = self._alternatives()
        if self._rest:
            raise _NotFixedError
        return text

    def _alternatives(self) -> str:
        texts = {self._sequence()}
        while self._take("|"):
            texts.add(self._sequence())
        if len(texts) > 1:
            raise _NotFixedError
        return texts.pop()

    def _sequence(self) -> str:
        text = ""
        while self._rest and self._rest[0] not in "|)":
            if self._take("\\Q"):
                quoted, _, self._rest = self._rest.partition("\\E")
                # A repeat after \E counts for the last character only.
                text += quoted[:-1] + self._repeated(quoted[-1:])
            else:
                text += self._repeated(self._atom())
            if len(text) > _MAX_LENGTH:
                raise _NotFixedError
        return text

    def _repeated(self, text: str) -> str:
        match = _REPEAT.match(self._rest)
        if match is not None:
            least, most = match[1], match[2] if match[2] is not None else match[1]
            if least != most or len(least) > 4 or len(text) * int(least) > _MAX_LENGTH:
                raise _NotFixedError
            self._rest = self._rest[match.end() :]
            return text * int(least)
        if self._rest[:1] in ("*", "+", "?") and self._rest:
            raise _NotFixedError
        return text

    def _atom(self) -> str:
        if self._take("("):
            return self._group()
        if self._take("["):
            return self._class()
        if self._take("\\"):
            return self._escape()
        character = self._next()
        if character == "^":
            return _BEGIN
        if character == "$":
            return _END
        if character in ".*+?":
            raise _NotFixedError
        return character

    def _group(self) -> str:
        if (flags := _FLAGS.match(self._rest)) is not None:
            self._rest = self._rest[flags.end() :]
            if flags[1] == ")":  # flags for what follows; they change the case of the text, not that it is one
                return ""
        elif (named := _NAMED.match(self._rest)) is not None:
            self._rest = self._rest[named.end() :]
        text = self._alternatives()
        if not self._take(")"):
            raise _NotFixedError
        return text

    def _class(self) -> str:
        characters: set[str] = set()
        if self._rest.startswith("^"):
            raise _NotFixedError
        first = True
        while first or not self._rest.startswith("]"):
            first = False
            if self._rest.startswith("[:"):
                raise _NotFixedError
            low = self._escape() if self._take("\\") else self._next()
            high = low
            if self._rest.startswith("-") and not self._rest.startswith("-]"):
                self._rest = self._rest[1:]
                high = self._escape() if self._take("\\") else self._next()
            characters |= {low, high}
            if len(characters) > 1 or low in ("", _BEGIN, _END):
                raise _NotFixedError
        self._rest = self._rest[1:]
        return characters.pop()

    def _escape(self) -> str:
        if (code := _HEX.match(self._rest)) is not None:
            self._rest = self._rest[code.end() :]
            return _character(int(code[1] or code[2], 16))
        if (code := _OCTAL.match(self._rest)) is not None:
            self._rest = self._rest[code.end() :]
            return _character(int(code[0], 8))
        character = self._next()
        if character == "A":
            return _BEGIN
        if character == "z":
            return _END
        if character in "bB":  # has no width: what the pattern matches is at most the same text
            return ""
        if character in _ESCAPED:
            return _ESCAPED[character]
        if character.isalnum():  # a class: \d, \pL, \C
            raise _NotFixedError
        return character

    def _take(self, prefix: str) -> bool:
        if self._rest.startswith(prefix):
            self._rest = self._rest[len(prefix) :]
            return True
        return False

    def _next(self) -> str:
        if not self._rest:
            raise _NotFixedError
        character, self._rest = self._rest[0], self._rest[1:]
        return character


def _character(code: int) -> str:
    if code > 0x10FFFF:
        raise _NotFixedError
    return chr(code)
