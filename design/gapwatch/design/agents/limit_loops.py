"""Finds loops that ask a model until its answer will do, and give up at a limit: rounds, tries, repairs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from gapwatch.design.agents.turns import is_asked
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import (
    constants_in,
    names_in,
    tags_in,
    target_names,
    text_of,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.routes.forms import SENTENCE, Forms
from gapwatch.design.source.ir import (
    Body,
    Stmt,
    body_of,
    branches_of,
    constant_of,
    end_of,
    is_call,
    iterable_of,
    line_of,
    positional_of,
    target_of,
    targets_of,
    test_of,
    value_of,
)
from gapwatch.design.source.program import Program, inner_bodies, last_name, statements

#: Calls between a loop and the model that it asks.
_NEAR = 3
#: Methods of a log that tell that something was given up.
_TELLS = frozenset({"error", "exception", "critical", "warning", "warn"})
#: Statements behind a loop that are read for what is done where it gave up.
_BEHIND = 2
_LIMIT = re.compile(r"max|limit|most|tries|attempts|budget|rounds|steps|turns|iterations", re.I)


def find_limit_loops(
    program: Program, sites: CallSites, distances: dict[str, int], known: Collection[tuple[str, int]]
) -> Iterator[PatternHit]:
    """Yield the loops with a limit behind which the code says that it gave up.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        distances: Calls to the nearest model by symbol.
        known: File and line of loops that are known already.
    """
    for info in program.functions:
        if info.ir.kind == "module" or info.is_overload or distances.get(info.symbol, 99) > _NEAR + 1:
            continue
        subject, path = Subject(program, sites, info), program.path(info)
        for block in _blocks(info.ir.body):
            for i, s in enumerate(block):
                if s[0] not in ("for", "while") or (path, line_of(s)) in known or not (limit := _limit_of(s)):
                    continue
                if _is_left(body_of(s), _answers(subject, s, distances)) and _gives_up(block[i + 1 :]):
                    evidence = f"asks a model until its answer will do, within {limit}"
                    yield subject.hit("has_retry_loop", line_of(s), end_of(s), "limit", evidence, 0.8)


def _blocks(body: Body) -> Iterator[Body]:
    yield body
    for s in body:
        for inner in inner_bodies(s):
            yield from _blocks(inner)


def _limit_of(s: Stmt) -> str:
    """Return the code of the limit of a loop: a number of turns that is set, and not one for each of some things."""
    if s[0] == "for":
        e = iterable_of(s)
        given = positional_of(e) if is_call(e) and last_name(e) == "range" else ()
        if not given or len(given) > 2 or any(is_call(x) for x in walk(given[-1])):
            return ""
        number = constant_of(given[-1]) if given[-1][0] == "k" else None
        is_set = isinstance(number, int) or _LIMIT.search(text_of(given[-1])) is not None
        indexes = {n for x in statements(body_of(s)) for e in _subscripts(x) for n in names_in(e)}
        return text_of(given[-1]) if is_set and indexes.isdisjoint(target_names(target_of(s))) else ""
    counted = {n for x in statements(body_of(s)) if x[0] == "aug" for n in target_names(target_of(x))}
    compared = [e for e in walk(test_of(s)) if e[0] == "q" and set(e[1]) & {"<", "<="}]
    found = [e for e in compared if counted & {text_of(o) for o in e[2]}]
    return text_of(found[0]) if found else ""


def _subscripts(s: Stmt) -> Iterator[tuple[object, ...]]:
    value = value_of(s) if s[0] in ("assign", "expr", "return", "aug") else None
    yield from (e[2] for e in walk(value) if e[0] == "s") if value is not None else ()


def _answers(subject: Subject, s: Stmt, distances: dict[str, int]) -> set[str]:
    """Return the names of what a model says in a turn of a loop, and of what is made of that."""
    names: set[str] = set()
    for x in statements(body_of(s)):
        value = value_of(x) if x[0] == "assign" else None
        if value is None:
            continue
        asking = any(
            is_asked(subject, c) or any(distances.get(e.dst, 99) < _NEAR for e in subject.inside(c))
            for c in walk(value)
            if is_call(c)
        )
        if asking or names & names_in(value):
            names |= {name for t in targets_of(x) for name in target_names(t)}
    return names


def _is_left(body: Body, answers: set[str]) -> bool:
    """Return whether a loop is left before its limit where a condition on an answer holds."""
    tests = [branch for x in statements(body) if x[0] == "if" for branch in branches_of(x)]
    return any(answers & names_in(test) and tags_in(block, "return", "break") for test, block in tests)


def _gives_up(after: Body) -> bool:
    """Return whether what follows a loop raises, tells of it, or gives or binds something in place of an answer."""
    behind = list(after[:_BEHIND])
    for s in statements(tuple(behind)):
        value = value_of(s) if s[0] in ("return", "assign") else None
        if s[0] == "raise" or (s[0] == "expr" and is_call(s[2]) and last_name(s[2]) in _TELLS):
            return True
        is_told = value is not None and any(SENTENCE.search(text) for text in constants_in(value))
        if value is not None and Forms((), "").of(value) in (("error", "text") if is_told else ("error",)):
            return True
    first = behind[0] if behind else None
    if first is None or first[0] != "return":
        return False
    given = value_of(first)
    return given is None or given == ("k", None) or given == ("k", False)
