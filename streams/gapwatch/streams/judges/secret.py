"""API keys of providers, read from the environment or a file and never shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gapwatch.scorers.errors import UsageError

_NAMED_LIKE_A_KEY = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)(_|$)")
#: Form of a variable's name. A message may repeat it: it is not a key.
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_HIDDEN = "[key]"
#: Fewest characters of a key that is scrubbed; a shorter one could be part of ordinary words.
_SHORTEST = 8


class Secret:
    """A text whose `repr`, `str` and format are hidden; call `reveal` only where it is sent."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def scrub(self, words: str) -> str:
        """Return a foreign text, such as a provider's error, without the key or a half of it."""
        text = self._text
        if len(text) < _SHORTEST:
            return words
        for piece in (text, text[: len(text) // 2], text[-len(text) // 2 :]):
            words = words.replace(piece, _HIDDEN)
        return words

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


def environment_secrets() -> tuple[Secret, ...]:
    """Return the values of all environment variables whose names look like a key's, but not those of paths."""
    return tuple(
        Secret(text)
        for name, text in os.environ.items()
        if _NAMED_LIKE_A_KEY.search(name) and not name.endswith("_FILE")
    )


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
