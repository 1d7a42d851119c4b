"""Places in the drawing: boxes and lines that pass never overlap, main lines lead down, and none says less than all."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gapwatch.design.architecture.model import Architecture, ComponentDraft, EdgeDraft
from gapwatch.design.reports.graph_drawing import draw
from gapwatch.design.reports.graph_folding import FoldedGraph, GraphBox, GraphLine
from gapwatch.design.reports.graph_layout import BOX, arranged


def _graph(count: int, pairs: set[tuple[int, int]]) -> FoldedGraph:
    boxes = tuple(GraphBox(f"b{i}", f"b{i}", "", "", "ai_core", f"c-b{i}") for i in range(count))
    lines = tuple(GraphLine(f"b{a}", f"b{b}", "verified", "", 1 + (a * b) % 5) for a, b in sorted(pairs) if a != b)
    return FoldedGraph(boxes, lines, 0)


@st.composite
def graphs(draw: st.DrawFn) -> FoldedGraph:
    count = draw(st.integers(1, 14))
    ends = st.integers(0, count - 1)
    return _graph(count, draw(st.sets(st.tuples(ends, ends), max_size=40)))


def _reached(pairs: list[tuple[str, str]]) -> set[tuple[str, str]]:
    found = set(pairs)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


@given(graphs())
def test_every_line_is_a_main_line_or_one_on_demand(graph: FoldedGraph) -> None:
    layout = arranged(graph)

    assert sorted([*layout.chains, *layout.others]) == sorted((line.src, line.dst) for line in graph.lines)


@given(graphs())
def test_main_lines_lead_down_and_pass_each_row_between(graph: FoldedGraph) -> None:
    layout = arranged(graph)

    for (src, dst), nodes in layout.chains.items():
        rows = [layout.row[n] if isinstance(n, str) else n[2] for n in nodes]
        assert rows == list(range(layout.row[src], layout.row[dst] + 1))


@given(graphs())
def test_a_line_on_demand_leads_back_up_or_main_lines_imply_it(graph: FoldedGraph) -> None:
    layout = arranged(graph)
    implied = _reached(list(layout.chains))

    for line in layout.others:
        assert line in implied or line[::-1] in implied


@given(graphs())
def test_boxes_and_lines_of_a_row_stand_apart(graph: FoldedGraph) -> None:
    layout = arranged(graph)
    rows: dict[int, list[tuple[float, float]]] = {}
    for node, x in layout.middle.items():
        half = BOX / 2 if isinstance(node, str) else 1
        rows.setdefault(layout.row[node] if isinstance(node, str) else node[2], []).append((x - half, x + half))

    for spans in rows.values():
        assert all(left[1] < right[0] for left, right in pairwise(sorted(spans)))
    assert all(0 <= x <= layout.width for x in layout.middle.values())


def test_the_line_with_fewest_calls_of_a_circle_leads_back_up() -> None:
    lines = (GraphLine("b0", "b1", "verified", "", 9), GraphLine("b1", "b0", "verified", "", 2))
    layout = arranged(FoldedGraph(_graph(2, set()).boxes, lines, 0))

    assert (list(layout.chains), layout.others) == ([("b0", "b1")], [("b1", "b0")])


def test_a_click_on_a_box_of_several_leads_to_its_components() -> None:
    parts = [
        ComponentDraft(f"s{i}", f"S{i}", [f"app/stores/s{i}.py"], [], f"S{i}", role="operational") for i in range(40)
    ]
    drawn = draw(Architecture(parts, [EdgeDraft("s0", "s1", "calls", "verified", "1 call")]))

    (anchor,) = re.findall(r'class="b0" href="#([^"]+)"', drawn)
    held = drawn.partition(f'<p id="{anchor}">')[2].partition("</p>")[0]
    assert re.findall(r'href="#c-(s\d+)"', held) == [f"s{i}" for i in range(40)]
