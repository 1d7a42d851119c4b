"""Functions that requests run: what a server registers, and all that it leads to; and those of its start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.code_walk import names_in, own_expressions, walk
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    branches_of,
    constant_of,
    end_of,
    is_call,
    is_text,
    keywords_of,
    line_of,
)
from gapwatch.design.source.program import Program, last_name, statements

_WORD = re.compile(r"[A-Za-z_]\w*")

#: Libraries whose decorators register a command of a command line.
_COMMAND_LINES = frozenset({"click", "typer", "fire", "cyclopts", "argh", "invoke", "pytest"})
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


def served_functions(code: ClaimedCode) -> set[str] | None:
    """Functions that requests run; None where the code has no server, so that any function may be its way in."""
    program, graph = code.material.program, code.material.graph
    tags = {s.path for s in graph.symbols if s.tags}
    registered = [s for s in graph.symbols if s.kind == "function" and s.path not in tags and s.decorators]
    servers = {s.path for s in registered if any(d.partition(".")[0] in _SERVERS for d in s.decorators)}
    if not servers:
        return None
    roots = {s.id for s in registered if any(d.partition(".")[0] not in _COMMAND_LINES for d in s.decorators)}
    roots |= _marked(program, tags)
    commands = {
        s.id for s in graph.symbols if s.decorators and all(d.partition(".")[0] in _COMMAND_LINES for d in s.decorators)
    }
    by_name: dict[str, list[str]] = {}
    inner: dict[int, list[str]] = {}
    methods: dict[int, list[str]] = {}
    for info in program.functions:
        inner.setdefault(info.parent, []).append(info.symbol)
        methods.setdefault(info.owner, []).append(info.symbol)
        if info.parent >= 0:
            by_name.setdefault(info.ir.name, []).append(info.symbol)
    for cls in program.classes:
        by_name.setdefault(cls.ir.name, []).extend(
            f"{cls.symbol}.{name}" for name in ("__init__", "__post_init__", "__call__", "__enter__", "__aenter__")
        )
        if set(cls.outside) - _NO_LIBRARY:
            # The library calls the methods of its subclasses.
            roots.update(methods.get(cls.number, ()))
    mentioned: set[str] = set()
    for ir, module in zip(program.irs, program.index.modules, strict=True):
        if ir is not None and module.path not in tags:
            # What a server's file runs as a program is a trial; another file may be a way in of its own.
            whole = ir.functions[0].body
            if module.path not in servers and _asks_as_program(code, module.name, whole):
                # Many programs call `main`: each means its own.
                roots |= {edge.dst for edge in _called_as_program(code, module.name, whole)}
                run = statements(tuple(_main_blocks(whole)))
                handed = {n for s in run for e in own_expressions(s) for n in _lasts(e)}
                roots |= {f for n in handed for f in by_name.get(n, ()) if f.startswith(f"{module.name}.")}
            bodies = [_without_main(whole), *(c.body for c in ir.classes)]
            mentioned |= {n for b in bodies for s in statements(b) for e in own_expressions(s) for n in _lasts(e)}
            for function in ir.functions:
                for e in (*function.decorators, *(p.default for p in function.params if p.default is not None)):
                    mentioned |= set(_lasts(e))
                for p in function.params:
                    mentioned |= set(_lasts(p.annotation)) if p.annotation is not None else set()
    roots |= {symbol for name in mentioned for symbol in by_name.get(name, ())}
    callees = code.material.sites.callees
    commands |= _unmade(program, tags)
    seen = set(roots) - commands
    frontier = list(seen)
    while frontier:
        current = frontier.pop()
        subject = code.subject(current)
        names = code.read_by(current).union(map(last_name, subject.calls)) if subject else frozenset()
        near = {edge.dst for edge in callees.get(current, ())}
        near |= {symbol for name in names for symbol in by_name.get(name, ())}
        near.update(inner.get(subject.info.number, ()) if subject is not None else ())
        for symbol in near - seen - commands:
            seen.add(symbol)
            frontier.append(symbol)
    return seen


#: Keywords and decorators that hand a server what it runs when it starts or ends.
_STARTS = frozenset({"lifespan", "on_startup", "on_shutdown"})
_START_EVENTS = frozenset(
    {"on_event", "before_serving", "after_serving", "before_first_request", "worker_process_init"}
)


def set_up_functions(code: ClaimedCode) -> set[str]:
    """Functions that run once: when a server starts or ends, when a module is loaded, and what only they call."""
    program = code.material.program
    named = {
        last_name(value)
        for info in program.functions
        for s in statements(info.ir.body)
        for e in own_expressions(s)
        for call in walk(e)
        if is_call(call)
        for keyword, value in keywords_of(call)
        if keyword in _STARTS
    }
    found = {
        info.symbol
        for info in program.functions
        if info.ir.kind != "module"
        and (info.ir.name in named or any(last_name(d) in _START_EVENTS for d in info.ir.decorators))
    }
    return _called_only_by(code, found, set()) | _called_only_by(code, set(), _starting_modules(code))


#: Decorators that register nothing: whoever wants the function calls it.
_WRAPPERS = frozenset(
    {"lru_cache", "cache", "cached", "staticmethod", "classmethod", "contextmanager", "asynccontextmanager", "retry"}
)
#: Edges by which a file itself runs a function; what it hands to a framework is run later.
_AT_ONCE = frozenset({"call", "construct"})


def _called_only_by(code: ClaimedCode, functions: set[str], modules: set[str]) -> set[str]:
    """Return functions, and those that only they or the load of some modules call; tests count for nothing."""
    sites, symbols = code.material.sites, code.material.graph.symbols
    registered = {s.id for s in symbols if any(d.rpartition(".")[2] not in _WRAPPERS for d in s.decorators)}
    tests = {s.id for s in symbols if s.tags}
    found = functions | modules
    frontier = list(found)
    while frontier:
        for edge in sites.callees.get(frontier.pop(), ()):
            if edge.dst in found or edge.dst in registered or code.subject(edge.dst) is None:
                continue
            calls = [e for e in sites.callers[edge.dst] if e.src != edge.dst and e.src not in tests]
            if {e.src for e in calls} <= found and (not modules or all(e.kind in _AT_ONCE for e in calls)):
                found.add(edge.dst)
                frontier.append(edge.dst)
    return found - modules


def _starting_modules(code: ClaimedCode) -> set[str]:
    """Return the modules whose load is a start: none that asks a model itself, as scripts do, or runs as a program."""
    program, sites = code.material.program, code.material.sites
    models, hits_of = code.reaching(frozenset({"llm_chat"})), code.material.hits_of
    out: set[str] = set()
    for ir, module in zip(program.irs, program.index.modules, strict=True):
        edges = [e for e in sites.callees.get(module.name, ()) if e.kind in _AT_ONCE]
        asks = any(e.dst in models for e in edges) or any(h.pattern == "calls_llm" for h in hits_of(module.name))
        if ir is None or not edges or asks or _main_blocks(ir.functions[0].body):
            continue
        bound = {line_of(s) for s in ir.functions[0].body if s[0] == "assign"}
        # A file that runs its work as a statement may be the program itself.
        is_bound = all(any(_is_within(line, ir.functions[0].body, bound) for _, line in e.sites) for e in edges)
        if is_bound:
            out.add(module.name)
    return out


def _is_within(line: int, body: Body, starts: set[int]) -> bool:
    """Return whether the last statement that begins at or before a line is one of some."""
    return max((line_of(s) for s in body if line_of(s) <= line), default=0) in starts


def _asks_as_program(code: ClaimedCode, module: str, body: Body) -> bool:
    """Return whether a file that runs as a program asks a model; one that fills an index does not."""
    models = code.reaching(frozenset({"llm_chat"}))
    return any(edge.dst in models for edge in _called_as_program(code, module, body))


def _called_as_program(code: ClaimedCode, module: str, body: Body) -> list[CallEdge]:
    """Return the calls of a file that it makes only where it runs as a program."""
    lines = {(line_of(s), end_of(s)) for s in _main_blocks(body)}
    edges = code.material.sites.callees.get(module, ())
    return [edge for edge in edges if any(a <= line <= b for _, line in edge.sites for a, b in lines)]


def _marked(program: Program, tags: set[str]) -> set[str]:
    """Functions that a decorator of the repository hands back as they are: it registers or marks them for somebody."""
    marks = {program.functions[i].ir.name for i in _handing_back(program)}
    return {
        info.symbol
        for info in program.functions
        if any(last_name(d) in marks for d in info.ir.decorators) and program.path(info) not in tags
    }


def _handing_back(program: Program) -> Iterator[int]:
    """Yield the functions that give back what they are handed, and those around them: decorators with arguments."""
    for info in program.functions:
        if 0 in info.returned and info.owner < 0:
            yield info.number
            if info.parent >= 0:
                yield info.parent


#: Bases that call nothing.
_NO_LIBRARY = frozenset({"abc.ABC", "typing.Protocol", "typing.Generic", "typing_extensions.Protocol", "object"})
#: Calls that find a class without its name.
_FINDS_CLASSES = frozenset({"__subclasses__", "import_module", "__import__", "entry_points", "import_string"})


def _unmade(program: Program, tags: set[str]) -> set[str]:
    """Methods of classes that no code names, so that nothing makes an object of them; none where names are made up."""
    named: set[str] = set()
    for info in program.functions:
        if program.path(info) in tags:
            continue
        expressions = [e for s in statements(info.ir.body) for e in own_expressions(s)]
        expressions += [e for e in (*info.ir.decorators, info.ir.returns) if e is not None]
        expressions += [e for p in info.ir.params for e in (p.annotation, p.default) if e is not None]
        for e in expressions:
            named.update(_lasts(e))
            named.update(w for inner in walk(e) if is_text(inner) for w in _WORD.findall(constant_of(inner)))
    for cls in program.classes:
        for e in (*cls.ir.decorators, *(e for s in cls.ir.body for e in own_expressions(s))):
            named.update(_lasts(e))
    if named & _FINDS_CLASSES:
        return set()
    used = {c.number for c in program.classes if c.ir.name in named or c.ir.decorators or set(c.outside) - _NO_LIBRARY}
    # A class is of use where one that is made of it is.
    frontier = list(used)
    while frontier:
        for base in program.classes[frontier.pop()].bases:
            if base not in used:
                used.add(base)
                frontier.append(base)
    return {info.symbol for info in program.functions if info.owner >= 0 and info.owner not in used}


def _lasts(e: Expr) -> Iterator[str]:
    for name in names_in(e):
        yield name.rpartition(".")[2]
    for inner in walk(e):
        if is_call(inner):
            yield last_name(inner)


def _main_blocks(body: Body) -> list[Stmt]:
    return [s for s in body if s[0] == "if" and any("__name__" in names_in(test) for test, _ in branches_of(s))]


def _without_main(body: Body) -> Body:
    """Leave out what runs only as a program: `if __name__ == "__main__"`."""
    blocks = _main_blocks(body)
    return tuple(s for s in body if s not in blocks)
