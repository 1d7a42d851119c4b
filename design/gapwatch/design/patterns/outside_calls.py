"""Finds calls that leave the process: services, databases, queues; and JSON parsing of their answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    callee_text,
    calls_of,
    constants_in,
    names_in,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.patterns.model_calls import CALLS, is_model_caller
from gapwatch.design.source.ir import (
    Body,
    Expr,
    call_line,
    callee_of,
    constant_of,
    index_of,
    is_call,
    is_member,
    is_text,
    items_of,
    iterable_of,
    keywords_of,
    member_of,
    operator_of,
    owner_of,
    pairs_in,
    positional_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

_WRITE_SQL = re.compile(
    r"^\s*(/\*.*?\*/\s*)?(with\b.*?\)\s*)?(insert|update|delete|merge|replace\s+into|upsert)\b", re.I | re.S
)
_WRITE_BUILDERS = frozenset({"insert", "update", "delete", "merge", "pg_insert", "sqlite_insert", "upsert"})
_HTTP = frozenset({"http", "web_search", "saas"})


# -- JSON ----------------------------------------------------------------------------------------------------------

_JSON_METHODS = frozenset({"model_validate_json", "parse_raw", "validate_json", "repair_json", "parse_json_markdown"})


def find_json(subject: Subject) -> Iterator[PatternHit]:
    """Yield calls that parse JSON, with the source of the text as kind."""
    for call in subject.calls:
        names = subject.sites.named_at(subject.symbol, call)
        is_json = any(subject.sites.catalog.capability(d) == "json" for d in names)
        confidence = 0.95
        if not is_json and last_name(call) in _JSON_METHODS and is_member(callee_of(call)):
            is_json, confidence = True, 0.85
        if not is_json:
            is_json = _is_parser_instance(call)
            confidence = 0.7
        if is_json and (positional_of(call) or keywords_of(call)):
            source = source_of(subject, positional_of(call)[0] if positional_of(call) else keywords_of(call)[0][1])
            yield subject.hit("parses_json", call_line(call), call_line(call), source, text_of(call), confidence)


def _is_parser_instance(call: Expr) -> bool:
    text = callee_text(call)
    return bool(
        re.search(r"(json|pydantic|structured)_?(output)?_?parser\.(parse|invoke|ainvoke|parse_result)$", text, re.I)
    )


#: Most assignments that are followed back to the source of a text.
_MAX_STEPS = 4


def source_of(subject: Subject, e: Expr) -> str:
    """Return the source of a text: llm, http, queue, cache, file, or `text` if unknown.

    Args:
        subject: The function.
        e: The text; assignments are followed back `_MAX_STEPS` times.
    """
    pending, seen = [e], set[str]()
    for _ in range(_MAX_STEPS):
        for candidate in pending:
            if (found := _source(subject, candidate)) is not None:
                return found
        names = sorted({n.partition(".")[0] for candidate in pending for n in names_in(candidate)} - seen)
        seen.update(names)
        pending = [value for name in names for value in assigned_to(subject.ir.body, name)]
    return "text"


def _source(subject: Subject, e: Expr) -> str | None:
    for call in calls_of(e):
        capability = subject.reach(call).capability
        if capability == "llm_chat" or any(
            is_model_caller(subject, edge.dst) for edge in subject.sites.inside_of(subject.symbol, call)
        ):
            return "llm"
        if capability in _HTTP:
            return "http"
        if capability in ("queue", "local_queue", "cache"):
            return "queue" if capability != "cache" else "cache"
        if last_name(call) in ("open", "read_text", "read_bytes") or capability == "ingest":
            return "file"
    text = text_of(e)
    if re.search(r"(completion|choices\[|message\.content|llm|tool_call|function_call|\.arguments)", text):
        return "llm"
    if re.search(r"(^|\W)(resp|response|r)\.(text|content)", text):
        return "http"
    return None


def assigned_to(body: Body, name: str) -> Iterator[Expr]:
    """Yield the expressions that a block binds to a name."""
    for s in statements(body):
        if s[0] == "assign" and (assigned := value_of(s)) is not None:
            if any(name in target_names(t) for t in targets_of(s)):
                yield assigned
        elif s[0] == "with":
            for e, target in items_of(s):
                if target is not None and name in target_names(target):
                    yield e
        elif s[0] == "for" and name in target_names(target_of(s)):
            yield iterable_of(s)


# -- services ------------------------------------------------------------------------------------------------------

_CLIENT = re.compile(r"request|http|fetch|download|(^|_)(get|post|put|patch)(_|$)|api|client|url|call", re.I)

#: Methods that run a tool; others of the same libraries list tools or read their texts.
_TOOL_RUNS = frozenset({"invoke", "ainvoke", "batch", "abatch", "call_tool"})


def find_services(subject: Subject) -> Iterator[PatternHit]:
    """Yield network calls that reach no model, store or queue, and runs of tools, which mostly make some."""
    for call in subject.calls:
        reach = subject.reach(call)
        if reach.capability in _HTTP or (reach.capability == "tool" and last_name(call) in _TOOL_RUNS):
            yield subject.hit(
                "calls_external_api",
                call_line(call),
                call_line(call),
                reach.capability or "http",
                reach.dotted,
                0.95 * reach.confidence,
            )
            continue
        for edge in subject.sites.inside_of(subject.symbol, call):
            if edge.kind not in CALLS or edge.dst == subject.symbol:
                continue
            if _is_http_wrapper(subject, edge.dst):
                evidence = f"{callee_text(call)} sends a request through {edge.dst}"
                yield subject.hit("calls_external_api", call_line(call), call_line(call), "wrapped", evidence, 0.75)
                break


def _is_http_wrapper(subject: Subject, symbol: str) -> bool:
    name = symbol.rpartition(".")[2]
    if not _CLIENT.search(name):
        return False
    wrappers = subject.sites.http_wrappers
    if symbol not in wrappers:
        wrappers[symbol] = _sends_its_own_url(subject, symbol)
    return wrappers[symbol]


def _sends_its_own_url(subject: Subject, symbol: str) -> bool:
    one = subject.other(symbol)
    if one is None:
        return False
    params = {p.name for p in one.ir.params}
    return any(
        one.reach(call).capability == "http" and bool(params & {n for a in arguments_of(call) for n in names_in(a)})
        for call in one.calls
    )


# -- stores --------------------------------------------------------------------------------------------------------

_SESSION = re.compile(r"(^|[._])(db_?session|session|db|async_session|sess)$")
#: Names of methods that run SQL, those of wrappers included.
_EXECUTES = re.compile(
    r"_?(a?sync_)?(a?execute\w*|exec|run|run_\w*(sql|query|statement)|fetch(val|row|one|all)?|scalars?|query|do_query)$",
    re.I,
)
_SESSION_WRITES = frozenset(
    {"add", "add_all", "commit", "merge", "bulk_save_objects", "bulk_insert_mappings", "delete"}
)
_NO_SESSION = re.compile(r"http|client|aio|request|cache|redis|vector|chroma|cookie|flask|dict", re.I)


def find_writes(subject: Subject) -> Iterator[PatternHit]:
    """Yield writes to a database or a vector store."""
    for call in subject.calls:
        reach = subject.reach(call)
        capability = reach.capability
        if capability == "vector_write":
            yield subject.hit("has_db_write", call_line(call), call_line(call), "vector", reach.dotted, 0.9)
        elif capability == "db_write":
            yield subject.hit("has_db_write", call_line(call), call_line(call), "orm", reach.dotted, 0.9)
        elif _EXECUTES.match(last_name(call)):
            statement = positional_of(call)[0] if positional_of(call) else None
            if statement is not None and (found := _writing_statement(subject, statement)):
                sure = 0.95 if capability == "db_execute" else 0.85
                yield subject.hit(
                    "has_db_write", call_line(call), call_line(call), "sql", f"{callee_text(call)}: {found}", sure
                )
        elif capability is None and is_member(callee_of(call)) and member_of(callee_of(call)) in _SESSION_WRITES:
            receiver = text_of(owner_of(callee_of(call)))
            if (
                _SESSION.search(receiver)
                and not _NO_SESSION.search(receiver)
                and not subject.sites.inside_of(subject.symbol, call)
            ):
                known = subject.sites.names_outside(subject.symbol, call)
                if not known and (
                    member_of(callee_of(call)) != "add" or "session" in receiver or _commits(subject, receiver)
                ):
                    yield subject.hit("has_db_write", call_line(call), call_line(call), "orm", callee_text(call), 0.7)


def _commits(subject: Subject, receiver: str) -> bool:
    return any(callee_text(call) in (f"{receiver}.commit", f"{receiver}.flush") for call in subject.calls)


def _writing_statement(subject: Subject, e: Expr, depth: int = 0) -> str | None:
    e = unwrapped(e) or e
    if is_text(e):
        return constant_of(e).strip()[:60] if _WRITE_SQL.search(constant_of(e)) else None
    if e[0] == "f" or (e[0] == "o" and operator_of(e) in "+%"):
        texts = constants_in(e)
        return texts[0].strip()[:60] if texts and _WRITE_SQL.search(texts[0]) else None
    for call in walk(e):
        if not is_call(call):
            continue
        if last_name(call) in _WRITE_BUILDERS and (callee_of(call)[0] == "n" or is_member(callee_of(call))):
            return text_of(call)[:60]
        if last_name(call) in ("text", "SQL", "format", "Composed", "dedent", "strip") and depth < 2:
            for part in [*positional_of(call), *([owner_of(callee_of(call))] if is_member(callee_of(call)) else [])]:
                if (found := _writing_statement(subject, part, depth + 1)) is not None:
                    return found
    if e[0] == "s" and index_of(e)[0] == "k" and depth < 2:
        # STATEMENTS["insert"]: the module holds a dictionary of statements.
        for value in _module_constant(subject, text_of(owner_of(e))):
            for key, inner in pairs_in(value) if value[0] == "d" else ():
                if key == index_of(e) and (found := _writing_statement(subject, inner, 2)) is not None:
                    return found
    if e[0] in "na" and depth == 0:
        name = text_of(e)
        values = list(assigned_to(subject.ir.body, name))
        if not values:
            values = _module_constant(subject, name)
        for value in values:
            if (found := _writing_statement(subject, value, 1)) is not None:
                return found
    return None


def _module_constant(subject: Subject, name: str) -> list[Expr]:
    body = subject.program.functions[subject.program.bodies[subject.info.module]].ir.body
    return list(assigned_to(body, name))


# -- queues --------------------------------------------------------------------------------------------------------


def find_queues(subject: Subject) -> Iterator[PatternHit]:
    """Yield calls that hand work to a queue."""
    for call in subject.calls:
        reach = subject.reach(call)
        if reach.capability == "queue":
            yield subject.hit("has_queue", call_line(call), call_line(call), "broker", reach.dotted, 0.9)
        elif reach.capability == "local_queue" and _has_both_ends(subject, reach.dotted):
            yield subject.hit(
                "has_queue", call_line(call), call_line(call), "local", f"{callee_text(call)} ({reach.dotted})", 0.85
            )
        elif (
            last_name(call) in ("delay", "apply_async", "send_task", "kiq", "enqueue_job", "add_task")
            and is_member(callee_of(call))
        ) and any(
            edge.kind in ("framework", "callback")
            for edge in subject.sites.inside.get((subject.symbol, call_line(call)), ())
        ):
            yield subject.hit("has_queue", call_line(call), call_line(call), "task", callee_text(call), 0.85)


def _has_both_ends(subject: Subject, dotted: str) -> bool:
    """Return whether the repository also takes from the queue; a queue that only fills carries no work."""
    base = dotted.rpartition(".")[0]
    queues = subject.sites.queues_with_both_ends
    if base not in queues:
        ends = {e.dotted.rpartition(".")[2] for e in subject.sites.graph.externals if e.dotted.startswith(f"{base}.")}
        queues[base] = bool(ends & {"put", "put_nowait"}) and bool(ends & {"get", "get_nowait"})
    return queues[base]
