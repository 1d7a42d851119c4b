"""Finds failures that are given back as answers: error text, a sentinel, nothing, a default for an invalid value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import calls_in, calls_of, leaves, names_in, own_expressions, text_of, unwrapped
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.routes.check_steps import made_by
from gapwatch.design.routes.checks import failed_names
from gapwatch.design.routes.forms import Forms
from gapwatch.design.routes.reaches import WORK
from gapwatch.design.routes.ways import best_call, flowing_calls, sent_by
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    caught_by,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    keywords_of,
    line_of,
    operands_of,
    operators_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name, statements

_IMPORTS = re.compile(r"ImportError|ModuleNotFoundError|KeyboardInterrupt|CancelledError|StopIteration|StopAsync")
#: Methods of a log that tell of a failure.
_TELLS = frozenset({"error", "exception", "critical"})
_KINDS = {"error": "error text", "empty": "empty", "text": "fixed text", "given": "argument"}


def find_failure_answers(subject: Subject) -> Iterator[PatternHit]:
    """Yield the lines at which a function gives a failure back as if it were an answer; status 400 and more is none."""
    if subject.ir.kind == "module":
        return
    seen: set[int] = set()
    for value, line, kind, confidence in _of_block(subject, subject.ir.body, []):
        if line not in seen and not _has_error_status(value):
            seen.add(line)
            shown = text_of(sent_by(value) or value)
            yield subject.hit("returns_failure", line, line, kind, f"{kind}: {shown}", confidence)


_Found = tuple[Expr, int, str, float]
"""Value, line, kind, confidence."""


def _of_block(subject: Subject, body: Body, before: list[Stmt]) -> Iterator[_Found]:
    before = list(before)
    for i, s in enumerate(body):
        if s[0] == "try":
            yield from _of_handlers(subject, s, body[i + 1 :])
        elif s[0] == "if":
            yield from _of_check(subject, s, before)
            yield from _of_invalid_value(s, body[i + 1 :])
            yield from _of_told_failure(s)
        elif (given := _given(s)) is not None and Forms(before, "").of(given) == "error":
            yield given, line_of(s), "error text", 0.8
        for inner in inner_bodies(s):
            yield from _of_block(subject, inner, before)
        before.append(s)
        before.extend(x for block in inner_bodies(s) for x in statements(block))


#: Names of functions that say whether something holds.
_SAYS_WHETHER = re.compile(r"(^|_)(is|has|can|should)_")


def _given(s: Stmt) -> Expr | None:
    """Return what a statement gives back or sends, None for nothing."""
    if s[0] == "return":
        return value_of(s) or ("k", None)
    return s[2] if s[0] == "expr" and sent_by(s[2]) is not None else None


def _of_handlers(subject: Subject, s: Stmt, after: Body) -> Iterator[_Found]:
    if not any(True for _ in calls_in(body_of(s))):
        return
    for handler in handlers_of(s):
        if _IMPORTS.search(text_of(caught_by(handler))):
            continue
        body, caught = handler_body(handler), handler[2] or ""
        inside = list(statements(body))
        for x in inside:
            value = _given(x)
            if value == ("k", False) and _SAYS_WHETHER.search(subject.ir.name):
                continue  # the answer to a question, and no failure
            form = Forms(inside, caught).of(value) if value is not None else ""
            if value is not None and form in _KINDS and not (form == "given" and not _is_argument(subject, value)):
                yield value, line_of(x), _KINDS[form], 0.9
        bound = {text_of(t) for y in statements(body_of(s)) if y[0] == "assign" for t in targets_of(y)}
        for x in inside:
            value = value_of(x) if x[0] == "assign" else None
            if value is not None and value[0] == "k" and any(text_of(t) in bound for t in targets_of(x)):
                form = Forms(inside, caught).of(value)
                yield value, line_of(x), _KINDS.get(form, "empty"), 0.7
        follows = after[0] if after and not leaves(body) else None
        if follows is not None and follows[0] == "return" and _returns(body_of(s)):
            value = value_of(follows) or ("k", None)
            form = Forms([], "").of(value)
            if form in ("empty", "text", "error") or (form == "given" and _is_argument(subject, value)):
                yield value, line_of(follows), _KINDS[form], 0.7


def _returns(body: Body) -> bool:
    return any(x[0] == "return" for x in statements(body))


def _is_argument(subject: Subject, value: Expr) -> bool:
    names = {n.partition(".")[0] for n in names_in(value)}
    return bool(names & {p.name for p in subject.ir.params if p.name not in ("self", "cls")})


def _of_check(subject: Subject, s: Stmt, before: list[Stmt]) -> Iterator[_Found]:
    """Yield what is given back where the result of a call is missing or bad."""
    test, body = branches_of(s)[0]
    last = body[-1] if body else None
    value = value_of(last) if last is not None and last[0] == "return" else None
    if value is None or last is None:
        return
    form = Forms(body, "").of(value)
    if form not in ("text", "empty", "error"):
        return
    for _, made in made_by(before, failed_names(test), s):
        _, found = best_call(subject, flowing_calls(subject, before, made))
        if not found.isdisjoint(WORK) and (form != "empty" or "status" in text_of(test)):
            yield value, line_of(last), _KINDS[form], 0.7
            return


def _of_told_failure(s: Stmt) -> Iterator[_Found]:
    """Yield the empty value of a branch that tells of an error, and then gives it back or goes on with it."""
    for body in (*(block for _, block in branches_of(s)), s[3]):
        told = [c for x in body for e in own_expressions(x) for c in calls_of(e) if last_name(c) in _TELLS]
        for x in body if told else ():
            value = value_of(x) or ("k", None) if x[0] == "return" else value_of(x) if x[0] == "assign" else None
            if value is not None and Forms(body, "").of(value) == "empty":
                yield value, line_of(x), "empty", 0.7


def _of_invalid_value(s: Stmt, after: Body) -> Iterator[_Found]:
    """Yield the default that replaces a value which is not one of the allowed ones."""
    test, body = branches_of(s)[0]
    e = unwrapped(test) or test
    if e[0] != "q" or operators_of(e) not in (("in",), ("not in",)) or not body:
        return
    name = text_of(operands_of(e)[0])
    if not after:
        return
    first, second = (body[-1], after[0]) if operators_of(e) == ("in",) else (after[0], body[-1])
    if first[0] != "return" or second[0] != "return":
        return
    kept, default = value_of(first), value_of(second)
    is_default = default is not None and default[0] == "k" and constant_of(default) not in (None, True, False)
    if kept is not None and default is not None and is_default and name in names_in(kept):
        yield default, line_of(second), "default for an invalid value", 0.8


def _has_error_status(value: Expr) -> bool:
    e = unwrapped(value) or value
    given = dict(keywords_of(e)).get("status_code") if is_call(e) else None
    return given is not None and (
        given[0] != "k" or (isinstance(constant_of(given), int) and constant_of(given) >= 400)
    )
