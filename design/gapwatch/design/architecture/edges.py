"""Derives edges between components from the call graph, also through helper functions and shared stores; verifies them.

verified: a function of one component calls a function of the other (callbacks and decorated functions do not count).
inferred: a callback, a call by a framework, or a decorated function.
unsupported: no call.
"""

from __future__ import annotations

from collections import defaultdict

from gapwatch.design.architecture.model import ComponentDraft, EdgeDraft
from gapwatch.design.callgraph.graph import CallEdge, CallGraph, Symbol

#: Kinds of edges that are calls in the strict sense.
CALL_KINDS = frozenset({"call", "construct", "property", "protocol", "cha", "dynamic", "framework"})
_STRICT = CALL_KINDS - {"framework"}


def build_edges(components: list[ComponentDraft], graph: CallGraph) -> list[EdgeDraft]:
    """Return the edges between components, each with its evidence.

    Args:
        components: The components.
        graph: The call graph.
    """
    owner = {symbol: c.id for c in components for symbol in c.symbols}
    idle = _idle_functions(components, graph)
    direct: dict[tuple[str, str], list[CallEdge]] = defaultdict(list)
    for edge in graph.edges:
        src, dst = owner.get(edge.src), owner.get(edge.dst)
        if src is not None and dst is not None and src != dst and not (edge.kind == "call" and edge.dst in idle):
            direct[src, dst].append(edge)
    out = []
    by_id = {c.id: c for c in components}
    for (src, dst), calls in sorted(direct.items()):
        status, because, found = verify_pair(calls)
        out.append(EdgeDraft(src, dst, _label(by_id[dst]), status, because, found))
    known = {(e.src, e.dst) for e in out}
    out += _through_helpers(owner, by_id, graph, known)
    known = {(e.src, e.dst) for e in out}
    out += _through_stores(components, known)
    return sorted(out, key=lambda e: (e.src, e.dst))


def _idle_functions(components: list[ComponentDraft], graph: CallGraph) -> set[str]:
    """Return plain functions that do nothing of their component's work: who calls one does not use that component.

    A date or a key from the environment is such a function, in the file of the component that happens to call it too.
    A component that does no work by libraries or patterns has none.
    """
    by_id = {s.id: s for s in graph.symbols}
    callers: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        callers[edge.dst].append(edge.src)
    out: set[str] = set()
    for component in components:
        inside = set(component.symbols)
        uses, hits, tiers = component.uses, component.hits, component.tiers
        working = {u.symbol for u in uses} | {h.symbol for h in hits} | {t.symbol for t in tiers}
        pending = sorted(working)
        if not working:
            continue
        while pending:
            pending = sorted({s for w in pending for s in callers[w] if s in inside and s not in working})
            working.update(pending)
        out |= {s for s in inside - working if by_id[s].kind == "function" and _is_plain(by_id[s], by_id)}
    return out


def _is_plain(function: Symbol, by_id: dict[str, Symbol]) -> bool:
    """Return whether a function is defined in a module and no framework calls it."""
    parent = by_id.get(function.parent)
    return parent is not None and parent.kind == "module" and not function.decorators


def _label(dst: ComponentDraft) -> str:
    job = dst.capabilities
    for name, words in (
        ("llm_chat", "asks the model"),
        ("retrieval", "retrieves"),
        ("rerank", "reranks"),
        ("embedding", "embeds"),
        ("vector_write", "indexes"),
        ("db_write", "stores"),
        ("cache", "looks up"),
        ("http", "requests"),
        ("queue", "hands over"),
    ):
        if name in job:
            return words
    return "calls"


def _through_helpers(
    owner: dict[str, str], by_id: dict[str, ComponentDraft], graph: CallGraph, known: set[tuple[str, str]]
) -> list[EdgeDraft]:
    """Return inferred edges: call paths through one or two functions that belong to no component."""
    callees: dict[str, list[CallEdge]] = defaultdict(list)
    for edge in graph.edges:
        if edge.kind in CALL_KINDS:
            callees[edge.src].append(edge)
    found: dict[tuple[str, str], tuple[CallEdge, ...]] = {}
    for edge in graph.edges:
        src = owner.get(edge.src)
        if src is None or edge.kind not in CALL_KINDS or edge.dst in owner:
            continue
        for second in callees[edge.dst]:
            steps = (
                [(edge, second)] if second.dst in owner else [(edge, second, third) for third in callees[second.dst]]
            )
            for path in steps:
                dst = owner.get(path[-1].dst)
                if dst is not None and dst != src and (src, dst) not in known:
                    found.setdefault((src, dst), path)
    return [
        EdgeDraft(
            src, dst, _label(by_id[dst]), "inferred", "through " + ", ".join(step.dst for step in path[:-1]), path
        )
        for (src, dst), path in sorted(found.items())
    ]


def _through_stores(components: list[ComponentDraft], known: set[tuple[str, str]]) -> list[EdgeDraft]:
    """Return inferred edges from a component that writes a vector store to one that reads it (same library)."""
    out = []
    for writer in components:
        written = {u.dotted.partition(".")[0]: u for u in writer.uses if u.capability == "vector_write"}
        for reader in components:
            read = {u.dotted.partition(".")[0]: u for u in reader.uses if u.capability == "retrieval"}
            for library in sorted(written.keys() & read.keys()):
                if writer.id != reader.id and (writer.id, reader.id) not in known:
                    known.add((writer.id, reader.id))
                    because = (
                        f"shared store: {writer.id} writes {library} ({written[library].place}), "
                        f"{reader.id} reads it ({read[library].place})"
                    )
                    out.append(EdgeDraft(writer.id, reader.id, "feeds the index", "inferred", because))
    return out


def verify_pair(calls: list[CallEdge]) -> tuple[str, str, tuple[CallEdge, ...]]:
    """Return (verification, reason, supporting calls) of an edge, from the call edges between its components."""
    strict = sorted((e for e in calls if e.kind in _STRICT), key=lambda e: (-len(e.sites), e.src, e.dst))
    if strict:
        sites = sum(len(e.sites) for e in strict)
        return "verified", f"{sites} call{'s' if sites != 1 else ''}", tuple(strict)
    rest = sorted(calls, key=lambda e: (e.kind, e.src, e.dst))
    if rest:
        return "inferred", f"{rest[0].kind}: {rest[0].src} -> {rest[0].dst}", tuple(rest)
    return "unsupported", "no call", ()


def find_symbol(graph: CallGraph, cited: str) -> str | None:
    """Return the one symbol that a citation names, or None.

    Args:
        graph: The call graph.
        cited: A unique end of a dotted name, or `path:name`; backticks and `()` are ignored.
    """
    text = cited.strip().strip("`").removesuffix("()")
    path, colon, name = text.rpartition(":")
    wanted = name if colon else text
    ends = [s for s in graph.symbols if s.id == wanted or s.id.endswith(f".{wanted}")]
    if len(ends) > 1 and colon:
        ends = [
            s
            for s in ends
            if s.path == path or s.path.endswith(f"/{path}") or s.path.endswith(f"/{path}.py") or s.path == f"{path}.py"
        ]
    exact = [s for s in ends if s.id == wanted]
    chosen = exact or ends
    return chosen[0].id if len(chosen) == 1 else None
