"""Finds the lines at which a loop of attempts is left, by success or because it gives up, and loops of one try."""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import keyword, names_in, tags_in, target_names, unwrapped
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    is_member,
    is_name,
    iterable_of,
    line_of,
    name_of,
    operands_of,
    operator_of,
    operators_of,
    orelse_of,
    positional_of,
    target_of,
    targets_of,
    test_of,
    value_of,
)
from gapwatch.design.source.program import Program, inner_bodies, last_name, statements


def breaks(body: Body) -> list[int]:
    """Return the lines at which a loop is left by `break`; in a handler `break` gives up and is none."""
    out: list[int] = []
    for s in body:
        if s[0] == "break":
            out.append(line_of(s))
        elif s[0] == "try":
            out += breaks(body_of(s)) + breaks(orelse_of(s))
        elif s[0] not in ("for", "while"):
            out += [line for inner in inner_bodies(s) for line in breaks(inner)]
    return out


def _after_last(body: Body, counts: set[str]) -> list[int]:
    """Return the lines that end a block of a loop behind `if attempt < most - 1: continue`: the last try is there."""
    out: list[int] = []
    for n, s in enumerate(body):
        test, block = branches_of(s)[0] if s[0] == "if" else (None, ())
        is_before = test is not None and test[0] == "q" and set(operators_of(test)) <= {"<", "<=", "!="}
        goes_on = bool(block) and block[-1][0] == "continue" and test is not None and bool(counts & names_in(test))
        rest = body[n + 1 :] or (s[3] if s[0] == "if" else ())
        if is_before and goes_on and rest and rest[-1][0] in ("break", "return", "raise"):
            out.append(line_of(rest[-1]))
        elif s[0] not in ("for", "while"):
            out += [line for inner in inner_bodies(s) for line in _after_last(inner, counts)]
    return out


def given_up(loop: Stmt) -> list[int]:
    """Return the lines in a loop at which it gives up: at its limit, or where a handler goes on no more.

    A handler goes on for a further try only where a test holds: `if error.is_short and tries < 3: continue`. What
    follows `if tries < 2: continue` runs at the last try alone.
    """
    inside = list(statements(body_of(loop)))
    counts = {n for s in inside if s[0] == "aug" for n in target_names(target_of(s))}
    turns = set(target_names(target_of(loop))) if loop[0] == "for" else counts & names_in(test_of(loop))
    counts |= turns
    out = _after_last(body_of(loop), turns)
    for s in (x for x in inside if x[0] == "if"):
        test, block = branches_of(s)[0]
        is_over = test[0] == "q" and set(operators_of(test)) <= {">", ">=", "=="} and bool(counts & names_in(test))
        # What else is counted may be what is looked for: enough of it is found.
        ends = ("return", "raise", "break") if turns & names_in(test) else ("return", "raise")
        if is_over and block and block[-1][0] in ends and line_of(block[-1]) != line_of(s):
            out.append(line_of(block[-1]))
    for handler in (h for s in body_of(loop) if s[0] == "try" for h in handlers_of(s)):
        block = handler_body(handler)
        goes_on = any(x[0] == "if" and tags_in(branches_of(x)[0][1], "continue") for x in block)
        if goes_on and block[-1][0] in ("return", "raise"):
            out.append(line_of(block[-1]))
    return list(dict.fromkeys(out))


def tells_end(loop: Stmt, inside: list[Stmt]) -> bool:
    """Return whether a line says that a loop of attempts gave up.

    After `while tries < 3 and not done` the same line follows on both ends; where nothing follows, none does.

    Args:
        loop: The loop.
        inside: Statements of its function.
    """
    body = body_of(loop)
    if loop[0] == "while" and loop[2][0] in "b!":
        return False
    raises = any(s[0] == "raise" for s in statements(body))
    return raises or bool(given_up(loop)) or any(line_of(s) > end_of(loop) for s in inside)


def is_one_try(subject: Subject, loop: Stmt) -> bool:
    """Return whether a loop over `range(most)` has one turn unless somebody sets another limit.

    The limit is a parameter, or a member, of which each default in the repository says so.

    Args:
        subject: The function.
        loop: The `for`.
    """
    limit = next(iter(positional_of(unwrapped(iterable_of(loop)) or iterable_of(loop))[-1:]), None)
    least = 1
    if limit is not None and limit[0] == "o" and operator_of(limit) == "+" and operands_of(limit)[1] == ("k", 1):
        limit, least = operands_of(limit)[0], 0
    if limit is None or not (is_name(limit) or is_member(limit)):
        return limit == ("k", least)
    own = [p.default for p in subject.ir.params if is_name(limit) and p.name == name_of(limit)]
    found = own or list(_defaults_of(subject.program, last_name(limit)))
    return bool(found) and all(e == ("k", least) for e in found)


def _defaults_of(program: Program, name: str) -> Iterator[Expr | None]:
    """Yield what a member is by default: in the bodies of classes, and as a parameter of their methods."""
    for one in program.classes:
        for s in one.ir.body:
            if s[0] == "assign" and any(name in target_names(t) for t in targets_of(s)):
                value = value_of(s)
                if value is not None and is_call(value) and last_name(value) in ("Field", "field"):
                    value = keyword(value, "default") or next(iter(positional_of(value)), None)
                yield value
    for info in program.functions:
        if info.owner >= 0 and info.ir.name == "__init__":
            yield from (p.default for p in info.ir.params if p.name == name and p.default is not None)
