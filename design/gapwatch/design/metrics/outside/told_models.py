"""Errors of calls of models, which one metric counts for all of them, whatever the program makes of them."""

from __future__ import annotations

import re

from gapwatch.design.patterns.code_walk import calls_in, keyword, kinds_of, text_of
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    call_line,
    callee_of,
    from_module,
    from_names,
    handler_body,
    handlers_of,
    import_names,
    is_call,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Mark of an error of a call of a model: (this, file, line).
ASKED = "asked"
#: Errors by which a provider refuses a call before it gives any piece of a reply.
_AT_ONCE = re.compile(
    r"^(BadRequest|InvalidRequest|Authentication|PermissionDenied|NotFound|RateLimit|UnprocessableEntity|Conflict)Error$"
)
#: Contexts that a call of a model runs in, and that fail for no reason outside the process.
_CONTEXTS = re.compile(r"^(context|start_as_current_span|start_span|get_\w+_callback|collect_runs|tracing_v2_enabled)$")


def is_context_of_calls(call: Expr) -> bool:
    """Return whether a call makes a context of calls of models: settings, a span, a count of tokens."""
    return _CONTEXTS.match(last_name(call)) is not None


def forward_of(subject: Subject, call: Expr) -> list[str]:
    """Return `forward` of a module that a class keeps in its object and calls: `self.program = Program()`.

    A library of modules runs that method for the call; no edge of the graph says so.
    """
    callee = callee_of(call)
    if subject.info.owner < 0 or callee[0] != "a" or callee[1] != ("n", "self") or subject.inside(call):
        return []
    made = [
        last_name(value)
        for f in subject.program.functions
        if f.owner == subject.info.owner
        for s in statements(f.ir.body)
        if s[0] == "assign" and callee[:3] in [t[:3] for t in targets_of(s)]
        if (value := value_of(s)) is not None and is_call(value)
    ]
    known = [f"{c.symbol}.forward" for c in subject.program.classes if c.ir.name in made and c.outside]
    return [symbol for symbol in known if subject.other(symbol) is not None]


def asked_at(subject: Subject, call: Expr, hits: list[PatternHit]) -> tuple[object, ...] | None:
    """Return the mark of the errors of a call, or None where it asks no model, or gives a stream that may break later.

    Args:
        subject: Function that holds the call.
        call: The call.
        hits: Hits of the function.
    """
    streams = keyword(call, "stream")
    if (streams is not None and streams != ("k", False)) or "stream" in last_name(call):
        return None
    return _mark(subject, call, hits)


def asked_alone(subject: Subject, s: Stmt, hits: list[PatternHit]) -> frozenset[tuple[object, ...]]:
    """Return the marks of a `try` whose handlers take errors of its calls of models alone, by their names; else none.

    That holds of a library that nothing else in it calls: `except openai.BadRequestError`, `except httpx.HTTPError`.
    """
    # What a handler hands on as it came does not end here.
    taking = [h for h in handlers_of(s) if not _raises_again(h)]
    kinds = [(_root(subject, kind), last_name(kind)) for h in taking for kind in kinds_of(h)]
    if not kinds or not all(kinds_of(h) for h in taking):
        return frozenset()
    calls = list(calls_in(body_of(s)))
    asking = {id(c): mark for c in calls if (mark := _mark(subject, c, hits)) is not None}
    roots = {subject.reach(c).dotted.partition(".")[0] for c in calls if id(c) in asking}
    if not asking or {root for root, _ in kinds} != roots:
        return frozenset()
    if not all(_AT_ONCE.match(name) for _, name in kinds):
        if any(id(c) in asking and asked_at(subject, c, hits) is None for c in calls):
            return frozenset()
        if roots == {"requests"} and any(last_name(c) == "json" for c in calls):
            return frozenset()  # Its error of a text that is no JSON is one of its own.
    others = [c for c in calls if id(c) not in asking and subject.reach(c).dotted.partition(".")[0] in roots]
    if any(last_name(c) != "raise_for_status" and not last_name(c)[:1].isupper() for c in others) or any(
        edge.dst in subject.sites.http_wrappers for c in calls for edge in subject.inside(c)
    ):
        return frozenset()
    return frozenset(asking.values())


def _mark(subject: Subject, call: Expr, hits: list[PatternHit]) -> tuple[object, ...] | None:
    line, path = call_line(call), subject.program.path(subject.info)
    is_hit = any((h.pattern, h.kind, h.line) == ("calls_llm", "direct", line) for h in hits)
    return (ASKED, path, line) if is_hit and subject.reach(call).capability == "llm_chat" else None


def _raises_again(handler: Stmt) -> bool:
    body = handler_body(handler)
    return len(body) == 1 and body[0][0] == "raise" and body[0][2] is None


def _root(subject: Subject, kind: Expr) -> str:
    """Return the library that an exception comes from, by the imports of its file; empty for none."""
    first = text_of(kind).partition(".")[0]
    for s in subject.program.functions[subject.program.bodies[subject.info.module]].ir.body:
        if s[0] == "from":
            level, dotted = from_module(s)
            if not level and any((alias or name) == first for name, alias in from_names(s) or ()):
                return dotted.partition(".")[0]
        elif s[0] == "import":
            for dotted, alias in import_names(s):
                if (alias or dotted.partition(".")[0]) == first:
                    return dotted.partition(".")[0]
    return ""
