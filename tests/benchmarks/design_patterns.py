"""Scores ten patterns on functions of real applications that a person has labelled.

    python -m tests.benchmarks.design_patterns onyx=ROOT khoj=ROOT gpt-researcher=ROOT

The labels are in `labelled_patterns.txt`; each ROOT is the folder of a checkout that the file names with its commit.
A pattern counts for a function when it is found anywhere inside it. A call that only reaches outside through functions
of the same repository (kind `wrapped`) is right where it is labelled and says nothing where it is not.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gapwatch.design.analysis import build, search
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from tests.paths import ROOT as PROJECT

LABELS = PROJECT / "tests/benchmarks/labelled_patterns.txt"
#: Patterns whose meaning is younger than the labels; `design_truths` scores them.
_YOUNGER = frozenset({"has_cascade", "returns_failure"})


@dataclass
class Label:
    """A function and what a person found in it; `open` may be found or not."""

    path: str
    line: int
    holds: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)


def read_labels(text: str) -> dict[str, list[Label]]:
    """Return the labels by the name of the repository."""
    out: dict[str, list[Label]] = {}
    for written in text.splitlines():
        words = written.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "@":
            labels = out.setdefault(words[1], [])
            continue
        path, _, line = words[0].rpartition(":")
        named = words[1:]
        labels.append(Label(path, int(line), {w for w in named if w[0] != "~"}, {w[1:] for w in named if w[0] == "~"}))
    return out


def score(root: Path, labels: list[Label]) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Return counts by (pattern, right, beyond or missed), and a line for each that is not right."""
    program, graph = build(scan_repository(root))
    sites = CallSites(graph, default_catalog())
    hits, _ = search(program, sites)
    ends = {(s.path, s.line): s.end for s in graph.symbols if s.kind == "function"}
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    for label in labels:
        end = ends.get((label.path, label.line))
        if end is None:
            raise SystemExit(f"{root}: no function at {label.path}:{label.line}; is it the commit of the labels?")
        inside = [h for h in hits if h.path == label.path and label.line <= h.line <= end]
        sure = {h.pattern for h in inside if not h.kind.startswith("wrapped")}
        found = sure | ({h.pattern for h in inside} & label.holds)
        for pattern in sorted((found | label.holds) - label.open - _YOUNGER):
            what = "right" if pattern in found & label.holds else "beyond" if pattern in found else "missed"
            counts[pattern, what] += 1
            if what != "right":
                wrong.append(f"{what} {pattern} {label.path}:{label.line}")
    return counts, wrong


def main() -> None:
    """Print precision and recall by pattern and over all, and what is not right."""
    labels = read_labels(LABELS.read_text())
    total: Counter[tuple[str, str]] = Counter()
    for argument in sys.argv[1:]:
        name, _, root = argument.partition("=")
        counts, wrong = score(Path(root), labels[name])
        total += counts
        print("\n".join([f"{name}: {len(labels[name])} functions", *(f"  {line}" for line in wrong)]))
    for pattern in [*sorted({p for p, _ in total}), "all"]:
        right, beyond, missed = (
            sum(n for (p, what), n in total.items() if what == wanted and pattern in (p, "all"))
            for wanted in ("right", "beyond", "missed")
        )
        precision, recall = right / max(1, right + beyond), right / max(1, right + missed)
        print(f"{pattern:<20} {right + missed:4d} labelled  P {precision:.3f}  R {recall:.3f}")


if __name__ == "__main__":
    main()
