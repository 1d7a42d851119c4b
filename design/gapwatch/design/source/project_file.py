"""Reads from `pyproject.toml` which folders are packages under another name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapwatch.design.source.regular_file import read_regular

#: Longer project files are not read.
_MAX_BYTES = 1_000_000


def declared_packages(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the parts of the folder of each package that the project file at the root keeps under another name.

    It reads `tool.setuptools.package-dir` and `tool.hatch.build.targets.wheel.sources`. A file that is missing,
    is a link, is no TOML, or has other types declares nothing.
    """
    path = root / "pyproject.toml"
    try:
        project = tomllib.loads(read_regular(path, _MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return {}
    sources = _table(project, "tool", "hatch", "build", "targets", "wheel", "sources")
    named = _table(project, "tool", "setuptools", "package-dir") | {name: folder for folder, name in sources.items()}
    return {
        name: parts
        for name, folder in sorted(named.items())
        if name.isidentifier()
        and (parts := tuple(part for part in folder.split("/") if part not in ("", "."))) != (name,)
    }


def _table(document: Any, *keys: str) -> dict[str, str]:
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    pairs = document.items() if isinstance(document, Mapping) else ()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}
