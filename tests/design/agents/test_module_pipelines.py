"""Pipelines of the functions of a file, which a library runs by the names of their parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.metrics.judged_library_shapes import LIBRARY_SHAPES
from tests.design.source_tree import write_tree

_FILES = LIBRARY_SHAPES["a pipeline of nodes"].files


@pytest.mark.parametrize(
    ("old", "new", "is_run"),
    [
        ("", "", True),
        ("sys.modules[__name__]", "sys.modules['other']", False),
        ('["generate_answer"]', '["another"]', False),
        ('"generator": provider', '"maker": provider', False),
    ],
)
def test_a_pipeline_runs_its_functions_and_what_it_hands_them(old: str, new: str, is_run: bool, tmp_path: Path) -> None:
    files = {**_FILES, "answering.py": _FILES["answering.py"].replace(old, new) if old else _FILES["answering.py"]}
    made = run_design(scan_repository(write_tree(tmp_path, files)))
    edges = {(e.src, e.dst, e.kind) for e in made.graph.edges}
    wanted = {
        ("answering.Answering.run", "answering.generate_answer", "framework"),
        ("answering.Answering.run", "answering.prompt", "framework"),
        ("answering.generate_answer", "provider.Provider.get_generator._run", "dynamic"),
    }

    assert (wanted <= edges) == is_run
