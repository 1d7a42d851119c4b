"""Puts generated files into a folder, and says which."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gapwatch.scorers.errors import UsageError


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files, folders made as needed; what is there under their names is replaced.

    Args:
        folder: Where to.
        files: Text by path within the folder.

    Raises:
        UsageError: The folder cannot be written.
    """
    written = []
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}; give another with --out") from error
    return written
