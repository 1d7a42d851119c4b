"""Finds calls that frameworks make: edges of graphs, tools and hand-offs of agents, queued jobs by name.

A framework runs functions that it was given: the nodes of a graph one after the other, the tools of an agent, a job
whose name was put in a queue. The call graph holds who gives them; these edges say who runs them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import KeysView
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from gapwatch.design.agents.module_pipelines import pipeline_calls
from gapwatch.design.architecture.held_functions import AGENT, MOST, HeldFunctions
from gapwatch.design.callgraph.graph import CallEdge, CallGraph
from gapwatch.design.patterns.code_walk import children, constants_in, keyword, names_in, own_expressions, text_of, walk
from gapwatch.design.patterns.node_graph import NodeGraph
from gapwatch.design.source.ir import Expr, constant_of, is_call, is_text, line_of, targets_of, value_of
from gapwatch.design.source.program import FunctionInfo, Program, last_name, statements

#: Files without one of these hold no agent, no graph and no job.
_MARKS = re.compile(
    rb"add_node|add_edge|[Aa]gent\(|supervisor\(|swarm\(|Crew\(|bind_tools|ToolNode|tools\s*=|handoffs\s*="
    rb"|AgentExecutor|\.tool\b"
)
#: Decorators by which a function becomes a part of an agent that a variable holds.
_PART = re.compile(r"^(tool|tool_plain|system_prompt|instructions|output_validator|result_validator|output_tool)$")
#: Names of functions that put a job in a queue by its name.
_QUEUES = re.compile(r"submit|enqueue|send_task|dispatch|schedule|add_job|defer|create_job|run_job|trigger")
#: Most functions in a row that hand on the agent or graph which the first of them makes.
_MOST_MAKERS = 3
_START = frozenset({"__start__", "START"})


def with_framework_calls(program: Program, graph: CallGraph) -> tuple[CallGraph, list[NodeGraph]]:
    """Return a call graph with the calls that frameworks make, of kind `framework`, and the graphs of nodes."""
    calls = _FrameworkCalls(program, graph)
    found = [*calls.found(), *pipeline_calls(program, graph)]
    edges = tuple(sorted({*graph.edges, *found}, key=lambda e: (e.src, e.dst, e.kind))) if found else graph.edges
    return replace(graph, edges=edges), calls.graphs


class _FrameworkCalls:
    def __init__(self, program: Program, graph: CallGraph) -> None:
        self._program = program
        self._graph = graph
        self._held = HeldFunctions(program)
        self._known = {(e.src, e.dst) for e in graph.edges}
        self._edges: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)

    @property
    def graphs(self) -> list[NodeGraph]:
        """Graphs of nodes, in the order of the code that builds them."""
        return [self._held.graphs[key] for key in sorted(self._held.graphs)]

    def found(self) -> list[CallEdge]:
        """Return the edges, sorted."""
        program = self._program
        marked = {
            module.index
            for module, file in zip(program.index.modules, program.files, strict=True)
            if file is not None and _MARKS.search(file.source)
        }
        self._jobs()
        for info, symbol, line in self._held.tools_made():
            self._add(info.symbol, symbol, info, line)
        if marked:
            inside = [info for info in program.functions if info.module in marked]
            for info in inside:
                self._note_parts(info)
            for info in inside:
                self._read_graphs(info)
            for info in inside:
                self._read_values(info)
            for info in inside:
                self._run_graphs(info)
            self._read_makers(inside)
            self._read_readers()
        kinds = [(src, dst) for src, dst in sorted(self._edges) if (src, dst) not in self._known and src != dst]
        return [CallEdge(src, dst, "framework", tuple(sorted(self._edges[src, dst]))) for src, dst in kinds]

    def _add(self, src: str, dst: str, info: FunctionInfo, line: int) -> None:
        self._edges[src, dst].add((self._program.path(info), line))

    # -- graphs ------------------------------------------------------------------------------------------------

    def _read_graphs(self, info: FunctionInfo) -> None:
        """Note the graphs that a function or module builds: nodes, edges, first nodes."""
        calls: list[tuple[str, Expr]] = []
        for s in statements(info.ir.body):
            target = text_of(targets_of(s)[0]) if s[0] == "assign" else ""
            for e in own_expressions(s):
                for call in walk(e):
                    if is_call(call) and call[1][0] == "a" and call[1][2] in _BUILDING:
                        root = call[1][1]
                        while is_call(root) and root[1][0] == "a":
                            root = root[1][1]
                        calls.append((text_of(root) if root[0] in "na" else target, call))
        # Nested calls come outermost first; nodes are needed before edges.
        for owner, call in sorted(calls, key=lambda one: _BUILDING[one[1][1][2]]):
            self._build(self._held.graphs.setdefault((info.number, owner), NodeGraph()), call, info)

    def _build(self, graph: NodeGraph, call: Expr, info: FunctionInfo) -> None:
        method, args = call[1][2], call[2]
        if method == "add_node":
            action = keyword(call, "action") or keyword(call, "node") or (args[-1] if args else None)
            runs = self._held.runs(action, info) if action is not None else []
            name = str(constant_of(args[0])) if args and is_text(args[0]) else None
            if name is None and runs:
                name = runs[0].rpartition(".")[2]
            if name is not None:
                graph.nodes[name] = runs
                if action is not None and is_call(action) and last_name(action) == "ToolNode":
                    graph.tools.add(name)
                elif action is not None and not (is_call(action) and AGENT.search(last_name(action))):
                    graph.take(name, action, call)
        elif method == "add_sequence" and args:
            names = [n for inner in children(args[0]) for n in _node_names(inner)]
            for inner in children(args[0]):
                for name in _node_names(inner)[:1]:
                    graph.nodes.setdefault(name, self._held.runs(inner[1][1] if inner[0] == "t" else inner, info))
                    graph.take(name, inner, call)
            graph.edges += [(a, b, call[4]) for a, b in pairwise(names)]
        elif method == "add_edge" and len(args) > 1:
            for src in _node_names(args[0]):
                for dst in _node_names(args[1]):
                    self._connect(graph, src, dst, call[4])
        elif method in ("set_entry_point", "set_conditional_entry_point") and args:
            graph.first += [n for n in _node_names(args[0]) if n in graph.nodes]
        elif method == "add_conditional_edges" and args:
            maps = [*args[2:], *(v for k, v in call[3] if k == "path_map")]
            targets = [n for a in maps for n in _node_names(a)]
            router = args[1] if len(args) > 1 else keyword(call, "path")
            routers = self._held.runs(router, info) if router is not None else []
            if not targets:
                targets = [n for s in routers for n in self._said(s)]
            given = {k: n for a in maps for k, n in _map_of(a)} or {n: n for n in targets}
            graph.routers.update((s, given) for s in routers)
            graph.choosing.update(_node_names(args[0]))
            for src in _node_names(args[0]):
                for dst in targets:
                    self._connect(graph, src, dst, call[4])

    def _connect(self, graph: NodeGraph, src: str, dst: str, line: int) -> None:
        if src in _START:
            graph.first += [dst] if dst in graph.nodes else []
        elif src in graph.nodes and dst in graph.nodes:
            graph.links.add((src, dst))
            if src not in graph.tools:
                graph.edges.append((src, dst, line))

    def _said(self, symbol: str) -> list[str]:
        """Return the texts that a router returns or sends to."""
        info = self._program.functions[self._held.numbers[symbol]]
        out = [t for s in statements(info.ir.body) if s[0] == "return" and s[2] for t in constants_in(s[2])]
        out += [t for e in [info.ir.returns] if e is not None for t in constants_in(e)]
        return list(dict.fromkeys(out))

    def _run_graphs(self, info: FunctionInfo) -> None:
        """Add the edges between the nodes of the graphs that a function or module builds."""
        for (number, _), graph in list(self._held.graphs.items()):
            if number != info.number:
                continue
            for src, dst, line in graph.edges:
                for a in graph.nodes[src]:
                    for b in graph.nodes[dst]:
                        self._add(a, b, info, line)
            for node, symbols in graph.nodes.items():
                for symbol in symbols:
                    self._go_to(symbol, node, graph)

    def _go_to(self, symbol: str, node: str, graph: NodeGraph) -> None:
        """Add the edges of `Command(goto="node")` in a node."""
        info = self._program.functions[self._held.numbers[symbol]] if symbol in self._held.numbers else None
        for s in statements(info.ir.body) if info is not None else ():
            for e in own_expressions(s):
                for call in walk(e):
                    if info is not None and is_call(call) and last_name(call) in ("Command", "Send"):
                        given = keyword(call, "goto") if last_name(call) == "Command" else next(iter(call[2]), None)
                        names = constants_in(given) if given is not None else []
                        names += self._bound_texts(given, info) if given is not None and given[0] == "n" else []
                        graph.choosing.add(node)
                        for name in names:
                            graph.links |= {(node, name)} if name in graph.nodes else set()
                            for dst in graph.nodes.get(name, ()):
                                self._add(symbol, dst, info, call[4])

    def _bound_texts(self, e: Expr, info: FunctionInfo) -> list[str]:
        found = [
            value
            for s in statements(info.ir.body)
            if s[0] == "assign" and (value := value_of(s)) is not None and e in targets_of(s)
        ]
        return [t for value in found for t in constants_in(value)]

    # -- agents ------------------------------------------------------------------------------------------------

    def _note_parts(self, info: FunctionInfo) -> None:
        for decorator in info.ir.decorators:
            owner, _, name = text_of(decorator).partition("(")[0].rpartition(".")
            if owner and _PART.search(name) and "." not in owner:
                self._held.parts[info.module, owner].append(info.symbol)

    def _read_values(self, info: FunctionInfo) -> None:
        """Note the variables that hold agents, tools and compiled graphs, and who runs the tools that it binds."""
        for s in statements(info.ir.body):
            for e in own_expressions(s):
                for call in walk(e):
                    if is_call(call) and (
                        last_name(call) in ("bind_tools", "ToolNode") or AGENT.search(last_name(call))
                    ):
                        for symbol in self._held.called(call, info, 0):
                            self._add(info.symbol, symbol, info, call[4])
            if s[0] != "assign" or (value := value_of(s)) is None or len(targets_of(s)) != 1:
                continue
            target = text_of(targets_of(s)[0])
            holds = is_call(value) and (AGENT.search(last_name(value)) or value[1][0] == "a")
            parts = self._held.parts.get((info.module, target), []) if info.parent < 0 else []
            runs = self._held.runs(value, info) if holds else []
            if runs or parts:
                self._held.values[info.number, target] = list(dict.fromkeys([*runs, *parts]))[:MOST]

    def _read_makers(self, inside: list[FunctionInfo]) -> None:
        """Note the functions that return an agent or a compiled graph, and the variables that hold what they return."""
        makers = self._held.makers
        found = {info.symbol: runs for info in inside if (runs := self._held.made_by(info))}
        callers: dict[str, set[str]] = defaultdict(set)
        for edge in self._graph.edges:
            callers[edge.dst].add(edge.src)
        by_symbol = {info.symbol: info for info in self._program.functions}
        for _ in range(_MOST_MAKERS):
            makers.update(found)
            calling = {src for symbol in found for src in callers[symbol]}
            infos = [by_symbol[symbol] for symbol in sorted(calling) if symbol in by_symbol]
            for info in infos:
                self._held.read_made(info)
            new = [info for info in infos if info.symbol not in makers]
            found = {info.symbol: runs for info in new if (runs := self._held.made_by(info))}
            if not found:
                break
        for edge in self._graph.edges:
            for symbol in makers.get(edge.dst, ()):
                self._edges[edge.src, symbol].update(edge.sites)

    def _read_readers(self) -> None:
        """Add an edge from each function that reads a variable with an agent or a graph to what that runs."""
        by_module: dict[int, dict[str, list[str]]] = defaultdict(dict)
        program = self._program
        for (number, name), runs in self._held.values.items():
            info = program.functions[number]
            if info.parent < 0 and runs:
                by_module[info.module][name] = runs
        if not by_module:
            return
        tagged = {m.index for m, f in zip(program.index.modules, program.files, strict=True) if f is None or f.tags}
        for module in program.index.modules:
            if module.index in tagged:
                continue
            known = dict(by_module.get(module.index, {}))
            for alias, (source, name) in self._held.constants.imports(module.index).items():
                if name and (runs := self._imported(source, name, by_module)):
                    known[alias] = runs
                elif name and (symbol := f"{program.index.modules[source].name}.{name}") in self._entries:
                    known[alias] = [symbol]
            if known:
                self._read_module(module.index, known)

    @cached_property
    def _entries(self) -> set[str]:
        """Functions that a decorator makes a graph of their own."""
        return {
            info.symbol
            for info in self._program.functions
            if any(last_name(d) == "entrypoint" for d in info.ir.decorators)
        }

    def _imported(self, source: int, name: str, by_module: dict[int, dict[str, list[str]]]) -> list[str]:
        for _ in range(4):
            if name in by_module.get(source, {}):
                return by_module[source][name]
            found = self._held.constants.imports(source).get(name)
            if found is None or not found[1]:
                return []
            source, name = found
        return []

    def _read_module(self, module: int, known: dict[str, list[str]]) -> None:
        for info in self._functions_of.get(module, ()):
            for s in statements(info.ir.body):
                for e in own_expressions(s):
                    read = self._run_in(e, known.keys(), info) if info.parent >= 0 else names_in(e) & known.keys()
                    # A table of agents: who reads the table runs them.
                    if info.parent < 0:
                        if s[0] == "assign" and read and _is_table(value_of(s)):
                            runs = [x for name in sorted(read) for x in known[name]]
                            known = {**known, text_of(targets_of(s)[0]): runs[:MOST]}
                        continue
                    for name in sorted(read):
                        for dst in known[name]:
                            self._add(info.symbol, dst, info, line_of(s))

    def _run_in(self, e: Expr, known: KeysView[str], info: FunctionInfo) -> set[str]:
        """Return the names of some that an expression runs, returns, or hands to what runs them."""
        out: set[str] = set()
        pending = [e]
        while pending:
            current = pending.pop()
            if current[0] == "a" and current[1][0] == "n" and current[1][1] in known:
                # `graph.get_state` and the like run nothing.
                out |= {current[1][1]} if _RUN.search(current[2]) else set()
                continue
            if current[0] == "n" and current[1] in known:
                out.add(current[1])
            target = self._held.single(current[1], info) if is_call(current) else ""
            is_kept = target in self._held.numbers and not self._runs_given(target)
            pending += [x for x in children(current) if not is_kept or x[0] != "n"]
        return out

    def _runs_given(self, symbol: str) -> bool:
        """Return whether a function runs something that it is given, by the methods that it calls."""
        body = self._program.functions[self._held.numbers[symbol]].ir.body
        return any(
            inner[0] == "a" and _RUN.search(inner[2])
            for s in statements(body)
            for e in own_expressions(s)
            for inner in walk(e)
        )

    @cached_property
    def _functions_of(self) -> dict[int, list[FunctionInfo]]:
        out: dict[int, list[FunctionInfo]] = {}
        for info in self._program.functions:
            out.setdefault(info.module, []).append(info)
        return out

    # -- jobs by name ------------------------------------------------------------------------------------------

    def _jobs(self) -> None:
        """Add an edge from who puts a job in a queue by its name to the function that is registered under it."""
        named: dict[str, list[str]] = defaultdict(list)
        for info in self._program.functions:
            for decorator in info.ir.decorators:
                if is_call(decorator) and _JOB.search(last_name(decorator)):
                    first = [a for a in decorator[2][:1] if is_text(a)] + [v for k, v in decorator[3] if k == "name"]
                    for text in (a for a in first if is_text(a)):
                        named[constant_of(text)].append(info.symbol)
        if not named:
            return
        for info in self._program.functions:
            for s in statements(info.ir.body):
                for e in own_expressions(s):
                    for call in walk(e):
                        if is_call(call) and _QUEUES.search(last_name(call).lower()):
                            for text in (a for a in (*call[2][:3], *(v for _, v in call[3])) if is_text(a)):
                                for dst in named.get(constant_of(text), ()):
                                    self._add(info.symbol, dst, info, call[4])


#: Methods that build a graph, in the order in which their calls are read.
_BUILDING = {
    "add_node": 0,
    "add_sequence": 1,
    "add_edge": 2,
    "add_conditional_edges": 2,
    "set_entry_point": 2,
    "set_conditional_entry_point": 2,
}
#: Methods that run an agent or a graph.
_RUN = re.compile(
    r"^a?(run|invoke|stream|batch|call|kickoff|chat|ask|execute|query|transform|start|iter|generate|initiate)"
)
_JOB = re.compile(r"^(command|task|shared_task|job|actor|handler|register|subscribe|on_event|worker|procedure)$")


def _node_names(e: Expr) -> list[str]:
    """Return the names of nodes in an expression: texts, function names, values of a dictionary, `START`."""
    if is_text(e):
        return [str(constant_of(e))]
    if e[0] == "d":
        return [n for _, value in e[1] for n in _node_names(value)]
    if e[0] in ("l", "t", "S"):
        return [n for inner in e[1] for n in _node_names(inner)]
    return [last_name(e)] if e[0] in "na" else []


def _map_of(e: Expr) -> list[tuple[str, str]]:
    """Return (what a router returns, node) of a written map."""
    if e[0] != "d":
        return []
    pairs = [(k, n) for k, v in e[1] if k is not None for n in _node_names(v)[:1]]
    return [(str(constant_of(k)) if k[0] == "k" else last_name(k), n) for k, n in pairs]


def _is_table(e: Expr | None) -> bool:
    """Return whether a value is a dictionary, list or set that is written out."""
    return e is not None and e[0] in ("d", "l", "t", "S")
