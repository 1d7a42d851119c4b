"""Verifies an edge between two components by the call graph; finds the symbol that a citation names.

verified: a function of one component calls a function of the other (callbacks and decorated functions do not count).
inferred: a callback, a call by a framework, or a decorated function.
unsupported: no call.
"""

from __future__ import annotations

from gapwatch.design.callgraph.graph import CallEdge, CallGraph

#: Kinds of edges that are calls in the strict sense.
CALL_KINDS = frozenset({"call", "construct", "property", "protocol", "cha", "dynamic", "framework"})
_STRICT = CALL_KINDS - {"framework"}


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
