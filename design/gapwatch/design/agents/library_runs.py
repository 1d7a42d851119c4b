"""Finds agents that a library runs, where the code sets a limit for a run or catches that it was exceeded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gapwatch.design.agents.agent_loop import AgentLoop, LoopExit
from gapwatch.design.agents.exit_causes import of_words, status_of
from gapwatch.design.agents.told_errors import caught_names
from gapwatch.design.patterns.code_walk import arguments_of, names_in, own_expressions, text_of, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.libraries import RunLimits
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    call_line,
    callee_of,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    keywords_of,
    line_of,
    pairs_in,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Methods of a framework that run an agent; others make one.
_RUNS = re.compile(r"^a?(run|invoke|stream|batch|iter|kickoff|call|execute)(_|$)")
_BROAD = frozenset({"Exception", "BaseException"})


def library_runs(subjects: Iterable[Subject]) -> Iterator[AgentLoop]:
    """Yield the runs of agents of libraries; one of each function."""
    for subject in subjects:
        if subject.ir.kind == "module":
            continue
        for call in subject.calls:
            capability = subject.reach(call).capability
            if capability != "llm_chat" and not (capability == "framework" and _RUNS.search(last_name(call))):
                continue
            limits = subject.sites.catalog.run_limits([subject.reach(call).dotted])
            limit = _limit(subject, call, frozenset(limits.arguments)) if limits.arguments else ""
            exits = tuple(_caught(subject, frozenset(limits.errors), call_line(call)))
            if not limit and limits.texts:
                limit = f"the limit of {limits.returns[0]}"
            if limit or exits:
                yield _run(subject, call_line(call), limit or exits[0].why, exits, limits)
                break


def _run(subject: Subject, line: int, limit: str, exits: tuple[LoopExit, ...], limits: RunLimits) -> AgentLoop:
    path = subject.program.path(subject.info)
    exits = tuple(sorted({*exits, *_told(subject, line)}))
    around = _around(subject, line)
    handed_on = _handed_on(around)
    can_raise = bool(handed_on) or not any(_takes_all(s) for s in around)
    return AgentLoop(
        path,
        line,
        subject.symbol,
        line,
        "library",
        line,
        "done",
        exits,
        can_raise=can_raise,
        limit=limit,
        is_told_by=(*limits.errors, *limits.texts, *handed_on),
        returns_at_limit=bool(limits.returns),
        says_limit=bool(limits.texts),
    )


def _limit(subject: Subject, run: Expr, names: frozenset[str]) -> str:
    """Return the code that sets one of some limits: in the function of a run, or where what it runs is made."""
    here = [e for s in subject.statements for e in own_expressions(s)]
    found = next((text for e in (*here, *_made(subject, run)) if (text := _set_in(e, names))), "")
    return found or _bound(subject, names)


def _bound(subject: Subject, names: frozenset[str]) -> str:
    """Return the limit that the program binds to its agents where it makes them: `agent.with_config({...})`.

    Who runs an agent that another module makes does not say which; only a limit that all of them have counts.
    """
    program, found = subject.program, set[str]()
    marks = [name.encode() for name in names]
    for info in program.functions:
        file = program.files[info.module]
        if file is None or file.tags or b".with_config(" not in file.source or not any(m in file.source for m in marks):
            continue
        for call in (c for s in statements(info.ir.body) for e in own_expressions(s) for c in walk(e) if is_call(c)):
            if last_name(call) == "with_config" and (text := _set_in(call, names)):
                found.add(text)
    return found.pop() if len(found) == 1 else ""


def _set_in(e: Expr, names: frozenset[str]) -> str:
    """Return the code of an expression that sets one of some limits, as an argument or as an entry."""
    for one in walk(e):
        if is_call(one):
            for name, value in keywords_of(one):
                if name in names and value != ("k", None):
                    return f"{name}={text_of(value)}"
        elif one[0] == "d":
            for key, value in pairs_in(one):
                if key is not None and key[0] == "k" and constant_of(key) in names:
                    return f"{constant_of(key)}: {text_of(value)}"
    return ""


#: Most names in a row behind an agent: the agent, its list of middlewares, one of these.
_MOST_NAMES = 3


def _made(subject: Subject, run: Expr) -> Iterator[Expr]:
    """Yield what an agent is made of: of a variable, an attribute of the class, or a function that makes it."""
    program, info = subject.program, subject.info
    around = [f for f in program.functions if f.number == program.bodies[info.module] or 0 <= f.owner == info.owner]
    given: dict[str, Expr] = {}
    for holder in (*around, info):
        for s in statements(holder.ir.body):
            if s[0] == "assign" and (value := value_of(s)) is not None:
                given.update((text_of(target), value) for target in targets_of(s))
    given_to = (callee_of(run), *arguments_of(run)[:1], *(value for _, value in keywords_of(run)))
    wanted = {name for e in given_to for name in names_in(e)}
    wanted |= {name.rpartition(".")[0] for name in wanted}
    known: set[str] = set()
    for _ in range(_MOST_NAMES):
        found = sorted(wanted & given.keys() - known)
        known.update(found)
        yield from (given[name] for name in found)
        wanted = {name for made in found for name in names_in(given[made])}
    for call in (call for name in sorted(known) for call in walk(given[name]) if is_call(call)):
        for maker in filter(None, (subject.other(edge.dst) for edge in subject.inside(call))):
            yield from (e for s in maker.statements for e in own_expressions(s))


def _around(subject: Subject, line: int) -> list[Stmt]:
    """Return the `try` statements whose block holds a line."""
    return [
        s
        for s in subject.statements
        if s[0] == "try" and body_of(s) and line_of(s) <= line <= max(line_of(x) for x in statements(body_of(s)))
    ]


def _caught(subject: Subject, errors: frozenset[str], line: int) -> Iterator[LoopExit]:
    for s in _around(subject, line):
        for handler in handlers_of(s):
            names, body = caught_names(handler), handler_body(handler)
            if body and errors.intersection(names):
                path = subject.program.path(subject.info)
                yield LoopExit(path, line_of(body[0]), subject.symbol, "limit", f"except {', '.join(names)}")


def _told(subject: Subject, line: int) -> Iterator[LoopExit]:
    """Yield the statuses that a function returns after a run: `if run.truncated: return Status.TRUNCATED`."""
    for s in subject.statements:
        value = value_of(s) if s[0] == "return" and line_of(s) > line else None
        how = of_words(status_of(value)) if value is not None and value[0] == "a" else ""
        if value is not None and how in ("limit", "error", "done"):
            path = subject.program.path(subject.info)
            yield LoopExit(path, line_of(s), subject.symbol, how, f"returns {text_of(value)}", is_good=how == "done")


def _takes_all(s: Stmt) -> bool:
    """Return whether the handlers of a `try` let no exception through."""
    broad = [h for h in handlers_of(s) if not caught_names(h) or _BROAD.intersection(caught_names(h))]
    return any(not _raises(h) for h in broad)


def _raises(handler: Stmt) -> bool:
    return any(x[0] == "raise" for x in statements(handler_body(handler)))


def _handed_on(around: list[Stmt]) -> list[str]:
    """Return the exceptions of a limit that handlers around a run hand on: `except TimeLimitError: raise`."""
    handlers = [h for s in around for h in handlers_of(s) if _raises(h)]
    return sorted({name for h in handlers for name in caught_names(h) if of_words(name) == "limit"})
