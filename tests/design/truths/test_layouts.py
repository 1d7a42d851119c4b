"""Layouts say what Python does: each is run as a person starts it, and the calls between its files are recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.design.source_tree import write_tree

LAYOUTS = yaml.safe_load((Path(__file__).parent / "layouts.yaml").read_text(encoding="utf-8"))["layouts"]

#: Imports a module under a profiler and prints the calls from one file of the tree to another.
RECORD = """
import importlib, json, os, sys
root, module = os.path.realpath(sys.argv[1]), sys.argv[2]
found = set()
def place(code):
    path = os.path.realpath(code.co_filename)
    if code.co_filename.startswith("<"):
        return None
    return os.path.relpath(path, root) + "::" + code.co_qualname if path.startswith(root + os.sep) else None
def record(frame, event, _):
    if event == "call" and frame.f_back is not None:
        callee, caller = place(frame.f_code), place(frame.f_back.f_code)
        if callee and caller and not callee.endswith("<module>") and callee.split("::")[0] != caller.split("::")[0]:
            found.add(f"{caller} -> {callee}")
sys.setprofile(record)
importlib.import_module(module)
sys.setprofile(None)
print(json.dumps(sorted(found)))
"""


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout["id"])
def test_the_edges_of_a_layout_are_the_calls_that_run(layout: dict[str, Any], tmp_path: Path) -> None:
    root, run = write_tree(tmp_path / "tree", layout["files"]), layout["run"]
    links = tmp_path / "links"
    links.mkdir()
    for name, folder in run.get("link", {}).items():  # as an installation of the project would
        (links / name).symlink_to(root / folder)
    path = os.pathsep.join(str(folder) for folder in (*(root / name for name in run["roots"]), links))
    done = subprocess.run(
        [sys.executable, "-c", RECORD, str(root), run["module"]],
        cwd=root / run["folder"], env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == sorted(layout["edges"])
    assert not set(layout["never"]) & {*layout["edges"], *layout.get("also", [])}


def test_there_are_the_eight_layouts_and_two_more() -> None:
    assert len({layout["id"] for layout in LAYOUTS}) == len(LAYOUTS) == 10
