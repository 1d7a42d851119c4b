from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "streams" / "detectors"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_detectors_need_numpy_and_nothing_that_does_input_or_output(path: Path) -> None:
    tree = ast.parse(path.read_text())
    found = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    found |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}

    outside = {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}
    assert all(name.split(".")[0] == "numpy" or name.startswith("streams.detectors") for name in outside)
    assert not found & {"os", "io", "pathlib", "random", "time", "socket", "subprocess"}
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "open"]
