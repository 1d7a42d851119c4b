"""Builds components: groups units of code until at most 20 are left, with units of unlike jobs kept apart."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable

from gapwatch.design.architecture.component_names import count_folders, identifier_of, parts_of, title_of, unique
from gapwatch.design.architecture.material import JOBS, Material, Unit
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.architecture.tiers import tiers_of
from gapwatch.design.callgraph.graph import Symbol
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.library_uses import LibraryUse
from gapwatch.design.source.ir import Body, docstring

#: Most components of a graph that a person can take in.
MAX_COMPONENTS = 20
#: Most groups to start from, because comparing pairs takes cubic time. Beyond it, units are first grouped by file, then
#: by folder.
_MAX_UNITS = 110
#: Size, in fair shares (1/20 of the code), from which a larger group is penalised, and the penalty for each share more.
_FAIR_SHARES = 2.0
_OVERWEIGHT = 0.6
#: Units from which a component is described by its parts instead of one docstring.
_MANY = 5
#: Largest number of calls between a unit and a model at which the unit counts as part of the pipeline.
_MAX_DISTANCE = 3

_PATTERN_JOBS = {
    "calls_llm": "llm",
    "has_db_write": "store",
    "has_cache": "cache",
    "has_queue": "queue",
    "calls_external_api": "service",
    "parses_json": "parse",
    "has_circuit_breaker": "service",
    "has_cascade": "flow",
}


def build_components(material: Material, uses: list[LibraryUse]) -> tuple[list[ComponentDraft], dict[str, str]]:
    """Build the components of a pipeline.

    Args:
        material: The analysed code.
        uses: Library uses of production code.

    Returns:
        The components, and the component's id by symbol.
    """
    units = _units(material, uses)
    relevant = _relevant(units, material)
    helpers = [u for u in units if u.key not in {r.key for r in relevant}]
    groups = _group(relevant, material)
    if len(groups) < 3 and len(relevant) < 3:
        groups += [[u] for u in sorted(helpers, key=lambda u: (-u.weight, u.key)) if u.jobs or u.hits][
            : 3 - len(groups)
        ]
    used: set[str] = set()
    folders = count_folders(u for group in groups for u in group)
    components = [_component(group, material, used, folders) for group in groups]
    owner = {symbol: c.id for c in components for symbol in c.symbols}
    return components, owner


# -- units ---------------------------------------------------------------------------------------------------------


def _units(material: Material, uses: list[LibraryUse]) -> list[Unit]:
    graph = material.graph
    by_symbol = {s.id: s for s in graph.symbols}
    uses_by: dict[str, list[LibraryUse]] = defaultdict(list)
    hits_by: dict[str, list[PatternHit]] = defaultdict(list)
    for use in uses:
        uses_by[use.symbol].append(use)
    for hit in material.hits:
        hits_by[hit.symbol].append(hit)
    units: dict[str, Unit] = {}
    for symbol in graph.symbols:
        if symbol.tags or not symbol.path:
            continue
        owner = _owner(symbol, by_symbol)
        jobs = _jobs(uses_by[owner.id if owner.kind == "function" else symbol.id], hits_by[symbol.id])
        if owner.kind == "class":
            key, name = owner.id, owner.id.rpartition(".")[2]
        else:
            own = _jobs_of_family(owner, material, uses_by, hits_by) if owner.kind == "function" else ""
            key, name = f"{owner.path}#{own}", own
        unit = units.setdefault(key, Unit(key, name, symbol.path))
        unit.symbols.append(symbol.id)
        unit.paths.add(symbol.path)
        unit.uses += uses_by[symbol.id]
        unit.hits += hits_by[symbol.id]
        unit.jobs.update(jobs)
        unit.weight += material.salience.get(symbol.path, 0.0) / 10 + len(hits_by[symbol.id]) + len(uses_by[symbol.id])
        unit.distance = min(unit.distance, material.distances.get(symbol.id, 99))
    return [units[key] for key in sorted(units)]


def _owner(symbol: Symbol, by_symbol: dict[str, Symbol]) -> Symbol:
    """Return the outermost class or function around a symbol, or its module."""
    current = symbol
    while True:
        parent = by_symbol.get(current.parent)
        if parent is None or parent.kind == "module" or not current.parent:
            return current
        current = parent


def _jobs(uses: list[LibraryUse], hits: list[PatternHit]) -> Counter[str]:
    jobs: Counter[str] = Counter()
    for use in uses:
        for job, capabilities in JOBS:
            if use.capability in capabilities:
                jobs[job] += 1
    for hit in hits:
        job = _PATTERN_JOBS.get(hit.pattern, "")
        if job and (hit.pattern != "calls_llm" or hit.kind == "direct"):
            jobs[job] += 1
    return jobs


def _jobs_of_family(
    owner: Symbol, material: Material, uses_by: dict[str, list[LibraryUse]], hits_by: dict[str, list[PatternHit]]
) -> str:
    """Return the job of a function with all functions inside it; one that only calls others is `flow`."""
    jobs = _jobs(uses_by[owner.id], hits_by[owner.id])
    for job, _ in JOBS:
        if jobs[job]:
            return job
    if jobs["parse"]:
        return "parse"
    if jobs["flow"] or material.distances.get(owner.id, 99) <= _MAX_DISTANCE:
        return "flow"
    return ""


def _relevant(units: list[Unit], material: Material) -> list[Unit]:
    """Return the units of the pipeline: near a model, or with a job of their own downstream of such a unit."""
    has_model = any(u.distance == 0 for u in units)
    chosen = []
    downstream = _reachable(material, {s for u in units if u.distance <= _MAX_DISTANCE for s in u.symbols})
    for unit in units:
        outside = unit.job not in ("", "flow")
        is_near = unit.distance <= _MAX_DISTANCE
        is_behind = outside and bool(downstream & set(unit.symbols))
        if (
            is_near
            or is_behind
            or (outside and (not has_model or unit.job in ("llm", "retrieval", "index", "embedding", "ingest")))
        ):
            chosen.append(unit)
    return chosen


def _reachable(material: Material, start: set[str]) -> set[str]:
    callees: dict[str, list[str]] = defaultdict(list)
    for edge in material.graph.edges:
        callees[edge.src].append(edge.dst)
    seen, frontier = set(start), sorted(start)
    for _ in range(4):
        frontier = sorted({d for s in frontier for d in callees[s] if d not in seen})
        seen.update(frontier)
    return seen


# -- groups --------------------------------------------------------------------------------------------------------


def _group(units: list[Unit], material: Material) -> list[list[Unit]]:
    groups = [[unit] for unit in units]
    if len(groups) > _MAX_UNITS:
        groups = _by(units, lambda u: u.path)
    depth = 6
    while len(groups) > _MAX_UNITS and depth:
        level = depth
        groups = _by(units, functools.partial(_folder, level))
        depth -= 1
    calls = _calls_between(groups, material)
    target = _target(units)
    while len(groups) > 1:
        pair = _best_pair(groups, calls, must=len(groups) > target)
        if pair is None:
            break
        left, right = pair
        groups[left] += groups[right]
        del groups[right]
        calls = _merged(calls, left, right)
    return [sorted(group, key=lambda u: u.key) for group in groups]


def _target(units: list[Unit]) -> int:
    """Return the number of components to aim at: all units of a small repository, at most 20 of a large one."""
    return min(MAX_COMPONENTS, max(3, len(units)))


def _by(units: list[Unit], key: Callable[[Unit], str]) -> list[list[Unit]]:
    out: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        out[key(unit)].append(unit)
    return [out[name] for name in sorted(out)]


def _folder(level: int, unit: Unit) -> str:
    return "/".join(unit.path.split("/")[:-1][:level])


def _calls_between(groups: list[list[Unit]], material: Material) -> dict[tuple[int, int], float]:
    place = {symbol: i for i, group in enumerate(groups) for unit in group for symbol in unit.symbols}
    out: dict[tuple[int, int], float] = defaultdict(float)
    for edge in material.graph.edges:
        left, right = place.get(edge.src), place.get(edge.dst)
        if left is not None and right is not None and left != right:
            out[min(left, right), max(left, right)] += len(edge.sites)
    return out


def _merged(calls: dict[tuple[int, int], float], left: int, right: int) -> dict[tuple[int, int], float]:
    def moved(i: int) -> int:
        return left if i == right else i - 1 if i > right else i

    out: dict[tuple[int, int], float] = defaultdict(float)
    for (a, b), weight in calls.items():
        a, b = moved(a), moved(b)
        if a != b:
            out[min(a, b), max(a, b)] += weight
    return out


def _best_pair(groups: list[list[Unit]], calls: dict[tuple[int, int], float], must: bool) -> tuple[int, int] | None:
    """Return the two groups with the highest affinity, or None to stop merging.

    Affinity of groups i and j, with s their numbers of symbols and S the sum over all groups:

        calls / (1 + min(s_i, s_j)) + 0.5 [shared file] + 0.5 [shared folder] + 0.3 [same job]
        - 6 s_i s_j / S^2 - 2 (s_i + s_j) / S                  large groups attract less
        - 0.6 max(0, 20 (s_i + s_j) / S - 2)                   more than two fair shares counts against a group
        - 1 [one of unlike jobs calls a model] - 0.6 [both call a model]

    Args:
        groups: All groups.
        calls: Number of call sites between two groups, by their positions (smaller first).
        must: Whether there are too many groups, so that every pair may be merged.
    """
    best: tuple[float, int, int] | None = None
    sizes = [sum(len(u.symbols) for u in group) for group in groups]
    jobs = [_group_job(group) for group in groups]
    folders = [{u.path.rpartition("/")[0] for u in group} for group in groups]
    files = [set().union(*(u.paths for u in group)) for group in groups]
    total = sum(sizes) or 1
    for i in range(len(groups)):
        for j in range(i + 1, len(groups)):
            weight = calls.get((i, j), 0.0)
            if not must and not _is_small(groups, i, j, jobs, sizes, files, weight):
                continue
            affinity = weight / (1 + min(sizes[i], sizes[j]))
            affinity += 0.5 * bool(files[i] & files[j]) + 0.5 * bool(folders[i] & folders[j])
            affinity += 0.3 * (jobs[i] == jobs[j])
            affinity -= 6.0 * sizes[i] * sizes[j] / total**2 + 2.0 * (sizes[i] + sizes[j]) / total
            affinity -= _OVERWEIGHT * max(0.0, (sizes[i] + sizes[j]) * MAX_COMPONENTS / total - _FAIR_SHARES)
            affinity -= 1.0 * (jobs[i] != jobs[j] and "llm" in (jobs[i], jobs[j])) + 0.6 * (jobs[i] == jobs[j] == "llm")
            if best is None or affinity > best[0]:
                best = (affinity, i, j)
    return (best[1], best[2]) if best is not None else None


def _group_job(group: list[Unit]) -> str:
    jobs = {unit.job for unit in group}
    return next((job for job, _ in JOBS if job in jobs), "flow")


def _is_small(
    groups: list[list[Unit]], i: int, j: int, jobs: list[str], sizes: list[int], files: list[set[str]], weight: float
) -> bool:
    """Return whether one of two groups is too small to be monitored alone: a helper without a job beside its caller."""
    for a, b in ((i, j), (j, i)):
        if all(u.job == "" for u in groups[a]) and (weight > 0 or files[a] & files[b]) and sizes[a] <= 8:
            return True
        if (
            jobs[a] == "flow"
            and not any(u.hits for u in groups[a])
            and sizes[a] <= 2
            and weight > 0
            and files[a] & files[b]
        ):
            return True
    return False


# -- components ----------------------------------------------------------------------------------------------------


def _component(group: list[Unit], material: Material, used: set[str], folders: Counter[str]) -> ComponentDraft:
    main = min(group, key=lambda u: (u.distance, -u.weight, u.key))
    identifier = unique(identifier_of(group, main, folders), used)
    symbols = sorted({s for u in group for s in u.symbols})
    entry = _entry(symbols, material)
    component = ComponentDraft(
        identifier,
        title_of(identifier),
        sorted({p for u in group for p in u.paths}),
        symbols,
        entry,
        sorted((use for u in group for use in u.uses), key=lambda u: (u.place.path, u.place.line, u.dotted)),
        sorted({hit for u in group for hit in u.hits}),
    )
    inside = set(symbols)
    component.routes = [route for route in material.routes if route.symbol in inside]
    distance = min(u.distance for u in group)
    component.distance = distance if distance < 99 else None
    component.tiers = tiers_of(component, material)
    component.description = _description(component, material) if len(group) < _MANY else parts_of(group)
    return component


def _entry(symbols: list[str], material: Material) -> str:
    """Return the function that other components call most; without callers the one nearest to a model."""
    inside = set(symbols)
    functions = {s.id for s in material.graph.symbols if s.kind == "function"} & inside
    score: Counter[str] = Counter()
    for edge in material.graph.edges:
        if edge.dst in functions and edge.src not in inside:
            score[edge.dst] += len(edge.sites)
    near = material.distances
    ranked = sorted(functions, key=lambda s: (-score[s], near.get(s, 99), s.rpartition(".")[2].startswith("_"), s))
    return ranked[0] if ranked else symbols[0]


def _description(component: ComponentDraft, material: Material) -> str:
    numbers = material.sites.numbers(material.program)
    classes = {c.symbol: c for c in material.program.classes}
    mains = [t.symbol for t in component.tiers if t.by == "llm"] or [component.entry]
    for owner in dict.fromkeys(symbol.rpartition(".")[0] for symbol in mains):
        if owner in classes and (text := _first_line(classes[owner].ir.body)):
            return text[:200]
    for symbol in (*mains, component.entry, *component.symbols):
        number = numbers.get(symbol)
        if number is not None:
            text = _first_line(material.program.functions[number].ir.body)
            if text:
                return text[:200]
    for symbol in component.symbols:
        if symbol in classes and (text := _first_line(classes[symbol].ir.body)):
            return text[:200]
    return ""


def _first_line(body: Body) -> str:
    """Return the first line of a docstring; headings such as `Args:` give an empty text."""
    line = docstring(body).strip().split("\n")[0].strip()
    return "" if line.endswith(":") and len(line.split()) < 3 else line
