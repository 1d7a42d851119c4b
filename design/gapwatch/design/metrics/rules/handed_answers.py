"""Finds the call whose answer a function hands on: as it is, cleaned, cast, or in an object beside other facts."""

from __future__ import annotations

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.patterns.code_walk import unwrapped
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.outside_calls import assigned_to
from gapwatch.design.source.ir import Expr, callee_of, is_call, is_name, name_of, positional_of
from gapwatch.design.source.program import last_name

#: Methods of texts that leave something of each text that says something.
_CLEANS = frozenset({"replace", "strip", "lstrip", "rstrip", "lower", "removeprefix", "removesuffix", "expandtabs"})
#: Names that are followed.
_MOST_STEPS = 4


def handed_call(code: ClaimedCode, subject: Subject) -> Expr | None:
    """Return the one call whose answer a function gives back, or None; objects that it makes are there in any case."""
    given = [e for e in code.returned(subject) if not _is_made(code, subject, e)]
    found = [_followed(code, subject, e) for e in given]
    return found[0] if found and all(e is not None and e is found[0] for e in found) else None


def _followed(code: ClaimedCode, subject: Subject, e: Expr) -> Expr | None:
    for _ in range(_MOST_STEPS):
        inner = unwrapped(e)
        while inner is not None and inner[0] == "a":
            # `ask(question).content`
            inner = unwrapped(inner[1])
        if inner is None or not (is_name(inner) or is_call(inner)):
            return None
        if is_call(inner):
            if callee_of(inner)[0] == "a" and last_name(inner) in _CLEANS:
                e = callee_of(inner)[1]
                continue
            if last_name(inner) != "cast" or len(positional_of(inner)) != 2:
                return inner
            e = positional_of(inner)[1]
            continue
        name = str(name_of(inner))
        values = [v for v in assigned_to(subject.ir.body, name) if not _cleans(code, subject, v, name)]
        if len(values) != 1:
            return None
        e = values[0]
    return None


def _cleans(code: ClaimedCode, subject: Subject, e: Expr, name: str) -> bool:
    """Return whether a value is a text of which only some characters, or their case, are changed."""
    inner = unwrapped(e)
    if inner is None or not is_call(inner):
        return False
    callee = callee_of(inner)
    if callee[0] == "a" and last_name(inner) in _CLEANS:
        return callee[1] == ("n", name) or _cleans(code, subject, callee[1], name)
    if positional_of(inner) != (("n", name),):
        return False
    others = [other for edge in subject.inside(inner) if (other := code.subject(edge.dst)) is not None]
    return bool(others) and all(_only_cleans(code, other) for other in others)


def _only_cleans(code: ClaimedCode, other: Subject) -> bool:
    """Return whether a function gives back its parameter, cleaned at most."""
    given = code.returned(other)
    names = [p.name for p in other.ir.params if p.name not in ("self", "cls")]
    if len(given) != 1 or len(names) != 1:
        return False
    values = list(assigned_to(other.ir.body, names[0]))
    is_same = given[0] == ("n", names[0]) or _cleans(code, other, given[0], names[0])
    return is_same and all(_cleans(code, other, v, names[0]) for v in values)


def _is_made(code: ClaimedCode, subject: Subject, e: Expr) -> bool:
    """Return whether a value is an object that the function makes, and that does not say whether it is empty."""
    inner = unwrapped(e)
    if inner is None or not is_call(inner) or not last_name(inner).lstrip("_")[:1].isupper():
        return False
    owners = [edge.dst.removesuffix(".__init__") for edge in subject.inside(inner)]
    return not any(code.subject(f"{o}.{name}") is not None for o in owners for name in ("__len__", "__bool__"))
