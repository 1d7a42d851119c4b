"""Keys of providers: from the environment or a file, shown by nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gapwatch.scorers.errors import UsageError

_NAMED_LIKE_A_KEY = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)(_|$)")
#: A name that may be repeated, for it is no key.
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_HIDDEN = "[key]"
#: A shorter key would be taken out of ordinary words; no provider's is.
_SHORTEST = 8


class Secret:
    """A text that no representation shows; `reveal` is called where it is sent, and nowhere else."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def scrub(self, words: str) -> str:
        """Return words of others (a provider's error) without the key, or its beginning, in them."""
        text = self._text
        if len(text) < _SHORTEST:
            return words
        for piece in (text, text[: len(text) // 2], text[-len(text) // 2 :]):
            words = words.replace(piece, _HIDDEN)
        return words

    def scrub_bytes(self, words: bytes) -> bytes:
        """Return bytes of others without the key in them."""
        return self.scrub(words.decode("latin-1")).encode("latin-1")

    def __repr__(self) -> str:
        return "Secret()"

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not serialised")


def environment_secrets() -> tuple[Secret, ...]:
    """Return what variables of the environment hold that are named like a key."""
    return tuple(Secret(text) for name, text in os.environ.items() if _NAMED_LIKE_A_KEY.search(name))


def read_secret(
    key_env: str | None, key_file: Path | None, environment: Mapping[str, str] | None = None
) -> Secret | None:
    """Return the key that a provider is asked with, or None where none is named.

    Args:
        key_env: Variable of the environment.
        key_file: File that holds the key and nothing else.
        environment: Instead of the process's.

    Raises:
        UsageError: The variable or the file is named and holds no key.
    """
    if key_env is not None:
        text = (os.environ if environment is None else environment).get(key_env, "").strip()
        if not text and not _NAME.fullmatch(key_env):  # somebody wrote the key where its name belongs
            raise UsageError(
                "the environment has no variable of the name that key_env gives; a key does not belong there"
            )
        if not text:
            raise UsageError(f"the environment has no {key_env}, which the settings of the judges name; set it")
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
        raise UsageError(f"what {source} holds is no key: it has spaces, line breaks or other strange characters")
    return Secret(text)
