"""Places the boxes of a drawing in rows, from entries down to models and stores, with room for the lines between them.

Rows by the longest path from an entry, order by the barycentre heuristic, and positions by least squares: the steps of
Sugiyama, Tagawa and Toda, Methods for visual understanding of hierarchical system structures (1981).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from gapwatch.design.reports.graph_folding import FoldedGraph, GraphLine

#: Width of a box, of the room for a line that passes a row, and of the gap between two of these.
BOX, _LANE, _GAP = 214.0, 16.0, 26.0
#: Most boxes side by side; a wider layer continues in the next row.
_PER_ROW = 5
#: Rounds over all rows that sort them, and that move their parts below and above their neighbours.
_SORTS, _MOVES = 12, 24

#: A box by its id, or the place where a line passes a row, as (src, dst, row).
Node = str | tuple[str, str, int]


@dataclass(frozen=True)
class GraphLayout:
    """Places in a drawing.

    Attributes:
        row: Row of each box, from the top.
        middle: Middle of each box and of each place where a line passes a row.
        width: Width of the rows.
        chains: Main lines, as (src, dst): the nodes that each runs through from box to box, downwards.
        others: Lines that are implied by a way over other boxes, or lead back up.
    """

    row: dict[str, int]
    middle: dict[Node, float]
    width: float
    chains: dict[tuple[str, str], list[Node]]
    others: list[tuple[str, str]]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return max(self.row.values(), default=-1) + 1


def arranged(graph: FoldedGraph) -> GraphLayout:
    """Return the places of the boxes and lines of a graph; equal graphs have equal places."""
    ids = [box.id for box in graph.boxes]
    main = _without_detours(_without_circles(ids, graph.lines))
    row = _rows(ids, main)
    chains: dict[tuple[str, str], list[Node]] = {}
    for src, targets in main.items():
        for dst in targets:
            chains[src, dst] = [src, *((src, dst, y) for y in range(row[src] + 1, row[dst])), dst]
    rows: list[list[Node]] = [[] for _ in range(max(row.values(), default=-1) + 1)]
    for i in ids:
        rows[row[i]].append(i)
    for nodes in chains.values():
        for node in nodes[1:-1]:
            rows[node[2] if isinstance(node, tuple) else 0].append(node)
    near = _neighbours(chains)
    _sort(rows, near)
    middle = _places(rows, near)
    left = min((x - _width(n) / 2 for n, x in middle.items()), default=0.0)
    right = max((x + _width(n) / 2 for n, x in middle.items()), default=0.0)
    others = [(line.src, line.dst) for line in graph.lines if (line.src, line.dst) not in chains]
    return GraphLayout(row, {n: x - left for n, x in middle.items()}, right - left, chains, others)


def _width(node: Node) -> float:
    return BOX if isinstance(node, str) else _LANE


def _without_circles(ids: list[str], lines: tuple[GraphLine, ...]) -> dict[str, list[str]]:
    """Leave out the lines that lead back to a box above, few and thin ones.

    Source: Eades, Lin and Smyth, A fast and effective heuristic for the feedback arc set problem (1993), with weights.
    """
    weight = {(line.src, line.dst): line.count for line in lines}
    left = dict.fromkeys(ids)
    first: list[str] = []
    last: list[str] = []
    while left:
        out = {i: sum(weight.get((i, o), 0) for o in left) for i in left}
        into = {i: sum(weight.get((o, i), 0) for o in left) for i in left}
        sinks, sources = [i for i in left if not out[i]], [i for i in left if not into[i]]
        if sinks:
            last = [*sinks, *last]
        elif sources:
            first += sources
        else:
            first.append(max(left, key=lambda i: out[i] - into[i]))
        left = {i: None for i in left if i not in {*first, *last}}
    at = {i: n for n, i in enumerate([*first, *last])}
    below: dict[str, list[str]] = {i: [] for i in ids}
    # Lines downwards come first; of the others those stay that close no circle.
    for src, dst in sorted(weight, key=lambda line: at[line[0]] > at[line[1]]):
        if at[src] < at[dst] or src not in _reached(dst, below):
            below[src].append(dst)
    return below


def _reached(start: str, below: dict[str, list[str]]) -> set[str]:
    found, stack = {start}, [start]
    while stack:
        new = [i for i in below[stack.pop()] if i not in found]
        found.update(new)
        stack += new
    return found


def _without_detours(below: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out each line from whose upper box another way leads to the lower one (transitive reduction)."""
    reached = {node: _reached(node, below) for node in below}
    return {
        src: [d for d in targets if not any(d in reached[other] for other in targets if other != d)]
        for src, targets in below.items()
    }


def _rows(ids: list[str], below: dict[str, list[str]]) -> dict[str, int]:
    """Return the row of each box: the longest path from an entry; boxes without a line share the last rows."""
    depth = dict.fromkeys(ids, 0)
    for _ in ids:
        for src in ids:
            for dst in below[src]:
                depth[dst] = max(depth[dst], depth[src] + 1)
    lined = {i for i in ids if below[i]} | {t for targets in below.values() for t in targets}
    # A box that nothing leads to stands right above what it leads to.
    for i in ids:
        if i in lined and depth[i] == 0 and below[i]:
            depth[i] = min(depth[t] for t in below[i]) - 1
    last = max(depth.values(), default=0) + 1
    layers: dict[int, list[str]] = defaultdict(list)
    for i in ids:
        layers[depth[i] if i in lined else last].append(i)
    out: dict[str, int] = {}
    y = 0
    for level in sorted(layers):
        parts = -(-len(layers[level]) // _PER_ROW)
        for n, i in enumerate(layers[level]):
            out[i] = y + n * parts // len(layers[level])
        y += parts
    return out


def _neighbours(chains: dict[tuple[str, str], list[Node]]) -> dict[Node, list[tuple[int, Node]]]:
    """Return what each node is joined to, with -1 for a node above and 1 for one below."""
    near: dict[Node, list[tuple[int, Node]]] = defaultdict(list)
    for nodes in chains.values():
        for upper, lower in pairwise(nodes):
            near[upper].append((1, lower))
            near[lower].append((-1, upper))
    return near


def _sort(rows: list[list[Node]], near: dict[Node, list[tuple[int, Node]]]) -> None:
    """Order the nodes of each row by the mean position of their neighbours; the order with fewest crossings stays."""
    best, fewest = [list(r) for r in rows], _crossings(rows, near)
    for sort in range(_SORTS):
        side = -1 if sort % 2 == 0 else 1
        for y in range(len(rows)) if side < 0 else reversed(range(len(rows))):
            at = {n: (x + 0.5) / len(r) for r in rows for x, n in enumerate(r)}
            mean = {n: [at[m] for s, m in near[n] if s == side] or [at[n]] for n in rows[y]}
            rows[y].sort(key=lambda n: (sum(mean[n]) / len(mean[n]), at[n]))
        crossings = _crossings(rows, near)
        if crossings < fewest:
            best, fewest = [list(r) for r in rows], crossings
    rows[:] = best


def _crossings(rows: list[list[Node]], near: dict[Node, list[tuple[int, Node]]]) -> int:
    at = {n: x for r in rows for x, n in enumerate(r)}
    count = 0
    for r in rows:
        lines = [(x, at[m]) for x, n in enumerate(r) for s, m in near[n] if s == 1]
        count += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(lines) for c, d in lines[:i])
    return count


def _places(rows: list[list[Node]], near: dict[Node, list[tuple[int, Node]]]) -> dict[Node, float]:
    """Return the middle of each node: as near to its neighbours as the order and the widths of its row allow."""
    middle: dict[Node, float] = {}
    offsets: list[list[float]] = []
    for row in rows:
        own = [0.0]
        for left, node in pairwise(row):
            gap = _GAP if isinstance(left, str) and isinstance(node, str) else _LANE
            own.append(own[-1] + (_width(left) + _width(node)) / 2 + gap)
        offsets.append(own)
        middle.update({n: x - own[-1] / 2 for n, x in zip(row, own, strict=True)})
    # No row is wider than the widest, so that the drawing fits the page.
    room = max((own[-1] for own in offsets), default=0.0) / 2
    for move in range(_MOVES):
        order = range(len(rows)) if move % 2 == 0 else reversed(range(len(rows)))
        for y in order:
            wanted, weights = [], []
            for node, offset in zip(rows[y], offsets[y], strict=True):
                # A line that passes should be straight; a box may stand a little aside.
                weight = 1.0 if isinstance(node, str) else 3.0
                found = [middle[m] for _, m in near[node]]
                wanted.append((sum(found) / len(found) if found else middle[node]) - offset)
                weights.append(weight if found else 0.1)
            for node, offset, x in zip(rows[y], offsets[y], _rising(wanted, weights), strict=True):
                middle[node] = min(max(x, -room), room - offsets[y][-1]) + offset
    return middle


def _rising(values: list[float], weights: list[float]) -> list[float]:
    """Return the never falling values nearest to some values by weighted least squares (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, v, n), (b, w, m) = pools[-2:]
            pools[-2:] = [((a * v + b * w) / (v + w), v + w, n + m)]
    return [value for value, _, count in pools for _ in range(count)]
