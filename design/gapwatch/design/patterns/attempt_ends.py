"""Finds the lines at which a loop of attempts is left: by success, or because it gives up."""

from __future__ import annotations

from gapwatch.design.patterns.code_walk import names_in, tags_in, target_names
from gapwatch.design.source.ir import (
    Body,
    Stmt,
    body_of,
    branches_of,
    end_of,
    handler_body,
    handlers_of,
    line_of,
    operators_of,
    orelse_of,
    target_of,
)
from gapwatch.design.source.program import inner_bodies, statements


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


def given_up(loop: Stmt) -> list[int]:
    """Return the lines in a loop at which it gives up: at its limit, or where a handler goes on no more.

    A handler goes on for a further try only where a test holds: `if error.is_short and tries < 3: continue`.
    """
    inside = list(statements(body_of(loop)))
    counts = {n for s in inside if s[0] == "aug" for n in target_names(target_of(s))}
    counts |= set(target_names(target_of(loop))) if loop[0] == "for" else set()
    out = []
    for s in (x for x in inside if x[0] == "if"):
        test, block = branches_of(s)[0]
        is_over = test[0] == "q" and set(operators_of(test)) <= {">", ">=", "=="} and bool(counts & names_in(test))
        if is_over and block and block[-1][0] in ("return", "raise") and line_of(block[-1]) != line_of(s):
            out.append(line_of(block[-1]))
    for handler in (h for s in body_of(loop) if s[0] == "try" for h in handlers_of(s)):
        block = handler_body(handler)
        goes_on = any(x[0] == "if" and tags_in(branches_of(x)[0][1], "continue") for x in block)
        if goes_on and block[-1][0] in ("return", "raise"):
            out.append(line_of(block[-1]))
    return out


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
