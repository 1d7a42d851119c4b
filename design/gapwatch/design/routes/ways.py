"""Ways to an answer: what a block of code gives back, by which call, and what that call reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    callee_text,
    calls_of,
    children,
    names_in,
    own_expressions,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.forms import ERROR_NAME, Forms, bound_by
from gapwatch.design.routes.reaches import SOURCES, WORK, is_producer, reaches
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    call_line,
    final_of,
    is_call,
    is_name,
    line_of,
    name_of,
    operand_of,
    orelse_of,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name, statements

#: What makes up an answer by itself, so that the arguments of its call do not count; parsers read what others gave.
_ENOUGH = frozenset(WORK) - {"json"}
_RANK = {capability: rank for rank, capability in enumerate(WORK)}
#: Methods that hand an answer to the user while the function goes on.
_SENDS = frozenset({"send_text", "send_json", "send", "reply_text", "reply", "send_message", "send_str", "answer"})


@dataclass(frozen=True)
class Way:
    """Way to an answer: what a block gives back, and by which call.

    Attributes:
        line: Line of the call, or of the value.
        form: `call`, `text`, `given`, `empty` or `error`.
        call: The call that does the work; None for values.
        value: The value that is given back.
        reaches: Capabilities within four calls.
        target: `return`, `yield`, or the name that the value is bound to.
    """

    line: int
    form: str
    call: Expr | None
    value: Expr
    reaches: frozenset[str]
    target: str

    @property
    def text(self) -> str:
        """The callee, or the value, as code."""
        return callee_text(self.call) if self.call is not None else text_of(sent_by(self.value) or self.value)

    @property
    def by(self) -> str:
        """The capability that it answers with, `code` for other calls, else its form."""
        if self.call is None:
            return "cache" if "cache" in self.reaches else self.form
        return next((capability for capability in WORK if capability in self.reaches), "code")

    @property
    def is_cached(self) -> bool:
        """True if it reads a cache."""
        return self.call is not None and "cache" in self.reaches and self.reaches.isdisjoint(SOURCES)

    @property
    def is_work(self) -> bool:
        """True if it leaves the process, or parses."""
        return self.call is not None and not self.reaches.isdisjoint(WORK)


def flowing_calls(subject: Subject, body: Iterable[Stmt], value: Expr) -> list[Expr]:
    """Return the calls whose results a value is made of, through the assignments of a block.

    What a call is given does not count where the call itself fetches or makes an answer.
    """
    assigned: dict[str, list[Expr]] = {}
    for s in body:
        for name, given in bound_by(s):
            assigned.setdefault(name, []).append(given)
    out: list[Expr] = []
    seen: set[str] = set()
    pending = [value]
    while pending:
        e = pending.pop()
        if is_call(e) and is_producer(e):
            out.append(e)
            if not reaches(subject, e).isdisjoint(_ENOUGH):
                continue
        if e[0] in "na":
            name = text_of(e)
            for one in (name, name.partition(".")[0]):
                if one not in seen and one in assigned:
                    seen.add(one)
                    pending.extend(assigned[one])
        pending.extend(children(e))
    return out


def best_call(subject: Subject, calls: Iterable[Expr]) -> tuple[Expr | None, frozenset[str]]:
    """Return the call that reaches the most telling capability, the earliest of equals, and what it reaches."""
    best: tuple[int, int, Expr, frozenset[str]] | None = None
    for call in calls:
        found = reaches(subject, call)
        rank = min((_RANK[c] for c in found if c in _RANK), default=99)
        if best is None or (rank, call_line(call)) < best[:2]:
            best = (rank, call_line(call), call, found)
    return (best[2], best[3]) if best is not None else (None, frozenset())


def way_of(subject: Subject, before: Iterable[Stmt], value: Expr, line: int, target: str, caught: str) -> Way:
    """Return the way that a value shows.

    Args:
        subject: The function.
        before: Statements whose assignments the value may be made of.
        value: What is given back.
        line: Its line.
        target: `return`, `yield` or a name.
        caught: Name of the exception; empty for none.
    """
    before = list(before)
    calls = [c for c in flowing_calls(subject, before, value) if not ERROR_NAME.search(last_name(c))]
    call, found = best_call(subject, calls)
    form = Forms(before, caught).of(value)
    if call is not None and form != "error" and (form == "call" or not found.isdisjoint(WORK)):
        return Way(call_line(call), "call", call, value, found, target)
    if form == "text" and target == "yield" and _goes_on(subject, line):
        return Way(line, "given", None, value, frozenset(), target)
    if form == "text":
        # The text stands in the innermost call that holds it, several lines from the end of a long value.
        forms = Forms(before, caught)
        parts = [value, *(made for name, made in forms.bound.items() if name in names_in(value))]
        holding = [c for part in parts for c in calls_of(part) if last_name(c)[:1].isupper() and forms.of(c) == "text"]
        line = max((call_line(c) for c in holding), default=line)
    return Way(line, "given" if form == "call" else form, None, value, frozenset(), target)


@dataclass(frozen=True)
class Given:
    """Value that a block gives back first.

    Attributes:
        value: The value.
        line: Its line.
        target: `return`, `yield`, or the name that it is bound to.
        before: Statements of the block that ran before.
    """

    value: Expr
    line: int
    target: str
    before: list[Stmt]


def first_answer(subject: Subject, body: Iterable[Stmt], wanted: set[str]) -> Given | None:
    """Return what a block gives back first, None if it leaves before; what its own handlers give back is left out.

    Args:
        subject: The function.
        body: The block.
        wanted: Names whose assignment gives an answer; `return` and `yield` always do.
    """
    seen: list[Stmt] = []
    return _first(subject, body, wanted, seen)


def _first(subject: Subject, body: Iterable[Stmt], wanted: set[str], seen: list[Stmt]) -> Given | None:
    body = list(body)
    for i, s in enumerate(body):
        tag = s[0]
        if tag in ("raise", "continue", "break"):
            return None
        value = value_of(s) if tag in ("return", "expr", "assign") else None
        if tag == "return" and not _is_same_again(subject, value):
            return Given(value or ("k", None), line_of(s), "return", list(seen))
        sent = sent_by(value) if value is not None and tag == "expr" else None
        if sent is not None and not _is_progress(subject, sent, body[i + 1 :]):
            return Given(sent, line_of(s), "yield", list(seen))
        if value is not None and tag == "assign":
            names = {n.partition("[")[0] for t in targets_of(s) for n in target_names(t)}
            if names & wanted:
                return Given(value, line_of(s), min(names & wanted), list(seen))
        seen.append(s)
        blocks = [body_of(s), orelse_of(s), final_of(s)] if tag == "try" else inner_bodies(s)
        for inner in blocks:
            found = _first(subject, inner, wanted, seen)
            if found is not None:
                return found
    return None


def _goes_on(subject: Subject, line: int) -> bool:
    """Return whether a function that sends a text goes on to make the answer."""
    later = [s for s in subject.statements if line_of(s) >= line]
    if any(s[0] in ("return", "break", "raise", "continue") for s in later[1:2]):
        return False
    return any(not reaches(subject, call).isdisjoint(_ENOUGH) for call in all_calls(later[1:]))


def _is_progress(subject: Subject, sent: Expr, rest: list[Stmt]) -> bool:
    """Return whether a fixed text is sent while the block goes on to make the answer."""
    if any(not reaches(subject, call).isdisjoint(WORK) for call in calls_of(sent)):
        return False
    later = all_calls(statements(tuple(rest)))
    return any(not reaches(subject, call).isdisjoint(_ENOUGH) for call in later)


def sent_by(e: Expr) -> Expr | None:
    """Return what an expression hands to the user while its function goes on: by `yield`, or by a socket."""
    inner = unwrapped(e) or e
    if inner[0] in ("y", "Y"):
        return operand_of(inner)
    if is_call(inner) and last_name(inner) in _SENDS and positional_of(inner):
        return positional_of(inner)[-1]
    return None


def _is_same_again(subject: Subject, value: Expr | None) -> bool:
    """Return whether a value is the function's own result for the same arguments: another attempt and no other way."""
    e = unwrapped(value)
    if e is None or not is_call(e) or last_name(e) != subject.ir.name:
        return False
    given = arguments_of(e)
    own = {p.name for p in subject.ir.params}
    return bool(given) and all(is_name(a) and name_of(a) in own for a in given)


def all_calls(body: Iterable[Stmt]) -> Iterator[Expr]:
    """Yield the calls of statements without those of their blocks."""
    for s in body:
        for e in own_expressions(s):
            yield from (inner for inner in walk(e) if is_call(inner))
