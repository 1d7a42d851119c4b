"""Calls between files are found whatever the layout of the repository; what is lost is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gapwatch.design.analysis import build
from gapwatch.design.source.own_imports import own_imports
from gapwatch.design.source.scan import scan_repository
from tests.design.source_tree import write_tree
from tests.paths import ROOT

LAYOUTS = yaml.safe_load((ROOT / "tests/design/truths/layouts.yaml").read_text(encoding="utf-8"))["layouts"]


def calls_between_files(root: Path) -> set[str]:
    graph = build(scan_repository(root))[1]
    modules = {symbol.path: symbol.id for symbol in graph.symbols if symbol.kind == "module"}
    places = {
        symbol.id: f"{symbol.path}::{symbol.id.removeprefix(modules[symbol.path]).lstrip('.') or '<module>'}"
        for symbol in graph.symbols
        if symbol.path
    }
    pairs = [(places[edge.src], places[edge.dst]) for edge in graph.edges]
    return {f"{src} -> {dst}" for src, dst in pairs if src.split("::")[0] != dst.split("::")[0]}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout["id"])
def test_the_calls_of_a_layout_are_found(layout: dict[str, Any], tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree", layout["files"])

    assert calls_between_files(root) == {*layout["edges"], *layout.get("also", [])}


def test_a_library_that_the_project_requires_is_no_name_of_the_repository(tmp_path: Path) -> None:
    imports = "from managed_agents.connectors import mcp\nfrom managed_agents.connectors import http\n"
    files = {"agent.py": "import managed_agents\n", "connectors/mcp.py": imports}
    project = '[project]\nname = "bot"\ndependencies = ["Managed-Agents==0.3.0 ; python_version > \'3.10\'"]\n'

    called = own_imports(build(scan_repository(write_tree(tmp_path / "plain", files)))[0])
    required = own_imports(
        build(scan_repository(write_tree(tmp_path / "told", {**files, "pyproject.toml": project})))[0]
    )

    assert called.lost == ("agent.py:1: managed_agents",)
    assert required.lost == ()


def test_an_import_that_fits_two_files_alike_is_listed_as_lost(tmp_path: Path) -> None:
    files = {"a/__init__.py": "", "b/__init__.py": "", "a/core/__init__.py": "", "b/core/__init__.py": ""}
    files |= {"a/core/names.py": "def name(): ...\n", "b/core/names.py": "def name(): ...\n"}
    root = write_tree(tmp_path / "tree", files | {"main.py": "import os.path\nfrom core.names import name\n\nname()\n"})

    found = own_imports(build(scan_repository(root))[0])

    assert found.lost == ("main.py:2: core.names",)
    assert found.rate == 0.0


def test_a_folder_called_like_a_library_is_not_the_library(tmp_path: Path) -> None:
    files = {
        "integrations/__init__.py": "",
        "integrations/langchain/__init__.py": "",
        "integrations/langchain/tools.py": "def tool(): ...\n",
        "agent.py": "import langchain.agents, langchain.chains\nfrom langchain.tools import tool\n\ntool()\n",
    }

    assert calls_between_files(write_tree(tmp_path / "tree", files)) == set()


def test_calls_in_the_bounds_of_a_slice_are_found(tmp_path: Path) -> None:
    files = {
        "a.py": "from b import limit\n\ndef cut(text):\n    return text[: limit()]\n",
        "b.py": "def limit():\n    return 3\n",
    }

    assert calls_between_files(write_tree(tmp_path / "tree", files)) == {"a.py::cut -> b.py::limit"}


def test_a_link_to_itself_is_skipped(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree", {"a.py": "x = 1\n"})
    (root / "loop").symlink_to("loop")

    scan = scan_repository(root)

    assert [file.path for file in scan.files] == ["a.py"]
    assert [(skipped.path, skipped.reason) for skipped in scan.skipped] == [("loop", "symbolic link, not followed")]
