"""Folders named after examples: code of the application where a package imports them."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.source.scan import scan_repository
from tests.design.source_tree import write_tree

_PART = {"app/controllers/example/basic.py": "def answer(): ...\n", "app/controllers/example/payload.py": "A = 1\n"}


def _tags(root: Path, files: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {f.path: f.tags for f in scan_repository(write_tree(root, files)).files}


def test_a_folder_of_examples_that_a_package_imports_is_code_of_the_application(tmp_path: Path) -> None:
    served = {"app/controllers/__init__.py": "from app.controllers.example.basic import answer\n"}
    tags = _tags(tmp_path / "served", _PART | served)

    assert {tags[path] for path in _PART} == {()}
    tags = _tags(tmp_path / "alone", _PART | {"app/controllers/__init__.py": ""})
    assert {tags[path] for path in _PART} == {("example",)}


def test_a_folder_of_examples_that_tests_or_other_examples_import_stays_one(tmp_path: Path) -> None:
    importing = "from app.controllers.example.basic import answer\n"
    beside = {"tests/test_basic.py": importing, "examples/start.py": importing}

    assert {_tags(tmp_path, _PART | beside)[path] for path in _PART} == {("example",)}
