"""Finds the tiers of a component: its functions that give answers, each monitored on its own."""

from __future__ import annotations

from collections import Counter

from gapwatch.design.architecture.component_names import snake, unique
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import ComponentDraft, TierDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.model_calls import model_depths
from gapwatch.design.routes.route import Route

#: Most functions of one component that are monitored as tiers of a model; those with most callers come first.
MAX_TIERS = 8
#: Shortest prompt that makes its function a tier, in characters; shorter ones only complete another prompt.
_MIN_ASKED = 80


def tiers_of(component: ComponentDraft, material: Material) -> list[TierDraft]:
    """Return the arms of routes in their order, then the functions that call a model."""
    numbers = material.sites.numbers(material.program)
    first_llm = {hit.symbol for hit in component.hits if hit.pattern == "calls_llm" and hit.kind == "direct"}
    some = next(iter(numbers.values()), None)
    depths = (
        model_depths(Subject(material.program, material.sites, material.program.functions[some]))
        if some is not None
        else {}
    )
    taken: set[str] = set()
    names = Counter(symbol.rpartition(".")[2] for symbol in first_llm)
    out = _arms(component, material, {*first_llm, *depths}, taken)
    known = {tier.symbol for tier in out if not is_inside_route(tier, component)}

    def add(symbol: str) -> None:
        number = numbers.get(symbol)
        if number is None or symbol in known:
            return
        known.add(symbol)
        info = material.program.functions[number]
        place = CodePlace(material.program.path(info), info.ir.line, info.ir.end)
        owner, _, last = symbol.rpartition(".")
        if names[last] > 1:
            last = f"{owner.rpartition('.')[2]}_{last}"
        out.append(TierDraft(unique(snake(last) or "tier", taken), "llm", symbol, place))

    callers = {s: len({e.src for e in material.sites.callers[s] if e.src not in first_llm}) for s in first_llm}
    for symbol in sorted(first_llm, key=lambda s: (material.distances.get(s, 9), -min(callers[s], 3), s)):
        if sum(tier.by == "llm" and not is_inside_route(tier, component) for tier in out) < MAX_TIERS:
            add(symbol)
    return out


def is_inside_route(tier: TierDraft, component: ComponentDraft) -> bool:
    """Return whether a tier is an arm that has no function of its own: a library call, a fixed text."""
    return tier.is_ordered and any(route.symbol == tier.symbol for route in component.routes)


def arm_tiers(route: Route, component: ComponentDraft) -> list[str]:
    """Return the ids of the tiers of a route in order; arms that only give a failure back have none."""
    ids = {(tier.symbol, tier.place.line, tier.place.path): tier.id for tier in component.tiers if tier.is_ordered}
    by_symbol = {tier.symbol: tier.id for tier in component.tiers if tier.is_ordered and tier.symbol != route.symbol}
    found = [by_symbol.get(a.symbol) or ids.get((a.symbol, a.line, route.path)) for a in route.answers]
    return list(dict.fromkeys(one for one in found if one is not None))


def _arms(component: ComponentDraft, material: Material, models: set[str], taken: set[str]) -> list[TierDraft]:
    numbers = material.sites.numbers(material.program)
    out: list[TierDraft] = []
    known: set[str] = set()
    for route in component.routes:
        for arm in route.answers:
            number = numbers.get(arm.symbol)
            if arm.symbol in known or number is None:
                continue
            by = "llm" if arm.by == "llm_chat" or (arm.symbol != route.symbol and arm.symbol in models) else "rule"
            place = CodePlace(route.path, arm.line)
            if arm.symbol != route.symbol:
                known.add(arm.symbol)
                info = material.program.functions[number]
                place = CodePlace(material.program.path(info), info.ir.line, info.ir.end)
            out.append(TierDraft(unique(snake(arm.tier) or "tier", taken), by, arm.symbol, place, True))
    return out


def prompted_tiers(component: ComponentDraft, prompts: list[Prompt], graph: CallGraph) -> list[TierDraft]:
    """Return the functions that call a model through a shared client with a prompt of their own.

    Tokens, times and costs stay with the client. Whether there is an answer, and whether it follows the prompt, is
    checked for each prompt.

    Args:
        component: The component.
        prompts: Its prompts.
        graph: The call graph.
    """
    known = {tier.symbol for tier in component.tiers if not is_inside_route(tier, component)}
    through = {h.symbol for h in component.hits if h.pattern == "calls_llm" and h.kind != "direct"}
    asked = {p.symbol: max(len(q.text) for q in prompts if q.symbol == p.symbol) for p in prompts}
    # A text of a data file is a task by itself.
    asked |= {p.symbol: max(asked[p.symbol], _MIN_ASKED) for p in prompts if not p.place.path.endswith(".py")}
    functions = {s.id: s for s in graph.symbols if s.kind == "function"}
    taken = {tier.id for tier in component.tiers}
    out: list[TierDraft] = []
    room = MAX_TIERS - sum(tier.by == "llm" and not is_inside_route(tier, component) for tier in component.tiers)
    for symbol in sorted((through - known) & set(asked) & set(functions), key=lambda s: (-asked[s], s)):
        if asked[symbol] >= _MIN_ASKED and len(out) < room:
            found = functions[symbol]
            name = unique(snake(symbol.rpartition(".")[2]) or "tier", taken)
            out.append(TierDraft(name, "llm", symbol, CodePlace(found.path, found.line, found.end)))
    return sorted(out, key=lambda tier: (tier.place.path, tier.place.line))


def named_routes(component: ComponentDraft) -> list[tuple[Route, str, str]]:
    """Return each route of a component with the prefix of its metrics and the id of its question.

    The only route of a component needs no prefix; others are called by their functions.
    """
    if len(component.routes) == 1:
        return [(component.routes[0], "", f"q-{component.id}-cascade")]
    taken: set[str] = set()
    out = []
    for route in component.routes:
        name = unique(snake(route.symbol.rpartition(".")[2]) or "route", taken)
        out.append((route, f"{name}_", f"q-{component.id}-{name}-cascade"))
    return out
