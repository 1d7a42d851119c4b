"""Builds small repositories for tests and returns their call graph and patterns."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.analysis import build, search
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.routes.route import Route
from gapwatch.design.routes.route_search import find_routes
from gapwatch.design.source.scan import scan_repository


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write files below a folder and return the folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def graph(root: Path, files: dict[str, str]) -> CallGraph:
    """Return the call graph of some files."""
    return build(scan_repository(write_tree(root, files)))[1]


def edges(root: Path, files: dict[str, str]) -> set[str]:
    """Return `caller -> callee` of all edges, library calls included."""
    made = graph(root, files)
    inside = {f"{e.src} -> {e.dst}" for e in made.edges}
    return inside | {f"{e.src} -> {e.dotted}" for e in made.externals}


def patterns(root: Path, files: dict[str, str]) -> tuple[PatternHit, ...]:
    """Return the pattern hits of some files."""
    program, made = build(scan_repository(write_tree(root, files)))
    sites = CallSites(made, default_catalog())
    return search(program, sites)[0]


def routes(root: Path, files: dict[str, str]) -> tuple[Route, ...]:
    """Return the routes of some files."""
    program, made = build(scan_repository(write_tree(root, files)))
    return find_routes(program, CallSites(made, default_catalog()))
