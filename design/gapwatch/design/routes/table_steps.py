"""Steps of routes over a table of ways, and inside one expression."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    callee_text,
    leaves,
    names_in,
    tags_in,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.check_steps import made_by
from gapwatch.design.routes.checks import failed_names, good_names
from gapwatch.design.routes.reaches import is_producer
from gapwatch.design.routes.way_pairs import RouteStep, pair_of
from gapwatch.design.routes.ways import Way, all_calls, best_call, first_answer, way_of
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    callee_of,
    end_of,
    final_of,
    handler_body,
    handlers_of,
    is_call,
    iterable_of,
    line_of,
    operands_of,
    orelse_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name, statements

_TABLE = re.compile(
    r"provider|model|backend|engine|strateg|candidate|parser|reader|loader|retriever|client|llm|route|endpoint|vendor"
    r"|handler|fallback|alternativ|tier",
    re.I,
)
_NO_TABLE = frozenset({"range", "count", "iter", "zip", "walk", "glob", "iterdir", "listdir"})
#: Calls that only look at what a table holds.
_LOOKS = frozenset({"isinstance", "getattr", "get", "callable", "hasattr"})
#: Methods of a model that give the same model with options.
_OPTIONS = frozenset(
    {"with_structured_output", "bind_tools", "bind", "with_config", "with_options", "as_structured_llm"}
)


def over_table(subject: Subject, s: Stmt, before: list[Stmt], after: list[Stmt]) -> Iterator[RouteStep]:
    """Yield the step of a loop over ways that ends at the first one that works, and the step to what follows it.

    Args:
        subject: The function.
        s: The `for` statement.
        before: Statements that ran before it.
        after: Statements that follow it, until the function is left.
    """
    names = set(target_names(target_of(s)))
    iterable = unwrapped(iterable_of(s)) or iterable_of(s)
    while is_call(iterable) and last_name(iterable) == "enumerate" and arguments_of(iterable):
        iterable = unwrapped(arguments_of(iterable)[0]) or iterable
    listed = " ".join(sorted(names_in(iterable)))
    if (
        is_call(iterable)
        and last_name(iterable) in _NO_TABLE
        and not (last_name(iterable) == "zip" and _TABLE.search(listed))
    ):
        return
    body = body_of(s)
    made = _made_of(body, names)
    passed = {p.name for p in subject.ir.params}
    call = next((c for c in _tried(body) if _chosen_by(c, names, made, passed)), None)
    if call is None or not is_producer(call) or not any(line >= call_line(call) for line in _exits(body)):
        return
    text = " ".join(sorted({*names, *names_in(iterable)}))
    _, found = best_call(subject, [call])
    way = Way(call_line(call), "call", call, call, found, "return")
    by_callee = bool(made & {n.partition(".")[0] for n in names_in(callee_of(call))})
    if last_name(call) == "get" or not (_TABLE.search(text) or (by_callee and way.is_work)):
        return
    why = f"the next of {text_of(iterable)}"
    yield RouteStep(way, way, why, line_of(s), end_of(s), 0.85 if _TABLE.search(text) else 0.6, is_table=True)
    answer = first_answer(subject, after, set()) if tags_in(body, "return") else None
    if answer is not None:
        third = way_of(subject, [*before, *answer.before], answer.value, answer.line, answer.target, "")
        is_end = third.form in ("empty", "error")
        if is_end or third.form in ("text", "given") or pair_of(way, third) is not None:
            yield RouteStep(way, third, f"none of {text_of(iterable)}", line_of(s), end_of(s), 0.8, is_end=is_end)


def _made_of(body: Body, names: set[str]) -> set[str]:
    made = set(names)
    for x in statements(body):
        value = value_of(x) if x[0] == "assign" else None
        if value is None or any(is_call(e) and last_name(e) not in _LOOKS | _OPTIONS for e in walk(value)):
            continue
        if {n.partition(".")[0] for n in names_in(value)} & made:
            made |= {n for t in targets_of(x) for n in target_names(t)}
    return made


def _tried(body: Body) -> Iterator[Expr]:
    """Yield the calls of a loop whose failure leads to its next turn: caught, or tested before the loop is left."""
    for x in statements(body):
        if x[0] == "try" and handlers_of(x) and not any(_quits(handler_body(h)) for h in handlers_of(x)):
            yield from all_calls(statements(body_of(x)))
    for i, x in enumerate(body):
        if x[0] == "if" and i and leaves(branches_of(x)[0][1]):
            test, inner = branches_of(x)[0]
            if not tags_in(inner, "return", "break"):
                continue
            for _, value in made_by(list(body[:i]), good_names(test), x):
                e = unwrapped(value)
                if e is not None and is_call(e):
                    yield e


def _quits(body: Body) -> bool:
    return bool(body) and body[-1][0] in ("return", "raise", "break") and not tags_in(body[:-1], "continue")


def _chosen_by(call: Expr, names: set[str], made: set[str], passed: set[str]) -> bool:
    """Return whether the variable of a loop chooses the way.

    It is called, or given to a function that is passed in, or
    passed beside what stays the same.
    """
    if {n.partition(".")[0] for n in names_in(callee_of(call))} & made:
        return True
    given = {n for argument in arguments_of(call) for n in names_in(argument)}
    roots = {n.partition(".")[0] for n in given}
    is_passed = callee_of(call)[0] == "n" and callee_text(call) in passed
    return bool(roots & made) and (is_passed or bool(given - made - {"self"}))


def _exits(body: Body) -> Iterator[int]:
    for x in body:
        if x[0] in ("return", "break"):
            yield line_of(x)
        elif x[0] == "try":
            for part in (body_of(x), orelse_of(x), final_of(x)):
                yield from _exits(part)
        elif x[0] in ("for", "while"):
            inside = (inner for block in inner_bodies(x) for inner in statements(block))
            yield from (line_of(inner) for inner in inside if inner[0] == "return")
        else:
            for inner in inner_bodies(x):
                yield from _exits(inner)


def in_expression(subject: Subject, s: Stmt, before: list[Stmt]) -> Iterator[RouteStep]:
    """Yield the steps of `a(x) or b(x)` and of `a if a is not None else b(x)`.

    Args:
        subject: The function.
        s: The assignment or `return`.
        before: Statements that ran before it.
    """
    value = unwrapped(value_of(s))
    if value is None:
        return
    parts: list[Expr] = []
    if value[0] == "b":
        parts = [unwrapped(p) or p for p in operands_of(value)]
    elif value[0] == "?":
        bad, good = failed_names(value[1]), good_names(value[1])
        if any(n in good for n in names_in(value[2])) and _is_tested(value[2], value[1]):
            parts = [unwrapped(value[2]) or value[2], unwrapped(value[3]) or value[3]]
        elif any(n in bad for n in names_in(value[3])) and _is_tested(value[3], value[1]):
            parts = [unwrapped(value[3]) or value[3], unwrapped(value[2]) or value[2]]
    ways: list[Way] = []
    for part in parts:
        origin = part
        if part[0] in "na" and not ways:
            made = next(made_by(before, {text_of(part)}, s), None)
            origin = made[1] if made is not None else part
        e = unwrapped(origin)
        if e is None or not is_call(e) or not is_producer(e):
            ways = []
            continue
        _, found = best_call(subject, [e])
        ways.append(Way(call_line(e), "call", e, e, found, "return"))
    for first, second in itertools.pairwise(ways):
        confidence = pair_of(first, second)
        if confidence is not None and callee_text(first.call or ()) != callee_text(second.call or ()):
            yield RouteStep(first, second, "if it gives nothing", first.line, line_of(s), confidence)


def _is_tested(value: Expr, test: Expr) -> bool:
    """Return whether a test is about a value itself, and not about what a call is given."""
    e = unwrapped(value) or value
    return e[0] in "nas" or text_of(e) in text_of(test)
