"""Finds loops of agents in graphs: cycles of a node that asks a model and one that runs what it calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gapwatch.design.agents.agent_loop import ERROR, AgentLoop, LoopExit
from gapwatch.design.agents.exit_causes import ExitCauses
from gapwatch.design.agents.told_errors import errors_of_tools, once_each, tool_errors
from gapwatch.design.agents.turns import acts, turn_of
from gapwatch.design.patterns.code_walk import constants_in, keyword, target_names, text_of, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.node_graph import NodeGraph
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    handler_body,
    handlers_of,
    is_call,
    line_of,
    orelse_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name

_ENDS = frozenset({"END", "__end__"})


def graph_loops(graphs: Iterable[NodeGraph], some: Subject, distances: dict[str, int]) -> list[AgentLoop]:
    """Return the loops of agents in graphs.

    Args:
        graphs: Graphs of the program.
        some: Any function, by which others are found.
        distances: Calls to the nearest model by symbol.
    """
    out: dict[str, AgentLoop] = {}
    models = {symbol for symbol, distance in distances.items() if distance == 0}
    for graph in graphs:
        for node in sorted(graph.nodes):
            inside = graph.cycle_of(node)
            subject = next((s for symbol in graph.nodes[node] if (s := some.other(symbol)) is not None), None)
            if not inside or node in graph.tools or subject is None:
                continue
            others = [s for n in sorted(inside - {node}) for x in graph.nodes[n] if (s := some.other(x)) is not None]
            has_tools = bool(inside & graph.tools) or any(acts(o.statements, o.calls) for o in others)
            if has_tools and _chooses(graph, node, models) and turn_of(subject, subject.ir.body, models).asks:
                out.setdefault(subject.symbol, _loop(graph, inside, subject, [subject, *others]))
    return [out[symbol] for symbol in sorted(out)]


def _chooses(graph: NodeGraph, node: str, models: set[str]) -> bool:
    """Return whether what a node gives chooses the next one, or goes to one that runs tools and comes straight back."""
    following = {d for s, d in graph.links if s == node}
    if node in graph.choosing or following & graph.tools:
        return True
    return any((other, node) in graph.links and models.isdisjoint(graph.nodes.get(other, ())) for other in following)


def _loop(graph: NodeGraph, inside: set[str], subject: Subject, functions: list[Subject]) -> AgentLoop:
    names = set(inside)
    routers = {s: names_by for s, names_by in graph.routers.items() if set(names_by.values()) & names}
    asked = [s for symbol in routers if (s := subject.other(symbol)) is not None]
    exits = [e for one in [*functions, *asked] for e in _exits(one, graph, names, routers.get(one.symbol))]
    if not any(e.how == "done" for e in exits):
        exits = [
            LoopExit(e.path, e.line, e.symbol, "done", e.why, e.flag, True) if e.how == "no_tool_call" else e
            for e in exits
        ]
    told = {h for one in functions for h in (*tool_errors(one, one.statements), *errors_of_tools(one))}
    told = once_each((s for h in sorted({h.symbol for h in told}) if (s := subject.other(h)) is not None), told)
    limit = next((e.why for e in exits if e.how == "limit"), "")
    path = subject.program.path(subject.info)
    line, end = subject.ir.line, subject.ir.end
    return AgentLoop(
        path,
        line,
        subject.symbol,
        end,
        "graph",
        line,
        "",
        tuple(sorted(set(exits))),
        tuple(sorted(told)),
        (),
        False,
        limit,
    )


def _exits(subject: Subject, graph: NodeGraph, inside: set[str], routes: dict[str, str] | None) -> Iterator[LoopExit]:
    bound: dict[str, Expr] = {}
    for s in subject.statements:
        if s[0] == "assign" and (value := value_of(s)) is not None:
            bound.update((name, value) for t in targets_of(s) for name in target_names(t))
    causes = ExitCauses(bound)
    path = subject.program.path(subject.info)
    for s, tests, is_handled in _returns(subject.ir.body, (), False):
        value = value_of(s)
        targets = _targets(value, bound) if value is not None else []
        if routes is not None:
            targets = [routes.get(t, t) for t in targets]
        found = causes.of(tests)
        leads_out = bool(targets) and not set(targets) & inside and bool(set(targets) & ({*graph.nodes} | _ENDS))
        if not leads_out:
            # A node that gives up without a word to the graph: `if remaining_steps < 2: return apology`.
            found = [f for f in found if f[0] == "limit"] if not targets and routes is None else []
            if not found:
                continue
        elif is_handled:
            found = [(ERROR, f"handler of line {line_of(s)}", "")]
        found = found or [("done", text_of(value)[:100] if value is not None else "return", "")]
        if len({f[0] for f in found}) > 1 and not all(flag for _, _, flag in found):
            found = [min(found, key=lambda f: ("limit", ERROR, "no_tool_call", "stopped", "done").index(f[0]))]
        if len(found) == 1 and found[0][0] == "limit":
            # Nothing tells a run at its limit from one that is done in its last round.
            continue
        for how, why, flag in found:
            good = how in ("done", "stopped")
            yield LoopExit(path, line_of(s), subject.symbol, how, why, flag if len(found) > 1 else "", good)


def _targets(value: Expr, bound: dict[str, Expr]) -> list[str]:
    """Return the nodes that a returned value names: a text, `END`, or the `goto` of a command."""
    gotos = [keyword(c, "goto") for c in walk(value) if is_call(c) and last_name(c) in ("Command", "Send")]
    if gotos:
        named = [bound.get(g[1], g) if g[0] == "n" else g for g in gotos if g is not None]
        return [t for g in named for t in (*constants_in(g), *(_name(x) for x in walk(g))) if t]
    if value[0] == "k" and isinstance(value[1], str):
        return [value[1]]
    return [value[1]] if value[0] == "n" and value[1] in _ENDS else []


def _name(e: Expr) -> str:
    return str(e[1]) if e[0] == "n" and e[1] in _ENDS else ""


_Found = tuple[Stmt, tuple[tuple[Expr, bool], ...], bool]
"""A `return`, the conditions around it, and whether it stands in a handler."""


def _returns(body: Body, tests: tuple[tuple[Expr, bool], ...], is_handled: bool) -> Iterator[_Found]:
    before: tuple[tuple[Expr, bool], ...] = ()
    for s in body:
        if s[0] == "return":
            yield s, (*tests, *before), is_handled
        elif s[0] == "if":
            passed: tuple[tuple[Expr, bool], ...] = ()
            for test, block in branches_of(s):
                yield from _returns(block, (*tests, *before, *passed, (test, True)), is_handled)
                passed = (*passed, (test, False))
            yield from _returns(s[3], (*tests, *before, *passed), is_handled)
            blocks = [block for _, block in branches_of(s)]
            if not s[3] and all(b and b[-1][0] == "return" for b in blocks):
                # What follows runs where none of the conditions holds.
                before = (*before, *passed)
        elif s[0] == "try":
            yield from _returns(body_of(s), (*tests, *before), is_handled)
            for handler in handlers_of(s):
                yield from _returns(handler_body(handler), (*tests, *before), True)
            yield from _returns(orelse_of(s), (*tests, *before), is_handled)
        elif s[0] in ("for", "while", "with"):
            yield from _returns(body_of(s), (*tests, *before), is_handled)
