"""Reads and writes files that may be deleted at any time; a reader sees a whole file or none."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from pathlib import Path

_DIGEST_BYTES = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Return the folder of the cache: `gapwatch` below `XDG_CACHE_HOME`, else below `~/.cache`.

    Raises:
        RuntimeError: The user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base) / "gapwatch" if base else Path.home() / ".cache" / "gapwatch"


def read_cached(name: str) -> bytes | None:
    """Return the contents of a file of the cache; None where it is missing, unreadable or not whole."""
    try:
        data = (cache_folder() / name).read_bytes()
        packed = data[_DIGEST_BYTES:]
        return zlib.decompress(packed) if data[:_DIGEST_BYTES] == hashlib.sha256(packed).digest() else None
    except (OSError, RuntimeError, zlib.error):
        return None


def write_cached(name: str, content: bytes) -> None:
    """Put a file into the cache, for all processes at once; do nothing where the cache cannot be written."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        number, part = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                packed = zlib.compress(content)
                file.write(hashlib.sha256(packed).digest() + packed)
            os.replace(part, folder / name)  # noqa: PTH105
        except BaseException:
            os.unlink(part)  # noqa: PTH108
            raise
