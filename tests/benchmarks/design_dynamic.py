"""Compares the call graph with the calls that a project's own tests really make in it.

    PROJECT_PYTHON tests/benchmarks/record_calls.py ROOT CALLS.json -m pytest tests     # in the project's environment
    python -m tests.benchmarks.design_dynamic ROOT CALLS.json

The recording runs the project; this command only reads its source.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from gapwatch.design.analysis import build
from gapwatch.design.source.scan import scan_repository

_LAMBDA = re.compile(r"<lambda\d*>")


def main() -> None:
    """Print the share of the calls that the graph holds, by kind, and what it lacks."""
    root, recording = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    _, graph = build(scan_repository(root))
    held = {(_LAMBDA.sub("<lambda>", e.src), _LAMBDA.sub("<lambda>", e.dst)) for e in graph.edges}
    symbols = {_LAMBDA.sub("<lambda>", s.id) for s in graph.symbols}
    ran: dict[str, set[tuple[str, str]]] = {"direct": set(), "via": set()}
    for caller, callee, kind in recording:
        pair = (_LAMBDA.sub("<lambda>", caller), _LAMBDA.sub("<lambda>", callee))
        # What the source does not hold was generated while it ran: the __init__ of a dataclass, __repr__ of a model.
        # A finaliser runs when the collector comes, below whatever runs then.
        if pair[0] in symbols and pair[1] in symbols and not callee.endswith(".__del__"):
            ran[kind].add(pair)
    ran["via"] -= ran["direct"]
    for kind, pairs in ran.items():
        missing = sorted(pairs - held)
        print(f"{kind}: {len(pairs)} ran, {len(pairs) - len(missing)} in the graph: {share(len(missing), len(pairs))}")
        for caller, callee in missing:
            print(f"  {caller} -> {callee}")


def share(missing: int, whole: int) -> str:
    """Return the share that is there."""
    return f"{1 - missing / whole:.3f}" if whole else "-"


if __name__ == "__main__":
    main()
