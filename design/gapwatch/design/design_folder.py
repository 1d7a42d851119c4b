"""The folder that a design is written to, and the file with answers inside it."""

from __future__ import annotations

import shlex
from pathlib import Path

#: Folder of a design, where none is named.
DESIGN_FOLDER = Path("gapwatch-design")


def facts_file(folder: Path, facts: Path | None) -> Path:
    """Return the file with the answers of a design: the one that is named, else `facts.yaml` in the design's folder."""
    return facts if facts is not None else folder / "facts.yaml"


def out_option(folder: Path) -> str:
    """Return what a command needs to find a design: nothing for the usual folder, else a blank and the option."""
    return "" if folder == DESIGN_FOLDER else f" --out {shlex.quote(str(folder))}"
