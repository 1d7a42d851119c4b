"""Finds code that expects failure: exception handlers, retries, cascades."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    callee_text,
    calls_in,
    keyword,
    leaves,
    names_in,
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
    final_of,
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
    operand_of,
    operands_of,
    operators_of,
    orelse_of,
    positional_of,
    target_of,
    targets_of,
    test_of,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name, statements

_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})
_ATTEMPT = re.compile(r"attempt|retr(y|ies)|(^|_)tries($|_)|backoff", re.IGNORECASE)
#: Loop variables of loops that make progress instead of trying again.
_PROGRESS = re.compile(
    r"page|offset|cursor|step|iter|turn|round|epoch|batch|depth|hop|chunk|index|idx|row|col|level|cycle|token|shard|day|year|poll",
    re.IGNORECASE,
)
_STATUS = re.compile(r"status|ok\b|success|error|result|response|resp\b|valid|none", re.IGNORECASE)
_LOGGING = re.compile(r"(^|\.)(log|logger|logging|_logger|_log|LOG|LOGGER|warnings|print|traceback|console|st)(\.|$)")


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


def _retry_decorators(subject: Subject) -> Iterator[PatternHit]:
    outer = subject.program.functions[subject.info.parent].symbol if subject.info.parent >= 0 else ""
    owner = subject.program.classes[subject.info.owner].symbol if subject.info.owner >= 0 else outer
    for decorator in subject.ir.decorators:
        line = line_or(decorator, subject.ir.line)
        call = decorator if is_call(decorator) else ("c", decorator, (), (), line)
        names = subject.sites.names_outside(owner, call) or subject.sites.names_outside(outer, call)
        name = last_name(decorator)
        is_retry = any(subject.sites.catalog.capability(dotted) == "retry" for dotted in names)
        if not is_retry and _ATTEMPT.search(name):
            is_retry = True
        if not is_retry and is_call(decorator) and any(k and "autoretry" in k for k, _ in keywords_of(decorator)):
            is_retry = True
        if not is_retry:
            is_retry = any(
                _is_retrying_decorator(subject, edge.dst)
                for symbol in (owner, outer)
                for edge in subject.sites.inside_of(symbol, call)
            )
        if is_retry:
            yield subject.hit("has_retry_loop", line, subject.ir.line, "decorator", f"@{text_of(decorator)}", 0.95)


def _is_retrying_decorator(subject: Subject, symbol: str) -> bool:
    """Return whether a decorator of the repository contains a retry loop, up to three functions deep."""
    pending = [symbol]
    for _ in range(3):
        for name in pending:
            inner = subject.other(name)
            if inner is not None and any(s[0] in ("for", "while") and _retry_loop(inner, s) for s in inner.statements):
                return True
        prefixes = tuple(f"{name}." for name in pending)
        pending = [name for name in subject.sites.numbers(subject.program) if name.startswith(prefixes)][:20]
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
        if "Retrying" in name or any(
            subject.sites.catalog.capability(d) == "retry"
            for d in subject.sites.names_outside(subject.symbol, iterable)
        ):
            return f"for {target} in {text_of(iterable)}"
        if name not in ("range", "count"):
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


# -- cascades ------------------------------------------------------------------------------------------------------

_FALLBACK = re.compile(
    r"fall_?back|backup|secondary|alternat|degrad|cascade|tier|primary|default_model|cheap|plan_b|legacy", re.I
)
_NO_PRODUCER = re.compile(
    r"(^|\.)(log|logger|logging|print|append|extend|add|format|join|str|repr|int|float|len|list|dict|set|tuple|bool|sleep|exit"
    r"|get|pop|strip|update|warning|error|exception|info|debug|isinstance|hasattr|getattr|uuid4|time|now|utcnow|dumps|jsonify"
    r"|close|rollback|commit|capture_exception|format_exc|print_exc|getenv|cancel|release|set_exception|field|type)$"
)
_IO = frozenset(
    {"llm_chat", "embedding", "rerank", "retrieval", "http", "web_search", "saas", "db_execute", "db_read", "ingest"}
)


def find_cascades(subject: Subject) -> Iterator[PatternHit]:
    """Yield cascades: ordered alternatives for one result."""
    seen: set[int] = set()
    for body in _all_bodies(subject.ir.body):
        for i, s in enumerate(body):
            hit = None
            if s[0] == "try":
                hit = _handler_cascade(subject, s)
            elif s[0] == "for":
                hit = _loop_cascade(subject, s)
            elif s[0] in ("assign", "return") and value_of(s) is not None:
                hit = _or_cascade(subject, s)
            if hit is None and s[0] == "if" and i > 0:
                hit = _empty_cascade(subject, body, i)
            if hit is not None and hit.line not in seen and hit.confidence >= 0.5:
                seen.add(hit.line)
                yield hit


def _all_bodies(body: Body) -> Iterator[Body]:
    yield body
    for s in body:
        for inner in inner_bodies(s):
            yield from _all_bodies(inner)


def _producers(body: Body) -> Iterator[tuple[str, Expr]]:
    """Yield (target, call) for each call whose result a block assigns or returns, also inside its with, if and for."""
    for s in body:
        value = unwrapped(value_of(s)) if s[0] in ("assign", "return") else None
        if value is not None and is_call(value):
            names = target_names(targets_of(s)[0]) if s[0] == "assign" else ["return"]
            yield from ((name, value) for name in names)
        elif s[0] in ("with", "if", "for") and not leaves(body[:0]):
            for inner in inner_bodies(s):
                yield from _producers(inner)


def _is_producer(call: Expr) -> bool:
    text = callee_text(call)
    name = last_name(call)
    return not (_NO_PRODUCER.search(text) or _LOGGING.search(text) or name.lstrip("_")[:1].isupper() or not name)


def _shared(first: Expr, second: Expr) -> set[str]:
    """Return the names that two calls both get as arguments; receivers do not count."""
    left = {n for arg in arguments_of(first) for n in names_in(arg)}
    right = {n for arg in arguments_of(second) for n in names_in(arg)}
    return {n for n in left & right if n not in ("self", "cls")}


def _strength(subject: Subject, first: Expr, second: Expr, context: str) -> float:
    """Return the confidence in [0, 1] that the second call replaces the first.

    0.9 for a fallback by name, 0.8 if both calls leave the process, 0.7 for a shared word and one call that leaves it,
    0.55 for a shared word alone, else 0.35; hits below 0.5 are dropped.
    """
    reach = [_reaches_out(subject, call) for call in (first, second)]
    if _FALLBACK.search(context):
        return 0.9
    if all(reach):
        return 0.8
    words = [set(_words(last_name(call))) for call in (first, second)]
    if words[0] & words[1] - _COMMON_WORDS and any(reach):
        return 0.7
    inside = [bool(subject.sites.inside_of(subject.symbol, call)) for call in (first, second)]
    if words[0] & words[1] - _COMMON_WORDS and inside[0] == inside[1]:
        return 0.55
    return 0.35


_COMMON_WORDS = frozenset(
    [
        "get",
        "set",
        "is",
        "to",
        "from",
        "make",
        "create",
        "build",
        "new",
        "async",
        "default",
        "init",
        "model",
        "class",
        "run",
        "handle",
        "call",
        "process",
        "execute",
        "do",
        "data",
        "value",
        "result",
        "original",
    ]
)


def _words(name: str) -> list[str]:
    return [w.lower() for w in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])", name)]


def _reaches_out(subject: Subject, call: Expr) -> bool:
    reach = subject.reach(call)
    if reach.capability in _IO:
        return True
    return any(
        subject.sites.catalog.capability(external) in _IO
        for edge in subject.sites.inside_of(subject.symbol, call)
        for external in subject.sites.externals_of(edge.dst)
    )


#: Names of functions that build an error answer, which is no alternative result.
_ERROR_ANSWER = re.compile(r"error|exception|failure|abort|reject|empty", re.I)


def _handler_cascade(subject: Subject, s: Stmt) -> PatternHit | None:
    tried = [pair for pair in _producers(body_of(s)) if _is_producer(pair[1])]
    for handler in handlers_of(s):
        if re.fullmatch(
            r"\W*(ImportError|ModuleNotFoundError)(\W+(ImportError|ModuleNotFoundError))?\W*",
            text_of(caught_by(handler)),
        ):
            # The choice between libraries is made at installation and is the same at every call.
            continue
        for target, second in _producers(handler_body(handler)):
            if not _is_producer(second) or _ERROR_ANSWER.search(last_name(second)):
                continue
            for first_target, first in tried:
                if not (target == first_target or (target == "return") or first_target == "return"):
                    continue
                if _makes_or_opens(last_name(first), last_name(second)):
                    continue
                if callee_text(first) == callee_text(second) and not _differs_by_name(first, second):
                    continue
                if not _shared(first, second):
                    continue
                context = f"{subject.ir.name} {text_of(second)} {text_of(first)}"
                strength = _strength(subject, first, second, context)
                evidence = f"{callee_text(first)}, else {callee_text(second)} (line {call_line(second)})"
                return subject.hit("has_cascade", line_of(s), end_of(s), "handler", evidence, strength)
    return None


_MAKES = re.compile(r"^(create|make|add|insert|new|init|open|get|load|fetch|read|find)_(.+)$")


def _makes_or_opens(first: str, second: str) -> bool:
    """Return whether one call creates what the other opens (`create_table`, `open_table`): one way, not two."""
    left, right = _MAKES.match(first), _MAKES.match(second)
    if left is None or right is None or left[2] != right[2]:
        return False
    return (left[1] in _MAKING) != (right[1] in _MAKING)


_MAKING = frozenset({"create", "make", "add", "insert", "new", "init"})


def _differs_by_name(first: Expr, second: Expr) -> bool:
    """Return whether a function is called again with another model or source: a cascade and not a retry."""
    left, right = {text_of(a) for a in arguments_of(first)}, {text_of(a) for a in arguments_of(second)}
    return any(_FALLBACK.search(text) for text in left ^ right)


def _empty_cascade(subject: Subject, body: Body, at: int) -> PatternHit | None:
    s = body[at]
    test, inner = branches_of(s)[0]
    name = _emptiness_of(test)
    if name is None or len(branches_of(s)) > 1:
        return None
    before = [call for target, call in _producers(body[:at]) if target == name and _is_producer(call)]
    after = [call for target, call in _producers(inner) if target in (name, "return") and _is_producer(call)]
    for first in before[-1:]:
        for second in after[:1]:
            if callee_text(first) != callee_text(second) and _shared(first, second):
                context = f"{subject.ir.name} {text_of(second)} {text_of(first)}"
                strength = _strength(subject, first, second, context)
                evidence = f"{callee_text(first)}, if empty {callee_text(second)} (line {call_line(second)})"
                return subject.hit("has_cascade", line_of(s), end_of(s), "empty", evidence, strength)
    return None


def _emptiness_of(test: Expr) -> str | None:
    """Return the name whose emptiness a condition tests: `not x`, `x is None`, `len(x) == 0`."""
    if test[0] == "!":
        return text_of(operand_of(test)) if operand_of(test)[0] in "na" else None
    if test[0] == "q" and len(operands_of(test)) == 2:
        left, right = operands_of(test)
        if right == ("k", None) and operators_of(test)[0] in ("is", "=="):
            return text_of(left)
        if is_call(left) and last_name(left) == "len" and right == ("k", 0) and positional_of(left):
            return text_of(positional_of(left)[0])
    if test[0] == "b":
        return next((name for part in operands_of(test) if (name := _emptiness_of(part))), None)
    return None


def _or_cascade(subject: Subject, s: Stmt) -> PatternHit | None:
    value = unwrapped(value_of(s))
    if value is None or value[0] != "b":
        return None
    calls = [
        call
        for part in operands_of(value)
        if (call := unwrapped(part)) is not None and is_call(call) and _is_producer(call)
    ]
    for first, second in itertools.pairwise(calls):
        if callee_text(first) != callee_text(second) and _shared(first, second):
            strength = _strength(subject, first, second, f"{subject.ir.name} {text_of(value)}")
            evidence = f"{callee_text(first)} or {callee_text(second)}"
            return subject.hit("has_cascade", line_of(s), line_of(s), "or", evidence, strength)
    return None


def _loop_cascade(subject: Subject, s: Stmt) -> PatternHit | None:
    names = set(target_names(target_of(s)))
    iterable = unwrapped(iterable_of(s)) or iterable_of(s)
    if is_call(iterable) and last_name(iterable) in (
        "range",
        "count",
        "iter",
        "zip",
        "walk",
        "glob",
        "iterdir",
        "listdir",
    ):
        return None
    body = body_of(s)
    for inner in statements(body):
        if inner[0] != "try" or not (
            tags_in(body_of(inner), "return", "break") or tags_in(orelse_of(inner), "return", "break") or _exits(body)
        ):
            continue
        if not handlers_of(inner) or any(_always_quits(handler_body(h)) for h in handlers_of(inner)):
            continue
        for call in calls_in(body_of(inner)):
            uses = names & (
                {n.partition(".")[0] for n in names_in(callee_of(call))}
                | {n for a in arguments_of(call) for n in names_in(a)}
            )
            others = {n for arg in arguments_of(call) for n in names_in(arg)} - names - {"self"}
            if not uses or not others or not _is_producer(call):
                continue
            if not any(line >= call_line(call) for line in _ways_out(body)):
                # A loop that is only left before the call processes all elements; leaving it is a cancellation.
                continue
            context = f"{subject.ir.name} {text_of(iterable)}"
            named = bool(_FALLBACK.search(context) or _ALTERNATIVES.search(f"{text_of(iterable)} {' '.join(names)}"))
            out = _reaches_out(subject, call)
            strength = 0.85 if named else 0.6 if out else 0.3
            evidence = f"for {', '.join(sorted(names))} in {text_of(iterable)}: {callee_text(call)} until one works"
            return subject.hit("has_cascade", line_of(s), end_of(s), "loop", evidence, strength)
    return None


def _ways_out(body: Body) -> Iterator[int]:
    """Yield the lines at which a loop is left, those in handlers excepted."""
    for s in body:
        if s[0] in ("return", "break"):
            yield line_of(s)
        elif s[0] == "try":
            for part in (body_of(s), orelse_of(s), final_of(s)):
                yield from _ways_out(part)
        elif s[0] in ("for", "while"):
            # `break` leaves only the inner loop.
            inside = (inner for block in inner_bodies(s) for inner in statements(block))
            yield from (line_of(inner) for inner in inside if inner[0] == "return")
        else:
            for inner in inner_bodies(s):
                yield from _ways_out(inner)


_ALTERNATIVES = re.compile(
    r"provider|model|backend|engine|strateg|candidate|parser|reader|loader|retriever|client|llm|route|endpoint", re.I
)


__all__ = ["find_cascades", "find_handlers", "find_retries"]
