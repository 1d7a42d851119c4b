"""Spans that the pipeline must emit: function, span name, fields, and the metrics that need them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.callgraph.graph import CallGraph, Symbol
from gapwatch.design.patterns.hit import FAILS_WHOLE
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.page_modules import page_modules

#: Fields that each pattern needs in the span of its function.
PATTERN_FIELDS: dict[str, tuple[str, ...]] = {
    "has_try_except": ("status", "error_type", "attributes.swallowed_errors"),
    "has_retry_loop": ("attributes.retry_count", "attributes.retry_outcome"),
    "has_cascade": ("tier", "attributes.fallback_depth"),
    "parses_json": ("attributes.parsed_text",),
    "calls_external_api": ("status", "error_type", "started_at", "ended_at"),
    "calls_llm": (
        "input",
        "output",
        "model",
        "status",
        "started_at",
        "ended_at",
        "usage.input_tokens",
        "usage.output_tokens",
        "usage.cost_usd",
        "attributes.finish_reason",
        "attributes.model_errors",
    ),
    "has_cache": ("attributes.cache",),
    "has_db_write": ("status", "error_type", "attributes.rows_written"),
    "streams_response": ("attributes.first_chunk_seconds", "attributes.stream_outcome"),
    "has_queue": ("attributes.queue_wait_seconds",),
    "has_circuit_breaker": ("attributes.breaker",),
    "returns_failure": ("attributes.answer_outcome", "attributes.retrieved_count"),
    **dict.fromkeys(FAILS_WHOLE, ("attributes.request_outcome",)),
    "runs_agent": ("attributes.agent_exit", "attributes.agent_steps", "status", "error_type"),
    "tells_model_error": ("attributes.tool_errors", "attributes.format_errors"),
    "cuts_context": ("attributes.context_outcome",),
    "runs_code": ("attributes.answer_outcome", "status", "error_type"),
}
#: What a model was last sent below a function, and what it said to that.
OF_EXCHANGE = ("attributes.model_prompt", "attributes.model_reply")
#: Values of the fields, for the practitioner who emits them.
VALUES: dict[str, str] = {
    "attributes.swallowed_errors": "number of exceptions that the handler swallowed, 0 included",
    "attributes.retry_count": "number of attempts after the first, 0 included",
    "attributes.retry_outcome": "first_try, recovered (succeeded where nobody knows which of both) or exhausted",
    "attributes.fallback_depth": "0 for the first tier, 1 for the next, ...",
    "attributes.parsed_text": "text that the parser gets",
    "attributes.cache": "hit or miss",
    "attributes.rows_written": "number of rows or vectors written",
    "attributes.first_chunk_seconds": "seconds from the call to the first chunk",
    "attributes.stream_outcome": "completed, aborted or empty",
    "attributes.queue_wait_seconds": "seconds from queueing to processing",
    "attributes.breaker": "closed, open or half_open",
    "attributes.answer_outcome": "answered, nothing where a search found none, or failed where it stands for a failure",
    "attributes.request_outcome": "answered, refused for a fault of the request, or failed, whatever its status says",
    "attributes.agent_exit": "how the run ended, in the words of the claim; none while it goes on",
    "attributes.agent_steps": "number of rounds, in each of which the model is asked",
    "attributes.tool_errors": "calls of tools that failed, 0 included: an exception left one, or the model was told",
    "attributes.model_errors": "calls of models without a reply, 0 included; none where no model was called",
    "attributes.format_errors": "number of answers without the right form, 0 included",
    "attributes.context_outcome": "whole, or cut where something was left out because it did not fit",
    "attributes.retrieved_count": "number of passages returned; of a search that gives a text 0 for nothing, else 1",
    "attributes.finish_reason": "as the provider reports it: stop, length, content_filter, ...",
    "attributes.model_prompt": "what the model was last sent: instructions and messages with all that fills them",
    "attributes.model_reply": "what it said to that",
    "tier": "id of the tier that answered",
}
_KINDS = (
    ("llm_chat", "llm"),
    ("guardrail", "guardrail"),
    ("rerank", "rerank"),
    ("retrieval", "retrieval"),
    ("embedding", "embedding"),
    ("http", "tool"),
    ("web_search", "tool"),
    ("saas", "tool"),
    ("tool", "tool"),
    ("db_write", "tool"),
    ("vector_write", "tool"),
    ("db_execute", "tool"),
)


@dataclass
class IntegrationPoint:
    """A span to emit.

    Attributes:
        component: Id of the component.
        name: Name of the span.
        kind: Kind of the span, such as `llm`.
        symbol: Dotted name of the function.
        place: The function; emit the span around its body.
        fields: Fields that the span must carry.
        why: Patterns, uses and tiers that need the span.
        blind: Metrics that are undecided without it.
        held_at: Lines at which it asks a model: 0 where a judge reads the exchange, 1 where it asks again afterwards.
    """

    component: str
    name: str
    kind: str
    symbol: str
    place: CodePlace
    fields: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)
    held_at: dict[int, int] = field(default_factory=dict)

    @property
    def is_first(self) -> bool:
        """True if it belongs to the first step: it calls a model, retrieves, or is a tier or the entry."""
        return any(w.startswith(("tier ", "calls_llm ", "retrieval ", "rerank ", "the way in")) for w in self.why)


def integration_points(
    architecture: Architecture, graph: CallGraph, distances: dict[str, int]
) -> list[IntegrationPoint]:
    """Return the spans of all components, one for each function that shows something to monitor.

    Args:
        architecture: The components.
        graph: The call graph.
        distances: Calls to the nearest model by symbol.
    """
    symbols = {s.id: s for s in graph.symbols}
    every = page_modules(graph)
    out: list[IntegrationPoint] = []
    serving = _serving(graph)
    for component in architecture.components:
        points: dict[str, IntegrationPoint] = {}
        asking = {h.symbol for h in component.hits if h.pattern == "calls_llm" and h.kind == "direct"}
        pages = every & asking

        def point(
            symbol: str,
            component: ComponentDraft = component,
            points: dict[str, IntegrationPoint] = points,
            pages: frozenset[str] = pages,
        ) -> IntegrationPoint | None:
            found = symbol if symbol in pages else _function(symbol, symbols)
            if found is None or found in serving:
                return None
            if found not in points:
                s = symbols[found]
                name = span_name(found, symbols)
                points[found] = IntegrationPoint(
                    component.id, name, _kind(component, found), found, CodePlace(s.path, s.line, s.end)
                )
            return points[found]

        chosen = _chosen(component, graph, distances)
        for hit in component.hits:
            if (hit.pattern == "calls_llm" and hit.kind != "direct") or hit.symbol not in chosen:
                continue
            made = point(hit.symbol)
            if made is not None:
                made.fields += [f for f in PATTERN_FIELDS[hit.pattern] if f not in made.fields]
                made.why.append(f"{hit.pattern} at {hit.path}:{hit.line}")
        for use in component.uses:
            if use.capability in _WATCHED_USES and use.symbol in chosen:
                made = point(use.symbol)
                if made is not None:
                    extra = ["status", "error_type", "started_at", "ended_at"]
                    if use.capability in ("retrieval", "rerank"):
                        extra = ["attributes.retrieved_count", "output", *extra]
                    made.fields += [f for f in extra if f not in made.fields]
                    made.why.append(f"{use.capability} at {use.place}")
        for tier in component.tiers:
            made = point(tier.symbol)
            if made is not None:
                extra = ["input", "output", "status", "error_type", "started_at", "ended_at", "tier"]
                made.fields += [f for f in extra if f not in made.fields]
                made.why.append(f"tier {tier.id}, by {tier.by}")
        if not points and (made := point(component.entry)) is not None:
            made.fields += ["status", "error_type", "started_at", "ended_at"]
            made.why.append("the way into the component")
        if any(t.by == "llm" or t.is_ordered for t in component.tiers):
            for made in points.values():
                if made.kind == "llm" and "tier" not in made.fields:
                    made.fields.append("tier")
        out += [points[key] for key in sorted(points)]
    for made in out:
        made.why = sorted(set(made.why))
    return out


#: Most functions of one component that are asked for a span for one pattern. Nobody instruments hundreds; the report
#: counts the functions that are left out.
MAX_FUNCTIONS = 4
#: Most functions of one component in which runs begin, such as the nodes of a graph; each may be the one that fails.
MAX_ROOTS = 12
#: Most tools of one component; any of them may be the one that fails.
MAX_TOOLS = 12
#: Most functions of one component that are asked for a span for one capability (searching, embedding, guarding).
MAX_USES = 6
#: Order in which patterns choose their functions, the most telling about an answer first. Later patterns prefer
#: functions that are chosen already.
_ORDER = (
    "runs_agent",
    "tells_model_error",
    *FAILS_WHOLE,
    "has_cascade",
    "parses_json",
    "runs_code",
    "has_cache",
    "has_circuit_breaker",
    "has_retry_loop",
    "streams_response",
    "has_queue",
    "calls_external_api",
    "has_db_write",
    "has_try_except",
    "returns_failure",
    "cuts_context",
)
#: Calls that serve requests or messages until the program ends.
_SERVES = re.compile(
    r"(^|\.)(run_polling|start_polling|infinity_polling|run_webhook|run_forever|serve_forever|run_until_disconnected"
    r"|start_consuming|uvicorn\.run|hypercorn\.run|waitress\.serve|web\.run_app)$|^(flask|discord|pyrogram|telethon)\b.*\.run$"
)
_WATCHED_USES = ("retrieval", "rerank", "embedding", "guardrail")


def _chosen(component: ComponentDraft, graph: CallGraph, distances: dict[str, int]) -> set[str]:
    """Return the functions to ask for a span: model calls, searches, and the few functions next to them."""
    asking = {h.symbol for h in component.hits if h.pattern == "calls_llm" and h.kind == "direct"}
    tiers = [t.symbol for t in component.tiers]
    core = {s for s in asking if any(s == t or s.startswith(f"{t}.") for t in tiers)} | {component.entry, *tiers}
    near = {e.src for e in graph.edges if e.dst in core} | {e.dst for e in graph.edges if e.src in core}
    called = Counter(e.dst for e in graph.edges)
    kept = set(core)

    def choose(ranks: dict[str, tuple[bool, str, int]], limit: int) -> None:
        # A function without callers rarely serves the user, so it comes late.
        order = sorted(ranks, key=lambda s: (s not in core, s not in kept, s not in near, not called[s], ranks[s], s))
        kept.update(order[:limit])

    for capability in _WATCHED_USES:
        uses = [u for u in component.uses if u.capability == capability]
        choose({u.symbol: (False, u.place.path, u.place.line) for u in uses}, MAX_USES)
    for pattern in _ORDER:
        ranks: dict[str, tuple[bool, str, int]] = {}
        for hit in component.hits:
            if hit.pattern == pattern:
                # Swallowed errors are visible nowhere else, so their handlers come first; wrapped calls come last.
                rank = (hit.kind in ("translates", "reraises", "wrapped", "tool"), hit.path, hit.line)
                ranks[hit.symbol] = min(rank, ranks.get(hit.symbol, rank))
        if pattern in FAILS_WHOLE:
            # Nothing in the program calls them; those nearest to a model give the answers that matter.
            kept.update(sorted(ranks, key=lambda s: (distances.get(s, 99), ranks[s], s))[:MAX_ROOTS])
        else:
            choose(ranks, MAX_TOOLS if pattern == "tells_model_error" else MAX_FUNCTIONS)
    return kept


def _serving(graph: CallGraph) -> set[str]:
    """Return the functions that serve until the program ends: all requests would be in the one trace of their span."""
    found = {e.src for e in graph.externals if _SERVES.search(e.dotted)}
    return found | {one.src for one in graph.unresolved if _SERVES.search(one.text.removesuffix("()"))}


def functions_without_span(architecture: Architecture, points: list[IntegrationPoint]) -> dict[str, dict[str, int]]:
    """Return for each component the number of functions without a requested span, by pattern."""
    out: dict[str, dict[str, int]] = {}
    for component in architecture.components:
        asked = {p.symbol for p in points if p.component == component.id}
        left: dict[str, set[str]] = {}
        for hit in component.hits:
            is_told = hit.symbol in asked or any(hit.symbol.startswith(f"{a}.") for a in asked)
            if not is_told and (hit.pattern != "calls_llm" or hit.kind == "direct"):
                left.setdefault(hit.pattern, set()).add(hit.symbol)
        if left:
            out[component.id] = {pattern: len(left[pattern]) for pattern in sorted(left)}
    return out


def _function(symbol: str, symbols: dict[str, Symbol]) -> str | None:
    """Return the function of a symbol, for a lambda the function around it; None for modules and classes."""
    current = symbol
    for _ in range(12):
        found = symbols.get(current)
        if found is None:
            return None
        if found.kind == "function":
            return current
        if found.kind in ("module", "class"):
            return None
        current = found.parent
    return None


def span_name(symbol: str, symbols: dict[str, Symbol]) -> str:
    """Return `function` or `Class.method`."""
    found = symbols[symbol]
    parent = symbols.get(found.parent)
    name = symbol.rpartition(".")[2]
    if parent is not None and parent.kind == "class":
        return f"{found.parent.rpartition('.')[2]}.{name}"
    return name


def _kind(component: ComponentDraft, symbol: str) -> str:
    if any(loop.symbol == symbol and loop.kind != "graph" for loop in component.loops):
        return "agent"
    mine = {u.capability for u in component.uses if u.symbol == symbol or u.symbol.startswith(f"{symbol}.")}
    for capability, kind in _KINDS:
        if capability in mine:
            return kind
    patterns = {h.pattern for h in component.hits if h.symbol == symbol}
    if "parses_json" in patterns and "has_cascade" not in patterns:
        return "parse"
    if "has_cache" in patterns and component.distance is None:
        return "cache"
    return "chain" if component.distance is not None else "other"
