"""Scores designs of real applications against truths that a person has written by reading.

    python -m tests.benchmarks.design_truths farfalle=ROOT open-ta-agent=ROOT ... [--wrong]

The truths are in `tests/design/truths`, with the rules by which they are scored; each ROOT is the folder of a checkout
at the commit that the truth names. A name without a file of its own is one of `routes_and_breakers.yaml`, of which only
routes, circuit breakers and failures given back as answers are scored. `--wrong` also lists what was missed and what is
beyond the truth.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.paths import ROOT as PROJECT

TRUTHS = PROJECT / "tests/design/truths"
#: Names of components that say nothing of their work.
NAMELESS = re.compile(r"(_utils|_util|_helpers|_common|_llm|_\d+)$|^(utils|helpers|common|llm)$")


@dataclass
class Tally:
    """What was right, found beyond the truth, and missed, of one kind."""

    right: int = 0
    beyond: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + len(self.beyond))

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + len(self.missed))

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, 2 * self.right + len(self.beyond) + len(self.missed))


@dataclass(frozen=True)
class CodeIndex:
    """Functions of a design by the names that truths use.

    Attributes:
        at: `path::name` of each function and method; path relative to the root.
        ids: Ids of the call graph of the functions that `path::name` stands for.
        modules: Id of the call graph of each file by its path.
    """

    at: dict[str, str]
    ids: dict[str, set[str]]
    modules: dict[str, str]

    def functions(self, written: Iterable[str]) -> set[str]:
        """Return the ids that `path::name` entries stand for; a class stands for its methods."""
        return {one for name in written for one in self.ids.get(name, ())}


def index_of(design: Design) -> CodeIndex:
    """Return the functions of a design by `path::name`, classes and outer functions with all that is in them."""
    modules = {s.path: s.id for s in design.graph.symbols if s.kind == "module"}
    at: dict[str, str] = {}
    ids: dict[str, set[str]] = {}
    for symbol in design.graph.symbols:
        if symbol.kind == "module":
            at[symbol.id] = f"{symbol.path}::<module>"
        if symbol.kind != "function" or symbol.path not in modules:
            continue
        name = symbol.id.removeprefix(modules[symbol.path]).lstrip(".")
        at[symbol.id] = f"{symbol.path}::{name}"
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            ids.setdefault(f"{symbol.path}::{'.'.join(parts[:length])}", set()).add(symbol.id)
    return CodeIndex(at, ids, modules)


def held_code(truth: dict[str, Any], index: CodeIndex) -> dict[str, set[str]]:
    """Return the functions of each component of a truth; what is named more closely elsewhere is left to that one.

    A component without a function, as a graph that is declared in a module, is its modules.
    """
    base = truth.get("base", "").strip("./")
    prefix = f"{base}/" if base else ""
    named = {component["id"]: [prefix + one for one in component["holds"]] for component in truth["components"]}
    closest: dict[str, tuple[int, str]] = {}
    for component, names in named.items():
        for name in names:
            for function in index.functions([name]):
                closest[function] = max(closest.get(function, (0, "")), (len(name), component))
    held: dict[str, set[str]] = {component: set() for component in named}
    for function, (_, component) in closest.items():
        held[component].add(function)
    for component, names in named.items():
        if not held[component]:
            held[component] = {
                index.modules[path] for name in names if (path := name.partition("::")[0]) in index.modules
            }
    return held


def pair(design: Design, held: dict[str, set[str]]) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Pair found components with true ones by shared code, greatest first, each once; return pairs and found code."""
    known = set().union(*held.values())
    found = {c.id: set(c.symbols) & known for c in design.architecture.components}
    shares = sorted(
        ((len(mine & theirs), a, b) for a, mine in found.items() for b, theirs in held.items() if mine & theirs),
        key=lambda share: (-share[0], share[1], share[2]),
    )
    pairs: dict[str, str] = {}
    for _, a, b in shares:
        if a not in pairs and b not in pairs.values():
            pairs[a] = b
    return pairs, found


def is_match(mine: set[str], theirs: set[str]) -> bool:
    """Whether the shared code is at least half of the smaller and a third of the larger one."""
    shared, small, large = len(mine & theirs), *sorted((len(mine), len(theirs)))
    return 2 * shared >= small and 3 * shared >= large


def score_components(
    design: Design, truth: dict[str, Any], index: CodeIndex, held: dict[str, set[str]], pairs: dict[str, str]
) -> Tally:
    """Score components; one of code that no component holds is wrong only where that is dead or left out."""
    tally = Tally()
    _, found = pair(design, held)
    base = truth.get("base", "").strip("./")
    idle = [f"{base}/{one}".lstrip("/") for one in (*truth.get("left_out", ()), *truth.get("dead", ()))]
    for component in design.architecture.components:
        mine = found[component.id]
        theirs = held.get(pairs.get(component.id, ""), set())
        if mine and theirs and is_match(mine, theirs):
            tally.right += 1
        elif mine or any(name.startswith(one) for one in idle for name in map(index.at.get, component.symbols) if name):
            tally.beyond.append(component.id)
    matched = {b for a, b in pairs.items() if is_match(found[a], held[b])}
    tally.missed = [one for one, functions in held.items() if one not in matched and functions]
    tally.missed += [f"{one} (no function of it is known)" for one, functions in held.items() if not functions]
    return tally


def score_edges(design: Design, truth: dict[str, Any], pairs: dict[str, str]) -> Tally:
    """Score edges between paired components."""
    paired = set(pairs.values())
    true = {(a, b) for a, b in truth["edges"] if a in paired and b in paired}
    undecided = {tuple(edge) for edge in truth.get("open_edges", [])}
    found = {(pairs[e.src], pairs[e.dst]) for e in design.architecture.edges if e.src in pairs and e.dst in pairs}
    return Tally(
        len(found & true),
        [f"{a} -> {b}" for a, b in sorted(found - true - undecided)],
        [f"{a} -> {b}" for a, b in sorted(true - found - undecided)],
    )


def score_prompts(design: Design, truth: dict[str, Any]) -> Tally:
    """Score places of prompts: one that begins at the true line, or holds it."""
    base = truth.get("base", "").strip("./")
    places = {(p.place.path, p.place.line, p.place.end) for some in design.prompts.values() for p in some}
    true = {one["id"]: _line(base, one["at"]) for one in truth["prompts"]}
    hit: set[tuple[str, int, int]] = set()
    tally = Tally()
    for name, (path, line) in true.items():
        mine = {p for p in places if p[0] == path and p[1] - 2 <= line <= max(p[1], p[2]) + 2}
        tally.right += bool(mine)
        tally.missed += [] if mine else [f"{name} {path}:{line}"]
        hit |= mine
    tally.beyond = [f"{path}:{line}" for path, line, _ in sorted(places - hit)]
    return tally


def score_used_prompts(design: Design, truth: dict[str, Any]) -> Tally:
    """Score the prompts that judges quote: the text, the call that sends it, and where its evidence comes from."""
    base = truth.get("base", "").strip("./")
    within = _functions_around(design)
    calls = _callees(design)
    tally = Tally()
    for judge in [m for m in (*design.metrics, *(s.metric for s in design.selection.shelf)) if m.source == "judge"]:
        place = judge.prompts[0] if judge.prompts else judge.places[0]
        mine = [
            one
            for one in truth["prompts"]
            if (at := _line(base, one["at"]))[0] == place.path
            and place.line - 2 <= at[1] <= max(place.line, place.end) + 2
        ]
        senders = {f for one in mine for w in one["used_by"] for f in within(*_line(base, w))}
        reached = _reached(set(judge.symbols), calls)
        listed = {_line(base, w) for one in mine for w in one["evidence"]}
        sources = {f for at in listed for f in within(*at)}
        why = ""
        if not mine:
            why = "no prompt there"
        elif not senders & reached:
            why = "another call sends it"
        for found in judge.evidence_from:
            is_near = any(path == found.path and abs(line - found.line) <= 2 for path, line in listed)
            if not why and not is_near and not sources & _reached(within(found.path, found.line), calls):
                why = f"its evidence does not come from {found}"
        tally.right += not why
        tally.beyond += [f"{judge.name} {place}: {why}"] if why else []
    return tally


def _functions_around(design: Design) -> Callable[[str, int], set[str]]:
    """Return a function from path and line to the functions around that line."""
    by_path: dict[str, list[tuple[int, int, str]]] = {}
    for symbol in design.graph.symbols:
        if symbol.kind in ("function", "module"):
            by_path.setdefault(symbol.path, []).append((symbol.line, symbol.end, symbol.id))

    def around(path: str, line: int) -> set[str]:
        spans = sorted((end - start, name) for start, end, name in by_path.get(path, ()) if start <= line <= end)
        return {name for _, name in spans[:1]}

    return around


def _callees(design: Design) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for edge in design.graph.edges:
        out.setdefault(edge.src, set()).add(edge.dst)
    return out


def _reached(start: set[str], calls: dict[str, set[str]]) -> set[str]:
    """Return functions and those that they call, at most four calls away."""
    seen = set(start)
    frontier = set(start)
    for _ in range(4):
        frontier = {d for s in frontier for d in calls.get(s, ())} - seen
        seen |= frontier
    return seen


@dataclass(frozen=True)
class FoundRoute:
    """A route of a design: its function as `path::name`, and the line of each arm in order."""

    function: str
    path: str
    line: int
    arms: tuple[int, ...]


def found_routes(design: Design, index: CodeIndex) -> list[FoundRoute]:
    """Return the routes of a design; where it knows cascades only, those without arms."""
    routes = getattr(design, "routes", None)
    if routes is not None:
        return [
            FoundRoute(index.at.get(r.symbol, ""), r.path, r.line, tuple(arm.line for arm in r.arms)) for r in routes
        ]
    hits = [h for h in design.hits if h.pattern == "has_cascade"]
    return [FoundRoute(index.at.get(h.symbol, ""), h.path, h.line, ()) for h in hits]


def score_routes(design: Design, truth: dict[str, Any], index: CodeIndex) -> tuple[Tally, Tally]:
    """Score routes by function alone, and by function with the first two arms in order within two lines."""
    base = truth.get("base", "").strip("./")
    by_function, by_arms = Tally(), Tally()
    found = found_routes(design, index)
    left = [list(found), list(found)]
    for route in truth["routes"]:
        path, _, name = route["in"].partition("::")
        where = f"{base}/{path}".lstrip("/") + f"::{name}"
        first = [_line(base, arm["at"])[1] for arm in route["arms"][:2]]
        mine = [r for r in found if r.function == where or r.function.startswith(f"{where}.")]
        with_arms = [
            r for r in mine if len(r.arms) > 1 and all(abs(a - b) <= 2 for a, b in zip(first, r.arms, strict=False))
        ]
        for tally, some, place in ((by_function, mine, left[0]), (by_arms, with_arms, left[1])):
            for one in some:
                if one in place:
                    place.remove(one)
            if route["sure"]:
                tally.right += bool(some)
                tally.missed += [] if some else [f"{route['id']} {route['in']}"]
    for tally, place in zip((by_function, by_arms), left, strict=True):
        tally.beyond = [f"{r.path}:{r.line}" for r in place if _counts(truth, base, r.path)]
    return by_function, by_arms


def score_not_routes(design: Design, truth: dict[str, Any], index: CodeIndex) -> Tally:
    """Score places that look like a route and are none: right where no further route has an arm within two lines."""
    base = truth.get("base", "").strip("./")
    true = {f"{base}/{route['in']}".lstrip("/") for route in truth["routes"]}
    found = [r for r in found_routes(design, index) if r.function not in true]
    tally = Tally()
    for one in truth.get("not_routes", []):
        path, line = _line(base, one["at"])
        is_taken = any(r.path == path and any(abs(at - line) <= 2 for at in (r.line, *r.arms[1:])) for r in found)
        tally.right += not is_taken
        tally.missed += [f"{path}:{line} {one['why']}"] if is_taken else []
    return tally


def score_breakers(design: Design, truth: dict[str, Any]) -> Tally:
    """Score circuit breakers by file."""
    base = truth.get("base", "").strip("./")
    true = {_line(base, one["at"])[0] for one in truth["breakers"]}
    found = {h.path for h in design.hits if h.pattern == "has_circuit_breaker" and _counts(truth, base, h.path)}
    return Tally(len(true & found), sorted(found - true), sorted(true - found))


def score_failures(design: Design, truth: dict[str, Any]) -> Tally:
    """Score failures given back as answers: a hit whose statement lies within two lines of the true one.

    What a truth is not sure of counts neither as found nor as missed.
    """
    base = truth.get("base", "").strip("./")
    hits = [h for h in design.hits if h.pattern == "returns_failure" and not _is_test(design, h.path)]
    found = {(h.path, h.line, h.end) for h in hits}
    left = set(found)
    tally = Tally()
    for one in truth.get("failures_as_answers", []):
        path, line = _line(base, one["at"])
        mine = {at for at in found if at[0] == path and at[1] - 2 <= line <= at[2] + 2}
        left -= mine
        if one.get("sure", True):
            tally.right += bool(mine)
            tally.missed += [] if mine else [f"{path}:{line} {one['what']}"]
    tally.beyond = [f"{path}:{line}" for path, line, _ in sorted(left) if _counts(truth, base, path)]
    return tally


def _is_test(design: Design, path: str) -> bool:
    return any(s.tags for s in design.graph.symbols if s.path == path and s.kind == "module")


def _counts(truth: dict[str, Any], base: str, path: str) -> bool:
    """Whether what is found beyond a truth counts: in no code left out, and only in complete files of labels."""
    if _is_left_out(truth, base, path):
        return False
    complete = truth.get("complete")
    return complete is None or any(path == f"{base}/{one}".lstrip("/") for one in complete)


def _is_left_out(truth: dict[str, Any], base: str, path: str) -> bool:
    inside = path.removeprefix(f"{base}/") if base else path
    return (inside == path and bool(base)) or any(inside.startswith(one) for one in truth.get("left_out", ()))


def _line(base: str, written: str) -> tuple[str, int]:
    path, _, line = written.rpartition(":")
    return f"{base}/{path}".lstrip("/"), int(line)


KINDS = (
    "components",
    "edges",
    "prompts",
    "prompts of judges",
    "routes by function",
    "routes with arms",
    "not routes",
    "breakers",
    "failures as answers",
)


def score(design: Design, truth: dict[str, Any]) -> dict[str, Tally]:
    """Return a tally of each of `KINDS` that the truth holds."""
    index = index_of(design)
    tallies: dict[str, Tally] = {}
    if "components" in truth:
        held = held_code(truth, index)
        pairs, _ = pair(design, held)
        tallies["components"] = score_components(design, truth, index, held, pairs)
        tallies["edges"] = score_edges(design, truth, pairs)
        tallies["prompts"] = score_prompts(design, truth)
        tallies["prompts of judges"] = score_used_prompts(design, truth)
    tallies["routes by function"], tallies["routes with arms"] = score_routes(design, truth, index)
    tallies["not routes"] = score_not_routes(design, truth, index)
    tallies["breakers"] = score_breakers(design, truth)
    tallies["failures as answers"] = score_failures(design, truth)
    return tallies


def truth_of(name: str) -> dict[str, Any]:
    """Return the truth of an application: its own file, or its part of the labels of routes and breakers."""
    own = TRUTHS / f"{name}.yaml"
    if own.exists():
        read: dict[str, Any] = yaml.safe_load(own.read_text(encoding="utf-8"))
        return read
    labels = yaml.safe_load((TRUTHS / "routes_and_breakers.yaml").read_text(encoding="utf-8"))
    return next(one for one in labels["applications"] if one["repository"].endswith(f"/{name}"))


def sizes(design: Design) -> Counter[str]:
    """Return counts that an owner meets: metrics, pages, questions, spans to write, judges, names that say nothing."""
    judges = [m for m in design.metrics if m.source == "judge"]
    return Counter(
        {
            "metrics": len(design.metrics),
            "pages": sum(m.severity == "page" for m in design.metrics),
            "questions": len(design.open_questions),
            "spans to write": len(design.points),
            "judges": len(judges),
            "components": len(design.architecture.components),
            "names that say nothing": sum(bool(NAMELESS.search(c.id)) for c in design.architecture.components),
        }
    )


def main() -> None:
    """Print precision, recall and F1 by application and kind, and the sizes of the designs."""
    is_wrong_shown = "--wrong" in sys.argv
    f1: dict[str, list[float]] = {kind: [] for kind in KINDS}
    total = {kind: Tally() for kind in KINDS}
    counts: dict[str, list[int]] = {}
    for argument in sys.argv[1:]:
        name, _, root = argument.partition("=")
        if not root:
            continue
        truth = truth_of(name)
        design = run_design(scan_repository(Path(root)))
        print(name)
        for kind, tally in score(design, truth).items():
            print(
                f"  {kind:20} P {tally.precision:.2f}  R {tally.recall:.2f}  F1 {tally.f1:.2f}"
                f"  ({tally.right} right, {len(tally.beyond)} beyond, {len(tally.missed)} missed)"
            )
            if is_wrong_shown:
                for word, some in (("beyond", tally.beyond), ("missed", tally.missed)):
                    print(*(f"      {word} {one}\n" for one in some), sep="", end="")
            if tally.right or tally.missed:
                f1[kind].append(tally.f1)
            total[kind].right += tally.right
            total[kind].beyond += tally.beyond
            total[kind].missed += tally.missed
        found = sizes(design)
        print("  " + ", ".join(f"{number} {what}" for what, number in found.items()))
        for what, number in found.items():
            counts.setdefault(what, []).append(number)
    print("all")
    for kind, tally in total.items():
        mean = sum(f1[kind]) / max(1, len(f1[kind]))
        print(f"  {kind:20} P {tally.precision:.2f}  R {tally.recall:.2f}  F1 {tally.f1:.2f}  mean F1 {mean:.2f}")
    print("  median: " + ", ".join(f"{median(some):g} {what}" for what, some in counts.items()))


if __name__ == "__main__":
    main()
