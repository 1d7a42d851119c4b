"""Finds what a call reaches: capabilities of libraries within a few calls, a cache, a store, a person."""

from __future__ import annotations

import re

from gapwatch.design.patterns.code_walk import arguments_of, callee_text, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.model_calls import model_depths
from gapwatch.design.source.ir import Expr, call_line, is_call, targets_of, value_of
from gapwatch.design.source.program import last_name, statements

#: Capabilities of calls that fetch or make an answer, the most telling first.
WORK = (
    "llm_chat",
    "rerank",
    "retrieval",
    "embedding",
    "guardrail",
    "web_search",
    "http",
    "saas",
    "tool",
    "cache",
    "db_read",
    "db_execute",
    "person",
    "json",
    "ingest",
)
#: Capabilities of calls that leave the process for what a cache may hold.
SOURCES = frozenset({"llm_chat", "rerank", "retrieval", "embedding", "web_search", "http", "saas", "tool", "guardrail"})
#: Calls between a function and the library call that decides what it reaches.
_DEPTH = 4
_FLOW = frozenset({"call", "construct", "cha", "protocol", "decorated", "dynamic", "property", "resume", "callback"})
_ASKS_PERSON = frozenset({"interrupt", "input", "human_input", "ask_user", "ask_human"})
#: Functions that parse other texts than JSON, with the modules that have them.
_PARSERS = {
    "safe_load": {"yaml"},
    "load": {"yaml"},
    "loads": {"toml", "tomllib", "tomli", "tomlkit", "xmltodict"},
    "literal_eval": {"ast"},
    "fromstring": {"ET", "etree", "ElementTree"},
}
_COUNTS = re.compile(r"(^|_)(count|num)_?tokens|tokens?_count", re.I)
#: Calls whose result is no answer: logging, containers, clean-up, conversions.
_NO_ANSWER = re.compile(
    r"(^|\.)(log|logger|logging|print|append|extend|add|format|join|str|repr|int|float|len|list|dict|set|tuple|bool|sleep"
    r"|exit|pop|strip|update|warning|error|exception|info|debug|isinstance|hasattr|getattr|setattr|uuid4|time|now|utcnow"
    r"|dumps|jsonify|close|rollback|commit|capture_exception|format_exc|print_exc|getenv|cancel|release|set_exception"
    r"|field|type|connect|disconnect|items|keys|values|startswith|endswith|lower|upper|split|replace|monotonic"
    r"|perf_counter|rsplit|lstrip|rstrip|splitlines|title|model_dump|model_dump_json|to_dict|copy|exists|mkdir|unlink|range|enumerate|zip|sorted|sum|min|max|any|all|is_set|decode|encode)$"
)
_LOGGING = re.compile(r"(^|\.)(log|logger|logging|_logger|_log|LOG|LOGGER|warnings|print|traceback|console|st)(\.|$)")
_PREDICATE = re.compile(
    r"^_?(is|has|can|should|was|are|needs|supports|contains|check|validate)_|_(called|exists|enabled|allowed)$", re.I
)
_CACHED = re.compile(r"cache|redis|memcache", re.I)
_WRITES = re.compile(r"^_?(set|put|store|save|write|delete|invalidate|clear|expire|setex)", re.I)
_STORE = re.compile(r"(^|[._])(store|memory|repo|repository|db|database|collection|table|kv|storage)$", re.I)
_READS = re.compile(r"^_?a?(get|find|fetch|search|load|read|query|lookup|select)(_|$)", re.I)
_SEARCHES = re.compile(r"similarity_search|semantic_search|vector_search|get_relevant_documents|hybrid_search")
_DICTIONARIES = frozenset({"dict", "OrderedDict", "defaultdict", "WeakValueDictionary"})


def reaches(subject: Subject, call: Expr) -> frozenset[str]:
    """Return the capabilities that a call reaches, also through the repository and a function that it is given."""
    known = subject.sites.reached_by_call
    found = known.get(id(call))
    if found is None:
        # The call is held with the answer, so that its `id` stays its own.
        found = known[id(call)] = call, _reaches(subject, call)
    return found[1]


def _reaches(subject: Subject, call: Expr) -> frozenset[str]:
    found: set[str] = set()
    capability = subject.reach(call).capability
    if capability is not None:
        found.add(capability)
    name, owner = last_name(call), callee_text(call).rpartition(".")[0]
    if name in _PARSERS and owner.rpartition(".")[2] in _PARSERS[name]:
        found.add("json")
    if name in _ASKS_PERSON:
        found.add("person")
    if _CACHED.search(callee_text(call)) and not _WRITES.search(name) and not _is_dictionary(subject, owner):
        found.add("cache")
    elif _SEARCHES.search(name):
        found.add("retrieval")
    elif _STORE.search(owner) and _READS.search(name):
        found.add("db_read")
    edges = subject.inside(call)
    for edge in edges:
        if edge.kind in _FLOW:
            found |= _reached_by(subject, edge.dst)
    here = subject.sites.inside.get((subject.symbol, call_line(call)), ())
    for argument in arguments_of(call):
        if argument[0] in "na":
            given = last_name(argument)
            for edge in here:
                if edge.dst.rpartition(".")[2] == given:
                    found |= _reached_by(subject, edge.dst)
    return frozenset(found)


def _is_dictionary(subject: Subject, owner: str) -> bool:
    """Return whether a container is a dictionary of its object or module, which lasts as long as the process."""
    if not owner:
        return False
    program, info = subject.program, subject.info
    first, later = program.first_function[info.module], program.first_function[info.module + 1 :]
    for other in program.functions[first : later[0] if later else None]:
        if owner.startswith("self.") and other.owner != info.owner:
            continue
        for s in other.ir.body if other.ir.kind == "module" else statements(other.ir.body):
            if s[0] == "assign" and any(text_of(t) == owner for t in targets_of(s)):
                value = value_of(s)
                if value is not None and (
                    value[0] in ("d", "dc") or (is_call(value) and last_name(value) in _DICTIONARIES)
                ):
                    return True
    return False


def _reached_by(subject: Subject, symbol: str) -> frozenset[str]:
    known = subject.sites.reached
    if symbol in known:
        return known[symbol]
    depths = model_depths(subject)
    catalog = subject.sites.catalog
    found: set[str] = set()
    seen, frontier = {symbol}, [symbol]
    for _ in range(_DEPTH):
        following = []
        for one in frontier:
            if depths.get(one, 99) == 0:
                found.add("llm_chat")
            found.update(c for dotted in subject.sites.externals_of(one) if (c := catalog.capability(dotted)))
            for edge in subject.sites.callees.get(one, ()):
                if edge.kind in _FLOW and edge.dst not in seen:
                    seen.add(edge.dst)
                    following.append(edge.dst)
        frontier = following
    known[symbol] = frozenset(found)
    return known[symbol]


def answer_fields(subject: Subject, call: Expr) -> tuple[str, ...] | None:
    """Return the parameters of a function of the repository that only puts its arguments into an answer.

    None is returned for any other call: of a library, of a function that does work, or of several functions.
    """
    called = {edge.dst for edge in subject.inside(call) if edge.kind in _FLOW}
    made = subject.other(next(iter(called))) if len(called) == 1 else None
    if (
        made is None
        or not reaches(subject, call).isdisjoint(WORK)
        or not any(s[0] == "return" for s in made.statements)
    ):
        return None
    return tuple(p.name for p in made.ir.params if p.kind in ("", "/") and p.name not in ("self", "cls"))


def is_producer(call: Expr) -> bool:
    """Return whether a call may give an answer: no logging, conversion, clean-up, predicate or constructor."""
    text, name = callee_text(call), last_name(call)
    if not name or _LOGGING.search(text) or _PREDICATE.search(name) or name.lstrip("_")[:1].isupper():
        return False
    if _COUNTS.search(name):
        return False
    if name == "get":
        return True
    return not _NO_ANSWER.search(text)
