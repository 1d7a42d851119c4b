"""Finds where runs begin: functions that answer a request, that a graph runs, that a command runs, or that users call.

Only what is known to be run from outside counts: decorated, registered and inherited handlers, nodes of graphs,
commands, and what the body of a program calls. Where there is none of these, the program is a library, and a run
begins in the public functions that lead to a model and that nothing else of it calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cached_property

from gapwatch.design.callgraph.graph import CallEdge, CallGraph, Symbol
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import calls_in
from gapwatch.design.patterns.failures import is_trial
from gapwatch.design.patterns.node_graph import NodeGraph
from gapwatch.design.patterns.page_modules import page_modules
from gapwatch.design.routes.error_takers import left_tasks
from gapwatch.design.source.evaluations import EVALUATION_FOLDERS
from gapwatch.design.source.ir import call_line, constant_of, is_call, positional_of
from gapwatch.design.source.program import FunctionInfo, Program, last_name

#: Decorators by which a framework runs a function for each request or message of a user.
_SERVES = re.compile(
    r"^(fastapi|starlette|flask|quart|sanic|litestar|aiohttp|django|rest_framework|falcon|bottle|robyn|chainlit|slack_bolt"
    r"|discord|telegram|aiogram|functions_framework|chalice|flask_socketio|socketio|azure\.functions|ninja|bentoml)\b.*\."
    r"(get|post|put|delete|patch|route|api_route|websocket|on_message|message|event|http|view|api_view|app_mention|command"
    r"|function_name|queue_trigger|service_bus_queue_trigger|blob_trigger|timer_trigger|api|lambda_function|on)$"
)
#: Decorators of jobs that a queue hands to a worker.
_JOBS = re.compile(r"^(celery|dramatiq|huey|rq|arq|faststream|taskiq)\b.*\.(task|shared_task|actor|job|subscriber)$")
#: Decorators of steps that a library of workflows runs one after the other.
_STEPS = re.compile(r"^(llama_index|workflows)\b.*\.step$|^langgraph\b.*\.entrypoint$")
_COMMANDS = re.compile(r"^(click|typer|cyclopts|fire|rich_click|asyncclick)\b")
#: Calls that register a handler.
_REGISTERS = re.compile(
    r"\.(add_api_route|add_url_rule|add_route|add_(get|post|put|patch|delete)|\w*Route|MessageHandler|CommandHandler"
    r"|web\.(get|post|put|patch|delete)|ChatInterface|Interface|click|submit)$"
)
_SERVERS = re.compile(r"^(fastapi|starlette|flask|quart|sanic|aiohttp|telegram|litestar|falcon|gradio)\b")
#: Bases outside, with the methods that a server calls for a request.
_HANDLERS = (
    (
        re.compile(
            r"^(flask_restx|flask_restful|flask|quart|rest_framework|django|tornado|starlette|sanic|aiohttp|falcon)\b"
        ),
        re.compile(r"^(get|post|put|patch|delete|dispatch_request|on_get|on_post|on_put)$"),
    ),
    (re.compile(r"^http\.server\b"), re.compile(r"^do_[A-Z]+$")),
    (re.compile(r"^(botbuilder|microsoft_agents)\b"), re.compile(r"^on_\w*(message|turn|activity|invoke)\w*$")),
    (re.compile(r"^chatkit\b"), re.compile(r"^(respond|action)$")),
)
#: Endpoints by which a person looks whether something works.
_LOOKS = re.compile(r"^_*(check|test|ping|probe|verify)_|(^|_)health")
#: Their paths.
_PROBES = re.compile(r"/(check|test|ping|probe|verify|validate)[-_][\w-]+(/\{[^/]*\})?/?$")
#: Folders of what a developer runs to measure or to try.
_OF_DEVELOPERS = re.compile(
    rf"(^|/)({EVALUATION_FOLDERS}|tests?\w*|\w+_tests?|bench|experiments?|examples?|scripts?|demos?"
    r"|notebooks?)(/|$)",
    re.I,
)
#: Methods that run a compiled graph.
_RUNS = frozenset({"invoke", "ainvoke", "stream", "astream", "astream_events", "batch", "abatch", "arun", "run"})
_RUNS_GRAPH = re.compile(r"\.astream_events$|^langgraph\..*\.compile\.(a?invoke|a?stream)$")
#: Edges to what a function waits for.
WAITS = frozenset({"call", "construct", "property", "protocol", "dynamic", "cha", "decorated", "resume"})
#: Calls that run what they are handed and hand its result or error back.
_RUN_GIVEN = frozenset({"submit", "map", "run_in_executor", "to_thread", "run_sync", "run_in_threadpool", "apply"})
_THREADS = frozenset({"Thread", "start_background_task", "add_task"})
#: Names of classes that stand in for others when the code is tried.
_STANDS_IN = re.compile(r"^_*(Mock|Fake|Dummy|Stub|Noop|NoOp|Null)")
#: Names that say nothing of a class.
_COMMON = frozenset(n for kind in (str, bytes, list, dict, set, tuple, BaseException) for n in dir(kind))
_NO_LIBRARY = frozenset({"abc.ABC", "typing.Protocol", "typing.Generic", "object"})


class WaysIn:
    """Queries about where the runs of a program begin.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        graph: The call graph.
        graphs: Graphs of nodes.
        asking: Functions that ask a model themselves.
        distances: Calls to the nearest model by symbol.
    """

    def __init__(
        self,
        program: Program,
        sites: CallSites,
        graph: CallGraph,
        graphs: Iterable[NodeGraph],
        asking: Collection[str],
        distances: dict[str, int],
    ) -> None:
        self._program, self._sites, self._distances = program, sites, distances
        self.symbols = {s.id: s for s in graph.symbols}
        self._graph = graph
        self._externals, self._unresolved = graph.externals, graph.unresolved
        self._graphs, self._asking = list(graphs), asking
        self.functions = {f.symbol: f for f in program.functions}

    # -- what leads to a model ---------------------------------------------------------------------------------

    @cached_property
    def waiting(self) -> set[str]:
        """Functions that ask a model or run a graph, and those that wait for them."""
        found = {s for s in (*self._asking, *self._running) if self._is_production(s)}
        frontier = list(found)
        while frontier:
            symbol = frontier.pop()
            sources = {e.src for e in self._sites.callers.get(symbol, ()) if e.kind in WAITS or self._is_run_there(e)}
            name = symbol.rpartition(".")[2]
            if name not in _COMMON and self._by_name.get(name, {""}) <= found:
                # The object is not known, but each of its kind asks a model.
                sources |= self._calling.get(name, set())
            new = {s for s in sources - found if self._is_production(s)}
            found |= new
            frontier += new
        return found

    def is_shared_client(self, symbol: str) -> bool:
        """Return whether a function asks a model for several others: what it gives back is no answer of a request."""
        callers = {e.src for e in self._sites.callers.get(symbol, ()) if e.kind in WAITS and self._is_production(e.src)}
        return symbol in self._asking and len(callers) > 1

    def _is_run_there(self, edge: CallEdge) -> bool:
        """Return whether a function that is handed on is run at once: by a pool whose result is waited for."""
        info = self.functions.get(edge.src)
        if edge.kind != "callback" or info is None:
            return False
        lines = {line for _, line in edge.sites}
        return any(call_line(c) in lines and last_name(c) in _RUN_GIVEN for c in calls_in(info.ir.body))

    @cached_property
    def _by_name(self) -> dict[str, set[str]]:
        """Methods by name, without those that subclasses must define and those that stand in for others."""
        out: dict[str, set[str]] = {}
        for f in self._program.functions:
            owner = self._program.classes[f.owner] if f.owner >= 0 else None
            if owner is None or self._is_only_said(f) or _STANDS_IN.search(owner.ir.name):
                continue
            if self._is_production(f.symbol):
                out.setdefault(f.ir.name, set()).add(f.symbol)
        return out

    def _is_only_said(self, info: FunctionInfo) -> bool:
        """Return whether a method only says what others of its name must do."""
        is_empty = all(s[0] in ("pass", "expr") for s in info.ir.body)
        return info.is_abstract or (info.owner >= 0 and is_empty and not any(calls_in(info.ir.body)))

    @cached_property
    def _calling(self) -> dict[str, set[str]]:
        """Functions by the name of a method that they call of an object which is not known."""
        out: dict[str, set[str]] = {}
        for one in self._unresolved:
            out.setdefault(one.text.rpartition(".")[2].removesuffix("()"), set()).add(one.src)
        for symbol, info in self.functions.items():
            if self._is_only_said(info):
                callers = {e.src for e in self._sites.callers.get(symbol, ()) if e.kind in WAITS}
                out.setdefault(info.ir.name, set()).update(callers)
        return out

    @cached_property
    def _running(self) -> set[str]:
        """Functions that run a graph."""
        nodes = {symbol for graph in self._graphs for run in graph.nodes.values() for symbol in run}
        found = {one.src for one in self._unresolved if one.text.rpartition(".")[2].startswith("astream_events")}
        found |= {one.src for one in self._externals if _RUNS_GRAPH.search(one.dotted)}
        for node in nodes:
            for edge in self._sites.callers.get(node, ()):
                info = self.functions.get(edge.src) if edge.kind == "framework" and edge.src not in nodes else None
                is_own = info is not None and info.ir.kind != "module"
                if info is not None and is_own and any(last_name(c) in _RUNS for c in calls_in(info.ir.body)):
                    found.add(edge.src)
        return found

    # -- ways in -----------------------------------------------------------------------------------------------

    @cached_property
    def requests(self) -> set[str]:
        """Functions that a server runs for each request or message, and that lead to a model."""
        found = {s.id for s in self.symbols.values() if any(_SERVES.search(d) for d in s.decorators)}
        found |= {s.id for s in self.symbols.values() if any(_JOBS.search(d) for d in s.decorators)}
        found |= self._registered | self._inherited | self._of_clouds
        found |= {s for one in found for s in self._started(one)} | self.pages
        return self.pages | {s for s in found if self._is_run(s) and (s in self._distances or s in self.waiting)}

    @cached_property
    def nodes(self) -> set[str]:
        """Functions that a graph or a workflow runs, so that an exception which leaves one ends the run."""
        found = {s.id for s in self.symbols.values() if any(_STEPS.search(d) for d in s.decorators)}
        for graph in self._graphs:
            own = {s for name in graph.ending for s in graph.nodes.get(name, ())}
            found |= own if any(s in self._distances for s in own) else set()
        return {s for s in found if self._is_run(s)}

    @cached_property
    def commands(self) -> set[str]:
        """Commands of a command line, scripts of the package, and what the body of a program calls."""
        found = {s.id for s in self.symbols.values() if any(_COMMANDS.search(d) for d in s.decorators)}
        found |= {s for s in self.waiting if s.endswith(".execute") and self._serves_agents(s)}
        for symbol in self.waiting:
            if self._is_program(symbol):
                found |= {e.dst for e in self._sites.callees.get(symbol, ()) if e.kind in WAITS}
        for path in self._program.texts.named("*pyproject.toml", ""):
            for keys, entry in self._program.texts.entries(path).items():
                if keys[:-1] in (("project", "scripts"), ("tool", "poetry", "scripts")):
                    dotted, _, name = entry.text.partition(":")
                    module = self._program.index.resolve(0, dotted.strip())
                    if module is not None:
                        found.add(f"{self._program.index.modules[module].name}.{name.strip()}")
        return {s for s in found & self.waiting if self._is_run(s) and not _of_developers(self.symbols[s])}

    @cached_property
    def exported(self) -> set[str]:
        """Public functions that wait for a model and that nothing of the program calls, hands on or inherits."""
        return {s for s in self.waiting if self._is_public(s) and self._is_run(s)}

    def is_waited_for(self, symbol: str) -> bool:
        """Return whether a function that leads to a model waits for another."""
        return any(e.kind in WAITS and e.src in self.waiting for e in self._sites.callers.get(symbol, ()))

    def below(self, symbols: Iterable[str]) -> set[str]:
        """Return some functions and all that they lead to."""
        found = set(symbols)
        frontier = list(found)
        while frontier:
            for edge in self._sites.callees.get(frontier.pop(), ()):
                if edge.dst not in found:
                    found.add(edge.dst)
                    frontier.append(edge.dst)
        return found

    # -- parts -------------------------------------------------------------------------------------------------

    @cached_property
    def _methods(self) -> dict[int, list[str]]:
        out: dict[int, list[str]] = {}
        for f in self._program.functions:
            if f.owner >= 0:
                out.setdefault(f.owner, []).append(f.symbol)
        return out

    @cached_property
    def pages(self) -> set[str]:
        """Modules of pages that ask a model themselves, run for each action of a user."""
        return {s for s in page_modules(self._graph).intersection(self._asking) if self._is_production(s)}

    def _started(self, symbol: str) -> set[str]:
        """Return what a function runs in a thread of its own, or after its answer, and nothing waits for."""
        calls = calls_in(self.functions[symbol].ir.body) if symbol in self.functions else ()
        lines = {call_line(c) for c in calls if last_name(c) in _THREADS}
        begun = {e.dst for line in lines for e in self._sites.inside.get((symbol, line), ()) if e.kind == "callback"}
        begun = {s for s in begun if not any(e.kind in WAITS for e in self._sites.callers.get(s, ()))}
        for call in left_tasks(self.functions[symbol].ir.body) if symbol in self.functions else ():
            inside = self._sites.inside.get((symbol, call_line(call)), ())
            begun |= {e.dst for e in inside if e.kind in WAITS and e.dst.endswith(f".{last_name(call)}")}
        lambdas = {s for s in begun if self.symbols[s].kind == "lambda"}
        return begun - lambdas | {e.dst for s in lambdas for e in self._sites.callees.get(s, ()) if e.kind in WAITS}

    @property
    def _registered(self) -> set[str]:
        found: set[str] = set()
        for external in self._externals:
            if _REGISTERS.search(external.dotted) and _SERVERS.search(external.dotted):
                for line in external.lines:
                    inside = self._sites.inside.get((external.src, line), ())
                    found |= {e.dst for e in inside if e.kind == "callback"}
        return found

    @property
    def _inherited(self) -> set[str]:
        return {
            symbol
            for cls in self._program.classes
            for bases, names in _HANDLERS
            if any(map(bases.search, cls.outside))
            for symbol in self._methods.get(cls.number, ())
            if names.search(symbol.rpartition(".")[2])
        }

    @property
    def _of_clouds(self) -> set[str]:
        return {f.symbol for f in self._program.functions if is_run_by_cloud(f)}

    def _is_production(self, symbol: str) -> bool:
        found = self.symbols.get(symbol)
        return found is not None and not found.tags

    def _is_run(self, symbol: str) -> bool:
        found = self.symbols.get(symbol)
        if found is None or found.tags or found.kind != "function" or found.is_abstract:
            return False
        name = symbol.rpartition(".")[2]
        return not (is_trial(name) or _LOOKS.search(name) or self._is_probe(symbol))

    def _is_probe(self, symbol: str) -> bool:
        """Return whether the path of an endpoint says that it tries something out: `/validate-key/{key}`."""
        info = self.functions.get(symbol)
        calls = [d for d in info.ir.decorators if is_call(d)] if info is not None else []
        paths = [constant_of(e) for d in calls for e in positional_of(d)[:1] if e[0] == "k"]
        return any(isinstance(path, str) and _PROBES.search(path) for path in paths)

    def _serves_agents(self, symbol: str) -> bool:
        """Return whether agents of others ask a method of a class; that alone makes no server for users."""
        owner = self.functions[symbol].owner
        return owner >= 0 and any(o.partition(".")[0] == "a2a" for o in self._program.classes[owner].outside)

    def _is_program(self, symbol: str) -> bool:
        found = self.symbols[symbol]
        return found.kind == "module" and not _of_developers(found)

    def _is_public(self, symbol: str) -> bool:
        found, info = self.symbols[symbol], self.functions[symbol]
        if any(part.startswith("_") for part in info.ir.qual.split(".")) or _of_developers(found):
            return False
        if found.decorators or self._overrides(info) or info.parent < 0 or not self._is_of_top(info):
            return False
        return all(not self._is_production(e.src) or e.src == symbol for e in self._sites.callers.get(symbol, ()))

    def _is_of_top(self, info: FunctionInfo) -> bool:
        """Return whether it stands in no other function."""
        return self._program.functions[info.parent].ir.kind == "module"

    def _overrides(self, info: FunctionInfo) -> bool:
        """Return whether a library, or a class of the program, may call it as a method of a base."""
        frontier, name = [info.owner] if info.owner >= 0 else [], info.ir.name
        seen: set[int] = set()
        while frontier:
            cls = self._program.classes[frontier.pop()]
            if cls.number in seen:
                continue
            seen.add(cls.number)
            if cls.number != info.owner and f"{cls.symbol}.{name}" in self.functions:
                return True
            if any(o.partition(".")[0] not in _VALUES and o not in _NO_LIBRARY for o in cls.outside):
                return True
            frontier += cls.bases
        return False


#: Libraries whose bases call nothing of what extends them.
_VALUES = frozenset({"pydantic", "enum", "dataclasses", "typing", "typing_extensions", "abc", "pandas", "object"})


def _of_developers(symbol: Symbol) -> bool:
    return _OF_DEVELOPERS.search(symbol.path.rpartition("/")[0]) is not None


def is_run_by_cloud(function: FunctionInfo) -> bool:
    """Return whether a cloud runs a function by its name: `lambda_handler(event, context)`."""
    names = [p.name for p in function.ir.params]
    return function.owner < 0 and function.ir.name in ("handler", "lambda_handler") and names == ["event", "context"]
