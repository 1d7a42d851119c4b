"""Draws the component graph as SVG in layers, from entry components down to models and stores; always the same way."""

from __future__ import annotations

from html import escape
from math import log2

from gapwatch.design.architecture.model import Architecture
from gapwatch.design.reports.graph_folding import FoldedGraph, GraphBox, GraphLine, folded

_WIDTH, _HEIGHT = 214, 54
_GAP_X, _GAP_Y = 26, 74
_MARGIN = 24
#: Most boxes side by side; a wider layer continues in the next row.
_PER_ROW = 5
#: Most letters of a name in a box.
_LETTERS = 24
#: Most rows of a drawing whose short rows stand in the middle.
_TALL = 4
#: Sweeps that sort each layer by the mean position of its neighbours (barycentre heuristic).
_SWEEPS = 6


#: Shift of the control points of an edge that would run behind a box. A cubic curve moves by 3/4 of it, which
#: makes half a box and half a gap.
_DETOUR = (_WIDTH + _GAP_X) / 2 * 4 / 3


def draw(architecture: Architecture) -> str:
    """Return the graph as SVG: solid lines are verified edges, dashed ones inferred; the fill shows the role.

    A large graph is folded: components of a folder that are far from the model are one box.
    """
    graph = folded(architecture)
    layers = _layers(graph)
    place: dict[str, tuple[float, float]] = {}
    widest = max((len(row) for row in layers), default=1)
    is_tall = len(layers) > _TALL
    widest = max(widest, _PER_ROW - 1) if is_tall else widest
    width = 2 * _MARGIN + widest * _WIDTH + (widest - 1) * _GAP_X
    for y, row in enumerate(layers):
        left = (width - len(row) * _WIDTH - (len(row) - 1) * _GAP_X) / 2
        if is_tall and len(row) < 3:
            # Short rows stand aside in turn, so that the lines to the next ones do not run behind them.
            left += (_WIDTH + _GAP_X) * (0.7 if y % 2 else -0.7)
        for x, identifier in enumerate(row):
            place[identifier] = (left + x * (_WIDTH + _GAP_X), _MARGIN + y * (_HEIGHT + _GAP_Y))
    height = 2 * _MARGIN + len(layers) * _HEIGHT + max(0, len(layers) - 1) * _GAP_Y
    out = [
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="component graph">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="context-stroke"/></marker></defs>',
    ]
    out += [
        _edge(line, place[line.src], place[line.dst], [b for b in place.values() if _is_between(b, place, line)])
        for line in graph.lines
    ]
    out += [_box(box, *place[box.id]) for box in graph.boxes]
    return "\n".join([*out, "</svg>"])


def _is_between(box: tuple[float, float], place: dict[str, tuple[float, float]], line: GraphLine) -> bool:
    return place[line.src][1] < box[1] < place[line.dst][1]


def _layers(graph: FoldedGraph) -> list[list[str]]:
    """Return the ids by layer: the longest path from an entry, cycles cut open; neighbours stand near each other."""
    ids = [box.id for box in graph.boxes]
    below: dict[str, list[str]] = {i: [] for i in ids}
    for line in graph.lines:
        below[line.src].append(line.dst)
    acyclic = _without_circles(ids, below)
    depth = dict.fromkeys(ids, 0)
    for _ in ids:
        for src in ids:
            for dst in acyclic[src]:
                depth[dst] = max(depth[dst], depth[src] + 1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for i in ids:
        layers[depth[i]].append(i)
    layers = [layer for layer in layers if layer]
    _untangle(layers, below)
    return [layer[i : i + _PER_ROW] for layer in layers for i in range(0, len(layer), _PER_ROW)]


def _without_circles(ids: list[str], below: dict[str, list[str]]) -> dict[str, list[str]]:
    incoming = {i: sum(i in targets for targets in below.values()) for i in ids}
    kept: dict[str, list[str]] = {i: [] for i in ids}
    state: dict[str, int] = {}

    def visit(start: str) -> None:
        stack = [(start, iter(below[start]))]
        state[start] = 1
        while stack:
            node, targets = stack[-1]
            for target in targets:
                if state.get(target) == 1:
                    continue
                kept[node].append(target)
                if target not in state:
                    state[target] = 1
                    stack.append((target, iter(below[target])))
                    break
            else:
                state[node] = 2
                stack.pop()

    for i in sorted(ids, key=lambda i: (incoming[i], i)):
        if i not in state:
            visit(i)
    return kept


def _untangle(layers: list[list[str]], below: dict[str, list[str]]) -> None:
    near: dict[str, set[str]] = {i: set(targets) for i, targets in below.items()}
    for src, targets in below.items():
        for dst in targets:
            near[dst].add(src)
    for sweep in range(_SWEEPS):
        order = range(1, len(layers)) if sweep % 2 == 0 else range(len(layers) - 2, -1, -1)
        for y in order:
            other = layers[y - 1] if sweep % 2 == 0 else layers[y + 1]
            at = {name: (x + 0.5) / len(other) for x, name in enumerate(other)}
            own = {name: (x + 0.5) / len(layers[y]) for x, name in enumerate(layers[y])}

            def middle(name: str, at: dict[str, float] = at, own: dict[str, float] = own) -> float:
                places = [at[n] for n in near[name] if n in at]
                return sum(places) / len(places) if places else own[name]

            layers[y].sort(key=lambda name: (middle(name), name))


def _edge(
    line: GraphLine, src: tuple[float, float], dst: tuple[float, float], between: list[tuple[float, float]]
) -> str:
    x1, y1 = src[0] + _WIDTH / 2, src[1] + _HEIGHT
    x2, y2 = dst[0] + _WIDTH / 2, dst[1]
    if dst[1] > src[1]:
        bend = (y2 - y1) / 2
        side = _DETOUR if any(abs(x + _WIDTH / 2 - (x1 + x2) / 2) < _WIDTH / 2 for x, _ in between) else 0
        path = f"M{x1:g} {y1:g} C{x1 + side:g} {y1 + bend:g} {x2 + side:g} {y2 - bend:g} {x2:g} {y2 - 2:g}"
    elif dst[1] == src[1]:
        top = src[1] - _GAP_Y * 0.45
        path = f"M{x1:g} {src[1]:g} C{x1:g} {top:g} {x2:g} {top:g} {x2:g} {y2 - 2:g}"
    else:
        # An edge back up the page leaves at the side, so that it does not cross its own box.
        right = max(src[0], dst[0]) + _WIDTH + 34
        x1, x2 = src[0] + _WIDTH, dst[0] + _WIDTH
        y1, y2 = src[1] + _HEIGHT / 2, dst[1] + _HEIGHT / 2
        path = f"M{x1:g} {y1:g} C{right:g} {y1:g} {right:g} {y2:g} {x2 + 2:g} {y2:g}"
    width = f' style="stroke-width:{1.4 + log2(line.count) / 2:.2g}"' if line.count > 1 else ""
    return (
        f'<path class="edge {escape(line.verification)}"{width} d="{path}" marker-end="url(#tip)">'
        f"<title>{escape(line.title)}</title></path>"
    )


def _box(box: GraphBox, x: float, y: float) -> str:
    # Of a folder the end says most.
    if len(box.name) <= _LETTERS:
        name = box.name
    else:
        name = "…" + box.name[-_LETTERS + 1 :] if box.role == "folded" else box.name[: _LETTERS - 1] + "…"
    return (
        f'<a href="#c-{escape(box.anchor)}"><g class="node {escape(box.role)}"><title>{escape(box.title)}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="9"/>'
        f'<text class="name" x="{x + _WIDTH / 2:g}" y="{y + 23:g}">{escape(name)}</text>'
        f'<text class="detail" x="{x + _WIDTH / 2:g}" y="{y + 41:g}">{escape(box.detail)}</text></g></a>'
    )
