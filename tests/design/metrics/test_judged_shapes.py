"""Judges of small applications in the usual shapes: none is missing, and none is too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.metrics.judged_library_shapes import LIBRARY_SHAPES
from tests.design.metrics.judged_shapes import SHAPES
from tests.design.source_tree import write_tree


def _judges(root: Path, files: dict[str, str]) -> list[MetricDesign]:
    made = run_design(scan_repository(write_tree(root, files)))
    return [m for m in (*made.metrics, *(s.metric for s in made.selection.shelf)) if m.source == "judge"]


ALL = SHAPES | LIBRARY_SHAPES


@pytest.mark.parametrize("name", ALL)
def test_answers_are_judged_that_an_owner_wants_judged(name: str, tmp_path: Path) -> None:
    shape = ALL[name]
    judges = _judges(tmp_path, shape.files)
    grounded = [m for m in judges if m.concern == "groundedness"]

    assert {m.symbols[0] for m in grounded} == shape.grounded
    assert {m.symbols[0] for m in judges if m.concern != "groundedness"} <= shape.grounded | shape.others
    assert shape.others <= {m.symbols[0] for m in judges if m.concern != "groundedness"}
    for judge in judges if shape.told else ():
        read = judge.claim["rubric"]["steps"][0]
        assert shape.told in read or (judge.symbols[0] in shape.others and shape.grounded)
