"""Finds the functions that a framework runs with a value: tools of agents, nodes of graphs, wrapped functions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from gapwatch.design.architecture.constants import Constants
from gapwatch.design.patterns.code_walk import calls_of, children, own_expressions, text_of
from gapwatch.design.patterns.node_graph import NodeGraph
from gapwatch.design.source.ir import Expr, call_line, callee_of, is_call, is_name, name_of, targets_of, value_of
from gapwatch.design.source.program import FunctionInfo, Program, last_name, statements

#: Makers of agents, teams and tool loops.
AGENT = re.compile(
    r"(^|_)(Agent|AgentExecutor|ToolNode|Crew|Team|Swarm|GroupChat)$|Agent$"
    r"|^(create|initialize|define)_\w*(agent|supervisor|swarm)$"
)
#: Arguments of a maker that hold what it runs.
_GIVEN = frozenset(
    {"tools", "handoffs", "agents", "sub_agents", "tasks", "functions", "toolsets", "participants", "members", "agent"}
    | {"middleware", "subagents"}
)
#: Methods of an object that an agent's library runs before, after and around each of its calls.
_HOOK = re.compile(r"^a?(before|after|wrap)_(agent|model|model_call|tool_call)$")
#: Classes of tools, and the methods of theirs that the library runs.
_TOOL_CLASS = re.compile(r"^(langchain|crewai)\w*\.(.+\.)?BaseTool$")
_TOOL_METHODS = frozenset({"_run", "_arun"})
#: Most functions that one value runs.
MOST = 40
_MAX_DEPTH = 6
#: Makers that wrap one function.
_WRAPS = re.compile(
    r"^(RunnableLambda|RunnableGenerator|partial|tool|function_tool|StructuredTool|Tool|FunctionTool|from_function"
    r"|from_defaults)$"
)


class HeldFunctions:
    """Functions that values hold.

    Attributes:
        constants: Names of modules and classes.
        numbers: Numbers of functions by symbol.
        graphs: Graphs by the function or module that builds them, and their variable.
        values: Functions that a variable runs, in the same way.
        makers: Functions that a function's result runs.
        parts: Functions that a decorator gives an agent, by module and variable.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.constants = Constants(program)
        self.numbers = {info.symbol: info.number for info in program.functions if info.parent >= 0}
        self.graphs: dict[tuple[int, str], NodeGraph] = {}
        self.values: dict[tuple[int, str], list[str]] = {}
        self.makers: dict[str, list[str]] = {}
        self.parts: dict[tuple[int, str], list[str]] = defaultdict(list)

    def runs(self, e: Expr, info: FunctionInfo, depth: int = 0) -> list[str]:
        """Return the functions that a framework runs when it runs a value."""
        if depth > _MAX_DEPTH:
            return []
        tag = e[0]
        if tag == "L":
            number = self._program.first_function[info.module] + e[1]
            return [self._program.functions[number].symbol]
        if tag in ("l", "t", "S", "d", "?", "b", "*", "w"):
            out = [s for inner in children(e) for s in self.runs(inner, info, depth + 1)]
            return list(dict.fromkeys(out))[:MOST]
        if tag in "na":
            return self._named(e, info, depth)
        if tag == "o" and e[1] in ("+", "|"):
            return [s for inner in e[2] for s in self.runs(inner, info, depth + 1)][:MOST]
        if is_call(e):
            return self.called(e, info, depth)
        return []

    def _named(self, e: Expr, info: FunctionInfo, depth: int) -> list[str]:
        text = text_of(e)
        around: FunctionInfo | None = info
        while around is not None:
            if f"{around.symbol}.{text}" in self.numbers:
                return [f"{around.symbol}.{text}"]
            if (around.number, text) in self.values:
                return self.values[around.number, text]
            if (around.number, text) in self.graphs:
                return self._first(self.graphs[around.number, text])
            around = self._program.functions[around.parent] if around.parent >= 0 else None
        if text.startswith(("self.", "cls.")) and info.owner >= 0:
            return self._method(info.owner, text.partition(".")[2])
        return self._global(text, info.module, depth)

    def _method(self, owner: int, name: str) -> list[str]:
        cls = self._program.classes[owner]
        symbol = f"{cls.symbol}.{name}"
        if symbol in self.numbers:
            return [symbol]
        return next((found for base in cls.bases if (found := self._method(base, name))), [])

    def _global(self, text: str, module: int, depth: int) -> list[str]:
        """Return what a name of a module stands for, through imports."""
        head, _, rest = text.partition(".")
        for _ in range(4):
            name = self._program.index.modules[module].name
            if f"{name}.{text}" in self.numbers:
                return [f"{name}.{text}"]
            body = self._program.bodies[module]
            if not rest and body >= 0:
                if (body, head) in self.values:
                    return self.values[body, head]
                if (body, head) in self.graphs:
                    return self._first(self.graphs[body, head])
                found = self.constants.find(("n", head), module)
                if found is not None and head not in self.constants.imports(module) and depth < _MAX_DEPTH:
                    return self.runs(found[0], self._program.functions[body], depth + 1)
            source = self.constants.imports(module).get(head)
            if source is None:
                return []
            module, imported = source
            if not imported:
                head, _, rest = rest.partition(".")
                if not head:
                    return []
            else:
                head = imported
            text = f"{head}.{rest}" if rest else head
        return []

    def called(self, call: Expr, info: FunctionInfo, depth: int) -> list[str]:
        """Return the functions that a framework runs with the result of a call."""
        name = last_name(call)
        callee = call[1]
        if callee[0] == "a":
            # `graph.compile()`, `agent.with_config(...)`: what the object runs.
            owner = self.runs(callee[1], info, depth + 1)
            if not owner and name == "compile" and is_call(callee[1]) and (info.number, "") in self.graphs:
                # Built and compiled in one chain, without a variable.
                return self._first(self.graphs[info.number, ""])
            if owner:
                return owner
        if AGENT.search(name) or name in ("bind_tools", "handoff", "Task"):
            given = [v for k, v in call[3] if k in _GIVEN] + [a for a in call[2] if a[0] in ("l", "n", "t")]
            return list(dict.fromkeys(s for v in given for s in self.runs(v, info, depth + 1)))[:MOST]
        if _WRAPS.search(name):
            given = [*call[2][:1], *(v for k, v in call[3] if k in ("func", "fn", "coroutine", "afunc"))]
            return [s for v in given for s in self.runs(v, info, depth + 1)]
        if hooks := self._hooks(callee, info.module):
            return hooks
        return self.makers.get(self.single(callee, info), []) if self.makers else []

    def made_by(self, info: FunctionInfo) -> list[str]:
        """Return what is run by who runs the agent or graph that a function returns; empty where it returns none."""
        out: list[str] = []
        for s in statements(info.ir.body) if info.parent >= 0 else ():
            if s[0] == "return" and s[2] is not None and (is_call(s[2]) or s[2][0] == "n"):
                holds = s[2][0] == "n" and (
                    (info.number, s[2][1]) in self.values or (info.number, s[2][1]) in self.graphs
                )
                is_made = is_call(s[2]) and (AGENT.search(last_name(s[2])) or last_name(s[2]) == "compile")
                out = (self.runs(s[2], info) if holds or is_made else []) or out
        return out

    def read_made(self, info: FunctionInfo) -> None:
        """Note the variables that are given what a maker of agents or graphs returns."""
        for s in statements(info.ir.body):
            value = value_of(s) if s[0] == "assign" and len(targets_of(s)) == 1 else None
            if value is not None and is_call(value):
                runs = self.makers.get(self.single(value[1], info), [])
                if runs:
                    self.values[info.number, text_of(targets_of(s)[0])] = runs

    def tools_made(self) -> Iterator[tuple[FunctionInfo, str, int]]:
        """Yield (function, method that the library runs, line) where an object of a tool class is made."""
        methods: dict[int, list[str]] = defaultdict(list)
        for info in self._program.functions:
            if info.owner >= 0 and info.ir.name in _TOOL_METHODS and self._is_tool(info.owner):
                methods[info.owner].append(info.symbol)
        names = {self._program.classes[owner].ir.qual.encode() for owner in methods}
        files = self._program.files
        for info in self._program.functions if methods else ():
            file = files[info.module]
            if file is None or not any(name in file.source for name in names):
                continue
            for call in (c for s in statements(info.ir.body) for e in own_expressions(s) for c in calls_of(e)):
                for owner in self._classes(callee_of(call), info.module):
                    yield from ((info, symbol, call_line(call)) for symbol in methods.get(owner, ()))

    def _is_tool(self, owner: int, depth: int = 0) -> bool:
        cls = self._program.classes[owner]
        is_own = any(_TOOL_CLASS.search(name) for name in cls.outside)
        return is_own or (depth < _MAX_DEPTH and any(self._is_tool(base, depth + 1) for base in cls.bases))

    def _classes(self, callee: Expr, module: int) -> list[int]:
        """Return the numbers of the classes of the repository that a name stands for."""
        if not is_name(callee):
            return []
        source = self.constants.imports(module).get(name_of(callee))
        module, name = source if source is not None else (module, name_of(callee))
        ir, first = self._program.irs[module], self._program.first_class[module]
        return [first + c.index for c in ir.classes if c.qual == name] if ir is not None else []

    def _hooks(self, callee: Expr, module: int) -> list[str]:
        """Return the methods of a class of the repository that an agent's library runs; none of other classes."""
        owners = self._classes(callee, module)
        return [self._program.functions[n].symbol for owner in owners for n in self._methods.get(owner, ())]

    @cached_property
    def _methods(self) -> dict[int, list[int]]:
        """Numbers of the methods that a library runs, by their class."""
        out: dict[int, list[int]] = defaultdict(list)
        for info in self._program.functions:
            if info.owner >= 0 and _HOOK.search(info.ir.name):
                out[info.owner].append(info.number)
        return out

    def single(self, callee: Expr, info: FunctionInfo) -> str:
        """Return the only function that a callee stands for; empty for none or several."""
        found = self._named(callee, info, _MAX_DEPTH) if callee[0] in "na" else []
        return found[0] if len(found) == 1 else ""

    def _first(self, graph: NodeGraph) -> list[str]:
        names = graph.first or list(graph.nodes)[:1]
        return [s for name in names for s in graph.nodes.get(name, ())]
