"""Ways into a repository by rank, and what they lead to: what a server runs, else what a program or a library does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.rules.code_names import NO_LIBRARY, OF_DEVELOPERS, CodeNames, imports_of, main_blocks
from gapwatch.design.metrics.rules.live_code import live_functions
from gapwatch.design.routes.ways_in import is_run_by_cloud
from gapwatch.design.source.evaluations import is_offline_evaluation
from gapwatch.design.source.program import FunctionInfo

#: Libraries whose decorators register what a server runs for a request or a message.
_SERVERS = frozenset(
    [
        "fastapi",
        "starlette",
        "flask",
        "quart",
        "sanic",
        "litestar",
        "aiohttp",
        "falcon",
        "bottle",
        "django",
        "celery",
        "chainlit",
        "slack_bolt",
        "discord",
        "telegram",
        "aiogram",
        "faststream",
        "modal",
        "bentoml",
        "fastmcp",
        "mcp",
        "robyn",
        "tornado",
        "azure",
        "functions_framework",
        "chalice",
    ]
)
#: Calls that serve requests or messages until the program ends, by the end of their dotted name.
_SERVES = re.compile(
    r"^(uvicorn\.(run|Server)|hypercorn\.|waitress\.serve|websockets\.(\w+\.)*serve|aiohttp\.web\.run_app|gradio\..*launch"
    r"|(aiokafka|kafka|confluent_kafka|pika|nats|rq|arq|dramatiq)\.\w*|telegram\..*run_polling|chainlit\.run"
    r"|(fastapi\.FastAPI|flask\.Flask|quart\.Quart|starlette\.applications\.Starlette|celery\.Celery)$"
    r"|.*\.(include_router|add_api_route|add_url_rule|register_blueprint)$)"
)
#: Libraries of pages: a file that imports one and runs something is a page.
_PAGES = frozenset({"streamlit", "gradio", "nicegui", "mesop", "taipy"})
#: Libraries of bots and queues: a program that leads to a file that imports one waits for messages.
_MESSAGES = frozenset(
    {
        "telegram",
        "telebot",
        "aiogram",
        "discord",
        "slack_bolt",
        "botbuilder",
        "aiokafka",
        "kafka",
        "confluent_kafka",
        "pika",
    }
)
#: Names of functions that wait for messages until the program ends.
_WAITS = re.compile(r"(^|_)(polling|run_forever|serve_forever|listen_forever|consume_messages|consumer_loop)$")
#: Libraries that draw in a terminal or read from one.
_TERMINALS = frozenset({"rich", "questionary", "textual", "prompt_toolkit", "curses", "inquirer", "simple_term_menu"})
#: Tables of `pyproject.toml` with the scripts of a package.
_SCRIPTS = frozenset({("project", "scripts"), ("tool", "poetry", "scripts")})
_MODELS = frozenset({"llm_chat"})
#: What the pipeline of a program without a server is made of.
_PIPELINE = frozenset({"llm_chat", "embedding", "retrieval", "rerank"})


def served_functions(code: ClaimedCode) -> set[str] | None:
    """Return the functions that the application runs; None where no way in leads to a model.

    If a server (endpoints, handlers of messages, pages) leads to a model, the application is what servers lead to: what
    only scripts, commands, evaluations or tests lead to is left out. Tools that a server hands to agents of others
    (MCP) do not make it one. Else the application is what those programs and commands run that lead to a model,
    without the screens of a terminal; else what the public functions of a library lead to.
    """
    names = CodeNames(code)
    ways = _Ways(code, names)
    models = {h.symbol for h in code.material.hits if h.pattern == "calls_llm"} & code.reaching(_MODELS)
    # An evaluation that a server leads to is not what it serves.
    models = {s for s in models if ways.is_of_production(s)} or models
    others, found = ways.tools(), ways.servers()
    servers, tools = [s for s in found if s not in others], [s for s in found if s in others]
    pages = [*ways.pages(), *ways.waiting(names)]
    if live_functions(names, servers, pages) & models:
        return live_functions(names, [*servers, *tools], pages)
    programs = [p for p in ways.programs() if live_functions(names, (), [p]) & models]
    commands = [c for c in ways.commands(names) if live_functions(names, [c]) & models]
    if programs or commands:
        run = live_functions(names, [*commands, *tools, *ways.exported(names)], programs)
        return run - ways.screens(run)
    return live_functions(names, [*found, *ways.library()]) if models else None


def is_of_server(dotted: str) -> bool:
    """Return whether a call by a dotted name hands a function to a server, which runs it for a request."""
    return dotted.partition(".")[0] in _SERVERS or _SERVES.match(dotted) is not None


class _Ways:
    def __init__(self, code: ClaimedCode, names: CodeNames) -> None:
        self.code, self.program = code, names.program
        graph = code.material.graph
        self._by_symbol = names.functions
        self._tags = {s.path for s in graph.symbols if s.tags}
        self._decorators = {s.id: s.decorators for s in graph.symbols if s.decorators}

    def servers(self) -> list[str]:
        """Return the functions, classes and modules by which requests and messages come in."""
        found = {
            f.symbol
            for f in self._functions()
            if any(d.partition(".")[0] in _SERVERS for d in self._decorators.get(f.symbol, ()))
            and not is_offline_evaluation(self.program, f)
        }
        found |= {f.symbol for f in self._functions() if is_run_by_cloud(f)}
        found |= {
            e.src for e in self.code.material.graph.externals if _SERVES.match(e.dotted) and self._is_production(e.path)
        }
        for cls in self.program.classes:
            bases = {o.partition(".")[0] for o in set(cls.outside) - NO_LIBRARY}
            if bases & _SERVERS and self._is_production(self.program.index.modules[cls.module].path):
                found.add(cls.symbol)
        return sorted(found)

    def pages(self) -> list[str]:
        """Return the modules that are pages of an interface, each run as a program."""
        out = []
        for f in self._modules():
            calls = self.code.material.sites.callees.get(f.symbol, ())
            if _PAGES & set(imports_of(f.ir.body)) and (calls or main_blocks(f.ir.body)):
                out.append(f.symbol)
        return out

    def waiting(self, names: CodeNames) -> list[str]:
        """Return the programs that wait for messages, and the graphs that a server of graphs is told to run."""
        files = {f.module for f in self._modules() if _MESSAGES & set(imports_of(f.ir.body))}
        ends = {f.symbol for f in self._functions() if f.module in files or _WAITS.search(f.ir.name)}
        out = [p for p in self.programs() if ends and ends & live_functions(names, (), [p])]
        for path in self.program.texts.named("langgraph.json", ""):
            folder = path.removesuffix("langgraph.json")
            told = self.program.texts.entries(path)
            graphs = {
                f"{folder}{e.text.partition(':')[0].removeprefix('./')}" for k, e in told.items() if k[0] == "graphs"
            }
            out += [f.symbol for f in self._modules() if self.program.path(f) in graphs]
        return out

    def tools(self) -> set[str]:
        """Return the functions of files that serve agents of others."""
        files = {f.module for f in self._modules() if {"mcp", "fastmcp", "a2a"} & set(imports_of(f.ir.body))}
        return {f.symbol for f in self.program.functions if f.module in files}

    def programs(self) -> list[str]:
        """Return the modules that run as programs, and those that ask a model when they are loaded."""
        asking = self.code.reaching(_MODELS)
        return [f.symbol for f in self._modules() if f.symbol in asking or main_blocks(f.ir.body)]

    def commands(self, names: CodeNames) -> list[str]:
        """Return the functions that are commands of a command line or scripts of the installed package."""
        scripts = set[str | None]()
        for path in self.program.texts.named("*pyproject.toml", ""):
            for keys, entry in self.program.texts.entries(path).items():
                if keys[:-1] in _SCRIPTS:
                    dotted, _, name = entry.text.partition(":")
                    module = self.program.index.resolve(0, dotted.strip())
                    scripts.add(names.resolve(module, name.strip()) if module is not None else None)
        return [f.symbol for f in self._functions() if f.symbol in names.commands or f.symbol in scripts]

    def library(self) -> list[str]:
        """Return the public functions and classes."""
        public = [f for f in self._functions() if not f.ir.name.startswith("_")]
        return [self.program.classes[f.owner].symbol for f in public if f.owner >= 0] + [f.symbol for f in public]

    def exported(self, names: CodeNames) -> set[str]:
        """Return what packages that lead to a model hand to whoever imports them, with their public methods."""
        asking = self.code.reaching(_PIPELINE)
        public = [f for f in self._functions() if f.symbol in asking and not f.ir.name.startswith("_")]
        found = {f.symbol for f in public} | {self.program.classes[f.owner].symbol for f in public if f.owner >= 0}
        index, out = self.program.index, set[str]()
        for f in self._modules():
            module = index.modules[f.module]
            above = index.by_parts.get(module.parts[:-1]) if len(module.parts) > 1 else None
            if not module.is_package or (above is not None and index.modules[above].path):
                continue
            handed_on = [alias or name for s in f.ir.body if s[0] == "from" for name, alias in s[4] or ()]
            handed = {names.resolve(f.module, name) for name in handed_on} & found
            out |= {one for one in found if one in handed or one.rpartition(".")[0] in handed}
        return out

    def screens(self, run: set[str]) -> set[str]:
        """Return what only serves the terminal: no model is asked, and only the files of the terminal call it."""
        reaching = self.code.reaching(_PIPELINE)
        modules = {f.module for f in self._modules() if _TERMINALS & set(imports_of(f.ir.body))}
        files = {f.symbol for f in self.program.functions if f.module in modules}
        callers_of = self.code.material.sites.callers
        found = {
            symbol
            for symbol in files & run - reaching
            if all(e.src in files for e in callers_of.get(symbol, ()) if e.src in run)
        }
        frontier = list(found)
        while frontier:
            for edge in self.code.material.sites.callees.get(frontier.pop(), ()):
                callers = {e.src for e in self.code.material.sites.callers[edge.dst] if e.src in run}
                if edge.dst not in found | reaching and callers <= found:
                    found.add(edge.dst)
                    frontier.append(edge.dst)
        return found

    def is_of_production(self, symbol: str) -> bool:
        """Return whether a function is neither of tests nor of evaluations."""
        found = self._by_symbol.get(symbol)
        return found is None or self._is_production(self.program.path(found))

    def _functions(self) -> Iterator[FunctionInfo]:
        for f in self.program.functions:
            if f.ir.kind != "module" and self._is_production(self.program.path(f)):
                yield f

    def _modules(self) -> Iterator[FunctionInfo]:
        for f in self.program.functions:
            if f.ir.kind == "module" and self._is_production(self.program.path(f)):
                yield f

    def _is_production(self, path: str) -> bool:
        return path not in self._tags and not OF_DEVELOPERS.search(path)
