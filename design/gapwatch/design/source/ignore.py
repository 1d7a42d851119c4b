"""The rules of `.gitignore` files, as git reads them, as far as they decide whether a path is source.

Patterns and paths are bytes, as for git. A pattern becomes an expression that takes, for every star but the last, the
first place that fits, and never comes back to it: a hostile rule costs the length of the path, not a power of it.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from gapwatch.design.source.regular_file import read_regular

#: Most bytes of an ignore file that are read.
_MAX_BYTES = 100_000
#: A longer rule than this matches no path that a file system holds.
_MAX_RULE_BYTES = 4096

_SLASH, _STAR, _STARS = b"/", b"*", b"**"
_BOM = b"\xef\xbb\xbf"
_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ",
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


@dataclass(frozen=True)
class _Rule:
    """One line of a file.

    Attributes:
        depth: Bytes of the path before what is relative to the file's folder.
        anchored: Whether it matches the path below that folder, not the last name alone.
    """

    pattern: re.Pattern[bytes]
    depth: int
    anchored: bool
    negated: bool
    folders_only: bool

    def matches(self, path: bytes) -> bool:
        below = path[self.depth :]
        return self.pattern.fullmatch(below if self.anchored else below.rpartition(_SLASH)[2]) is not None


@dataclass(frozen=True)
class IgnoreRules:
    """Rules in force in one folder; the last rule that matches decides.

    Attributes:
        rules: Rules of the folders above first.
    """

    rules: tuple[_Rule, ...] = ()

    def with_file(self, file: Path, folder: str) -> IgnoreRules:
        """Return these rules with those of a file added.

        Args:
            file: The `.gitignore`; one that cannot be read adds nothing.
            folder: Its folder relative to the root, with `/`; empty for the root.
        """
        try:
            lines = read_regular(file, _MAX_BYTES).removeprefix(_BOM).split(b"\n")
        except OSError:
            return self
        depth = len(_bytes(folder)) + 1 if folder else 0
        made = [rule for line in lines if (rule := _rule(line.removesuffix(b"\r"), depth)) is not None]
        return IgnoreRules((*self.rules, *made))

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path, relative to the root, is ignored; its folders were asked before."""
        name = _bytes(path)
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and rule.matches(name):
                return not rule.negated
        return False


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _rule(line: bytes, depth: int) -> _Rule | None:
    if not line or line.startswith(b"#") or len(line) > _MAX_RULE_BYTES:
        return None
    # Spaces at the end count where a backslash stands before them. Python 3.11.2 backtracks into `(?:a| +)*+`.
    text = re.sub(rb"\A((?>(?:\\.|[^\\ ]| +(?! |\Z))*)) +\Z", rb"\1", line, flags=re.DOTALL)
    negated = text.startswith(b"!")
    text = text.removeprefix(b"!")
    folders_only = text.endswith(_SLASH)
    text = text.removesuffix(_SLASH)
    tokens = _tokens(text.removeprefix(_SLASH))
    # No path begins or ends with a slash or holds two in a row.
    if not tokens or any(a == b == _SLASH for a, b in pairwise([_SLASH, *tokens, _SLASH])):
        return None
    return _Rule(re.compile(_path_pattern(tokens), re.DOTALL), depth, _SLASH in text, negated, folders_only)


def _tokens(text: bytes) -> list[bytes] | None:
    """Return a slash, a run of stars, or the expression for one byte, in order; None for what never matches."""
    out: list[bytes] = []
    i = 0
    while i < len(text):
        sign = text[i : i + 1]
        i += 1
        if sign == _STAR:
            stars = len(text[i - 1 :]) - len(text[i - 1 :].lstrip(_STAR))
            out.append(_STAR if stars == 1 else _STARS)
            i += stars - 1
        elif sign == b"?":
            out.append(b"[^/]")
        elif sign == b"[":
            found = _byte_set(text, i)
            if found is None:
                return None
            members, i = found
            out.append(b"[" + b"".join(b"\\x%02x" % m for m in sorted(members)) + b"]" if members else b"(?!)")
        elif sign == b"\\":
            if i == len(text):
                return None
            out.append(_literal(text[i : i + 1]))
            i += 1
        else:
            out.append(_literal(sign))
    return out


def _literal(sign: bytes) -> bytes:
    return sign if sign == _SLASH else re.escape(sign)


def _byte_set(text: bytes, i: int) -> tuple[set[int], int] | None:
    """Read a set such as `[!a-c]` from behind its bracket: its bytes, never a slash, and where it ends."""
    negated = text[i : i + 1] in (b"!", b"^")
    i += negated
    members: set[int] = set()
    first, low = True, None
    while first or text[i : i + 1] != b"]":
        first = False
        if i >= len(text):
            return None
        named = re.compile(rb"\[:([^\]]*):\]").match(text, i)
        if named is not None:
            letters = _CLASSES.get(named[1].decode("latin-1"))
            if letters is None:
                return None
            members.update(map(ord, letters))
            i, low = named.end(), None
            continue
        is_range = text[i : i + 1] == b"-" and low is not None and text[i + 1 : i + 2] not in (b"", b"]")
        i += is_range
        i += text[i : i + 1] == b"\\"
        if i >= len(text):
            return None
        members.update(range(low if is_range and low is not None else text[i], text[i] + 1))
        low = None if is_range else text[i]
        i += 1
    return (set(range(256)) - members if negated else members) - {_SLASH[0]}, i + 1


def _path_pattern(tokens: list[bytes]) -> bytes:
    """Return the expression of a whole path: what stands between two `**` takes the first place that fits."""
    names = [list(group) for is_slash, group in groupby(tokens, lambda token: token == _SLASH) if not is_slash]
    parts: list[list[bytes]] = [[]]
    for name in names:
        if name == [_STARS]:
            parts.append([])
        else:
            parts[-1].append(_name_pattern(name))
    first, *rest = (_SLASH.join(part) for part in parts)
    if not rest:
        return first
    out = first + _SLASH if first else b""
    out += b"".join(b"(?>(?:.*?/)??" + part + b"/)" for part in rest[:-1] if part)
    return out + (b"(?:.*/)?" + rest[-1] if rest[-1] else b".*")


def _name_pattern(tokens: list[bytes]) -> bytes:
    """Return the expression of one name; each text between two stars has a fixed length."""
    pieces = [b""]
    for token in tokens:
        if token in (_STAR, _STARS):
            pieces.append(b"")
        else:
            pieces[-1] += token
    first, *rest = pieces
    if not rest:
        return first
    return first + b"".join(b"(?>[^/]*?" + piece + b")" for piece in rest[:-1] if piece) + b"[^/]*" + rest[-1]
