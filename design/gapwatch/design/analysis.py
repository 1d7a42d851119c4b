"""Builds call graph and patterns of a folder, with a cache on disk keyed by the content of all files."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gapwatch.design.callgraph.graph import CallEdge, CallGraph, External, Symbol, Unresolved, build_call_graph
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.libraries import LibraryCatalog, default_catalog
from gapwatch.design.patterns.pattern_search import find_patterns
from gapwatch.design.routes.route import Route
from gapwatch.design.routes.route_search import find_failures, find_routes
from gapwatch.design.source.program import Program, load_program
from gapwatch.design.source.scan import Scan
from gapwatch.design.source.syntax_trees import grammar_versions

#: Raise it when the same files give another graph.
ANALYSIS_VERSION = 2

Progress = Callable[[str, int, int], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress."""
    del stage, done, total


def search(program: Program, sites: CallSites) -> tuple[tuple[PatternHit, ...], tuple[Route, ...]]:
    """Return the pattern hits of all functions, routes among them, and the routes themselves."""
    routes = find_routes(program, sites)
    failures = find_failures(program, sites)
    return tuple(sorted({*find_patterns(program, sites), *(route.hit() for route in routes), *failures})), routes


@dataclass(frozen=True)
class FileReading:
    """A file that was read.

    Attributes:
        path: Relative to the root.
        module: Dotted name.
        sha: SHA-256 of the content.
        lines: Number of lines.
        errors: (first, last) lines that could not be parsed.
    """

    path: str
    module: str
    sha: str
    lines: int
    errors: tuple[tuple[int, int], ...]


def graph_of(scan: Scan, cache: Path | None, progress: Progress = no_progress) -> CallGraph:
    """Return the call graph of a scan, from the cache if it holds one.

    Args:
        scan: Files of the repository.
        cache: Folder of the cache, created if missing; None for no cache.
        progress: Called with stage, done and total.
    """
    key = _key(scan, "graph")
    stored = _load(cache, key)
    if stored is not None and (graph := _graph_from(stored)) is not None:
        return graph
    # Only the graph is held on to: together with the program, writing it out would set the peak of memory.
    graph = build(scan, progress)[1]
    if cache is not None:
        _save(cache, key, _graph_to(graph))
    return graph


def build(scan: Scan, progress: Progress = no_progress) -> tuple[Program, CallGraph]:
    """Read and resolve a scan, without the cache."""
    total = len(scan.files)
    libraries = default_catalog().libraries
    program = load_program(scan, lambda done: progress("reading", min(done, total), total), libraries)
    graph = build_call_graph(program, lambda done, of: progress("resolving", done, of))
    return program, graph


def patterns_of(
    scan: Scan, cache: Path | None, progress: Progress = no_progress, catalog: LibraryCatalog | None = None
) -> tuple[PatternHit, ...]:
    """Return the patterns of a scan, from the cache if it holds them.

    Args:
        scan: Files of the repository.
        cache: Folder of the cache; None for no cache.
        progress: Called with stage, done and total.
        catalog: Library catalogue; None for the shipped one. Results of another one are not cached.
    """
    used = catalog or default_catalog()
    key = _key(scan, f"patterns/{used.version}" if catalog is None else "patterns/own")
    stored = _load(cache, key) if catalog is None else None
    if isinstance(stored, list):
        try:
            return tuple(PatternHit(*row) for row in stored)
        except TypeError:
            pass
    program, graph = build(scan, progress)
    sites = CallSites(graph, used)
    hits, _ = search(program, sites)
    if catalog is None:
        _save(cache, key, [[getattr(hit, name) for name in PatternHit.__slots__] for hit in hits])
        _save(cache, _key(scan, "graph"), _graph_to(graph))
    return hits


def readings(program: Program) -> tuple[FileReading, ...]:
    """Return the files that were read, sorted by path."""
    out = []
    for module, file, ir in zip(program.index.modules, program.files, program.irs, strict=True):
        if file is not None and ir is not None:
            out.append(FileReading(file.path, module.name, file.sha, ir.lines, tuple(ir.errors)))
    return tuple(sorted(out, key=lambda r: r.path))


def _key(scan: Scan, what: str) -> str:
    # Absolute imports are resolved by the name of the root, so it is part of the key.
    parts = (
        scan.sha,
        scan.root.resolve().name,
        what,
        str(ANALYSIS_VERSION),
        _own_sha(),
        str(sorted(grammar_versions().items())),
    )
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _own_sha() -> str:
    """Digest of this package's code and data, so that a changed resolver never reads an old entry."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".toml", ".txt"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _load(cache: Path | None, key: str) -> Any:
    if cache is None:
        return None
    try:
        return orjson.loads((cache / f"{key}.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None


#: Most entries of the cache; the oldest are deleted.
_MAX_ENTRIES = 40


def _save(cache: Path | None, key: str, data: Any) -> None:
    """Write an entry through a temporary file; an error loses the entry and never ends the run."""
    if cache is None:
        return
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=cache, delete=False) as file:
            file.write(orjson.dumps(data))
        Path(file.name).replace(cache / f"{key}.json")
        entries = sorted(cache.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in entries[:-_MAX_ENTRIES]:
            path.unlink(missing_ok=True)
    except (OSError, TypeError):
        return


def _graph_to(graph: CallGraph) -> dict[str, Any]:
    return {
        "symbols": [[getattr(s, name) for name in Symbol.__slots__] for s in graph.symbols],
        "edges": [[getattr(e, name) for name in CallEdge.__slots__] for e in graph.edges],
        "externals": [[getattr(e, name) for name in External.__slots__] for e in graph.externals],
        "unresolved": [[getattr(u, name) for name in Unresolved.__slots__] for u in graph.unresolved],
        "call_sites": graph.call_sites,
        "resolved_sites": graph.resolved_sites,
    }


def _symbol_from(row: list[Any]) -> Symbol:
    identifier, kind, path, line, end, is_async, parent, is_abstract, tags, decorators = row
    return Symbol(identifier, kind, path, line, end, is_async, parent, is_abstract, tuple(tags), tuple(decorators))


def _graph_from(data: Any) -> CallGraph | None:
    try:
        return CallGraph(
            tuple(_symbol_from(row) for row in data["symbols"]),
            tuple(CallEdge(a, b, kind, tuple((p, n) for p, n in sites)) for a, b, kind, sites in data["edges"]),
            tuple(External(a, b, path, tuple(lines)) for a, b, path, lines in data["externals"]),
            tuple(Unresolved(*row) for row in data["unresolved"]),
            data["call_sites"],
            data["resolved_sites"],
        )
    except (KeyError, TypeError, ValueError, IndexError):
        return None
