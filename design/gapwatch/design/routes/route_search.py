"""Finds routes: places where an answer can be reached in more than one ordered way."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import callee_text, text_of
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.routes.check_steps import after_check
from gapwatch.design.routes.exception_steps import after_exception
from gapwatch.design.routes.failure_answers import find_failure_answers
from gapwatch.design.routes.option_routes import option_routes
from gapwatch.design.routes.route import Arm, Route
from gapwatch.design.routes.table_steps import in_expression, over_table
from gapwatch.design.routes.way_pairs import RouteStep
from gapwatch.design.routes.ways import Way
from gapwatch.design.source.ir import Body, Stmt, is_call, iterable_of, value_of
from gapwatch.design.source.program import Program, inner_bodies, last_name, statements


def find_routes(program: Program, sites: CallSites) -> tuple[Route, ...]:
    """Return the routes of every function, sorted by file and line; a function beyond the recursion limit has none.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
    """
    routes: set[Route] = set()
    for subject in _subjects(program, sites):
        with contextlib.suppress(RecursionError):
            routes.update(routes_of(subject))
    return tuple(sorted(routes))


def find_failures(program: Program, sites: CallSites) -> set[PatternHit]:
    """Return the failures that functions give back as answers.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
    """
    found: set[PatternHit] = set()
    for subject in _subjects(program, sites):
        with contextlib.suppress(RecursionError):
            found.update(find_failure_answers(subject))
    return found


def _subjects(program: Program, sites: CallSites) -> Iterator[Subject]:
    return (Subject(program, sites, i) for i in program.functions if i.ir.body and not i.is_overload)


def routes_of(subject: Subject) -> list[Route]:
    """Return the routes of a function, each with its arms in order."""
    if subject.ir.kind == "module" or not any(s[0] in ("try", "if", "for", "return") for s in subject.statements):
        return list(option_routes(subject))
    return [*_joined(subject, list(_steps(subject, subject.ir.body, [], []))), *option_routes(subject)]


def _steps(subject: Subject, body: Body, before: list[Stmt], after: list[Stmt]) -> Iterator[RouteStep]:
    """Yield the steps of a block.

    Args:
        subject: The function.
        body: The block.
        before: Statements that ran before it.
        after: Statements that follow it, until the function is left.
    """
    before = list(before)
    for i, s in enumerate(body):
        following = [*body[i + 1 :], *after]
        if s[0] == "try":
            yield from after_exception(subject, s, before, following)
        elif s[0] == "if":
            yield from after_check(subject, s, before, following)
        elif s[0] == "for":
            yield from over_table(subject, s, before, following)
        elif s[0] in ("assign", "return") and value_of(s) is not None:
            yield from in_expression(subject, s, before)
        for inner in inner_bodies(s):
            # A loop goes on with its next turn; only one that counts attempts is over after a failure.
            rest = following if s[0] not in ("for", "while") or _counts(s) else []
            yield from _steps(subject, inner, [*before, s] if s[0] in ("for", "with") else before, rest)
        before.append(s)
        before.extend(inner for block in inner_bodies(s) for inner in statements(block))


def _counts(s: Stmt) -> bool:
    return s[0] == "for" and is_call(iterable_of(s)) and last_name(iterable_of(s)) == "range"


def _joined(subject: Subject, steps: list[RouteStep]) -> Iterator[Route]:
    """Yield one route for each chain of steps; steps that only give a failure back end a chain and make none."""
    groups: list[list[RouteStep]] = []
    for step in sorted((s for s in steps if not s.is_end), key=lambda s: (s.first.line, s.second.line)):
        lines = {step.first.line, step.second.line}
        touching = [g for g in groups if any({o.first.line, o.second.line} & lines for o in g)]
        merged = [one for g in touching for one in g] + [step]
        groups = [g for g in groups if g not in touching] + [merged]
    for group in groups:
        lines = {way.line for step in group for way in (step.first, step.second)}
        ends = [s for s in steps if s.is_end and s.first.line in lines]
        yield _route(subject, [*group, *ends])


def _route(subject: Subject, steps: list[RouteStep]) -> Route:
    ways: dict[tuple[int, str], tuple[Way, str]] = {}
    why: dict[int, str] = {}
    for step in steps:
        why.setdefault(step.first.line, step.why)
        ways.setdefault((step.first.line, step.first.text), (step.first, ""))
        if not step.is_table:
            # Two handlers that give the same are one arm.
            given = text_of(step.second.value)
            is_known = any(text_of(way.value) == given and way is not step.first for way, _ in ways.values())
            if not is_known or step.second.line in {s.first.line for s in steps}:
                ways.setdefault((step.second.line, step.second.text), (step.second, ""))
        elif not any(o.first.line == step.first.line and not o.is_table and not o.is_end for o in steps):
            ways.setdefault((step.first.line, ""), (step.first, "next of the table"))
    ordered = sorted(ways.values(), key=lambda one: one[0].line)
    taken: set[str] = set()
    arms = []
    for i, (way, label) in enumerate(ordered):
        is_last = i == len(ordered) - 1
        symbol = next((e.dst for e in subject.inside(way.call)), subject.symbol) if way.call else subject.symbol
        what = label or way.text
        goes_on = "" if is_last else why.get(way.line, "if it fails")
        arms.append(Arm(way.line, _tier(way, label, taken), " ".join(what.split())[:80], way.by, symbol, goes_on[:80]))
    line, end = min(s.line for s in steps), max(s.end for s in steps)
    kind = _kind([way for way, _ in ordered], steps)
    confidence = max(s.confidence for s in steps if not s.is_end)
    path = subject.program.path(subject.info)
    return Route(path, line, subject.symbol, end, kind, tuple(arms), round(confidence, 2))


_PLAIN = {"text": "fixed_text", "given": "given_value", "empty": "nothing", "error": "error_answer"}


def _tier(way: Way, label: str, taken: set[str]) -> str:
    name = "next" if label else _PLAIN.get(way.form, "") or re.sub(r"\W+", "_", last_name(way.call or ()).strip("_"))
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name or "way").lower()
    made, number = name, 2
    while made in taken:
        made, number = f"{name}_{number}", number + 1
    taken.add(made)
    return made


def _kind(ways: list[Way], steps: list[RouteStep]) -> str:
    first, second = ways[0], ways[1]
    if any(step.is_table for step in steps):
        return "table"
    if "person" in {way.by for way in ways}:
        return "person"
    if first.by == "cache" or first.is_cached:
        return "cache"
    if second.form == "text":
        return "canned text"
    if second.form in ("given", "empty", "error"):
        return "partial answer"
    if first.by == "json" or second.by == "json":
        return "parser"
    if first.call is not None and second.call is not None and callee_text(first.call) == callee_text(second.call):
        return "query" if first.by != "llm_chat" else "model"
    if first.by == second.by == "llm_chat":
        return "model"
    return "rules" if second.by == "code" else "tool"
