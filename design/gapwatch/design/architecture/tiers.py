"""Finds the tiers of a component: its functions that give answers, each monitored on its own."""

from __future__ import annotations

import re
from collections import Counter

from gapwatch.design.architecture.component_names import snake, unique
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import ComponentDraft, TierDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.verify import CALL_KINDS
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.outside_calls import model_depths

#: Most functions of one component that are monitored as tiers of a model; those with most callers come first.
MAX_TIERS = 8
#: Shortest prompt that makes its function a tier, in characters; shorter ones only complete another prompt.
_MIN_ASKED = 80


def tiers_of(component: ComponentDraft, material: Material) -> list[TierDraft]:
    """Return the alternatives of cascades in their order, then the functions that call a model."""
    numbers = material.sites.numbers(material.program)
    out: dict[str, TierDraft] = {}
    first_llm = {hit.symbol for hit in component.hits if hit.pattern == "calls_llm" and hit.kind == "direct"}
    some = next(iter(numbers.values()), None)
    depths = (
        model_depths(Subject(material.program, material.sites, material.program.functions[some]))
        if some is not None
        else {}
    )

    def add(symbol: str, ordered: bool) -> None:
        number = numbers.get(symbol)
        if number is None or symbol in out:
            return
        info = material.program.functions[number]
        by = "llm" if symbol in first_llm or symbol in depths else "rule"
        place = CodePlace(material.program.path(info), info.ir.line, info.ir.end)
        owner, _, last = symbol.rpartition(".")
        if names[last] > 1:
            last = f"{owner.rpartition('.')[2]}_{last}"
        out[symbol] = TierDraft(unique(snake(last) or "tier", taken), by, symbol, place, ordered)

    taken: set[str] = set()
    names = Counter(symbol.rpartition(".")[2] for symbol in first_llm)
    for hit in component.hits:
        if hit.pattern == "has_cascade":
            for name in re.findall(r"([\w.]+)(?=, (?:else|if empty)| or |$| \(line| until)", hit.evidence):
                last = name.rpartition(".")[2]
                for edge in material.sites.callees[hit.symbol]:
                    inside = any(hit.line <= line <= hit.end for _, line in edge.sites)
                    if edge.kind in CALL_KINDS and inside and edge.dst.rpartition(".")[2] == last:
                        add(edge.dst, True)
    callers = {s: len({e.src for e in material.sites.callers[s] if e.src not in first_llm}) for s in first_llm}
    for symbol in sorted(first_llm, key=lambda s: (material.distances.get(s, 9), -min(callers[s], 3), s)):
        if sum(tier.by == "llm" for tier in out.values()) < MAX_TIERS:
            add(symbol, False)
    return list(out.values())


def prompted_tiers(component: ComponentDraft, prompts: list[Prompt], graph: CallGraph) -> list[TierDraft]:
    """Return the functions that call a model through a shared client with a prompt of their own.

    Tokens, times and costs stay with the client. Whether there is an answer, and whether it follows the prompt, is
    checked for each prompt.

    Args:
        component: The component.
        prompts: Its prompts.
        graph: The call graph.
    """
    known = {tier.symbol for tier in component.tiers}
    through = {h.symbol for h in component.hits if h.pattern == "calls_llm" and h.kind != "direct"}
    asked = {p.symbol: max(len(q.text) for q in prompts if q.symbol == p.symbol) for p in prompts}
    functions = {s.id: s for s in graph.symbols if s.kind == "function"}
    taken = {tier.id for tier in component.tiers}
    out: list[TierDraft] = []
    room = MAX_TIERS - sum(tier.by == "llm" for tier in component.tiers)
    for symbol in sorted((through - known) & set(asked) & set(functions), key=lambda s: (-asked[s], s)):
        if asked[symbol] >= _MIN_ASKED and len(out) < room:
            found = functions[symbol]
            name = unique(snake(symbol.rpartition(".")[2]) or "tier", taken)
            out.append(TierDraft(name, "llm", symbol, CodePlace(found.path, found.line, found.end)))
    return sorted(out, key=lambda tier: (tier.place.path, tier.place.line))
