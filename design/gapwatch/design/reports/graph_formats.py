"""Call graph and patterns as JSON, and as the PyCG benchmark's caller-to-callees mapping."""

from __future__ import annotations

from typing import Any

from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.hit import PatternHit

#: Kinds of edges that the benchmark does not count: they show what runs in the end, not what a call site calls.
_NO_CALLS = frozenset({"decorated", "callback", "framework", "resume", "protocol"})


def graph_json(graph: CallGraph) -> dict[str, Any]:
    """Return the graph as plain data; `sites` are [path, line]."""
    return {
        "symbols": [
            {
                "id": s.id,
                "kind": s.kind,
                "path": _text(s.path),
                "line": s.line,
                "end": s.end,
                "async": s.is_async,
                "parent": s.parent or None,
                "abstract": s.is_abstract,
                "tags": list(s.tags),
                "registered_by": list(s.decorators),
            }
            for s in graph.symbols
        ],
        "edges": [
            {"src": e.src, "dst": e.dst, "kind": e.kind, "sites": [[_text(path), line] for path, line in e.sites]}
            for e in graph.edges
        ],
        "externals": [
            {"src": e.src, "dotted": e.dotted, "sites": [[_text(e.path), line] for line in e.lines]}
            for e in graph.externals
        ],
        "unresolved": [
            {"src": u.src, "path": _text(u.path), "line": u.line, "text": u.text, "cause": u.cause}
            for u in graph.unresolved
        ],
        "call_sites": graph.call_sites,
        "resolved_sites": graph.resolved_sites,
        "resolution_rate": round(graph.resolution_rate, 6),
    }


def graph_pycg(graph: CallGraph) -> dict[str, list[str]]:
    """Return `{caller: [callee, ...]}` over calls to functions, to libraries and to builtins (`<builtin>.name`)."""
    functions = {s.id for s in graph.symbols if s.kind in ("function", "lambda")}
    tests = {s.id for s in graph.symbols if "test" in s.tags}
    out: dict[str, set[str]] = {s.id: set() for s in graph.symbols if s.kind != "class"}
    for edge in graph.edges:
        # A function that only tests pass in is not part of the call graph of the product.
        is_of_tests = edge.dst in tests and edge.src not in tests
        if edge.kind not in _NO_CALLS and edge.dst in functions and not is_of_tests:
            out.setdefault(edge.src, set()).add(edge.dst)
    for external in graph.externals:
        out.setdefault(external.src, set()).add(external.dotted)
    for callees in list(out.values()):
        for callee in callees:
            out.setdefault(callee, set())
    return {caller: sorted(callees) for caller, callees in sorted(out.items())}


def patterns_json(hits: tuple[PatternHit, ...]) -> list[dict[str, Any]]:
    """Return the hits as plain data."""
    return [
        {
            "pattern": hit.pattern,
            "symbol": hit.symbol,
            "path": _text(hit.path),
            "line": hit.line,
            "end": hit.end,
            "kind": hit.kind,
            "evidence": hit.evidence,
            "confidence": hit.confidence,
        }
        for hit in hits
    ]


def _text(path: str) -> str:
    """Return a path as valid Unicode for JSON; undecodable bytes become replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
