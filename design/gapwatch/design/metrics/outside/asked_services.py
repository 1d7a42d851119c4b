"""Says why a function that asks another service does not fail where that refuses, or fails for other reasons, too."""

from __future__ import annotations

import re

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.outside.unset_settings import is_unset
from gapwatch.design.patterns.code_walk import arguments_of, calls_in, keyword, names_in, tags_in, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import Body, Expr, Stmt, branches_of, call_line, items_of, line_of, targets_of, value_of
from gapwatch.design.source.program import last_name

#: Libraries whose replies do not raise where their status is an error.
_CLIENTS = frozenset({"requests", "httpx", "aiohttp", "urllib3", "http"})
#: Tests of a reply.
_STATUS = re.compile(r"status|\bok\b|is_success|is_error|\bcode\b")
_KEYS = re.compile(r"key|token|secret|password|credential", re.I)
#: Parts of names of what administrators run.
_ADMIN = re.compile(r"(^|[/_.])(admin|admins|administration|marketplace\w*)([/_.]|$)", re.I)
#: Calls of clients that work on values in memory.
_IN_MEMORY = re.compile(r"^(serialize|deserialize|find|get_accounts|(to|from)_\w+|construct(_\w+)?)$")
#: Most calls that are followed to another request.
_MAX_STEPS = 3


def why_no_service_error(code: ClaimedCode, subject: Subject, place: CodePlace, is_write: bool) -> str | None:
    """Return why the errors of a function are not those of the call at a place; None where they are.

    Args:
        code: The analysed code.
        subject: The function.
        place: Its call of a service or a store.
        is_write: Whether it is of a store.
    """
    if _ADMIN.search(place.path) or _ADMIN.search(subject.symbol):
        return "an administrator asks for it, and reads the error"
    for test, block in (one for s in subject.ir.body if s[0] == "if" for one in branches_of(s)):
        # A key is set wherever the service is used.
        is_off = is_unset(subject, test) and not _KEYS.search(text_of(test))
        if is_off and _ends(block) and line_of(block[-1]) < place.line:
            return "without a setting the function returns before it asks"
    if is_write:
        return None
    calls = [c for c in subject.calls if call_line(c) == place.line]
    asking = [c for c in calls if subject.reach(c).capability in ("http", "web_search", "saas")]
    if asking and all(_IN_MEMORY.match(last_name(c)) for c in asking):
        return "the call works on values in memory"
    below = [one for c in calls for e in subject.inside(c) if (one := subject.other(e.dst)) is not None]
    if not asking and any(_asks(code, one) and _raises_for_status(one) for one in below):
        return "the request below it tells the same error"
    clients = {subject.reach(c).dotted.partition(".")[0] for c in asking} or {"requests"}
    if clients <= _CLIENTS and not _raises_for_status(subject):
        return "a bad status is taken for a result: only a connection that fails raises"
    if subject.symbol in code.reaching(frozenset({"llm_chat"})):
        return "it asks a model, too, whose errors are counted where that is called"
    if _calls_another(code, subject):
        return "what it calls asks services, too, and counts their errors"
    return None


def _ends(body: Body) -> bool:
    return bool(body) and body[-1][0] == "return" and not any(s[0] == "raise" for s in body)


def _asks(code: ClaimedCode, subject: Subject) -> bool:
    hits = code.material.hits_of(subject.symbol)
    return any(h.pattern == "calls_external_api" and h.kind != "wrapped" for h in hits)


def _raises_for_status(subject: Subject, depth: int = 0) -> bool:
    """Return whether a function raises for a bad status, by itself or by a function that it hands the reply."""
    if any(last_name(c) == "raise_for_status" for c in subject.calls) or _is_set_to_raise(subject.calls):
        return True
    for s in subject.statements:
        if s[0] == "if" and any(_STATUS.search(text_of(test)) for test, _ in branches_of(s)):
            if any(tags_in(block, "raise") for block in (*(b for _, b in branches_of(s)), s[3])):
                return True
            # After the branch of a good status: `if reply.ok: return ...` and `raise`.
            if any(o[0] == "raise" and line_of(o) > line_of(s) for o in subject.ir.body):
                return True
    names = {
        n
        for s in subject.statements
        if s[0] in ("assign", "with")
        for e in ([value_of(s)] if s[0] == "assign" else [item for item, _ in items_of(s)])
        if e is not None and any(subject.reach(c).capability == "http" for c in calls_in((("expr", line_of(s), e),)))
        for n in _bound(s)
    }
    handed = [c for c in subject.calls if names & {n for a in arguments_of(c) for n in names_in(a)}]
    below = [one for c in handed for e in subject.inside(c) if (one := subject.other(e.dst)) is not None]
    return depth == 0 and any(_raises_for_status(one, 1) for one in below)


def _is_set_to_raise(calls: list[Expr]) -> bool:
    return any(keyword(c, "raise_for_status") == ("k", True) for c in calls)


def _bound(s: Stmt) -> set[str]:
    targets = targets_of(s) if s[0] == "assign" else [target for _, target in items_of(s) if target is not None]
    return {n for t in targets for n in names_in(t)}


def _calls_another(code: ClaimedCode, subject: Subject) -> bool:
    """Return whether a function calls others that ask services themselves."""
    seen, frontier = {subject.symbol}, [subject.symbol]
    for _ in range(_MAX_STEPS):
        frontier = [e.dst for f in frontier for e in code.material.sites.callees.get(f, ()) if e.kind == "call"]
        frontier = [f for f in frontier if f not in seen]
        seen.update(frontier)
        if any(_asks(code, one) for f in frontier if (one := code.subject(f)) is not None):
            return True
    return False
