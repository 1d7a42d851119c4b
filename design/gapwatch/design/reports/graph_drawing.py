"""Draws the component graph as SVG in rows, from entry components down to models and stores; always the same way."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from math import log2

from gapwatch.design.architecture.model import Architecture
from gapwatch.design.reports.document import printable
from gapwatch.design.reports.graph_folding import FoldedGraph, GraphBox, GraphLine, folded
from gapwatch.design.reports.graph_layout import BOX, GraphLayout, Node, arranged

_HEIGHT = 54
_GAP_Y = 62
_MARGIN = 24
#: Most letters of a name in a box.
_LETTERS = 24
#: Smallest scale at which a wide drawing is shown; its texts stay legible.
_SMALLEST = 0.8
#: Part of the width of a box along which its lines leave and arrive, and most room between two of them.
_PORTS, _PORT = 0.7, 22.0


def _plain(text: str) -> str:
    return escape(printable(text))


def draw(architecture: Architecture) -> str:
    """Return the graph as SVG, with a list of what its boxes hold.

    Solid lines are verified edges, dashed ones inferred; the fill shows the role. A large graph is folded: components
    of a folder that are far from the model are one box. A line that leads back up, or that a way over other boxes
    implies, is drawn where the pointer is on one of its boxes, or where the reader asks for all lines.
    """
    graph = folded(architecture)
    layout = arranged(graph)
    return _choice(layout) + _drawing(graph, layout) + _members(graph)


def _choice(layout: GraphLayout) -> str:
    """Return the box by which a reader asks for all lines."""
    count = len(layout.others)
    if not count:
        return ""
    return (
        f'<p class="choice"><label><input type="checkbox"> also the {count} lines that lead back up, or that a way'
        " over other boxes implies</label>; point at a box to see its own</p>"
    )


def _members(graph: FoldedGraph) -> str:
    """Return the components of each folder, to which a click on its box leads."""
    out = []
    for box in graph.boxes:
        if box.members:
            links = ", ".join(f'<a href="#c-{_plain(i)}">{_plain(name)}</a>' for i, name in box.members)
            out.append(
                f"<details><summary><b>{_plain(box.title.partition(':')[0])}</b> {_plain(box.detail)}</summary>"
                f'<p id="{_plain(box.anchor)}">{links}</p></details>'
            )
    return f'<div class="members">{"".join(out)}</div>' if out else ""


def _drawing(graph: FoldedGraph, layout: GraphLayout) -> str:
    width = layout.width + 2 * _MARGIN
    height = 2 * _MARGIN + layout.rows * _HEIGHT + max(0, layout.rows - 1) * _GAP_Y
    number = {box.id: n for n, box in enumerate(graph.boxes)}
    lines = {(line.src, line.dst): line for line in graph.lines}
    ports = _ports(layout)
    out = [
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:.0f}" height="{height:g}" role="img" '
        f'aria-label="component graph" style="min-width:{_SMALLEST * width:.0f}px">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        '<path d="M0 0 L8 4 L0 8 z" fill="context-stroke"/></marker></defs>',
        _style(graph),
    ]
    for src, dst in layout.others:
        out.append(_path(lines[src, dst], _aside(layout, src, dst), number, "more"))
    for (src, dst), nodes in layout.chains.items():
        out.append(_path(lines[src, dst], _along(layout, ports, nodes), number, ""))
    out += [
        _box(box, number[box.id], _MARGIN + layout.middle[box.id] - BOX / 2, _top(layout.row[box.id]))
        for box in graph.boxes
    ]
    return "\n".join([*out, "</svg>"])


def _style(graph: FoldedGraph) -> str:
    """Return the rules that show the lines of the box under the pointer, and pale the others."""
    rules = [
        f".graph:has(.b{n}:is(:hover,:focus)) .edge:not(.e{n}){{opacity:.1}}"
        f".graph:has(.b{n}:is(:hover,:focus)) .e{n}{{display:inline;opacity:1}}"
        for n in range(len(graph.boxes))
    ]
    return f"<style>{''.join(rules)}</style>"


def _top(row: int) -> float:
    return _MARGIN + row * (_HEIGHT + _GAP_Y)


def _ports(layout: GraphLayout) -> dict[tuple[str, str, bool], float]:
    """Return how far from the middle of its boxes each main line leaves (False) and arrives (True)."""
    ends: dict[tuple[str, bool], list[tuple[float, tuple[str, str]]]] = defaultdict(list)
    for (src, dst), nodes in layout.chains.items():
        ends[src, False].append((layout.middle[nodes[1]], (src, dst)))
        ends[dst, True].append((layout.middle[nodes[-2]], (src, dst)))
    out: dict[tuple[str, str, bool], float] = {}
    for (_, arrives), found in ends.items():
        step = min(_PORT, BOX * _PORTS / max(1, len(found) - 1))
        for n, (_, line) in enumerate(sorted(found)):
            out[*line, arrives] = (n - (len(found) - 1) / 2) * step
    return out


def _along(layout: GraphLayout, ports: dict[tuple[str, str, bool], float], nodes: list[Node]) -> str:
    """Return the path of a main line: down between the boxes of each row that it passes."""
    src, dst = str(nodes[0]), str(nodes[-1])
    x = _MARGIN + layout.middle[src] + ports[src, dst, False]
    y = _top(layout.row[src]) + _HEIGHT
    path = f"M{x:.1f} {y:g}"
    for node in nodes[1:]:
        is_end = isinstance(node, str)
        to = _MARGIN + layout.middle[node] + (ports[src, dst, True] if is_end else 0)
        top = _top(layout.row[node] if isinstance(node, str) else node[2])
        bend, end = y + (top - y) / 2, top - 2 if is_end else top
        path += f" C{x:.1f} {bend:g} {to:.1f} {bend:g} {to:.1f} {end:g}" + ("" if is_end else f" V{top + _HEIGHT:g}")
        x, y = to, top + _HEIGHT
    return path


def _aside(layout: GraphLayout, src: str, dst: str) -> str:
    """Return the path of a line on demand, which may run behind boxes."""
    x1, x2 = _MARGIN + layout.middle[src], _MARGIN + layout.middle[dst]
    y1, y2 = _top(layout.row[src]), _top(layout.row[dst])
    if y1 < y2:
        y1 += _HEIGHT
        bend = (y2 - y1) / 2
        return f"M{x1:.1f} {y1:g} C{x1:.1f} {y1 + bend:g} {x2:.1f} {y2 - bend:g} {x2:.1f} {y2 - 2:g}"
    if y1 == y2:
        arc = y1 - _GAP_Y * 0.45
        return f"M{x1:.1f} {y1:g} C{x1:.1f} {arc:g} {x2:.1f} {arc:g} {x2:.1f} {y2 - 2:g}"
    # A line back up the page leaves at the side, so that it does not cross its own box.
    x1, x2 = x1 + BOX / 2, x2 + BOX / 2
    right = max(x1, x2) + 34
    y1, y2 = y1 + _HEIGHT / 2, y2 + _HEIGHT / 2
    return f"M{x1:.1f} {y1:g} C{right:.1f} {y1:g} {right:.1f} {y2:g} {x2 + 2:.1f} {y2:g}"


def _path(line: GraphLine, path: str, number: dict[str, int], look: str) -> str:
    width = f' style="stroke-width:{1.4 + log2(line.count) / 2:.2g}"' if line.count > 1 else ""
    looks = f"edge {_plain(line.verification)} e{number[line.src]} e{number[line.dst]} {look}".strip()
    return f'<path class="{looks}"{width} d="{path}" marker-end="url(#tip)"><title>{_plain(line.title)}</title></path>'


def _box(box: GraphBox, number: int, x: float, y: float) -> str:
    if len(box.name) <= _LETTERS:
        name = box.name
    else:
        # Of a folder the end says most.
        name = "…" + box.name[-_LETTERS + 1 :] if box.role == "folded" else box.name[: _LETTERS - 1] + "…"
    return (
        f'<a class="b{number}" href="#{_plain(box.anchor)}"><g class="node {_plain(box.role)}">'
        f"<title>{_plain(box.title)}</title>"
        f'<rect x="{x:.1f}" y="{y:g}" width="{BOX:g}" height="{_HEIGHT}" rx="9"/>'
        f'<text class="name" x="{x + BOX / 2:.1f}" y="{y + 23:g}">{_plain(name)}</text>'
        f'<text class="detail" x="{x + BOX / 2:.1f}" y="{y + 41:g}">{_plain(box.detail)}</text></g></a>'
    )
