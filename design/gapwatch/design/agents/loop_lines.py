"""Finds the statements that leave a loop, each with its conditions, its handler and the status told before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gapwatch.design.agents.exit_causes import of_words
from gapwatch.design.agents.told_errors import caught_names
from gapwatch.design.patterns.code_walk import own_expressions, text_of, walk
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    constant_of,
    final_of,
    handler_body,
    handlers_of,
    is_call,
    is_text,
    keywords_of,
    orelse_of,
    pairs_in,
    targets_of,
    value_of,
)

#: Fields and variables that say how something ended.
_SAYS_HOW = re.compile(r"^((final|exit|stop|end|run|agent|action|termination)_?)?(status|reason|outcome)$", re.I)
#: Fields of events, of which only the bad ones are an end.
_SAYS_WHAT = frozenset({"type", "event", "kind"})
#: Statements before one that leaves that may tell how the run ends.
_BEFORE = 3


@dataclass(frozen=True)
class LeavingLine:
    """A statement that leaves a loop.

    Attributes:
        statement: The statement.
        tests: Conditions around it, the outermost first, each with whether it holds there.
        caught: Names of the exceptions that lead to it.
        before: Statements before it in its block.
    """

    statement: Stmt
    tests: tuple[tuple[Expr, bool], ...] = ()
    caught: tuple[str, ...] = ()
    before: Body = ()

    def told(self) -> tuple[str, str]:
        """Return (cause, status) of the status that it gives, or that is told just before it; ("", "") for none."""
        for s in (self.statement, *reversed(self.before[-_BEFORE:])):
            if s[0] not in ("return", "assign", "expr", "break", "continue"):
                break
            for status in statuses_in(s):
                if cause := of_words(status):
                    return cause, status
        return "", ""


def statuses_in(s: Stmt) -> Iterator[str]:
    """Yield the words by which a statement tells how a run ends: `{"status": "max_steps"}`, `return None, "error"`."""
    for e in own_expressions(s):
        for one in walk(e):
            fields: list[tuple[str, Expr]] = []
            if one[0] == "d":
                fields = [(str(constant_of(k)), v) for k, v in pairs_in(one) if k is not None and k[0] == "k"]
            elif is_call(one):
                fields = [(name, v) for name, v in keywords_of(one) if name]
            for name, value in fields:
                status = _status(value)
                if _SAYS_HOW.search(name) or (name in _SAYS_WHAT and of_words(status) in ("limit", "error")):
                    yield status
    given = value_of(s) if s[0] in ("assign", "return") else None
    if given is None:
        return
    if s[0] == "return" and given[0] == "t":
        yield from (status for one in given[1] if of_words(status := _status(one)) in ("limit", "error"))
    elif s[0] == "assign" and any(_SAYS_HOW.search(_last_key(target)) for target in targets_of(s)):
        yield _status(given)


def leaving_lines(body: Body) -> Iterator[LeavingLine]:
    """Yield the statements that leave a loop with a block."""
    yield from _leaving(body, LeavingLine(()), 0, False)


def _leaving(body: Body, around: LeavingLine, depth: int, is_tried: bool) -> Iterator[LeavingLine]:
    tests, caught = around.tests, around.caught
    for i, s in enumerate(body):
        if s[0] == "return" or (s[0] == "break" and not depth) or (s[0] == "raise" and not is_tried):
            yield LeavingLine(s, tests, caught, body[:i])
        elif s[0] == "if":
            before: tuple[tuple[Expr, bool], ...] = ()
            for test, block in branches_of(s):
                yield from _leaving(block, LeavingLine((), (*tests, *before, (test, True)), caught), depth, is_tried)
                before = (*before, (test, False))
            yield from _leaving(s[3], LeavingLine((), (*tests, *before), caught), depth, is_tried)
        elif s[0] == "try":
            yield from _leaving(body_of(s), around, depth, True)
            for handler in handlers_of(s):
                names = tuple(caught_names(handler)) or ("Exception",)
                yield from _leaving(handler_body(handler), LeavingLine((), tests, names), depth, is_tried)
            for block in (orelse_of(s), final_of(s)):
                yield from _leaving(block, around, depth, is_tried)
        elif s[0] in ("for", "while"):
            yield from _leaving(body_of(s), around, depth + 1, is_tried)
        elif s[0] == "with":
            yield from _leaving(body_of(s), around, depth, is_tried)
        elif s[0] == "match":
            for case in s[3]:
                yield from _leaving(case[3], around, depth, is_tried)


def _status(value: Expr) -> str:
    """Return the word of a status, of two the good one; empty for other values."""
    if value[0] == "?":
        either = [_status(value[2]), _status(value[3])]
        return next((status for status in either if of_words(status) == "done"), either[0])
    if is_text(value) and re.fullmatch(r"\w[\w.-]{1,40}", constant_of(value)):
        return str(constant_of(value))
    return str(value[2]) if value[0] == "a" and value[2].isupper() else ""


def _last_key(target: Expr) -> str:
    if target[0] == "s" and target[2][0] == "k":
        return str(target[2][1])
    return text_of(target).rpartition(".")[2]
