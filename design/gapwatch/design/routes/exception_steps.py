"""Steps of routes that an exception takes: from what a `try` block gives to what follows its failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gapwatch.design.patterns.code_walk import leaves, names_in, tags_in, target_names, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.reaches import WORK, is_producer, reaches
from gapwatch.design.routes.way_pairs import RouteStep, is_replacement_by_name, is_same_elsewhere, step_of
from gapwatch.design.routes.ways import Given, Way, all_calls, best_call, first_answer, flowing_calls, sent_by, way_of
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    callee_of,
    caught_by,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    line_of,
    orelse_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import statements

#: The choice between libraries is made at installation and is the same at every call.
_IMPORTS = re.compile(r"\W*(ImportError|ModuleNotFoundError)(\W+(ImportError|ModuleNotFoundError))?\W*")
#: Exceptions that end the work and leave no room for another way.
_ENDS = re.compile(r"KeyboardInterrupt|SystemExit|CancelledError|GeneratorExit|StopIteration|StopAsyncIteration")
#: Exceptions by which a guard refuses a message, and those of a run's limit, which are counted as its end.
_COUNTED = re.compile(r"Tripwire|MaxTurnsExceeded|GraphRecursionError|UsageLimitExceeded|MaxStepsError")


def after_exception(subject: Subject, s: Stmt, before: list[Stmt], after: list[Stmt]) -> Iterator[RouteStep]:
    """Yield the steps from a `try` block to what its handlers give, or to what follows where they fall through.

    Args:
        subject: The function.
        s: The `try` statement.
        before: Statements that ran before it.
        after: Statements that follow it, until the function is left.
    """
    tried = (*body_of(s), *orelse_of(s))
    inside = list(statements(tried))
    made = [x for x in inside if x[0] == "assign" and value_of(x) is not None]
    is_bound = any(handler_body(h) and handler_body(h)[-1][0] != "return" for h in handlers_of(s))
    made = made if is_bound else []
    bound = {n for x in made if flowing_calls(subject, inside, value_of(x) or x) for n in _targets(x)}
    for handler in handlers_of(s):
        steps: list[RouteStep] = []
        caught = text_of(caught_by(handler))
        if _IMPORTS.fullmatch(caught) or (_ENDS.search(caught) and "Exception" not in caught):
            continue
        if _COUNTED.search(caught):
            continue
        why = f"on {caught or 'any exception'}"
        body, name = handler_body(handler), handler[2] or ""
        found = first_answer(subject, body, set() if body and body[-1][0] == "return" else bound)
        if found is not None:
            second = way_of(subject, statements(body), found.value, found.line, found.target, name)
            first = _tried(subject, inside, second.target, is_value=second.call is None)
            steps = list(step_of(s, first, second, why, is_handler=True))
            yield from steps or _elsewhere(subject, s, inside, body, why)
            yield from _at_the_end(subject, s, body, second, found.line, name)
        elif _goes_on(body) and (_ends_returning(tried) or any(_sends(x) for x in inside)):
            following = first_answer(subject, after, set())
            if following is not None and (_ends_returning(tried) or _is_told_apart((*inside, *body), after, following)):
                where = [*before, *following.before]
                second = way_of(subject, where, following.value, following.line, following.target, "")
                steps = list(step_of(s, _tried(subject, inside, second.target), second, why))
            yield from steps or _elsewhere(subject, s, inside, body, why)
        else:
            yield from _without_result(subject, s, inside, body, why)


def _goes_on(body: Body) -> bool:
    return not leaves(body) or body[-1][0] == "break"


def _is_told_apart(done: Iterable[Stmt], after: list[Stmt], following: Given) -> bool:
    """Return whether a test of what a `try` has done decides about an answer after it, which else both ways reach.

    Args:
        done: Statements of the block and of its handler.
        after: Statements that follow it.
        following: The answer.
    """
    set_there = {n for s in statements(tuple(done)) for n in _set(s)}
    return any(
        line_of(s) <= following.line <= end_of(s) and set_there & {n.partition(".")[0] for n in names_in(test)}
        for s in after
        if s[0] == "if"
        for test, _ in branches_of(s)
    )


def _set(s: Stmt) -> set[str]:
    """Return the names that a statement binds, counts up or puts something into."""
    if s[0] == "aug":
        return set(target_names(target_of(s)))
    call = s[2] if s[0] == "expr" and is_call(s[2]) and callee_of(s[2])[0] == "a" else None
    return _targets(s) if call is None else names_in(callee_of(call)[1])


def _ends_returning(body: Body) -> bool:
    """Return whether the end of a block may return."""
    last = body[-1] if body else None
    if last is None:
        return False
    return last[0] == "return" or (last[0] in ("if", "with", "try", "for") and tags_in((last,), "return"))


def _targets(s: Stmt) -> set[str]:
    if s[0] != "assign":
        return set()
    return {name.partition("[")[0] for target in targets_of(s) for name in target_names(target)}


def _sends(s: Stmt) -> bool:
    return s[0] == "expr" and sent_by(s[2]) is not None


def _at_the_end(subject: Subject, s: Stmt, body: Body, second: Way, line: int, caught: str) -> Iterator[RouteStep]:
    """Yield the step from a table or an inner `try` of a handler to what the handler gives back at its end."""
    last = body[-1] if body else None
    value = value_of(last) if last is not None and last[0] == "return" else None
    if value is None or last is None or line_of(last) <= line or second.call is None:
        return
    if any(x[0] in ("for", "try") for x in body):
        third = way_of(subject, statements(body), value, line_of(last), "return", caught)
        is_end = third.form in ("empty", "error")
        yield RouteStep(second, third, "none of them works", line_of(s), end_of(s), 0.7, is_end=is_end)


def _tried(subject: Subject, inside: list[Stmt], target: str, is_value: bool = False) -> Way | None:
    """Return the way that a `try` block takes to the answer which its handler replaces.

    Args:
        subject: The function.
        inside: Statements of the block.
        target: `return`, `yield`, or the name that the handler binds.
        is_value: Whether the handler ends with a value; then what the block binds is given back after it.
    """
    values: list[Expr] = []
    for x in inside:
        value = value_of(x) if x[0] in ("return", "assign", "expr") else None
        if value is None:
            continue
        if x[0] == "return" or _sends(x) or target in _targets(x):
            values.append(value)
    if not values and is_value:
        values = [value for x in inside if x[0] == "assign" and (value := value_of(x)) is not None]
    if not values:
        return None
    call, found = None, frozenset[str]()
    for value in reversed(values):
        # The last value is that of the whole block; earlier ones leave it early.
        call, found = best_call(subject, flowing_calls(subject, inside, value))
        if not found.isdisjoint(WORK):
            break
    other, more = best_call(subject, [c for c in all_calls(inside) if is_producer(c)])
    if other is not None and (call is None or ("llm_chat" in more and "llm_chat" not in found)):
        call, found = other, more
    return Way(call_line(call), "call", call, values[0], found, target) if call is not None else None


def _without_result(subject: Subject, s: Stmt, inside: list[Stmt], body: Body, why: str) -> Iterator[RouteStep]:
    """Yield the step to a call of a handler whose name says that it stands in, where neither call has a result."""
    replacing = [c for c in all_calls(statements(body)) if is_producer(c) and is_replacement_by_name(c)]
    first, found = best_call(subject, [c for c in all_calls(inside) if is_producer(c)])
    if first is not None and replacing:
        way = Way(call_line(first), "call", first, first, found, "yield")
        yield from step_of(s, way, _done(subject, replacing[0]), why, is_handler=True)
    else:
        yield from _elsewhere(subject, s, inside, body, why)


def _elsewhere(subject: Subject, s: Stmt, inside: list[Stmt], body: Body, why: str) -> Iterator[RouteStep]:
    """Yield the step to a call of a handler by the same method of something else, where neither call has a result."""
    instead = list(all_calls(statements(body)))
    pairs = [(one, other) for one in all_calls(inside) for other in instead if is_same_elsewhere(one, other)]
    if pairs:
        earlier, later = (_done(subject, call) for call in pairs[-1])
        yield RouteStep(earlier, later, why, line_of(s), end_of(s), 0.7)


def _done(subject: Subject, call: Expr) -> Way:
    return Way(call_line(call), "call", call, call, reaches(subject, call), "yield")
