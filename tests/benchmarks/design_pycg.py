"""Scores the call graph on the PyCG micro-benchmark.

    python -m tests.benchmarks.design_pycg PATH

PATH is the folder `micro-benchmark/snippets` of a checkout of vitsalis/PyCG; nothing of it lies in this repository.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from gapwatch.design.analysis import build
from gapwatch.design.reports.graph_formats import graph_pycg
from gapwatch.design.source.scan import scan_repository

#: The truth spells the types of literals its own way.
_NAMES = {"<**PyStr**>": "<builtin>.str", "<**PyDict**>": "<builtin>.dict", "<**PyList**>": "<builtin>.list"}

Pairs = set[tuple[str, str]]


def score(snippets: Path) -> dict[str, Counter[str]]:
    """Return true and false positives and false negatives by category; `i` before a name: edges inside the sources."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for file in sorted(snippets.glob("*/*/callgraph.json")):
        truth = _pairs({k: [_named(v) for v in vs] for k, vs in json.loads(file.read_text()).items()})
        _, graph = build(scan_repository(file.parent))
        found = _pairs(graph_pycg(graph))
        tops = {s.id.partition(".")[0] for s in graph.symbols}
        symbols = {s.id for s in graph.symbols}
        for name in (file.parent.parent.name, "all"):
            tally = counts[name]
            tally.update(tp=len(truth & found), fp=len(found - truth), fn=len(truth - found), cases=1)
            tally.update(complete=not found - truth, sound=not truth - found)
            inside = {e for e in truth if e[1].partition(".")[0] in tops}
            mine = {e for e in found if e[1] in symbols}
            tally.update(itp=len(inside & mine), ifp=len(mine - inside), ifn=len(inside - mine))
    return counts


def _named(callee: str) -> str:
    for theirs, ours in _NAMES.items():
        callee = callee.replace(theirs, ours)
    return callee


def _pairs(graph: dict[str, list[str]]) -> Pairs:
    return {(caller, callee) for caller, callees in graph.items() for callee in callees}


def _share(good: int, bad: int) -> float:
    return good / (good + bad) if good + bad else 1.0


def main() -> None:
    """Print one line a category and one for all."""
    counts = score(Path(sys.argv[1]))
    print(f"{'category':<14}{'cases':>6}{'P all':>8}{'R all':>8}{'P in':>8}{'R in':>8}{'complete':>10}{'sound':>7}")
    for name, c in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        shares = (
            _share(c["tp"], c["fp"]),
            _share(c["tp"], c["fn"]),
            _share(c["itp"], c["ifp"]),
            _share(c["itp"], c["ifn"]),
        )
        print(
            f"{name:<14}{c['cases']:>6}" + "".join(f"{s:>8.4f}" for s in shares) + f"{c['complete']:>10}{c['sound']:>7}"
        )


if __name__ == "__main__":
    main()
