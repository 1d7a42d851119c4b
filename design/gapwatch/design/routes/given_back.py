"""Tells of what a handler gives back whether it is what the function was given, or an answer without a part of it."""

from __future__ import annotations

import re

from gapwatch.design.patterns.code_walk import names_in, text_of, unwrapped, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.outside_calls import assigned_to
from gapwatch.design.routes.reaches import reaches
from gapwatch.design.source.ir import Expr, is_call, members_in, operand_of, operands_of, value_of
from gapwatch.design.source.program import last_name

#: Parameters by which a caller says what to give instead.
_INSTEAD = re.compile(r"default|fallback", re.I)
_EMPTY = frozenset({"[]", "d()", "set()", "dict()", "list()", "None", "''"})


def is_argument(subject: Subject, value: Expr) -> bool:
    """Return whether a value holds an argument of its function, or a part of one that the function has named."""
    names = {n.partition(".")[0] for n in names_in(value)}
    given = {p.name for p in subject.ir.params if p.name not in ("self", "cls") and not _INSTEAD.search(p.name)}
    parts = [list(assigned_to(subject.ir.body, name)) for name in names - given]
    return bool(names & given) or any(found and all(_is_part(e, given) for e in found) for found in parts)


def _is_part(e: Expr, given: set[str]) -> bool:
    """Return whether a value is an element or a field of a parameter: `result[0].message`."""
    is_inner = e[0] in ("a", "s")
    while e[0] in ("a", "s"):
        e = e[1]
    return is_inner and e[0] == "n" and e[1] in given


def lacks_a_part(subject: Subject, value: Expr) -> bool:
    """Return whether a tuple has nothing where another tuple of the function has something."""
    members = members_in(value) if value[0] == "t" else ()
    empty = [i for i, e in enumerate(members) if text_of(e) in _EMPTY]
    others = [other for e in subject.returned if e[0] == "t" and len(other := members_in(e)) == len(members)]
    return any(other[i][0] in "nascw" and text_of(other[i]) not in _EMPTY for i in empty for other in others)


def asks_again(subject: Subject, value: Expr) -> bool:
    """Return whether a value is what a model gives that is asked in a call: it does better, told of the failure."""
    call = unwrapped(value) or value
    return is_call(call) and "llm_chat" in reaches(subject, call)


def conditions_of(test: Expr) -> list[Expr]:
    """Return the parts of a test that are joined by `and` and `or`, without `not`."""
    if test[0] == "!":
        inner = operand_of(test)
        return conditions_of(inner) if inner is not None else []
    return [one for e in operands_of(test) for one in conditions_of(e)] if test[0] == "b" else [test]


def gives_on(subject: Subject, symbol: str) -> bool:
    """Return whether a function gives back what another gives, in whatever form."""
    name, given = symbol.rpartition(".")[2], subject.returned
    names = {n for e in given for n in names_in(e)}
    for s in subject.statements:
        value = value_of(s) if s[0] == "assign" else None
        if value is not None and names & {n for t in s[2] for n in names_in(t)}:
            given = [*given, value]
    return any(last_name(x) == name for e in given for x in walk(e) if x[0] in "na")
