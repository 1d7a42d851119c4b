"""Call graph of a repository: symbols, edges with kind and lines, library calls, unresolved calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gapwatch.design.callgraph.solver import Solver
from gapwatch.design.callgraph.statements import interpret_scope
from gapwatch.design.source.program import FunctionInfo, Program, paused_collector


@dataclass(frozen=True, slots=True)
class Symbol:
    """A module, class, function or lambda.

    Attributes:
        id: Dotted name relative to the root.
        kind: module, class, function or lambda.
        path: The file.
        line: First line, 1-based.
        end: Last line.
        is_async: Whether it is an `async def`.
        parent: Symbol around it; empty for modules.
        is_abstract: Whether subclasses must define it.
        tags: Tags of its file, such as `test`.
        decorators: Dotted names of the library decorators that registered it; the library calls it.
    """

    id: str
    kind: str
    path: str
    line: int
    end: int
    is_async: bool = False
    parent: str = ""
    is_abstract: bool = False
    tags: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallEdge:
    """A call between two symbols.

    Attributes:
        src: Calling symbol.
        dst: Called symbol.
        kind: call, construct, property, protocol (a method that an operator, a condition or a conversion such as
            `str(x)` runs), cha (to the subclasses of an abstract method), dynamic (by a composed name), callback
            (passed to a library), decorated (past the wrapper), framework, resume (taking from a generator of another
            function).
        sites: (path, line) of each call in the file of `src`.
    """

    src: str
    dst: str
    kind: str
    sites: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class External:
    """Calls from a symbol to a library name.

    Attributes:
        src: Calling symbol.
        dotted: Library name.
        path: File of `src`.
        lines: 1-based lines.
    """

    src: str
    dotted: str
    path: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A call without a known target.

    Attributes:
        src: Calling symbol.
        path: File of `src`.
        line: 1-based line.
        text: Text of the callee.
        cause: unknown_name, unknown_receiver, dynamic or too_deep.
    """

    src: str
    path: str
    line: int
    text: str
    cause: str


@dataclass(frozen=True)
class CallGraph:
    """The call graph; every list is sorted.

    Attributes:
        symbols: All symbols.
        edges: Calls inside the repository.
        externals: Calls to libraries.
        unresolved: Calls without a known target.
        call_sites: Number of calls that were evaluated.
        resolved_sites: Number of those with a target.
    """

    symbols: tuple[Symbol, ...]
    edges: tuple[CallEdge, ...]
    externals: tuple[External, ...]
    unresolved: tuple[Unresolved, ...]
    call_sites: int
    resolved_sites: int

    @property
    def resolution_rate(self) -> float:
        """Share of the call sites with a target, in [0, 1]; 1.0 without call sites."""
        return self.resolved_sites / self.call_sites if self.call_sites else 1.0


def build_call_graph(program: Program, progress: Callable[[int, int], None] = lambda done, total: None) -> CallGraph:
    """Resolve every call of a program.

    Args:
        program: All files in intermediate form.
        progress: Called with the scopes done in the current round and their total.
    """
    solver = Solver(program)
    with paused_collector():
        solver.solve(interpret_scope, progress)
    return _collect(program, solver)


def _collect(program: Program, solver: Solver) -> CallGraph:
    edges: dict[tuple[str, str, str], set[tuple[str, int]]] = {}
    externals: dict[tuple[str, str, str], set[int]] = {}
    unresolved: list[Unresolved] = []
    resolved = 0
    for number, result in sorted(solver.results.items()):
        info = program.functions[number]
        path = program.path(info)
        resolved += result.resolved
        unresolved += [Unresolved(info.symbol, path, line, text, cause) for line, text, cause in result.unresolved]
        for (target, kind, cls), lines in result.edges.items():
            src = program.classes[cls].symbol if cls >= 0 else info.symbol
            if isinstance(target, str):
                externals.setdefault((src, target, path), set()).update(lines)
            else:
                dst = program.functions[target].symbol if target >= 0 else program.classes[-1 - target].symbol
                edges.setdefault((src, dst, kind), set()).update((path, line) for line in lines)
    return CallGraph(
        tuple(_symbols(program, solver)),
        tuple(CallEdge(*key, tuple(sorted(sites))) for key, sites in sorted(edges.items())),
        tuple(External(*key, tuple(sorted(lines))) for key, lines in sorted(externals.items())),
        tuple(sorted(set(unresolved), key=lambda u: (u.path, u.line, u.text, u.src, u.cause))),
        resolved + len(unresolved),
        resolved,
    )


def _symbols(program: Program, solver: Solver) -> list[Symbol]:
    out: list[Symbol] = []
    for module in program.index.modules:
        file = program.files[module.index]
        if file is None:
            continue
        body = program.functions[program.bodies[module.index]]
        out.append(Symbol(module.name, "module", module.path, 1, body.ir.end, tags=file.tags))
    for cls in program.classes:
        path = program.index.modules[cls.module].path
        file = program.files[cls.module]
        parent = program.functions[cls.parent].symbol
        tags = file.tags if file is not None else ()
        out.append(Symbol(cls.symbol, "class", path, cls.ir.line, cls.ir.end, parent=parent, tags=tags))
    for info in program.functions:
        if info.parent >= 0:
            out.append(_function_symbol(program, info, solver))
    return sorted(out, key=lambda s: (s.id, s.path, s.line))


def _function_symbol(program: Program, info: FunctionInfo, solver: Solver) -> Symbol:
    file = program.files[info.module]
    parent = program.classes[info.owner].symbol if info.owner >= 0 else program.functions[info.parent].symbol
    return Symbol(
        info.symbol,
        info.ir.kind,
        program.path(info),
        info.ir.line,
        info.ir.end,
        info.ir.is_async,
        parent,
        info.is_abstract,
        file.tags if file is not None else (),
        tuple(sorted(solver.entries.get(info.number, ()))),
    )
