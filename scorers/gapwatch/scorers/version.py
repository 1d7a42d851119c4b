"""Finds the version of this program: of the source tree it lies in, else of the installed package."""

from __future__ import annotations

from pathlib import Path


def program_version() -> str:
    """Return the version of the installed package, or that of the source tree this file lies in."""
    from importlib.metadata import PackageNotFoundError, version

    source = Path(__file__).parent.parent / "pyproject.toml"
    if source.is_file():
        import tomllib

        project = tomllib.loads(source.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == "gapwatch":
            return str(project["version"])
    try:
        return version("gapwatch")
    except PackageNotFoundError:
        return "unknown"
