"""Functions that run once: when a server starts or ends, or a module is loaded."""

from __future__ import annotations

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.rules.code_names import main_blocks
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Body, keywords_of, line_of
from gapwatch.design.source.program import last_name

#: Keywords and decorators that hand a server what it runs when it starts or ends.
_STARTS = frozenset({"lifespan", "on_startup", "on_shutdown"})
_START_EVENTS = frozenset(
    {"on_event", "before_serving", "after_serving", "before_first_request", "worker_process_init"}
)


def set_up_functions(code: ClaimedCode, served: set[str] | None = None) -> set[str]:
    """Functions that run once: when a server starts or ends, when a module is loaded, and what only they call.

    Args:
        code: The analysed code.
        served: Functions that the application runs; calls of others count for nothing, unless it asks a model.
    """
    program = code.material.program
    named = {
        last_name(value)
        for info in program.functions
        for call in Subject(program, code.material.sites, info).calls
        for keyword, value in keywords_of(call)
        if keyword in _STARTS
    }
    found = {
        info.symbol
        for info in program.functions
        if info.ir.kind != "module"
        and (info.ir.name in named or any(last_name(d) in _START_EVENTS for d in info.ir.decorators))
    }
    return _called_only_by(code, found, set(), served) | _called_only_by(code, set(), _starting_modules(code), None)


#: Decorators that register nothing: whoever wants the function calls it.
_WRAPPERS = frozenset(
    {"lru_cache", "cache", "cached", "staticmethod", "classmethod", "contextmanager", "asynccontextmanager", "retry"}
)
#: Edges by which a file itself runs a function; what it hands to a framework is run later.
_AT_ONCE = frozenset({"call", "construct"})


def _called_only_by(code: ClaimedCode, functions: set[str], modules: set[str], served: set[str] | None) -> set[str]:
    """Return functions, and those that only they or the load of some modules call; tests count for nothing."""
    sites, symbols = code.material.sites, code.material.graph.symbols
    registered = {s.id for s in symbols if any(d.rpartition(".")[2] not in _WRAPPERS for d in s.decorators)}
    tests = {s.id for s in symbols if s.tags}
    found = functions | modules
    # What asks a model is run by requests, also where no call of theirs is known.
    asking = code.reaching(frozenset({"llm_chat", "embedding"}))
    asking |= {symbol.rpartition(".")[0] for symbol in asking}
    frontier = list(found)
    while frontier:
        for edge in sites.callees.get(frontier.pop(), ()):
            if edge.dst in found or edge.dst in registered or code.subject(edge.dst) is None:
                continue
            calls = [e for e in sites.callers[edge.dst] if e.src != edge.dst and e.src not in tests]
            if served is not None:
                calls = [e for e in calls if e.src in found or e.src in served or e.dst in asking]
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
        if ir is None or not edges or asks or main_blocks(ir.functions[0].body):
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
