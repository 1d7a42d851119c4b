"""Functions whose model calls, or whose tries, another function inside them or around them counts already."""

from __future__ import annotations

import re

from gapwatch.design.architecture.reply_flow import is_tool_run
from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.patterns.code_walk import keyword, target_names
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Expr,
    call_line,
    handler_body,
    handlers_of,
    is_name,
    line_of,
    name_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import statements

#: Sums over the calls of a trace, in which the calls of a client and of whoever calls it must not both be.
_SUMMED = frozenset({"usage.cost_usd", "usage.total_tokens"})
#: Edges by which the same call goes on inward; a node of a graph that calls another one is none.
_DIRECT = frozenset({"call", "cha", "resume", "decorated", "construct"})
#: Most calls one below the other that are followed.
_MAX_DEPTH = 3
#: Libraries of pages.
_PAGES = frozenset({"streamlit", "gradio", "chainlit", "nicegui"})
#: Libraries whose models share base classes, and these.
_WITH_BASES = frozenset({"langchain", "langchain_core", "langchain_openai", "langchain_community", "llama_index"})
_ANY_MODEL = re.compile(
    r"^langchain\w*\..*\.(BaseChatModel|BaseLanguageModel|BaseLLM)$|^llama_index\..*\.(LLM|CustomLLM)$"
)
_CLASS = re.compile(r"^([a-z_][\w]*\.)+[A-Z]\w*")


def nested_model_call(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why the tokens of a call count elsewhere, or why it spends none."""
    field = metric.claim.get("field")
    if field not in (*_SUMMED, "attributes.model_errors"):
        return None
    subject = view.code.subject(symbol)
    hits = [h for h in view.hits_at("calls_llm", symbol, place) if h.line == place.line]
    if hits and all(map(is_tool_run, hits)):
        return "it runs a tool, which spends no tokens of its own"
    if subject is None or field not in _SUMMED:  # Of calls in each other the innermost that fails counts.
        return None
    if view.served is not None and _is_page_of_a_server(subject):
        return "the page asks the program's own server, which counts the same calls"
    calls = [c for c in subject.calls if call_line(c) == place.line]
    inner = _client_below(
        [e.dst for c in calls if not _is_mixed(subject, c) for e in _direct(subject, c)], symbol, view
    )
    asking = [c for c in calls if _asks(subject, c)]
    if inner is None and asking and all(_is_of_own_clients(subject, c, view) for c in asking):
        inner = "the class that extends the library's model"
    if inner is not None:
        return f"{inner} makes the same calls, so that their tokens would count twice"
    if _is_asked_as_its_base(subject, view):
        return "the functions that ask it as a model of the library count the same tokens"
    if _is_counted_above(symbol, view):
        return "each function that calls it counts the same tokens, beside those of other clients"
    return None


def _is_page_of_a_server(subject: Subject) -> bool:
    """Return whether a function draws a page and makes a client for an address that it puts together."""
    if not any(d.partition(".")[0] in _PAGES for d in subject.sites.externals_of(subject.symbol)):
        return False
    return any((at := keyword(call, "base_url")) is not None and at[0] in "fo" for call in subject.calls)


def _direct(subject: Subject, call: Expr) -> list[CallEdge]:
    return [edge for edge in subject.inside(call) if edge.kind in _DIRECT]


def _is_mixed(subject: Subject, call: Expr) -> bool:
    """Return whether a call may run a client of a library beside one of the repository."""
    named = subject.sites.named_at(subject.symbol, call)
    return any(subject.sites.catalog.capability(n) == "llm_chat" for n in named) and bool(_direct(subject, call))


def _client_below(frontier: list[str], symbol: str, view: CodeView) -> str | None:
    """Return the name of a function that calls the model and that some functions call or are."""
    seen = {symbol}
    for _ in range(_MAX_DEPTH):
        frontier = [f for f in frontier if f not in seen]
        seen.update(frontier)
        for f in frontier:
            if _has_call(f, view):
                return f.rpartition(".")[2]
        frontier = [e.dst for f in frontier for e in view.code.material.sites.callees.get(f, ()) if e.kind in _DIRECT]
    return None


def _is_counted_above(symbol: str, view: CodeView, depth: int = 0) -> bool:
    """Return whether each call of a function lies in one that calls models of libraries in the same line."""
    edges = [e for e in view.code.material.sites.callers.get(symbol, ()) if e.kind in _DIRECT and e.src != symbol]
    return (
        depth < _MAX_DEPTH
        and bool(edges)
        and all(_is_mixed_at(e, view) or _is_counted_above(e.src, view, depth + 1) for e in edges)
    )


def _is_mixed_at(edge: CallEdge, view: CodeView) -> bool:
    subject = view.code.subject(edge.src)
    lines = {line for _, line in edge.sites}
    calls = [c for c in subject.calls if call_line(c) in lines] if subject is not None else []
    return subject is not None and _has_call(edge.src, view) and any(_is_mixed(subject, c) for c in calls)


def _has_call(symbol: str, view: CodeView) -> bool:
    hits = view.code.material.hits_of(symbol)
    return any(h.pattern == "calls_llm" and h.kind == "direct" and not is_tool_run(h) for h in hits)


def _asks(subject: Subject, call: Expr) -> bool:
    return subject.reach(call).capability == "llm_chat"


def _is_of_own_clients(subject: Subject, call: Expr, view: CodeView) -> bool:
    """Return whether each model class of a library that a call may reach is one that own classes with calls extend."""
    if subject.info.owner >= 0 and view.own_clients.intersection(subject.program.classes[subject.info.owner].outside):
        return False
    catalog = subject.sites.catalog
    named = [n for n in subject.sites.named_at(subject.symbol, call) if catalog.capability(n) == "llm_chat"]
    classes = [found.group() for n in named if (found := _CLASS.match(n)) is not None]
    return bool(classes) and len(classes) == len(named) and set(classes) <= view.own_clients


def _is_asked_as_its_base(subject: Subject, view: CodeView) -> bool:
    """Return whether a method of a model class is run by calls of the base class of all models, elsewhere."""
    if subject.info.owner < 0:
        return False
    made = subject.program.classes[subject.info.owner]
    externals = [e for e in view.code.material.graph.externals if not e.src.startswith(f"{made.symbol}.")]
    asked = [e.dotted for e in externals if subject.sites.catalog.capability(e.dotted) == "llm_chat"]
    is_model = any(base.partition(".")[0] in _WITH_BASES and _CLASS.match(base) for base in made.outside)
    return is_model and any((found := _CLASS.match(d)) and _ANY_MODEL.search(found.group()) for d in asked)


def goes_on(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why a request does not fail where a handler binds nothing to a name: the function goes on without it."""
    if metric.claim.get("field") != "attributes.request_outcome":
        return None
    subject = view.code.subject(symbol)
    for s in subject.statements if subject is not None else ():
        for handler in handlers_of(s) if s[0] == "try" else ():
            body = handler_body(handler)
            if subject is None or not body or body[-1][0] in ("return", "raise", "break", "continue"):
                continue
            at = next((x for x in statements(body) if x[0] == "assign" and line_of(x) == place.line), None)
            if at is None or value_of(at) != ("k", None):
                continue
            bound = {name for t in targets_of(at) for name in target_names(t)}
            if bound.isdisjoint(str(name_of(e)) for e in subject.returned if is_name(e)):
                return "the function goes on without it and answers the request"
    return None
