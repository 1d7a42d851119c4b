"""Tells exceptions of a setting that is not there: whoever runs the application chose so, and nothing failed."""

from __future__ import annotations

import re

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.outside.exception_kinds import OF_VALUES, raised
from gapwatch.design.patterns.code_walk import calls_in, kinds_of, names_in, unwrapped, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    handlers_of,
    is_call,
    is_name,
    line_of,
    name_of,
    operand_of,
    operands_of,
    operators_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Names of what holds settings, and of settings themselves.
_SETTING = re.compile(r"(^|[._])(settings?|config|configuration|cfg|environ|getenv|api_?keys?|API_?KEYS?)([._]|$)")


def taken_where_unset(code: ClaimedCode, symbol: str, place: CodePlace) -> str | None:
    """Return why the handlers at a place choose by configuration; None where one takes another error.

    Args:
        code: The functions.
        symbol: The function with the handlers.
        place: Its `try`.
    """
    subject = code.subject(symbol)
    for s in subject.statements if subject is not None else ():
        if subject is not None and s[0] == "try" and line_of(s) == place.line:
            inside = [one for c in calls_in(body_of(s)) for e in subject.inside(c) if (one := code.subject(e.dst))]
            names = [last_name(kind) for h in handlers_of(s) for kind in kinds_of(h)]
            if names and all(kinds_of(h) for h in handlers_of(s)) and all(_is_of_unset(inside, n) for n in names):
                return f"{', '.join(names)} says that a setting is not there, so that the second way is chosen"
    return None


def chosen_by_setting(code: ClaimedCode, symbol: str) -> str | None:
    """Return why a function without an answer did not fail: without a setting, each caller takes another way."""
    subject = code.subject(symbol)
    callers = subject.callers if subject is not None else []
    kinds = {raised(s) for s in subject.statements if s[0] == "raise"} if subject is not None else set()
    if subject is None or not any(_is_of_unset([subject], kind) for kind in kinds if kind):
        return None
    taken = [any(_takes(code, caller, s, subject) for s in caller.statements if s[0] == "try") for caller in callers]
    return "does nothing where a setting is not there, and another way is taken" if taken and all(taken) else None


def _takes(code: ClaimedCode, caller: Subject, s: Stmt, subject: Subject) -> bool:
    """Return whether a `try` of a caller holds each call of a function and takes what it raises without a setting."""
    calls = [c for c in calls_in(body_of(s)) if any(e.dst == subject.symbol for e in caller.inside(c))]
    names = {last_name(kind) for h in handlers_of(s) for kind in kinds_of(h)}
    return bool(calls) and any(_is_of_unset([subject], name) for name in names)


def _is_of_unset(subjects: list[Subject], name: str) -> bool:
    """Return whether functions raise an exception of a name, and only where a setting is not there."""
    if name in OF_VALUES or name in ("Exception", "BaseException"):
        return False  # Much else raises these.
    found = [(one, s) for one in subjects for s in one.statements if s[0] == "raise" and raised(s) == name]
    return bool(found) and all(_is_under_unset(one, one.ir.body, s) for one, s in found)


def _is_under_unset(subject: Subject, body: Body, s: Stmt) -> bool:
    """Return whether a statement lies directly in a branch that is taken where a setting is not there."""
    branches = [b for x in statements(body) if x[0] == "if" for b in branches_of(x)[:1]]
    return any(s in block and is_unset(subject, test) for test, block in branches)


def is_unset(subject: Subject, test: Expr) -> bool:
    """Return whether a test holds where a setting is not there: `not key`, `key is None`, `key == ""`."""
    e = unwrapped(test) or test
    if e[0] == "b":
        return all(is_unset(subject, one) for one in operands_of(e))
    if e[0] == "!":
        return _is_setting(subject, operand_of(e))
    if e[0] != "q" or len(operands_of(e)) != 2 or not set(operators_of(e)) <= {"is", "=="}:
        return False
    first, second = operands_of(e)
    return second in (("k", None), ("k", "")) and _is_setting(subject, first)


def _is_setting(subject: Subject, e: Expr) -> bool:
    """Return whether a value is a setting, or a name that is bound to one."""
    inner = unwrapped(e) or e
    if is_name(inner):
        bound = [
            value
            for s in subject.statements
            if s[0] == "assign" and inner in targets_of(s) and (value := value_of(s)) is not None
        ]
        if bound:
            return all(_is_setting(subject, value) for value in bound)
        # A parameter is what a caller gives.
        return name_of(inner) not in {p.name for p in subject.ir.params} and bool(_SETTING.search(str(name_of(inner))))
    others = [
        c for c in walk(inner) if is_call(c) and last_name(c) not in ("get", "getenv", "get_secret_value", "strip")
    ]
    return not others and any(map(_SETTING.search, names_in(inner)))
