"""Scores the call graph of real projects on call graphs that people wrote down.

    python -m tests.benchmarks.design_macro PROJECT=ROOT=TRUTH.json ...

TRUTH.json is `{"caller": ["callee", ...]}` with dotted names relative to ROOT, the form of the artifact of PyCG (repo
vitsalis/pycg-evaluation, `data/macro-benchmark/ground-truth-cgs`; its submodules are the projects) and of Jarvis.
Calls view: only callers that the sources hold, only callees that are functions of the sources, no accessors and no
lambdas; the truths list modules, classes and accessors now and then, number lambdas in ways of their own, and hold
names that no source has. Six more projects: pythonJaRvis/pythonJaRvis.github.io, `Jarvis/dataset/macro_benchmark/pj`
with the truths `Jarvis/ground_truth/macro_benchmark/*/EA.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gapwatch.design.analysis import build
from gapwatch.design.reports.graph_formats import graph_pycg
from gapwatch.design.source.scan import scan_repository

Pairs = set[tuple[str, str]]


def score(root: Path, truth_file: Path) -> tuple[Pairs, Pairs, Pairs, int]:
    """(found rightly, found beyond the truth, not found, edges of the truth whose names no source has)."""
    _, graph = build(scan_repository(root))
    accessors = {e.dst for e in graph.edges if e.kind == "property"}
    functions = {s.id for s in graph.symbols if s.kind == "function"} - accessors
    callers = {s.id for s in graph.symbols if s.kind != "class" and "test" not in s.tags}
    tops = {s.id.partition(".")[0] for s in graph.symbols}
    written = _pairs(json.loads(truth_file.read_text()))
    unknown = {(a, b) for a, b in written if b.partition(".")[0] in tops and (a not in callers or b not in functions)}
    truth = {(a, b) for a, b in written if a in callers and b in functions}
    found = {(a, b) for a, b in _pairs(graph_pycg(graph)) if a in callers and b in functions}
    listed = {name.rpartition(".")[0] for name in json.loads(truth_file.read_text())}
    found = {(a, b) for a, b in found if a in {c for c, _ in written} or a.rpartition(".")[0] in listed}
    return truth & found, found - truth, truth - found, len(unknown)


def _pairs(graph: dict[str, list[str]]) -> Pairs:
    return {(caller, callee) for caller, callees in graph.items() for callee in callees}


def main() -> None:
    """Print one line a project and one for all; `--edges` also lists what differs."""
    arguments = [a for a in sys.argv[1:] if a != "--edges"]
    total = [0, 0, 0]
    for argument in arguments:
        name, root, truth = argument.split("=")
        right, beyond, missing, unknown = score(Path(root), Path(truth))
        counts = [len(right), len(beyond), len(missing)]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        print(_line(name, *counts), f"(names of no source: {unknown})")
        if len(arguments) < len(sys.argv) - 1:
            for sign, pairs in (("+", beyond), ("-", missing)):
                print("".join(f"  {sign} {a} -> {b}\n" for a, b in sorted(pairs)), end="")
    print(_line("all", *total))


def _line(name: str, right: int, beyond: int, missing: int) -> str:
    precision, recall = right / max(1, right + beyond), right / max(1, right + missing)
    return f"{name:<20} TP {right:4d}  FP {beyond:4d}  FN {missing:4d}  P {precision:.3f}  R {recall:.3f}"


if __name__ == "__main__":
    main()
