"""Finds code that expects failure: exception handlers and retries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.attempt_ends import is_one_try
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    callee_text,
    calls_in,
    keyword,
    tags_in,
    target_names,
    text_of,
    unwrapped,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    callee_of,
    caught_by,
    constant_of,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    items_of,
    iterable_of,
    keywords_of,
    line_of,
    line_or,
    members_in,
    name_of,
    orelse_of,
    positional_of,
    target_of,
    targets_of,
    test_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})
_ATTEMPT = re.compile(r"attempt|retr(y|ies)|(^|_)tries($|_)|backoff", re.IGNORECASE)
#: Loop variables of loops that make progress instead of trying again.
_PROGRESS = re.compile(
    r"page|offset|cursor|step|iter|turn|round|epoch|batch|depth|hop|chunk|index|idx|row|col|level|cycle|token|shard|day|year|poll",
    re.IGNORECASE,
)
_STATUS = re.compile(r"status|ok\b|success|error|result|response|resp\b|valid|none", re.IGNORECASE)
_LOGGING = re.compile(r"(^|\.)(log|logger|logging|_logger|_log|LOG|LOGGER|warnings|print|traceback|console|st)(\.|$)")


#: Names of functions by which a person tries a setting, or that list what can be set.
_TRIES = re.compile(
    r"^_*(test|check|verify|validate|probe|ping)_(\w+_)?(connection|connectivity|credentials?|api_?keys?|providers?"
    r"|endpoints?|health)$|^_*(ping|healthz?|health_check|check_health|readiness|liveness)$|_health$"
    r"|^_*(get|list|fetch|load|discover|available)_(\w+_)?(models|providers|voices)$"
    r"|^_*wait_(for|until)_(\w+_)?(server|service|database|db|ready|healthy|up)(_\w+)?$"
)


def is_trial(name: str) -> bool:
    """Return whether the name of a function says that it tries or looks up a setting, or waits for a start."""
    return _TRIES.search(name) is not None


#: Names of functions that look whether something holds, and of what tells who somebody is.
_LOOKS = re.compile(r"^_*(validate|verify|check|test|probe|authenticate|classify)(_|$)")
_SECRETS = re.compile(
    r"(^|_)(api_?keys?|passwords?|credentials?|jwt|signature|bearer|((access|auth|bearer|id|jwt|refresh|session)_)?token)$"
    r"|(^|_)(api_?key|credentials?|jwt|(auth|jwt|session)_token)_"
)


def checks_secret(subject: Subject) -> bool:
    """Return whether a function looks whether a key, a token or a password that it is given is good."""
    names = [subject.ir.name, *(p.name for p in subject.ir.params)]
    return _LOOKS.search(subject.ir.name) is not None and any(map(_SECRETS.search, names))


# -- handlers ------------------------------------------------------------------------------------------------------


def find_handlers(subject: Subject) -> Iterator[PatternHit]:
    """Yield `try` statements whose handler swallows, logs, replaces or translates errors, and `contextlib.suppress`."""
    for s in subject.statements:
        if s[0] == "try" and handlers_of(s) and not _only_imports(s):
            kinds = [kind for handler in handlers_of(s) if (kind := _handler_kind(handler_body(handler))) is not None]
            if kinds:
                kind = min(kinds, key=("swallows", "translates", "reraises").index)
                caught = ", ".join(text_of(caught_by(h)) or "everything" for h in handlers_of(s))
                yield subject.hit("has_try_except", line_of(s), end_of(s), kind, f"except {caught}: {kind}", 0.95)
        elif s[0] == "with":
            for e, _ in items_of(s):
                if is_call(e) and last_name(e) == "suppress":
                    evidence = f"suppress({', '.join(text_of(a) for a in positional_of(e))})"
                    yield subject.hit("has_try_except", line_of(s), end_of(s), "swallows", evidence, 0.95)


def _only_imports(s: Stmt) -> bool:
    tags = {inner[0] for inner in body_of(s)}
    if tags <= {"import", "from"}:
        return True
    caught = {last_name(part) for h in handlers_of(s) if (kind := caught_by(h)) is not None for part in _caught(kind)}
    return bool(caught) and caught <= _IMPORT_ERRORS and bool(tags & {"import", "from"})


def _caught(e: Expr) -> list[Expr]:
    return list(members_in(e)) if e[0] == "t" else [e]


def _handler_kind(body: Body) -> str | None:
    if len(body) == 1 and body[0][0] == "raise" and value_of(body[0]) is None:
        return None
    last = body[-1] if body else None
    if last is not None and last[0] == "raise":
        return "reraises" if value_of(last) is None else "translates"
    return "swallows"


# -- retries -------------------------------------------------------------------------------------------------------


def find_retries(subject: Subject) -> Iterator[PatternHit]:
    """Yield retry loops, retry decorators, retrying clients, and functions that call themselves in a handler."""
    yield from _retry_decorators(subject)
    for s in subject.statements:
        if s[0] in ("for", "while") and (evidence := _retry_loop(subject, s)) is not None:
            yield subject.hit("has_retry_loop", line_of(s), end_of(s), "loop", evidence, 0.9)
    yield from _client_retries(subject)
    yield from _self_call_in_handler(subject)


def retried_from(subject: Subject) -> int:
    """Return the line of the outermost decorator of a library of retries below which are none but its like.

    What is above it runs once for all attempts. A decorator below it may hand the function on to a framework
    (`@app.get`, `@tool`), which then calls it without the attempts. 0 where there is none.

    Args:
        subject: The function.
    """
    found = 0
    for decorator in reversed(subject.ir.decorators):
        if not _is_of_retry_library(subject, decorator):
            break
        found = line_or(decorator, subject.ir.line)
    return found


def _is_of_retry_library(subject: Subject, decorator: Expr) -> bool:
    outer, owner = _around(subject)
    call = decorator if is_call(decorator) else ("c", decorator, (), (), line_or(decorator, subject.ir.line))
    names = subject.sites.names_outside(owner, call) or subject.sites.names_outside(outer, call)
    return any(subject.sites.catalog.capability(dotted) == "retry" for dotted in names)


def _around(subject: Subject) -> tuple[str, str]:
    """Return the function around a function, and the class or the function that it is defined in."""
    outer = subject.program.functions[subject.info.parent].symbol if subject.info.parent >= 0 else ""
    return outer, subject.program.classes[subject.info.owner].symbol if subject.info.owner >= 0 else outer


def _retry_decorators(subject: Subject) -> Iterator[PatternHit]:
    outer, owner = _around(subject)
    for decorator in subject.ir.decorators:
        line = line_or(decorator, subject.ir.line)
        call = decorator if is_call(decorator) else ("c", decorator, (), (), line)
        name = last_name(decorator)
        is_retry = _is_of_retry_library(subject, decorator)
        if not is_retry and _ATTEMPT.search(name):
            is_retry = True
        inside = [edge.dst for symbol in (owner, outer) for edge in subject.sites.inside_of(symbol, call)]
        is_job = is_call(decorator) and any(k and "autoretry" in k for k, _ in keywords_of(decorator))
        is_retry |= is_job
        if not is_retry:
            is_retry = any(_is_retrying_decorator(subject, dst) for dst in inside)
        if is_retry:
            # What the repository's own decorator wraps is one attempt; the loop in the decorator knows how they end.
            # A queue runs each attempt by itself, and hands it to a worker through what the decorator makes.
            # A library that gives nothing in the end tells nobody that the tries are used up.
            is_silent = is_call(decorator) and keyword(decorator, "raise_on_giveup") == ("k", False)
            kind = "queue" if is_job else "attempt" if inside or is_silent else "decorator"
            yield subject.hit("has_retry_loop", line, subject.ir.line, kind, f"@{text_of(decorator)}", 0.95)


def _is_retrying_decorator(subject: Subject, symbol: str) -> bool:
    """Return whether a decorator of the repository contains a retry loop, up to three functions deep."""
    pending = [symbol]
    for _ in range(3):
        for name in pending:
            inner = subject.other(name)
            if inner is not None and any(s[0] in ("for", "while") and _retry_loop(inner, s) for s in inner.statements):
                return True
        pending = subject.sites.inner_functions(subject.program, pending)[:20]
        if not pending:
            return False
    return False


def _retry_loop(subject: Subject, s: Stmt) -> str | None:
    if s[0] == "for":
        iterable = unwrapped(iterable_of(s)) or iterable_of(s)
        target = " ".join(target_names(target_of(s)))
        if not is_call(iterable):
            return None
        name = last_name(iterable)
        # What a library of retries hands back is no loop over attempts: `for block in message.blocks()`.
        outside = [d for d in subject.sites.names_outside(subject.symbol, iterable) if d.count(".") < 2]
        if "Retrying" in name or any(subject.sites.catalog.capability(d) == "retry" for d in outside):
            return f"for {target} in {text_of(iterable)}"
        if name not in ("range", "count") or (name == "range" and is_one_try(subject, s)):
            return None
        head = f"for {target} in {text_of(iterable)}"
        named = bool(_ATTEMPT.search(head))
        if not named and (_PROGRESS.search(head) or not _is_small_range(iterable)):
            return None
        if _exits(body_of(s)) and _goes_on(body_of(s), named):
            return head
        return None
    test = test_of(s)
    head = f"while {text_of(test)}"
    counters = [text_of(target_of(t)) for t in statements(body_of(s)) if t[0] == "aug"]
    counters += [
        name
        for t in statements(body_of(s))
        if t[0] == "assign"
        for target in targets_of(t)
        for name in target_names(target)
    ]
    named = bool(_ATTEMPT.search(head)) or any(_ATTEMPT.search(c) for c in counters)
    if named and _exits(body_of(s)) and _goes_on(body_of(s), named):
        return head
    return None


def _is_small_range(iterable: Expr) -> bool:
    args = positional_of(iterable)
    if not args:
        return False
    last = args[1] if len(args) > 1 else args[0]
    return last[0] == "k" and isinstance(constant_of(last), int) and 1 < constant_of(last) <= 10


def _exits(body: Body) -> bool:
    return (
        tags_in(body, "return")
        or tags_in(body, "break")
        or any(s[0] == "try" and tags_in(orelse_of(s), "break") for s in body)
    )


def _goes_on(body: Body, named: bool) -> bool:
    """Return whether a failure leads to the next turn: by a handler that does not leave, or by a test of the result."""
    for s in statements(body):
        if s[0] == "try":
            for handler in handlers_of(s):
                if not _always_quits(handler_body(handler)):
                    return True
        elif s[0] == "if" and named:
            for test, inner in branches_of(s):
                if _STATUS.search(text_of(test)) and (
                    tags_in(inner, "continue") or _sleeps(inner) or (tags_in(inner, "return", "break"))
                ):
                    return True
        elif s[0] == "with" and named and any(last_name(e) == "attempt" for e, _ in items_of(s)):
            return True
    return False


def _always_quits(body: Body) -> bool:
    return bool(body) and body[-1][0] in ("return", "raise", "break") and not tags_in(body[:-1], "continue")


def _sleeps(body: Body) -> bool:
    return any(last_name(call) in ("sleep", "wait") for call in calls_in(body))


def _client_retries(subject: Subject) -> Iterator[PatternHit]:
    for call in subject.calls:
        if last_name(call) == "with_retry" and callee_of(call)[0] == "a":
            yield subject.hit("has_retry_loop", call_line(call), call_line(call), "client", text_of(call), 0.9)
            continue
        for name in ("max_retries", "num_retries", "retries", "total_retries"):
            value = keyword(call, name)
            if value is None or value in (("k", 0), ("k", None), ("k", False)):
                continue
            names = subject.sites.named_at(subject.symbol, call)
            if names and not subject.sites.inside_of(subject.symbol, call):
                yield subject.hit(
                    "has_retry_loop",
                    call_line(call),
                    call_line(call),
                    "client",
                    f"{callee_text(call)}({name}={text_of(value)})",
                    0.85,
                )
                break
        else:
            if last_name(call) == "Retry" and callee_of(call)[0] in "na":
                names = subject.sites.named_at(subject.symbol, call)
                if any(subject.sites.catalog.capability(d) == "retry" for d in names):
                    yield subject.hit("has_retry_loop", call_line(call), call_line(call), "client", text_of(call), 0.85)


def _self_call_in_handler(subject: Subject) -> Iterator[PatternHit]:
    for s in subject.statements:
        if s[0] != "try":
            continue
        for handler in handlers_of(s):
            for call in calls_in(handler_body(handler)):
                if _same_again(subject, call) and any(
                    edge.dst == subject.symbol for edge in subject.sites.inside_of(subject.symbol, call)
                ):
                    yield subject.hit(
                        "has_retry_loop", line_of(s), end_of(s), "recursion", f"calls itself: {text_of(call)}", 0.85
                    )
                    return


def _same_again(subject: Subject, call: Expr) -> bool:
    """Return whether a call repeats most arguments of its function: a second attempt does, a recursion does not."""
    own = {p.name for p in subject.ir.params}
    given = arguments_of(call)
    same = [arg for arg in given if (arg[0] == "n" and name_of(arg) in own) or _ATTEMPT.search(text_of(arg))]
    return not given or 2 * len(same) >= len(given)
