"""Finds where a user gets a failure instead of an answer: in what serves requests, and where layers below give up."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from gapwatch.design.callgraph.graph import CallGraph, Symbol
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import kinds_of, names_in
from gapwatch.design.patterns.failures import is_trial
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Stmt,
    body_of,
    handler_body,
    handlers_of,
    is_name,
    iterable_of,
    line_of,
    name_of,
    value_of,
)
from gapwatch.design.source.program import Program, last_name, statements

#: Decorators by which a framework runs a function for each request or message of a user.
_SERVES = re.compile(
    r"^(fastapi|starlette|flask|quart|sanic|litestar|aiohttp|django|rest_framework|falcon|bottle|robyn|chainlit|slack_bolt"
    r"|discord|telegram|aiogram|functions_framework)\b.*\."
    r"(get|post|put|delete|patch|route|api_route|websocket|on_message|message|event|http|view|api_view|app_mention|command)$"
)
_PATTERN = "fails_request"
#: Endpoints by which a person looks whether something works.
_LOOKS = re.compile(r"^_*(check|test|ping|probe|verify)_|(^|_)health")
#: Exceptions that become the status of a response.
_STATUS = frozenset({"HTTPException", "HttpError", "APIException", "abort", "WebSocketException"})
#: Edges to what a function waits for.
_WAITS = frozenset({"call", "construct", "property", "protocol", "dynamic"})
_BROAD = frozenset({"Exception", "BaseException"})


def find_request_failures(
    program: Program, sites: CallSites, graph: CallGraph, hits: Collection[PatternHit], distances: dict[str, int]
) -> set[PatternHit]:
    """Return the failures that a user sees of requests that lead to a model, an embedding or a search.

    A failure below counts where the function that serves the request calls a function that takes every error of its
    work and gives something back: what the layers under it raise and wrap ends there.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        graph: The call graph.
        hits: Patterns of production code.
        distances: Calls to the nearest model by symbol.
    """
    by_symbol: dict[str, list[PatternHit]] = defaultdict(list)
    for hit in hits:
        if hit.pattern in ("returns_failure", "has_try_except"):
            by_symbol[hit.symbol].append(hit)
    decorators = {s.id: s.decorators for s in graph.symbols if _serves(s) and not s.tags and s.id in distances}
    serving = set(decorators)
    out: set[PatternHit] = set()
    waiting = _waiting({h.symbol for h in hits if h.pattern == "calls_llm" and h.kind == "direct"}, sites)
    numbers = sites.numbers(program)
    for symbol in serving:
        nested = [s for s in by_symbol if s == symbol or s.startswith(f"{symbol}.")]
        subject = Subject(program, sites, program.functions[numbers[symbol]])
        seen = {h for s in nested for h in _seen(by_symbol[s], subject)}
        out.update(seen or (_raised(subject, decorators[symbol]) if symbol in waiting else ()))
        for edge in sites.callees.get(symbol, ()):
            if edge.dst in serving or edge.dst not in numbers:
                continue
            below = Subject(program, sites, program.functions[numbers[edge.dst]])
            if edge.dst in distances or _hands_on(below):
                out.update(_given_up(below, by_symbol[edge.dst]))
    return out


def _serves(symbol: Symbol) -> bool:
    is_look = is_trial(symbol.id.rpartition(".")[2]) or _LOOKS.search(symbol.id.rpartition(".")[2])
    return symbol.kind == "function" and not is_look and any(_SERVES.search(d) for d in symbol.decorators)


def _seen(hits: list[PatternHit], subject: Subject) -> Iterator[PatternHit]:
    for hit in hits:
        if hit.pattern == "returns_failure":
            yield replace(hit, pattern=_PATTERN, kind="answer")
        elif any(line_of(s) == hit.line and _raises_status(s) for s in subject.statements if s[0] == "try"):
            yield replace(hit, pattern=_PATTERN, kind="status")


def _waiting(asking: set[str], sites: CallSites) -> set[str]:
    """Return functions that ask a model, and those that wait for them; the background fails after the answer."""
    found, frontier = set(asking), list(asking)
    while frontier:
        for edge in sites.callers.get(frontier.pop(), ()):
            if edge.kind in _WAITS and edge.src not in found:
                found.add(edge.src)
                frontier.append(edge.src)
    return found


def _raised(subject: Subject, decorators: Iterable[str]) -> Iterator[PatternHit]:
    """Yield the whole of a function that takes no error of its work: the framework answers for it."""
    # What fails while a response is sent is seen by the stream alone, and who is connected may leave.
    is_sent = any(subject.reach(call).capability == "stream" for call in subject.calls)
    is_taken = any(_is_broad(h) for s in subject.ir.body if s[0] == "try" for h in handlers_of(s))
    if (
        not is_sent
        and not is_taken
        and not subject.ir.is_generator
        and not any(d.endswith(".websocket") for d in decorators)
    ):
        line, end = subject.ir.line, subject.ir.end
        yield subject.hit(_PATTERN, line, end, "raises", f"errors leave {subject.ir.name}", 0.9)


def _raises_status(s: Stmt) -> bool:
    return any(
        x[0] == "raise" and (value := value_of(x)) is not None and last_name(value) in _STATUS
        for handler in handlers_of(s)
        if _is_broad(handler)
        for x in statements(handler_body(handler))
    )


def _given_up(subject: Subject, hits: list[PatternHit]) -> Iterator[PatternHit]:
    """Yield what a function gives back where all that it does has failed."""
    body = [s for s in subject.ir.body if s[0] != "expr" or s[2][0] != "k"]
    while body and _says_the_end(body[-1]):
        body.pop()
    if not body or body[-1][0] != "try" or sum(1 for s in body if s[0] == "try") > 1:
        return
    before = body[:-1]
    if len(list(statements(body_of(body[-1])))) < len(list(statements(tuple(before)))):
        return
    for handler in handlers_of(body[-1]):
        if _is_broad(handler):
            last = max((line_of(x) for x in statements(handler_body(handler))), default=0)
            for hit in hits:
                if hit.pattern == "returns_failure" and int(handler[0]) <= hit.line <= last:
                    yield replace(hit, pattern=_PATTERN, kind="answer")


def _hands_on(subject: Subject) -> bool:
    """Return whether a generator sends what it gets from a stream that it is given."""
    given = {p.name for p in subject.ir.params}
    loops = [s for s in subject.statements if s[0] == "for"]
    return subject.ir.is_generator and any(is_name(iterable_of(s)) and name_of(iterable_of(s)) in given for s in loops)


def _says_the_end(s: Stmt) -> bool:
    """Return whether a statement sends a mark at the end of a stream, which says nothing of what came before."""
    return s[0] == "expr" and s[2][0] == "y" and not names_in(s[2])


def _is_broad(handler: Stmt) -> bool:
    names = {last_name(one) for one in kinds_of(handler)}
    return not names or bool(names & _BROAD)
