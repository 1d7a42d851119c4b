"""Folds a large component graph for a drawing: components near the model stay apart, others of a folder are one box."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from gapwatch.design.architecture.model import Architecture, ComponentDraft

#: Most components and edges that are drawn one by one.
_MOST_BOXES, _MOST_LINES = 20, 40
#: Most boxes and lines of a folded drawing.
_FOLDED_BOXES, _FOLDED_LINES = 32, 70
#: Letters of two parts of a folder's path that are both shown.
_SHORT = 26
_RANK = {"ai_core": 0, "supporting": 1}


@dataclass(frozen=True)
class GraphBox:
    """A box: a component, or several of one folder.

    Attributes:
        id: Id of the component, or the folder.
        name: First line.
        detail: Second line.
        title: Text that a pointer shows.
        role: ai_core, supporting, operational or folded.
        anchor: Place in the report that it leads to.
        members: Ids and names of the components of a folder; empty for a component by itself.
    """

    id: str
    name: str
    detail: str
    title: str
    role: str
    anchor: str
    members: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class GraphLine:
    """A line between two boxes.

    Attributes:
        src: Id of the upper box.
        dst: Id of the other one.
        verification: verified, or inferred where none of its edges is verified.
        title: Text that a pointer shows.
        count: Number of edges.
    """

    src: str
    dst: str
    verification: str
    title: str
    count: int


@dataclass(frozen=True)
class FoldedGraph:
    """Boxes and lines of a drawing.

    Attributes:
        boxes: Boxes in the order of the components.
        lines: Lines between them.
        left_out: Number of edges that are not drawn: inside of a box, or beyond the most lines.
    """

    boxes: tuple[GraphBox, ...]
    lines: tuple[GraphLine, ...]
    left_out: int


def folded(architecture: Architecture) -> FoldedGraph:
    """Return the boxes and lines that show an architecture on one page."""
    box_of = _boxes(architecture)
    held: dict[str, list[ComponentDraft]] = defaultdict(list)
    for c in architecture.components:
        held[box_of[c.id]].append(c)
    names = _short_names([folder for folder, cs in held.items() if len(cs) > 1])
    boxes = tuple(
        _single(cs[0]) if len(cs) == 1 else _several(folder, names[folder], cs) for folder, cs in held.items()
    )
    ids = {folder: box.id for folder, box in zip(held, boxes, strict=True)}
    roles = {box.id: box.role for box in boxes}
    grouped: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, edge in enumerate(architecture.edges):
        src, dst = ids[box_of[edge.src]], ids[box_of[edge.dst]]
        if src != dst:
            grouped[src, dst].append(i)
    lines = []
    for (src, dst), numbers in grouped.items():
        edges = [architecture.edges[i] for i in numbers]
        status = "verified" if any(e.verification == "verified" for e in edges) else edges[0].verification
        told = [f"{e.src} → {e.dst}: {e.label} ({e.verification}, {e.because})" for e in edges[:8]]
        more = [f"and {len(edges) - 8} more"] if len(edges) > 8 else []
        lines.append(GraphLine(src, dst, status, "\n".join([*told, *more]), len(edges)))
    if len(boxes) < len(architecture.components):
        # Lines at the model come first, then those of many edges.
        lines.sort(key=lambda x: (min(_RANK.get(roles[x.src], 2), _RANK.get(roles[x.dst], 2)), -x.count, x.src, x.dst))
        lines = lines[:_FOLDED_LINES]
    shown = sum(line.count for line in lines)
    return FoldedGraph(boxes, tuple(lines), len(architecture.edges) - shown)


def _boxes(architecture: Architecture) -> dict[str, str]:
    """Return the box of each component: its id, or a folder."""
    components = architecture.components
    out = {c.id: c.id for c in components}
    if len(components) <= _MOST_BOXES and len(architecture.edges) <= _MOST_LINES:
        return out
    for most_apart in (1, 0):
        for depth in (1, 2, 3, 9):
            apart = {c.id for c in components if _RANK.get(c.role, 2) <= most_apart}
            folder = {c.id: _folder(c, depth) for c in components if c.id not in apart}
            sizes = Counter(folder.values())
            out = {c.id: folder[c.id] if sizes[folder.get(c.id, "")] > 1 else c.id for c in components}
            if len(set(out.values())) <= _FOLDED_BOXES:
                return out
    return out


def _folder(component: ComponentDraft, depth: int) -> str:
    """Return the folder of a component's first file, cut to fewer levels the larger the depth."""
    parts = component.files[0].split("/")[:-1] if component.files else []
    kept = max(len(parts) - (depth - 1), min(len(parts), 1)) if depth < 9 else 0
    return "/".join(parts[:kept]) + "/"


def _single(c: ComponentDraft) -> GraphBox:
    detail = f"{c.kind} · {c.pattern}" if c.pattern != "none" else c.kind
    return GraphBox(c.id, c.name, detail, f"{c.id}: {c.description or c.role}", c.role, f"c-{c.id}")


def _several(folder: str, name: str, components: list[ComponentDraft]) -> GraphBox:
    names = ", ".join(c.name for c in components[:12]) + (", …" if len(components) > 12 else "")
    members = tuple((c.id, c.name) for c in components)
    title = f"{folder.rstrip('/') or 'other files'}: {names}"
    return GraphBox(folder, name, f"{len(components)} components", title, "folded", f"f-{components[0].id}", members)


def _short_names(folders: list[str]) -> dict[str, str]:
    """Return the end of each folder that tells it from the others, of two parts or more where they are short."""
    parts = {folder: folder.rstrip("/").split("/") for folder in folders}
    out: dict[str, str] = {}
    for folder, own in parts.items():
        others = [p for f, p in parts.items() if f != folder]
        kept = next((n for n in range(1, len(own)) if not any(p[-n:] == own[-n:] for p in others)), len(own))
        if len("/".join(own[-2:])) <= _SHORT:
            kept = max(kept, 2)
        out[folder] = "/".join(own[-kept:]) or "other files"
    return out
