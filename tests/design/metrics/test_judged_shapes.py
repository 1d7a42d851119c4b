"""Judges of small applications in the usual shapes: none is missing, and none is too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.spans import OF_EXCHANGE
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.metrics.judged_library_shapes import LIBRARY_SHAPES
from tests.design.metrics.judged_shapes import SHAPES
from tests.design.source_tree import write_tree


def _judges(made: Design) -> list[MetricDesign]:
    return [
        m
        for m in (*made.metrics, *(s.metric for s in made.selection.shelf))
        if m.source == "judge" and not m.reads_search
    ]


ALL = SHAPES | LIBRARY_SHAPES


@pytest.mark.parametrize("name", ALL)
def test_answers_are_judged_that_an_owner_wants_judged(name: str, tmp_path: Path) -> None:
    shape = ALL[name]
    made = run_design(scan_repository(write_tree(tmp_path, shape.files)))
    judges = _judges(made)
    grounded = [m for m in judges if m.concern == "groundedness"]

    assert {m.symbols[0] for m in grounded} == shape.grounded
    assert {m.symbols[0] for m in judges if m.concern != "groundedness"} <= shape.grounded | shape.others
    assert shape.others <= {m.symbols[0] for m in judges if m.concern != "groundedness"}
    for judge in judges if shape.told else ():
        sent = [p.text for found in made.prompts.values() for p in found if p.place in judge.prompts]
        # What the model was sent is read with what it said, or its texts are among the steps.
        read = sent if judge.fields[:2] == list(OF_EXCHANGE) else judge.claim["rubric"]["steps"][:1]
        assert any(shape.told in text for text in read) or (judge.symbols[0] in shape.others and shape.grounded)
