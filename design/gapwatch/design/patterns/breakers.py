"""Finds circuit breakers: calls that are refused for a while because earlier ones failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import (
    leaves,
    names_in,
    own_expressions,
    target_names,
    text_of,
    walk,
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
    constant_of,
    end_of,
    final_of,
    handler_body,
    handlers_of,
    is_call,
    line_of,
    line_or,
    operators_of,
    orelse_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import FunctionInfo, inner_bodies, last_name, statements

_STATE = re.compile(
    r"fail|error_count|errors$|consecutive|circuit|breaker|open(ed)?(_|$)|trip|cool_?down|unhealthy|blocked|disabled|degraded",
    re.I,
)


def find_breakers(subject: Subject) -> Iterator[PatternHit]:
    """Yield circuit breakers: those of a library, and hand-written ones."""
    outer = subject.program.functions[subject.info.parent].symbol if subject.info.parent >= 0 else ""
    owner = subject.program.classes[subject.info.owner].symbol if subject.info.owner >= 0 else outer
    for decorator in subject.ir.decorators:
        line = line_or(decorator, subject.ir.line)
        call = decorator if is_call(decorator) else ("c", decorator, (), (), line)
        for symbol in (owner, outer):
            if any(subject.sites.catalog.capability(d) == "breaker" for d in subject.sites.names_outside(symbol, call)):
                yield subject.hit(
                    "has_circuit_breaker", subject.ir.line, subject.ir.end, "library", f"@{text_of(decorator)}", 0.95
                )
                return
    for call in subject.calls:
        if any(
            subject.sites.catalog.capability(d) == "breaker" for d in subject.sites.names_outside(subject.symbol, call)
        ):
            yield subject.hit("has_circuit_breaker", call_line(call), call_line(call), "library", text_of(call), 0.9)
            return
    built = list(_built_breaker(subject)) or list(_class_breaker(subject))
    yield from built


_COUNTS = re.compile(r"fail|error|consecutive|trip", re.I)
_OPEN = re.compile(
    r"(^|[._\W])(is_)?(open|opened|opened_at|open_until|state|status|circuit\w*|tripped|_?(blocked|broken|banned|suspended)\w*)\b",
    re.I,
)
_TIMES = re.compile(r"time|now|monotonic|clock|elapsed|until|cool_?down|recovery|reset_?after", re.I)


def _class_breaker(subject: Subject) -> Iterator[PatternHit]:
    """Yield the gate of a class that counts failures, refuses while its state is open, and admits again by time."""
    if subject.info.owner < 0:
        return
    gates = [(s, test) for s in subject.statements if s[0] == "if" and (test := _refused(s)) is not None]
    if not gates:
        return
    counted = reopened = ""
    for info in _of_module(subject):
        if info.owner != subject.info.owner:
            continue
        for s in statements(info.ir.body):
            if not counted and (name := _counter(s)) is not None and _COUNTS.search(name):
                counted = f"failures are counted in {info.ir.name}, line {line_of(s)}"
            for e in own_expressions(s):
                if not reopened and any(_compares_time(inner) for inner in walk(e)):
                    reopened = f"re-admitted by time in {info.ir.name}, line {line_of(s)}"
    if counted and reopened:
        gate, test = gates[0]
        evidence = f"refuses while {text_of(test)}; {counted}; {reopened}"
        yield subject.hit("has_circuit_breaker", line_of(gate), end_of(gate), "class", evidence, 0.85)


def _counter(s: Stmt) -> str | None:
    """Return what a statement counts, by adding to it or by appending to it, or None."""
    if s[0] == "aug":
        return text_of(target_of(s))
    if s[0] == "expr" and is_call(s[2]) and last_name(s[2]) == "append":
        return text_of(callee_of(s[2]))
    return None


def _refused(s: Stmt) -> Expr | None:
    """Return the state of the object for which an `if` raises, says no, or gives something else instead of the call."""
    for test, inner in branches_of(s):
        states = [n for n in names_in(test) if "." in n and _OPEN.search(n.rpartition(".")[2])]
        if not states:
            continue
        if any(x[0] == "raise" or (x[0] == "return" and value_of(x) != ("k", True)) for x in statements(inner)):
            return test
    return None


def _compares_time(e: Expr) -> bool:
    return (
        e[0] == "q"
        and any(sign in ("<", "<=", ">", ">=") for sign in operators_of(e))
        and bool(_TIMES.search(text_of(e)))
    )


def _built_breaker(subject: Subject) -> Iterator[PatternHit]:
    for s in subject.statements:
        if s[0] != "if":
            continue
        for test, inner in branches_of(s):
            if not leaves(inner) or "isinstance" in text_of(test):
                continue
            for name in sorted(_state_names(test)):
                if _STATE.search(name.rpartition(".")[2]) and (how := _kept_state(subject, name, test)):
                    yield subject.hit(
                        "has_circuit_breaker",
                        line_of(s),
                        end_of(s),
                        "built",
                        f"refuses while {text_of(test)}; {how}",
                        0.8,
                    )
                    return


def _state_names(test: Expr) -> set[str]:
    return {n for n in names_in(test) if n.startswith("self.") or (n.isidentifier() and n != "self")}


def _kept_state(subject: Subject, name: str, test: Expr) -> str | None:
    """Return how a name holds the breaker's state (written on failure, reset by time or code), or None."""
    written, reset = "", "by time" if re.search(r"time|now|monotonic|clock|until", text_of(test)) else ""
    if not name.startswith("self.") and name in subject.ir.local_names and name not in subject.ir.foreign:
        return None
    for info in _of_module(subject):
        if name.startswith("self.") and info.owner != subject.info.owner:
            continue
        for s, in_handler in _with_handlers(info.ir.body, _is_failure_hook(info.ir.name)):
            changed = _writes(s)
            if not any(c == name or c.startswith(f"{name}[") for c in changed):
                continue
            if in_handler and not (s[0] == "assign" and value_of(s) in (("k", 0), ("k", None), ("k", False))):
                written = written or f"written when it fails ({info.ir.name}, line {line_of(s)})"
            elif (
                s[0] == "assign" and info.ir.name != "__init__" and info.ir.kind != "module" and _is_reset(value_of(s))
            ):
                reset = reset or f"set back in {info.ir.name}, line {line_of(s)}"
    return f"{written}, re-admitted {reset}" if written and reset else None


def _of_module(subject: Subject) -> list[FunctionInfo]:
    module = subject.info.module
    first = subject.program.first_function[module]
    later = subject.program.first_function[module + 1 :]
    return subject.program.functions[first : later[0] if later else None]


def _is_failure_hook(name: str) -> bool:
    return bool(re.search(r"fail|error|trip|unhealthy|mark_down|open_circuit", name, re.I))


def _with_handlers(body: Body, inside: bool) -> Iterator[tuple[Stmt, bool]]:
    for s in body:
        yield s, inside
        if s[0] == "try":
            for part in (body_of(s), orelse_of(s), final_of(s)):
                yield from _with_handlers(part, inside)
            for handler in handlers_of(s):
                yield from _with_handlers(handler_body(handler), True)
        else:
            for inner in inner_bodies(s):
                yield from _with_handlers(inner, inside)


def _writes(s: Stmt) -> list[str]:
    if s[0] == "assign":
        return [name for target in targets_of(s) for name in target_names(target)]
    if s[0] == "aug":
        return [text_of(target_of(s))]
    return []


def _is_reset(value: Expr | None) -> bool:
    return (
        value is not None
        and value[0] == "k"
        and constant_of(value) in (0, 0.0, None, False, "closed", "CLOSED", "healthy")
    )
