"""How this program is called by whoever reads what it prints: a line that can be copied."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """Return what to type for this program: its name where the shell finds it, else where it lies."""
    called = Path(sys.argv[0])
    if called.name != "gapwatch" or shutil.which("gapwatch") == str(called.absolute()):
        return "gapwatch"
    return shlex.quote(near_path(called))


def near_path(path: Path) -> str:
    """Return a path as short as it can be said from here: what lies below the current folder is relative to it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
