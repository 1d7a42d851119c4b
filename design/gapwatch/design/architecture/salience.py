"""Scores files by importance to the pipeline: distance to a model, calls made and received, patterns."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.hit import PatternHit

#: A function at distance d from a model adds _DECAY ** d to the proximity of its file.
_DECAY = 0.6
_MAX_DISTANCE = 8
_DAMPING = 0.85
_ITERATIONS = 30
_NEAR = frozenset({"llm_chat", "embedding", "retrieval", "rerank"})
#: Kinds of edges along which a result returns to the caller.
_FLOW = frozenset(
    {"call", "construct", "property", "protocol", "cha", "dynamic", "decorated", "resume", "callback", "framework"}
)


@dataclass(frozen=True)
class FileSalience:
    """Scores of one file, each scaled to its maximum over the repository.

    Attributes:
        path: The file.
        salience: 0.5 proximity + 0.2 caller + 0.15 callee centrality + 0.15 density of patterns.
        llm_proximity: Nearness of its functions to model calls.
        caller_centrality: PageRank as a file that calls others.
        callee_centrality: PageRank as a file that others call.
        excluded: Tags that keep it out of production, such as `test`; empty for production code.
    """

    path: str
    salience: float
    llm_proximity: float
    caller_centrality: float
    callee_centrality: float
    excluded: tuple[str, ...] = ()


def model_distances(graph: CallGraph, sinks: dict[str, set[str]]) -> dict[str, int]:
    """Return the number of calls from each function to the nearest model call, up to 8.

    Args:
        graph: The call graph.
        sinks: Capabilities by symbol.
    """
    callers: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if edge.kind in _FLOW:
            callers[edge.dst].append(edge.src)
    distances = {symbol: 0 for symbol, found in sinks.items() if found & _NEAR}
    frontier = sorted(distances)
    for distance in range(1, _MAX_DISTANCE + 1):
        reached = sorted({c for symbol in frontier for c in callers[symbol] if c not in distances})
        distances.update(dict.fromkeys(reached, distance))
        frontier = reached
    return distances


def file_salience(graph: CallGraph, hits: tuple[PatternHit, ...], distances: dict[str, int]) -> list[FileSalience]:
    """Score every file, greatest salience first; files outside production carry their tags."""
    path_of = {s.id: s.path for s in graph.symbols}
    tags = {s.path: s.tags for s in graph.symbols}
    production = {path for path, found in tags.items() if not found}
    weights: dict[tuple[str, str], float] = defaultdict(float)
    for edge in graph.edges:
        src, dst = path_of.get(edge.src), path_of.get(edge.dst)
        if src in production and dst in production and src != dst and src is not None and dst is not None:
            weights[src, dst] += len(edge.sites)
    near: dict[str, float] = defaultdict(float)
    for symbol, distance in distances.items():
        near[path_of.get(symbol, "")] += _DECAY**distance
    density: dict[str, float] = defaultdict(float)
    for hit in hits:
        density[hit.path] += hit.confidence
    called = _rank(sorted(production), weights)
    calling = _rank(sorted(production), {(b, a): w for (a, b), w in weights.items()})
    scaled = [_scaled(scores, production) for scores in (near, calling, called, density)]
    out = []
    for path in sorted(tags):
        parts = [scores.get(path, 0.0) for scores in scaled]
        total = sum(w * p for w, p in zip((0.5, 0.2, 0.15, 0.15), parts, strict=True))
        out.append(_scored(path, total, parts, tags[path]))
    return sorted(out, key=lambda f: (-f.salience, f.path))


def _scored(path: str, total: float, parts: list[float], excluded: tuple[str, ...]) -> FileSalience:
    near, calling, called = (round(p, 6) for p in parts[:3])
    return FileSalience(path, round(total, 6), near, calling, called, excluded)


def _scaled(scores: dict[str, float], only: set[str]) -> dict[str, float]:
    top = max((v for k, v in scores.items() if k in only), default=0.0)
    return {k: v / top for k, v in scores.items() if k in only} if top else {}


def _rank(nodes: list[str], weights: dict[tuple[str, str], float]) -> dict[str, float]:
    """Return PageRank scores by power iteration, shifted so that the smallest is 0.

    Source:
        Page, Brin, Motwani, Winograd (1999), The PageRank Citation Ranking.
    """
    if not nodes:
        return {}
    out_weight: dict[str, float] = defaultdict(float)
    for (src, _), weight in weights.items():
        out_weight[src] += weight
    rank = dict.fromkeys(nodes, 1 / len(nodes))
    for _ in range(_ITERATIONS):
        lost = sum(rank[n] for n in nodes if not out_weight[n])
        fresh = dict.fromkeys(nodes, (1 - _DAMPING + _DAMPING * lost) / len(nodes))
        for (src, dst), weight in weights.items():
            fresh[dst] += _DAMPING * rank[src] * weight / out_weight[src]
        rank = fresh
    base = min(rank.values())
    return {node: value - base for node, value in rank.items()}
