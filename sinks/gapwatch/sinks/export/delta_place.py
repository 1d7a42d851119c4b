"""Place of exported tables: a folder, or a prefix of a bucket."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.printable import shown

#: Beginning of a value of `--store` that names exported tables.
PREFIX = "delta:"
#: Variables whose values appear in no message.
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")


@dataclass(frozen=True)
class DeltaPlace:
    """Place of exported tables, each in a folder of its name.

    Attributes:
        uri: Path of a folder, or `s3://BUCKET/PREFIX`, without a slash at its end.
    """

    uri: str

    def __str__(self) -> str:
        return self.uri

    @property
    def is_local(self) -> bool:
        """True for a folder of this machine."""
        return "://" not in self.uri

    def table(self, name: str) -> str:
        """Return the place of one table."""
        return str(Path(self.uri).absolute() / name) if self.is_local else f"{self.uri}/{name}"


def read_delta_place(text: str) -> DeltaPlace:
    """Return the place that a text names.

    Raises:
        UsageError: The text is empty, names another scheme than s3, or holds a key.
    """
    expected = "give a folder, or s3://BUCKET/PREFIX"
    if "://" not in text:
        if not text.strip() or not text.isprintable():
            raise UsageError(f"this names no folder for exported tables; {expected}")
        if "%" in str(Path(text).absolute()):  # delta-rs takes it for an escape, and writes elsewhere
            raise UsageError(f"exported tables cannot be in a folder with % in its path; {expected}")
        return DeltaPlace(text)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise UsageError(f"this is not a place for exported tables; {expected}") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"a place has no key in it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; {expected}")
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment or not text.isprintable():
        raise UsageError(f"{shown(text, 300)!r} is not a place for exported tables; {expected}")
    return DeltaPlace(f"s3://{parts.netloc}{parts.path.rstrip('/')}")


def delta_message(error: Exception) -> str:
    """Return the message of an error of delta-rs on one line, without keys, and with what to do on a full disk."""
    message = re.sub(r"\s*\n\s*(↳\s*)?", ": ", without_keys(str(error)).strip())
    is_full = "No space left" in message or "Disk quota exceeded" in message
    return f"{message}; make room and export again, it continues where it was" if is_full else message


def without_keys(message: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return a message with the credentials of the environment left out."""
    for name in _SECRETS:
        if value := environment.get(name):
            message = message.replace(value, f"<{name}>")
    return message
