"""A folder for PYTHONPATH in which the reading and mapping of spans is compiled, as in a platform's own wheel."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from tests.paths import ROOT


def make_compiled(folder: Path) -> dict[str, str]:
    """Compile into a folder (half a minute); return the environment of a process that uses it."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    shutil.copytree(ROOT / "streams" / "gapwatch", folder / "gapwatch")
    assert len(hook.compile_modules(ROOT, folder)) > 20
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
