"""Writes generated files into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gapwatch.scorers.errors import UsageError


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files, with their folders as needed, and return their paths; files of the same names are replaced.

    Args:
        folder: Folder for the files.
        files: Path within the folder to its text.

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
