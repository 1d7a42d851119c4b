"""Finds the calls of pipelines whose functions a library runs by the names of their parameters, as Hamilton does.

`def answer(prompt, generator)` gets the result of the function `prompt` of its file, and what is handed over for
`generator`; a call names the last functions: `driver.execute(["answer"], inputs={"generator": made})`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.design.callgraph.graph import CallEdge, CallGraph
from gapwatch.design.patterns.code_walk import calls_in, constants_in, own_expressions, walk
from gapwatch.design.source.ir import (
    Expr,
    call_line,
    callee_of,
    is_call,
    is_member,
    is_name,
    is_text,
    name_of,
    owner_of,
    pairs_in,
    value_of,
)
from gapwatch.design.source.program import FunctionInfo, Program, last_name, statements

#: What a file says that hands itself to such a library.
_MARKS = (b"hamilton", b"sys.modules[__name__]")
_RUNS = frozenset({"execute", "materialize", "raw_execute"})


def pipeline_calls(program: Program, graph: CallGraph) -> list[CallEdge]:
    """Return the calls that the library makes, and those of what it hands over, that the graph does not hold."""
    out: list[CallEdge] = []
    for module, file in zip(program.index.modules, program.files, strict=True):
        if file is not None and all(mark in file.source for mark in _MARKS):
            inside = [info for info in program.functions if info.module == module.index]
            nodes = {
                info.ir.name: info for info in inside if info.owner < 0 and info.parent == program.bodies[module.index]
            }
            out += _runs(inside, nodes, module.path)
            out += _handed(inside, nodes, program, graph, module.path)
    known = {(e.src, e.dst) for e in graph.edges}
    return [e for e in out if (e.src, e.dst) not in known]


def _runs(inside: list[FunctionInfo], nodes: dict[str, FunctionInfo], path: str) -> Iterator[CallEdge]:
    """Yield the calls of the functions that a call of the library names, and of those whose results they get."""
    for info in inside:
        for call in calls_in(info.ir.body):
            if last_name(call) in _RUNS and call[2]:
                pending = [name for name in constants_in(call[2][0]) if name in nodes]
                found: dict[str, None] = {}
                while pending:
                    name = pending.pop()
                    if name not in found:
                        found[name] = None
                        pending += [p.name for p in nodes[name].ir.params if p.name in nodes]
                for name in found:
                    yield CallEdge(info.symbol, nodes[name].symbol, "framework", ((path, call_line(call)),))


def _handed(
    inside: list[FunctionInfo], nodes: dict[str, FunctionInfo], program: Program, graph: CallGraph, path: str
) -> Iterator[CallEdge]:
    """Yield the calls of functions that are handed over by a name: `"generator": provider.get_generator(...)`."""
    given = {key: made for info in inside for key, made in _made(info, graph)}
    symbols = {info.symbol: info for info in program.functions}
    for node in nodes.values():
        names = {p.name for p in node.ir.params}
        for call in calls_in(node.ir.body):
            root = callee_of(call)
            root = owner_of(root) if is_member(root) else root
            if is_name(root) and name_of(root) in names:
                for maker in given.get(name_of(root), ()):
                    for target in _given_back(symbols.get(maker), symbols):
                        yield CallEdge(node.symbol, target, "dynamic", ((path, call_line(call)),))


def _made(info: FunctionInfo, graph: CallGraph) -> Iterator[tuple[str, list[str]]]:
    """Yield the keys of dictionaries of a function, each with the functions that make its value."""
    for s in statements(info.ir.body):
        for e in own_expressions(s):
            for inner in walk(e):
                for key, value in pairs_in(inner) if inner[0] == "d" else ():
                    if key is not None and is_text(key) and is_call(value):
                        yield key[1], _callees(info, value, graph)


def _callees(info: FunctionInfo, call: Expr, graph: CallGraph) -> list[str]:
    line, last = call_line(call), last_name(call)
    return [
        e.dst
        for e in graph.edges
        if e.src == info.symbol and e.dst.rpartition(".")[2] == last and any(at == line for _, at in e.sites)
    ]


def _given_back(maker: FunctionInfo | None, symbols: dict[str, FunctionInfo]) -> Iterator[str]:
    """Yield the functions inside one that it returns."""
    for s in statements(maker.ir.body) if maker is not None else ():
        value = value_of(s) if s[0] == "return" else None
        if maker is not None and value is not None and is_name(value):
            symbol = f"{maker.symbol}.{name_of(value)}"
            if symbol in symbols:
                yield symbol
