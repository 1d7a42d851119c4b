"""Reads from `pyproject.toml` which folders are packages under another name, and what is installed beside them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapwatch.design.source.regular_file import read_regular

#: Longer project files are not read.
_MAX_BYTES = 1_000_000
#: Name of a distribution at the beginning of a requirement (PEP 508).
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def declared_packages(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the parts of the folder of each package that the project file at the root keeps under another name.

    It reads `tool.setuptools.package-dir` and `tool.hatch.build.targets.wheel.sources`. A file that is missing,
    is a link, is no TOML, or has other types declares nothing.
    """
    project = _project(root)
    sources = _table(project, "tool", "hatch", "build", "targets", "wheel", "sources")
    named = _table(project, "tool", "setuptools", "package-dir") | {name: folder for folder, name in sources.items()}
    return {
        name: parts
        for name, folder in sorted(named.items())
        if name.isidentifier()
        and (parts := tuple(part for part in folder.split("/") if part not in ("", "."))) != (name,)
    }


def required_packages(root: Path) -> frozenset[str]:
    """Return the distributions that the project file at the root requires, as names of imports; without itself."""
    project = _project(root)
    table = project.get("project")
    listed = table.get("dependencies") if isinstance(table, Mapping) else None
    entries = listed if isinstance(listed, list) else []
    names = [found[0] for one in entries if isinstance(one, str) and (found := _NAME.match(one))]
    poetry = project.get("tool", {}).get("poetry", {}) if isinstance(project.get("tool"), Mapping) else {}
    required = poetry.get("dependencies") if isinstance(poetry, Mapping) else None
    names += [name for name in required if isinstance(name, str)] if isinstance(required, Mapping) else []
    own = table.get("name") if isinstance(table, Mapping) else None
    spelled = {re.sub(r"[-.]", "_", name.lower()) for name in names}
    return frozenset(spelled - {re.sub(r"[-.]", "_", own.lower())} if isinstance(own, str) else spelled)


def _project(root: Path) -> dict[str, Any]:
    path = root / "pyproject.toml"
    try:
        return tomllib.loads(read_regular(path, _MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return {}


def _table(document: Any, *keys: str) -> dict[str, str]:
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    pairs = document.items() if isinstance(document, Mapping) else ()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}
