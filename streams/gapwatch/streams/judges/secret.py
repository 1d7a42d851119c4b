"""API keys of providers, read from the environment or a file and never shown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gapwatch.scorers.errors import UsageError

_NAMED_LIKE_A_KEY = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)(_|$)")
#: Form of a variable's name. A message may repeat it: it is not a key.
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_HIDDEN = "[key]"
#: Fewest characters of a key, or of a half of it, that is scrubbed. No provider gives shorter ones; they are words such
#: as `none` or `EMPTY` for endpoints that require no key, and to scrub them would spoil ordinary texts.
_SHORTEST = 8
#: Most characters of a secret that is also found where it is split or escaped; the pattern of a longer one, such as a
#: certificate in the environment, would take seconds to compile.
_LONGEST_SPLIT = 1_000
#: An escape of JSON, possibly of JSON inside JSON. Bounded, so that a text of backslashes takes linear time.
_ESCAPE = re.compile(r"\\{1,4}(?:u([0-9a-fA-F]{4})|[nrt])?")
#: White space between two characters of a key, possibly escaped. An atomic group: Python 3.11.2, that of Debian 12,
#: does not match `(?:a|b{1,4})*+` where it should, and a key would be shown.
_BETWEEN = r"(?>(?:\s|\\{1,4}(?:[nrt]|u00(?:09|0[aA]|0[dD]|20)))*)"


class Secret:
    """A text whose `repr`, `str` and format are hidden; call `reveal` only where it is sent."""

    __slots__ = ("_pattern", "_pieces", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: tuple[str, ...] | None = None
        self._pattern: re.Pattern[str] | None = None

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def scrub(self, words: str) -> str:
        """Return a foreign text, such as a provider's reply, without the key.

        The key is found as it is, with white space in it, with escapes of JSON, in base64 and in hexadecimal digits; so
        is a half of it that has eight characters or more.
        """
        if len(self._text) < _SHORTEST:
            return words
        if self._pieces is None:
            self._pieces = tuple(_pieces(self._text))
        if len(self._text) > _LONGEST_SPLIT:
            for piece in self._pieces:
                words = words.replace(piece, _HIDDEN)
            return words
        plain = _ESCAPE.sub(_unescaped, words) if "\\" in words else words
        plain = "".join(plain.split())
        for piece in self._pieces:  # a generator would take longer than the search
            if piece in plain:
                break
        else:
            return words
        if self._pattern is None:
            self._pattern = re.compile("|".join(map(_split_pattern, self._pieces)))
        return self._pattern.sub(_HIDDEN, words)

    def scrub_bytes(self, words: bytes) -> bytes:
        """Return foreign bytes without the key."""
        return self.scrub(words.decode("latin-1")).encode("latin-1")

    def __repr__(self) -> str:
        return "Secret()"

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not serialised")


def _pieces(text: str) -> list[str]:
    """Return the forms of a key without white space that are scrubbed, the longest first."""
    key = "".join(text.split())
    if len(key) < _SHORTEST:
        return []
    halves = (key[: len(key) // 2], key[-len(key) // 2 :]) if len(key) >= 2 * _SHORTEST else ()
    found = {text} if len(text) > _LONGEST_SPLIT else set()
    for part in (key, *halves):
        coded = [*_in_base64(part), part.encode("utf-8", "surrogateescape").hex()]
        found |= {part, *coded, *(form.translate(_URL_SAFE) for form in coded), coded[-1].upper()}
    return sorted(found, key=lambda piece: (-len(piece), piece))


_URL_SAFE = str.maketrans("+/", "-_")


def _in_base64(key: str) -> Iterator[str]:
    """Yield the characters in base64 that a key determines, behind 0, 1 and 2 other bytes modulo 3."""
    data = key.encode("utf-8", "surrogateescape")  # as a variable of the environment may hold
    for before, first in ((0, 0), (1, 2), (2, 3)):
        coded = base64.b64encode(bytes(before) + data).decode()
        yield coded[first : (before + len(data)) * 8 // 6]


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else ""


def _split_pattern(piece: str) -> str:
    """Return the pattern of a text whose characters may be escaped, with white space between them."""
    one = (rf"\\{{0,4}}(?:{re.escape(c)}|(?<=\\)u(?i:{ord(c):04x}))" for c in piece)
    return _BETWEEN.join(one)


def environment_secrets() -> tuple[Secret, ...]:
    """Return the values of all environment variables whose names look like a key's, but not those of paths."""
    return tuple(
        Secret(text)
        for name, text in os.environ.items()
        if _NAMED_LIKE_A_KEY.search(name) and not name.endswith("_FILE")
    )


def key_name(key_env: str | None, key_file: Path | None, vendor: str) -> str:
    """Return the words for the key of a provider: the name of its variable or file, never its value.

    Args:
        key_env: Name of an environment variable, from the settings.
        key_file: File that holds the key, from the settings.
        vendor: The provider; without a key in the settings, litellm reads a variable with its name.
    """
    if key_env is not None:
        return f"key {key_env}" if _NAME.fullmatch(key_env) else "the key of key_env"
    if key_file is not None:
        return f"key in {key_file}" if len(key_file.parts) > 1 else "the key of key_file"
    usual = f"{vendor.upper()}_API_KEY"
    return f"key {usual}" if os.environ.get(usual) else "no key in the settings"


def read_secret(
    key_env: str | None, key_file: Path | None, environment: Mapping[str, str] | None = None
) -> Secret | None:
    """Return the key of a provider, or None if the settings name none.

    Args:
        key_env: Name of an environment variable.
        key_file: File that holds only the key.
        environment: Variables to read instead of those of the process.

    Raises:
        UsageError: The variable or the file is missing or holds no valid key.
    """
    if key_env is not None:
        text = (os.environ if environment is None else environment).get(key_env, "").strip()
        if not text and not _NAME.fullmatch(key_env):  # probably the key itself: do not repeat it
            raise UsageError(
                "key_env of the judge settings must be the name of an environment variable, not the key itself; "
                "no such variable is set"
            )
        if not text:
            raise UsageError(f"the environment variable {key_env}, which the judge settings name, is not set")
    elif key_file is not None:
        try:
            text = key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            shown = f"the key file {key_file}" if len(key_file.parts) > 1 else "the file that key_file names"
            raise UsageError(f"{shown} cannot be read ({type(error).__name__})") from None
        if not text:
            raise UsageError(f"the key file {key_file} is empty")
    else:
        return None
    if not text.isascii() or not text.isprintable() or " " in text:
        source = key_env or key_file
        raise UsageError(f"{source} does not hold a key: the text has spaces, line breaks or other invalid characters")
    return Secret(text)
