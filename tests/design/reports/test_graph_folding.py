"""The drawing of a large component graph: few boxes, the model's components apart, every edge shown or counted."""

from __future__ import annotations

import re

from gapwatch.design.architecture.model import Architecture, ComponentDraft, EdgeDraft
from gapwatch.design.reports.graph_drawing import draw
from gapwatch.design.reports.graph_folding import folded


def _component(name: str, path: str, role: str) -> ComponentDraft:
    return ComponentDraft(name, name, [path], [name], name, role=role)


def _large() -> Architecture:
    components = [_component(f"answer_{i}", "app/answers.py", "ai_core") for i in range(6)]
    components += [_component(f"store_{i}", f"app/stores/s{i}.py", "operational") for i in range(40)]
    components += [_component(f"route_{i}", f"app/routes/r{i}.py", "operational") for i in range(30)]
    edges = [EdgeDraft(f"route_{i}", f"answer_{i % 6}", "calls", "verified", "1 call") for i in range(30)]
    edges += [EdgeDraft(f"answer_{i % 6}", f"store_{i}", "stores", "inferred", "callback") for i in range(40)]
    edges += [EdgeDraft("store_0", f"store_{i}", "calls", "verified", "1 call") for i in range(1, 11)]
    return Architecture(components, edges)


def test_a_small_graph_is_drawn_as_it_is() -> None:
    small = Architecture(_large().components[:12], [])

    assert [box.id for box in folded(small).boxes] == [c.id for c in small.components]


def test_components_far_from_the_model_are_one_box_for_each_folder() -> None:
    graph = folded(_large())

    assert [box.id for box in graph.boxes] == [*(f"answer_{i}" for i in range(6)), "app/stores/", "app/routes/"]
    assert [box.detail for box in graph.boxes][-2:] == ["40 components", "30 components"]
    assert len(graph.lines) == 12
    assert {line.verification for line in graph.lines if line.src == "app/routes/"} == {"verified"}


def test_every_edge_is_in_a_line_or_counted_as_left_out() -> None:
    graph = folded(_large())

    assert sum(line.count for line in graph.lines) + graph.left_out == len(_large().edges)
    assert graph.left_out == 10


def test_the_drawing_has_a_box_and_a_link_for_each() -> None:
    drawn = draw(_large())

    assert len(re.findall("<rect", drawn)) == 8
    boxes = set(re.findall(r'<a class="b\d+" href="#([^"]+)"', drawn))
    assert boxes == {*(f"c-answer_{i}" for i in range(6)), "f-store_0", "f-route_0"}
    assert drawn == draw(_large())
