"""Finds the version of this program: that of its source tree, else that of the installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def program_version() -> str:
    """Return the version of the source tree that this file is part of, else that of the installed package."""
    from importlib.metadata import PackageNotFoundError, version

    source = Path(__file__).parents[3] / "pyproject.toml"
    if source.is_file():
        import tomllib

        project = tomllib.loads(source.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == "gapwatch":
            return str(project["version"])
    try:
        return version("gapwatch")
    except PackageNotFoundError:
        return "unknown"
