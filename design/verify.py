"""Is an edge between two components true? Decided by the call graph alone, by these rules and no others.

verified: some call from a function of the one to a function of the other (a callback or a decorated function is none),
and the cited pair, where one is cited, is such a call or lies on a way within the two components.
inferred: a callback, a framework's call, shared state, or a way over at most two functions outside both.
unsupported: a cited name that is not there, or nothing of the above.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from design.callgraph import CallGraph, Edge

#: Kinds of edges that are calls in the strict sense.
CALL_KINDS = frozenset({"call", "construct", "property", "protocol", "cha", "dynamic", "framework"})
_STRICT = CALL_KINDS - {"framework"}


@dataclass(frozen=True)
class Verdict:
    """Status of an edge and why."""

    status: str
    because: str
    calls: tuple[Edge, ...] = ()


def verify_pair(calls: list[Edge]) -> tuple[str, str, tuple[Edge, ...]]:
    """Judge an edge by the call edges that go from the one component to the other."""
    strict = sorted((e for e in calls if e.kind in _STRICT), key=lambda e: (-len(e.sites), e.src, e.dst))
    if strict:
        sites = sum(len(e.sites) for e in strict)
        return "verified", f"{sites} call{'s' if sites != 1 else ''}", tuple(strict)
    rest = sorted(calls, key=lambda e: (e.kind, e.src, e.dst))
    if rest:
        return "inferred", f"{rest[0].kind}: {rest[0].src} -> {rest[0].dst}", tuple(rest)
    return "unsupported", "no call", ()


def verify_edge(graph: CallGraph, source: Iterable[str], target: Iterable[str], cited: str | None = None) -> Verdict:
    """Judge a claimed edge.

    Args:
        graph: The call graph.
        source: Symbols of the component that it leaves.
        target: Symbols of the component that it enters.
        cited: `caller -> callee`, each as `file:func`, `mod.Class.func` or `func`; None where nothing is cited.
    """
    left, right = set(source), set(target)
    if cited is not None:
        caller, arrow, callee = (part.strip() for part in cited.partition("->"))
        names = [find_symbol(graph, caller), find_symbol(graph, callee)] if arrow else [None, None]
        if None in names:
            lost = caller if names[0] is None else callee
            return Verdict("unsupported", f"no symbol {lost!r}")
        if not _leads(graph, str(names[0]), str(names[1]), left | right):
            return Verdict("unsupported", f"{names[0]} does not reach {names[1]} within the two")
    calls = [e for e in graph.edges if e.src in left and e.dst in right]
    status, because, found = verify_pair(calls)
    if status == "unsupported" and (way := _way_over_helpers(graph, left, right)):
        return Verdict("inferred", "through " + ", ".join(e.dst for e in way[:-1]), way)
    return Verdict(status, because, found)


def find_symbol(graph: CallGraph, cited: str) -> str | None:
    """Return the one symbol that a citation means: by its unique dotted end, then by file and name; else None."""
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


def _leads(graph: CallGraph, caller: str, callee: str, inside: set[str]) -> bool:
    callees: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if edge.kind in _STRICT:
            callees[edge.src].append(edge.dst)
    seen, frontier = {caller}, [caller]
    while frontier:
        reached = sorted({d for s in frontier for d in callees[s] if d not in seen})
        if callee in reached:
            return True
        seen.update(reached)
        frontier = [d for d in reached if d in inside]
    return False


def _way_over_helpers(graph: CallGraph, left: set[str], right: set[str]) -> tuple[Edge, ...]:
    callees: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        if edge.kind in _STRICT:
            callees[edge.src].append(edge)
    for symbol in sorted(left):
        for first in callees[symbol]:
            if first.dst in left:
                continue
            for second in callees[first.dst]:
                if second.dst in right:
                    return (first, second)
                for third in callees[second.dst]:
                    if third.dst in right:
                        return (first, second, third)
    return ()
