"""Builds components: groups of code that do one work of the pipeline, at most 80."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from gapwatch.design.architecture.component_names import identifier_of, parts_of, title_of
from gapwatch.design.architecture.groups import CodeGroups, is_way_in
from gapwatch.design.architecture.material import JOBS, Material, Unit
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.architecture.tiers import tiers_of
from gapwatch.design.callgraph.graph import Symbol
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.library_uses import LibraryUse
from gapwatch.design.source.ir import Body, docstring
from gapwatch.design.source.program import last_name

#: Most components of a design. The report folds them by folder; larger applications are joined by file, then by folder.
MAX_COMPONENTS = 80
#: Units from which a component is described by its parts instead of one docstring.
_MANY = 5
#: Largest number of calls between a unit and a model at which the unit counts as part of the pipeline.
_MAX_DISTANCE = 8
#: Calls from a unit of the pipeline within which others belong to it.
_DOWNSTREAM = 4

#: Loops of agents in the methods of one class from which each of them is a component of its own.
_AGENTS = 3
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
    groups = _relevant(CodeGroups(_units(material, uses), material).made(), material)
    used: set[str] = set()
    components = [_component(group, material, used) for group in groups]
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
    data, phases = _data_classes(material), _phases(material, by_symbol)
    for symbol in graph.symbols:
        if symbol.tags or not symbol.path:
            continue
        owner = _owner(symbol, by_symbol, phases)
        jobs = _jobs(uses_by[symbol.id], hits_by[symbol.id])
        unit = units.get(owner.id)
        if unit is None:
            unit = Unit(owner.id, owner.id.rpartition(".")[2], symbol.path)
            unit.is_class, unit.is_module = owner.kind == "class", owner.kind == "module"
            unit.is_data = owner.id in data
            unit.agent = unit.name if owner.id in phases else ""
            units[owner.id] = unit
        unit.symbols.append(symbol.id)
        unit.paths.add(symbol.path)
        unit.uses += uses_by[symbol.id]
        unit.hits += hits_by[symbol.id]
        unit.jobs.update(jobs)
        unit.weight += material.salience.get(symbol.path, 0.0) / 10 + len(hits_by[symbol.id]) + len(uses_by[symbol.id])
        unit.distance = min(unit.distance, material.distances.get(symbol.id, 99))
    return [units[key] for key in sorted(units)]


#: Bases and decorators of classes that hold values, declare an interface, or are raised.
_DATA = re.compile(
    r"(^|\.)(BaseModel|TypedDict|NamedTuple|\w*Enum|Protocol|Exception|\w*Error|BaseSettings|dataclass|define)$"
)


def _data_classes(material: Material) -> set[str]:
    """Return the classes that only hold values, declare an interface, or are raised, with those that refine them."""
    classes = material.program.classes
    out: set[int] = set()
    for made in classes:
        decorators = [last_name(d) for d in made.ir.decorators]
        if any(_DATA.search(base) for base in (*made.outside, *decorators)):
            out.add(made.number)
    pending = sorted(out)
    while pending:
        following = sorted({n for number in pending for n in classes[number].subclasses if n not in out})
        # A class that refines an interface does the work; one that refines values holds values.
        pending = [
            n
            for n in following
            if not any(base.endswith("Protocol") for b in classes[n].bases for base in classes[b].outside)
        ]
        out.update(pending)
    return {classes[number].symbol for number in out}


def _phases(material: Material, by_symbol: dict[str, Symbol]) -> set[str]:
    """Return the methods that are agents of their own: three or more methods of one class that ask in a loop."""
    held: dict[str, set[str]] = defaultdict(set)
    looping = {loop.symbol for loop in material.loops}
    looping |= {hit.symbol for hit in material.hits if hit.pattern == "has_retry_loop" and hit.kind == "limit"}
    for key in looping & by_symbol.keys():
        parent = by_symbol.get(by_symbol[key].parent)
        if parent is not None and parent.kind == "class":
            held[parent.id].add(key)
    return {method for methods in held.values() if len(methods) >= _AGENTS for method in methods}


def _owner(symbol: Symbol, by_symbol: dict[str, Symbol], phases: set[str]) -> Symbol:
    """Return the outermost class or function around a symbol, or its module; a phase owns what is inside it."""
    current = symbol
    while current.id not in phases:
        parent = by_symbol.get(current.parent)
        if parent is None or parent.kind == "module" or not current.parent:
            return current
        current = parent
    return current


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


def _relevant(groups: list[list[Unit]], material: Material) -> list[list[Unit]]:
    """Return the groups of the pipeline, most important first, at most `MAX_COMPONENTS`.

    A group belongs to it if it is a way in, lies near a model, or does work that such a group reaches.
    """
    symbols = {s.id: s for s in material.graph.symbols}
    first = [g for g in groups if _has_code(g, symbols) and (_is_near(g) or _is_way_in(g, symbols))]
    downstream = _reachable(material, {s for g in first for u in g for s in u.symbols})
    callers: dict[str, set[str]] = defaultdict(set)
    named: dict[str, set[str]] = defaultdict(set)
    for edge in material.graph.edges:
        callers[edge.dst].add(edge.src)
        if edge.kind != "cha":
            named[edge.dst].add(edge.src)
    inside = {s for g in first for u in g for s in u.symbols}
    ranked: list[tuple[tuple[int, int, float, str], list[Unit]]] = []
    for group in groups:
        if not _has_code(group, symbols) or _is_dead(group, named, material):
            continue
        distance = min(u.distance for u in group)
        works = any(u.job not in ("", "flow", "parse") or u.is_asking for u in group)
        is_tool = any(u.is_tool for u in group)
        is_first = _is_near(group) or _is_way_in(group, symbols)
        mine = {s for u in group for s in u.symbols}
        outside = {c for s in mine for c in callers[s]} - mine
        is_called = not outside.isdisjoint(inside)
        is_behind = bool(downstream & mine)
        has_hits = any(u.hits for u in group)
        if is_first or is_behind or is_tool or (works and (has_hits or not first) and (outside or not first)):
            rank = 0 if distance <= 1 else 1 if is_first else 2 if works or is_tool else 3
            ranked.append(((rank, not is_called, -sum(u.weight for u in group), group[0].key), group))
    ranked.sort(key=lambda one: one[0])
    chosen = _fitted([group for _, group in ranked])
    return sorted(chosen, key=lambda group: group[0].key)


def _fitted(groups: list[list[Unit]]) -> list[list[Unit]]:
    """Return at most `MAX_COMPONENTS` groups: those of the fullest files are joined, then of the fullest folders.

    Args:
        groups: Groups, most important first.
    """
    for depth in (0, 1, 2, 3):
        while len(groups) > MAX_COMPONENTS:
            counts = Counter(_folded(group, depth) for group in groups)
            place, count = max(sorted(counts.items()), key=lambda one: one[1])
            if count < 2:
                break
            *_, kept, last = (group for group in groups if _folded(group, depth) == place)
            groups = [group for group in groups if group is not last]
            kept.extend(last)
    return groups[:MAX_COMPONENTS]


def _folded(group: list[Unit], depth: int) -> str:
    """Return the file of a group, or the folder that many levels above it."""
    parts = group[0].path.split("/")
    return "/".join(parts[: max(len(parts) - depth, 1)]) if depth < len(parts) else ""


def _is_dead(group: list[Unit], callers: dict[str, set[str]], material: Material) -> bool:
    """Return whether a group is classes that nothing outside calls by their name, and that no other file names."""
    mine = {s for u in group for s in u.symbols}
    working = [u for u in group if not u.is_data and not u.is_module]
    if not working or not all(u.is_class for u in working) or any(callers[s] - mine for s in mine):
        return False
    classes = {c.symbol: c for c in material.program.classes}
    made = [classes[u.key] for u in working if u.key in classes]
    beside = {
        material.program.classes[n].ir.name
        for c in made
        for base in c.bases
        for n in material.program.classes[base].subclasses
    } - {u.name for u in working}
    paths = {p for u in group for p in u.paths}
    # Without another class that is used in its place, it is what a library offers.
    return (
        bool(beside)
        and _is_named(beside, set(), material)
        and not _is_named({u.name for u in working}, paths, material)
    )


def _is_named(names: set[str], apart: set[str], material: Material) -> bool:
    """Return whether a file imports one of some names, some files apart."""
    written = re.compile(rb"import\b.*\b(" + b"|".join(re.escape(name).encode() for name in sorted(names)) + rb")\b")
    files = (f for f in material.program.files if f is not None and not f.tags and f.path not in apart)
    return any(written.search(file.source) for file in files)


def _has_code(group: list[Unit], symbols: dict[str, Symbol]) -> bool:
    working = [u for u in group if not u.is_data or u.hits or u.jobs]
    return any(symbols[s].kind == "function" for u in working for s in u.symbols) or any(u.is_asking for u in group)


def _is_near(group: list[Unit]) -> bool:
    return any(u.distance <= _MAX_DISTANCE or any(use.capability == "framework" for use in u.uses) for u in group)


def _is_way_in(group: list[Unit], symbols: dict[str, Symbol]) -> bool:
    return any(u.agent or any(is_way_in(symbols[s]) for s in u.symbols) for u in group)


def _reachable(material: Material, start: set[str]) -> set[str]:
    callees: dict[str, list[str]] = defaultdict(list)
    for edge in material.graph.edges:
        callees[edge.src].append(edge.dst)
    seen, frontier = set(start), sorted(start)
    for _ in range(_DOWNSTREAM):
        frontier = sorted({d for s in frontier for d in callees[s] if d not in seen})
        seen.update(frontier)
    return seen


# -- components ----------------------------------------------------------------------------------------------------


def _component(group: list[Unit], material: Material, used: set[str]) -> ComponentDraft:
    symbols = sorted({s for u in group for s in u.symbols})
    entry = _entry(symbols, material)
    inside = set(symbols)
    known = {s.id: s for s in material.graph.symbols if s.id in inside}
    ways_in = [u for u in group if any(is_way_in(known[s]) for s in u.symbols)]
    main = _main(ways_in or group)
    identifier = identifier_of(group, main, used, len(ways_in))
    component = ComponentDraft(
        identifier,
        title_of(identifier),
        sorted({p for u in group for p in u.paths}),
        symbols,
        entry,
        sorted((use for u in group for use in u.uses), key=lambda u: (u.place.path, u.place.line, u.dotted)),
        sorted({hit for u in group for hit in u.hits}),
    )
    component.routes = [route for route in material.routes if route.symbol in inside]
    component.loops = [loop for loop in material.loops if loop.symbol in inside]
    distance = min(u.distance for u in group)
    component.distance = distance if distance < 99 else None
    component.tiers = tiers_of(component, material)
    component.description = _description(component, material) if len(group) < _MANY else parts_of(group)
    return component


def _main(group: list[Unit]) -> Unit:
    """Return the unit that names a group: an agent, a class with most weight, or the unit nearest to a model."""
    return min(
        group,
        key=lambda u: (
            not u.agent,
            u.is_module,
            u.is_data and not u.hits,
            u.distance,
            -u.weight,
            not u.is_class,
            u.key,
        ),
    )


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
