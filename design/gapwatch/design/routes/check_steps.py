"""Steps of routes that the check of a result takes: from a result that fails it to what is given instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    callee_text,
    constants_in,
    leaves,
    names_in,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.checks import failed_names, good_names
from gapwatch.design.routes.forms import Forms
from gapwatch.design.routes.reaches import SOURCES, reaches
from gapwatch.design.routes.way_pairs import RouteStep, step_of
from gapwatch.design.routes.ways import Way, all_calls, best_call, first_answer, flowing_calls, way_of
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    is_call,
    is_text,
    line_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

_SENTENCE = re.compile(r"\w\W*\s+\w")
#: Longest name, in characters.
_NAME = 60
_STORES = re.compile(r"^_?(a?set|put|store|save|write|add|setex)(_|$)", re.I)


def after_check(subject: Subject, s: Stmt, before: list[Stmt], after: list[Stmt]) -> Iterator[RouteStep]:
    """Yield the steps from the results that an `if` checks to what replaces them.

    Args:
        subject: The function.
        s: The `if` statement.
        before: Statements that ran before it.
        after: Statements that follow it, until the function is left.
    """
    (test, body), *others = branches_of(s)
    held = [(x[1], x[2]) for x in walk(test) if x[0] == ":="]
    known = [*before, *(("assign", line_of(s), (("n", name),), value, None) for name, value in held)]
    text = " ".join(text_of(test).split())
    for name, value in made_by(known, failed_names(test), s):
        yield from _replaced(subject, s, known, name, value, body, f"if {text}")
        yield from _judged(subject, s, known, value, body, f"if {text}")
        yield from _instead(subject, s, known, value, (others[0][1] if others else s[3], body), f"if {text}")
    yield from _fresh(subject, s, before, body, after, f"unless {text}")
    for name, value in made_by(known, good_names(test), s):
        otherwise = others[0][1] if others else s[3]
        if otherwise:
            yield from _replaced(subject, s, known, name, value, otherwise, f"unless {text}")
            yield from _instead(subject, s, known, value, (body, otherwise), f"unless {text}")
        elif leaves(body) and _hands_out(body, name, known):
            yield from _followed(subject, s, known, name, value, after, f"unless {text}")


_AGE = re.compile(r"(^|[._])(ttl|age|expir\w*|fresh\w*|stale|max_age|timestamp|time|monotonic|now)([._(]|$)", re.I)


def _fresh(
    subject: Subject, s: Stmt, before: list[Stmt], body: Body, after: list[Stmt], why: str
) -> Iterator[RouteStep]:
    """Yield the step from a value that is kept for some time to what it is made of when it is too old."""
    last = body[-1] if body else None
    kept = value_of(last) if last is not None and last[0] == "return" else None
    if kept is None or last is None or any(is_call(x) and "." not in text_of(x[1]) for x in walk(kept)):
        return
    tests = [test for test, _ in branches_of(s)]
    named = {n for test in tests for n in names_in(test)}
    made = [value for x in before if x[0] == "assign" and (value := value_of(x)) is not None and _assigned([x]) & named]
    if not any(_AGE.search(n) for e in (*tests, *made) for x in walk(e) for n in (text_of(x),) if len(n) < _NAME):
        return
    roots = {n.partition(".")[0].partition("[")[0] for n in names_in(kept)}
    stored = {n.partition("[")[0].partition(".")[0] for n in _assigned(statements(tuple(after)))}
    if not roots & stored:
        return
    call, found = best_call(subject, all_calls(statements(tuple(after))))
    if call is not None and not found.isdisjoint(SOURCES):
        first = Way(line_of(last), "given", None, kept, frozenset({"cache"}), "return")
        second = Way(call_line(call), "call", call, call, found, "return")
        yield RouteStep(first, second, why, line_of(s), call_line(call), 0.8)


def made_by(before: list[Stmt], names: set[str], s: Stmt) -> Iterator[tuple[str, Expr]]:
    """Yield (name, value) of the latest assignment of each name before a statement, without None and yes or no."""
    for name in sorted(names):
        root = name.partition(".")[0].partition("[")[0]
        for x in reversed(before):
            value = _bound(x) if line_of(x) <= line_of(s) else None
            if value is None or unwrapped(value) == ("k", None) or value[0] in ("q", "!"):
                continue
            bound = _names_of(x)
            if name in bound or root in bound:
                yield (name if name in bound else root), value
                break


def _bound(s: Stmt) -> Expr | None:
    """Return what a statement binds to names, or adds to one."""
    return value_of(s) if s[0] == "assign" else s[4] if s[0] == "aug" else None


def _names_of(s: Stmt) -> set[str]:
    return {text_of(target_of(s))} if s[0] == "aug" else {n for t in targets_of(s) for n in target_names(t)}


def _hands_out(body: Body, name: str, before: list[Stmt]) -> bool:
    """Return whether a block ends by returning a value, what came with it, or something made of these."""
    value = value_of(body[-1]) if body[-1][0] == "return" else None
    if value is None:
        return False
    together = next((names for x in reversed(before) if x[0] == "assign" and name in (names := _names_of(x))), set())
    made = {name} | together | _assigned(statements(body))
    return any(n in made or n.partition(".")[0] in made for n in names_in(value))


def _assigned(body: Iterable[Stmt]) -> set[str]:
    return {n for x in body if x[0] == "assign" for t in targets_of(x) for n in target_names(t)}


def _source(subject: Subject, s: Stmt, before: list[Stmt], name: str, value: Expr) -> Way | None:
    call, found = best_call(subject, flowing_calls(subject, before, value))
    if call is None or call_line(call) > line_of(s):
        return None
    return Way(call_line(call), "call", call, value, found, name)


def only_decides(subject: Subject, call: Expr) -> bool:
    """Return whether a call only says what to do next: of a function that is annotated to give yes, no or a number."""
    return any((one := subject.other(edge.dst)) is not None and one.gives_number for edge in subject.inside(call))


def _replaced(
    subject: Subject, s: Stmt, before: list[Stmt], name: str, value: Expr, body: Body, why: str
) -> Iterator[RouteStep]:
    """Yield the step from a result to what a branch binds to its name, returns, or asks a person for."""
    first = _source(subject, s, before, name, value)
    if first is None:
        return
    inside = list(statements(body))
    answer = first_answer(subject, body, {name})
    if answer is not None:
        second = way_of(subject, inside, answer.value, answer.line, answer.target, "")
        if second.form != "given" and not _is_made_of(second, name):
            if second.call is not None or first.call is None or not only_decides(subject, first.call):
                yield from step_of(s, first, second, why, frozenset(_assigned(inside)))
            return
    for x in inside:
        # The whole batch failed: each part of it by the same call.
        for call in all_calls(statements(body_of(x))) if x[0] == "for" and first.call is not None else ():
            if callee_text(call) == callee_text(first.call or ()) and text_of(call) != text_of(first.call):
                second = Way(call_line(call), "call", call, call, reaches(subject, call), "yield")
                yield RouteStep(first, second, why, line_of(s), call_line(call), 0.8)
                return
    for call in all_calls(inside):
        if "person" in (found := reaches(subject, call)):
            yield from step_of(s, first, Way(call_line(call), "call", call, call, found, "yield"), why)
            return


def _instead(
    subject: Subject, s: Stmt, before: list[Stmt], value: Expr, blocks: tuple[Body, Body], why: str
) -> Iterator[RouteStep]:
    """Yield the step from the answer that one branch binds to a name to the fixed text that the other one binds.

    Args:
        subject: The function.
        s: The `if` statement.
        before: Statements that ran before it.
        value: What the condition checks.
        blocks: The branch where that is usable, and the other one.
        why: What makes it go on, in words.
    """
    good, bad = blocks
    names = _assigned(good) & _assigned(bad)
    kept = [
        (n, v) for n in sorted(names) for x in good if x[0] == "assign" and n in _names_of(x) and (v := value_of(x))
    ]
    for name, made in kept:
        answer = first_answer(subject, bad, {name})
        if answer is None or answer.target != name or Forms(statements(good), "").of(made) == "text":
            continue
        second = way_of(subject, statements(bad), answer.value, answer.line, name, "")
        if is_text(answer.value) and second.form == "error":
            second = replace(second, form="text")  # a sentence in the place of the answer, whatever it says
        call, found = best_call(subject, flowing_calls(subject, [*before, *statements(good)], made))
        if second.form == "text" and call is not None:
            yield from step_of(s, Way(call_line(call), "call", call, value, found, name), second, why)


def _is_made_of(second: Way, name: str) -> bool:
    """Return whether a value without a sentence of its own holds parts of the answer: what it asks, what it says."""
    reads = any(n.partition(".")[0] == name for n in names_in(second.value))
    return second.form == "text" and reads and not any(_SENTENCE.search(text) for text in constants_in(second.value))


def _followed(
    subject: Subject, s: Stmt, before: list[Stmt], name: str, value: Expr, after: list[Stmt], why: str
) -> Iterator[RouteStep]:
    """Yield the step from a result, which a branch hands out, to what follows where there is none."""
    first = _source(subject, s, before, name, value)
    answer = first_answer(subject, after, set()) if first is not None else None
    if first is None or answer is None:
        return
    second = way_of(subject, answer.before, answer.value, answer.line, answer.target, "")
    if first.call is not None and _is_stored(after, first.call):
        first = replace(first, reaches=frozenset({"cache"}))
    if second.form != "given" and second.call is not first.call and not _is_made_of(second, name):
        yield from step_of(s, first, second, why, frozenset(_assigned(answer.before)))


def _is_stored(after: list[Stmt], read: Expr) -> bool:
    """Return whether a later call stores something under the key that another call read: the way of a cache."""
    keys = {text_of(a) for a in arguments_of(read) if a[0] == "n"}
    for s in after:
        e = unwrapped(s[2]) if s[0] == "expr" else None
        is_store = e is not None and is_call(e) and _STORES.search(last_name(e))
        if e is not None and is_store and any(text_of(a) in keys for a in arguments_of(e)):
            return True
    return False


def _judged(subject: Subject, s: Stmt, before: list[Stmt], value: Expr, body: Body, why: str) -> Iterator[RouteStep]:
    """Yield the step from an answer that another call judges to the answer that is made where it fails."""
    judge = unwrapped(value)
    if judge is None or not is_call(judge):
        return
    given = {n for argument in arguments_of(judge) for n in names_in(argument)}
    replaced = given & _assigned(statements(body))
    for name, made in made_by(before, replaced, s):
        yield from _replaced(subject, s, before, name, made, body, why)
