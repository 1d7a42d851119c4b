"""CodeGroups units of code by their work: endpoints, agents, model calls, tools, stores, each with its helpers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from gapwatch.design.architecture.material import Material, Unit
from gapwatch.design.architecture.salience import model_distances
from gapwatch.design.callgraph.graph import CallEdge, Symbol
from gapwatch.design.patterns.code_walk import constants_in, own_expressions, text_of
from gapwatch.design.source.ir import docstring
from gapwatch.design.source.program import statements

#: Decorators of frameworks that make a function a way in: by HTTP, from a command line, from a chat, from a queue.
_WAYS_IN = re.compile(
    r"^(fastapi|starlette|flask|quart|sanic|litestar|aiohttp|django|rest_framework|falcon|bottle|robyn|typer|click|chainlit"
    r"|slack_bolt|discord|telegram|aiogram|celery|dramatiq|arq|faust|functions_framework|modal|nicegui|gradio|mcp)\b.*\."
    r"(get|post|put|delete|patch|route|api_route|websocket|command|callback|main|on_message|on_chat_start|message|event"
    r"|task|actor|agent|page|exception_handler|tool|http|view|api_view|action|app_mention|function)$"
)
#: Decorators by which a function becomes a part of an agent that a variable holds.
_OF_AGENT = re.compile(
    r"^(tool|tool_plain|system_prompt|output_validator|result_validator|instructions|toolset|output_tool)$"
)
#: Decorators that make a function a tool.
_TOOL = re.compile(
    r"^(langchain\w*|agents|crewai\w*|smolagents|llama_index|strands|agno|autogen|google\.adk)\b.*\.(tool|function_tool)$"
)
_TOOL_LOOP = re.compile(r"(^|\.)(ToolNode|tools_condition|create_react_agent)$")
_GRAPH = re.compile(r"^langgraph\..*\.add_node$|^langgraph\.graph\.\w*Graph$")
#: Jobs that make functions of one file one component; model calls stay apart, because each has a prompt of its own.
_SHARED_JOBS = frozenset(
    {"store", "service", "queue", "cache", "stream", "ingest", "evaluation", "index", "embedding", "guardrail"}
)
#: Jobs whose units are joined where they are alike, the least number of them, and the letters of a text for a model.
_SAME_WORK = frozenset({"llm", "service", "ingest", "embedding", "parse"})
_ALIKE = 3
_TEXT = 120
#: Parameters that hold what a model is told.
_GIVEN = re.compile(r"^_?(\w+_)?(prompts?|messages?)$", re.I)
#: Lines from which a class in a file of its own is a component, whatever it refines.
_LARGE = 150
_VARIANT = re.compile(r"^_?a?(sync|async)?_?|_?(a?sync|stream(ing|ed)?|events?|batch|iter|v\d|json|text)(?=_|$)")


class CodeGroups:
    """CodeGroups of units, joined step by step.

    Args:
        units: All units; see `Unit`.
        material: The analysed code.
    """

    def __init__(self, units: list[Unit], material: Material) -> None:
        self._units = {unit.key: unit for unit in units}
        self._material = material
        self._root = {key: key for key in self._units}
        self._held = {key: [unit] for key, unit in sorted(self._units.items())}
        self._free: dict[str, bool] = {}
        self._helpers: dict[str, tuple[int, bool]] = {}
        self._symbols = {s.id: s for s in material.graph.symbols}
        self._unit_of = {symbol: unit.key for unit in units for symbol in unit.symbols}
        self._called: dict[str, dict[str, list[CallEdge]]] = defaultdict(lambda: defaultdict(list))
        self._calling: dict[str, dict[str, list[CallEdge]]] = defaultdict(lambda: defaultdict(list))
        for edge in material.graph.edges:
            src, dst = self._unit_of.get(edge.src), self._unit_of.get(edge.dst)
            if src is not None and dst is not None and src != dst:
                self._called[src][dst].append(edge)
                self._calling[dst][src].append(edge)
        clients = {unit.key for unit in units if unit.is_class and unit.asking}
        for unit in units:
            # A class that calls the model is a client; who calls it has the prompt.
            unit.has_client = not clients.isdisjoint(self._called[unit.key])

    def made(self) -> list[list[Unit]]:
        """Return the groups, each sorted by key, in the order of their first keys."""
        self._join_agents()
        self._join_families()
        self._join_graphs()
        self._join_by_file()
        self._join_alike()
        self._join_helpers()
        self._join_parts()
        self._join_inner_classes()
        self._join_plain_ways_in()
        self._join_leftovers()
        groups: dict[str, list[Unit]] = defaultdict(list)
        for key in sorted(self._units):
            groups[self._find(key)].append(self._units[key])
        return [groups[key] for key in sorted(groups)]

    # -- joining -----------------------------------------------------------------------------------------------

    def _find(self, key: str) -> str:
        while self._root[key] != key:
            self._root[key] = self._root[self._root[key]]
            key = self._root[key]
        return key

    def _join(self, keys: Iterable[str]) -> None:
        roots = sorted({self._find(key) for key in keys})
        for root in roots[1:]:
            self._root[root] = roots[0]
            self._held[roots[0]] += self._held.pop(root)

    def _by_path(self) -> dict[str, list[Unit]]:
        out: dict[str, list[Unit]] = defaultdict(list)
        for key in sorted(self._units):
            out[self._units[key].path].append(self._units[key])
        return out

    def _join_agents(self) -> None:
        """Join the tools, prompts and validators of one agent: functions decorated by the same variable."""
        numbers = self._material.sites.numbers(self._material.program)
        held: dict[tuple[str, str], list[str]] = defaultdict(list)
        for unit in self._units.values():
            number = numbers.get(unit.key)
            for decorator in self._material.program.functions[number].ir.decorators if number is not None else ():
                owner, _, name = text_of(decorator).partition("(")[0].rpartition(".")
                if owner and _OF_AGENT.search(name):
                    held[unit.path, owner].append(unit.key)
                    unit.agent = owner
        for keys in held.values():
            self._join(keys)

    def _join_families(self) -> None:
        """Join classes with the one that they refine, unless each of them asks a model and that one does not."""
        classes = {c.symbol: c for c in self._material.program.classes}
        for unit in self._units.values():
            made = classes.get(unit.key)
            for number in made.subclasses if made is not None else ():
                child = self._units.get(self._material.program.classes[number].symbol)
                if child is None or made is None:
                    continue
                # One class beside its abstract base; several of one work; never several with a prompt each.
                is_only = len(made.subclasses) == 1 and child.path == unit.path
                if self._is_large(child) and child.path != unit.path:
                    continue
                if is_only or (len(made.subclasses) > 1 and (unit.is_asking or not child.is_asking)):
                    self._join((unit.key, child.key))

    def _is_large(self, unit: Unit) -> bool:
        symbol = self._symbols[unit.key]
        return symbol.end - symbol.line >= _LARGE

    def _join_graphs(self) -> None:
        """Join the nodes of a graph, unless several ask or retrieve and no loop of tools makes them one agent."""
        graphs: dict[str, set[str]] = defaultdict(set)
        for external in self._material.graph.externals:
            if _GRAPH.search(external.dotted) or _TOOL_LOOP.search(external.dotted):
                graphs[external.path].add(external.dotted)
        by_path = self._by_path()
        for path, names in graphs.items():
            if not any(_GRAPH.search(name) for name in names):
                continue
            mine = [u for u in by_path.get(path, ()) if not self._is_way_in(u)]
            asking = [u for u in mine if u.is_asking or u.job == "retrieval"]
            if any(_TOOL_LOOP.search(name) for name in names) or len(asking) < 2:
                self._join(u.key for u in mine if not u.is_class or u.is_asking)

    def _join_by_file(self) -> None:
        """Join functions of a file that do the same job, ways in that reach no model, and forms of one function."""
        reaching = self._reaching()
        for units in self._by_path().values():
            same: dict[str, list[Unit]] = defaultdict(list)
            for unit in units:
                if self._is_way_in(unit):
                    if not _asks_somehow(unit) and reaching.isdisjoint(unit.symbols):
                        same["way in"].append(unit)
                elif not unit.is_asking and unit.job in _SHARED_JOBS and not unit.agent and not self._is_tool(unit):
                    same[f"{unit.job} {unit.is_class}"].append(unit)
                elif unit.is_tool and not (unit.is_class or unit.job or unit.agent):
                    same["tool"].append(unit)
                elif not unit.is_class and unit.is_asking and not unit.agent:
                    same[f"variant {_VARIANT.sub('', unit.name)}"].append(unit)
            for keys in same.values():
                self._join(unit.key for unit in keys)

    def _join_alike(self) -> None:
        """Join three or more ways to do one work that lie beside each other: clients of providers, readers of sources.

        Classes of one folder are alike where they ask a model in a method of the same name; functions of one folder or
        file where their names begin with the same two words, or with one and their first two parameters are the same.
        None of them holds a text for a model, and no framework calls one from outside.
        """
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for key in sorted(self._units):
            unit = self._units[key]
            if unit.is_module or unit.is_data or unit.agent or unit.job not in _SAME_WORK or self._is_tool(unit):
                continue
            if self._is_way_in(unit) or self._holds_text(unit) or (unit.is_class and self._is_large(unit)):
                continue
            if not unit.is_asking or self._is_client(unit):
                for form in self._forms(unit):
                    alike[unit.path.rpartition("/")[0], unit.job, *form].append(key)
        for _, keys in sorted(alike.items()):
            if len(keys) >= _ALIKE:
                self._join(keys)

    def _is_client(self, unit: Unit) -> bool:
        """Return whether a unit asks a model with the text that it is given."""
        numbers = self._material.sites.numbers(self._material.program)
        functions = [self._material.program.functions[numbers[s]] for s in sorted(unit.asking) if s in numbers]
        return bool(functions) and all(any(_GIVEN.search(p.name) for p in f.ir.params) for f in functions)

    def _forms(self, unit: Unit) -> set[tuple[str, ...]]:
        """Return what a unit has in common with others of the same work; see `_join_alike`."""
        if unit.is_class:
            # Classes of another work stay apart: their shared metrics break down by class.
            return {("class", s.rpartition(".")[2]) for s in unit.asking}
        numbers = self._material.sites.numbers(self._material.program)
        words = unit.name.strip("_").split("_")
        ir = self._material.program.functions[numbers[unit.key]].ir
        out = {("function", *words[:2])} if len(words) > 2 else set()
        if len(words) > 1 and len(ir.params) > 1:
            out.add(("parameters", words[0], *(p.name for p in ir.params[:2])))
        return out

    def _holds_text(self, unit: Unit) -> bool:
        """Return whether a unit holds a text of its own that may be for a model."""
        numbers = self._material.sites.numbers(self._material.program)
        for symbol in unit.symbols:
            number = numbers.get(symbol)
            body = self._material.program.functions[number].ir.body if number is not None else ()
            own = body[1:] if docstring(body) else body
            if any(len(t) >= _TEXT for s in statements(own) for e in own_expressions(s) for t in constants_in(e)):
                return True
        return False

    def _reaching(self) -> set[str]:
        """Return the functions from which calls lead to a model."""
        sinks = {h.symbol: {"llm_chat"} for h in self._material.hits if h.pattern == "calls_llm" and h.kind == "direct"}
        return set(model_distances(self._material.graph, sinks))

    def _is_way_in(self, unit: Unit) -> bool:
        if unit.is_class:
            return False
        return any(_WAYS_IN.search(d) for s in unit.symbols for d in self._symbols[s].decorators)

    def _is_tool(self, unit: Unit) -> bool:
        """Return whether a function is a tool that a model may call."""
        return not unit.is_class and any(_TOOL.search(d) for s in unit.symbols for d in self._symbols[s].decorators)

    def _is_free(self, unit: Unit) -> bool:
        """Return whether a unit works for others: a function without a job, or one that only parses."""
        if unit.key not in self._free:
            self._free[unit.key] = self._works_for_others(unit)
        return self._free[unit.key]

    def _works_for_others(self, unit: Unit) -> bool:
        if unit.agent or self._is_way_in(unit) or unit.is_module or self._is_tool(unit):
            return False
        return not unit.is_asking and unit.job in ("", "parse", "flow", "cache") and not self._has_work(unit)

    def _has_work(self, unit: Unit) -> bool:
        return unit.is_class and any(self._symbols[s].kind == "function" for s in unit.symbols)

    def _join_helpers(self) -> None:
        """Join helpers with the group of their file that calls them, or with the only one that they call."""
        for _ in range(6):
            is_changed = False
            for members in [self._held[root] for root in sorted(self._held)]:
                if all(self._is_free(unit) for unit in members):
                    target = self._owner_of(members)
                    if target is not None and target != self._find(members[0].key):
                        self._join((members[0].key, target))
                        is_changed = True
            if not is_changed:
                return

    def _is_helper(self, root: str) -> bool:
        held = self._held[root]
        seen, is_helper = self._helpers.get(root, (0, True))
        # A group only grows, at its end.
        if is_helper and seen < len(held):
            is_helper = all(self._is_free(unit) for unit in held[seen:])
        self._helpers[root] = len(held), is_helper
        return is_helper

    def _join_parts(self) -> None:
        """Join private functions with the only group that calls them, and ways in with what they pass on to."""
        for _ in range(4):
            for key in sorted(self._units):
                unit = self._units[key]
                if unit.is_class or unit.is_module or unit.agent:
                    continue
                callers = {self._find(k) for k in self._calling[key] if not self._units[k].is_module} - {
                    self._find(key)
                }
                inside = {k for k in callers if self._units[k].path == unit.path}
                if unit.name.startswith("_") and len(callers) == 1 and inside:
                    self._join((key, *inside))
                elif self._is_way_in(unit) and (same := self._other_ways_in(unit)):
                    self._join((key, *same))
                elif self._is_way_in(unit) and _asks_somehow(unit):
                    passed = [
                        k for k in self._called[key] if self._units[k].path == unit.path and not self._units[k].is_class
                    ]
                    if len(passed) == 1 and not self._is_way_in(self._units[passed[0]]):
                        self._join((key, passed[0]))

    def _join_inner_classes(self) -> None:
        """Join classes that only one group calls, of the same file, with it; never one that asks a model itself."""
        for key in sorted(self._units):
            unit = self._units[key]
            if not unit.is_class or unit.is_asking or unit.agent or unit.is_data:
                continue
            callers = {k for k in self._calling[key] if self._find(k) != self._find(key)}
            roots = {self._find(k) for k in callers}
            if len(roots) == 1 and all(self._units[k].path == unit.path for k in callers):
                self._join((key, *roots))

    def _join_plain_ways_in(self) -> None:
        """Join a way in without any work (a greeting, a redirect) with the only other group of ways in of its file."""
        for units in self._by_path().values():
            ways = [u for u in units if self._is_way_in(u)]
            plain = {self._find(u.key) for u in ways if not _asks_somehow(u)}
            plain = {
                root
                for root in plain
                if len(self._held[root]) <= _FEW and not any(u.jobs or u.hits for u in self._held[root])
            }
            others = {self._find(u.key) for u in ways} - plain
            if plain and len(others) == 1:
                self._join((*plain, *others))

    def _other_ways_in(self, unit: Unit) -> list[str]:
        """Return the way in of the same file that a way in calls, where it is the only one."""
        found = [
            k for k in self._called[unit.key] if self._units[k].path == unit.path and self._is_way_in(self._units[k])
        ]
        return found if len(found) == 1 else []

    def _owner_of(self, members: list[Unit]) -> str | None:
        """Return the root of the group that a group of helpers belongs to, or None."""
        own = {self._find(unit.key) for unit in members}

        def of_file(sides: Iterable[dict[str, list[CallEdge]]]) -> dict[str, int]:
            out: dict[str, int] = defaultdict(int)
            for key in (key for side in sides for key in side):
                if self._units[key].path == members[0].path and not self._units[key].is_module:
                    out[self._find(key)] += 1
            return {root: count for root, count in out.items() if root not in own}

        calling = of_file(self._calling[unit.key] for unit in members)
        if calling:
            # A helper of several belongs to one that works; equal ones are told apart by their keys.
            working = {k: n for k, n in calling.items() if not self._is_helper(k)} or calling
            return max(sorted(working), key=lambda k: working[k])
        called = [k for k in of_file(self._called[u.key] for u in members) if not self._is_helper(k)]
        return called[0] if len(called) == 1 else None

    def _join_leftovers(self) -> None:
        """Join what is left of a file: plain functions with each other, values and module code with its only group."""
        for units in self._by_path().values():
            plain = [
                u for u in units if self._is_free(u) or (u.is_class and not u.hits and not u.jobs and not u.is_data)
            ]
            keys = {u.key for u in plain}
            whole = {r for r in {self._find(u.key) for u in plain} if all(o.key in keys for o in self._held[r])}
            free = [u for u in plain if self._find(u.key) in whole]
            self._join(u.key for u in free)
            roots = {self._find(u.key) for u in units if not u.is_module and (not u.is_class or self._has_work(u))}
            if free and len(roots) == 2 and self._find(free[0].key) in roots:
                self._join(roots)
                roots = {self._find(free[0].key)}
            for unit in units:
                if (unit.is_module or (unit.is_class and not self._has_work(unit))) and len(roots) == 1:
                    self._join((unit.key, next(iter(roots))))
        for root in sorted(self._held):
            units = self._held.get(root, [])
            # A few plain functions of another file are a part of the only group that calls them.
            callers = {self._find(k) for u in units for k in self._calling[u.key] if not self._units[k].is_module} - {
                root
            }
            working = [u for u in units if not u.is_module and not u.is_data]
            if len(callers) == 1 and len(working) <= _FEW and all(self._is_free(u) and not u.hits for u in working):
                self._join((root, *callers))


#: Plain functions of one file that are too few for a component of their own; more of them do a work of their own.
_FEW = 1


def _asks_somehow(unit: Unit) -> bool:
    """Return whether a unit calls a model at any distance, or runs an agent or a graph of a framework."""
    return any(h.pattern == "calls_llm" for h in unit.hits) or any(use.capability == "framework" for use in unit.uses)


def is_way_in(symbol: Symbol) -> bool:
    """Return whether a framework calls a function from outside: an endpoint, a command, a message handler."""
    return any(_WAYS_IN.search(dotted) for dotted in symbol.decorators)
