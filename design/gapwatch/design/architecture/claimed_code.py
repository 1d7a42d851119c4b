"""Code that a metric claims something about: what it hands on, brings from outside, returns and mentions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cached_property

from gapwatch.design.architecture.material import Material
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    names_in,
    own_expressions,
    target_names,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    is_call,
    items_of,
    iterable_of,
    line_of,
    operand_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import FunctionInfo, statements

#: Capabilities of plumbing; a call that has one of these brings nothing from outside the process.
PLUMBING = frozenset({"retry", "breaker", "web", "tracing", "json", "framework", "local_queue"})
#: Capabilities that bring what an answer can rest on.
EVIDENCE = frozenset({"retrieval", "rerank", "web_search", "tool", "http", "saas", "db_read", "db_execute", "cache"})
#: Longest chain of functions that is followed.
MAX_HOPS = 4


class ClaimedCode:
    """Queries about functions of the analysed code; each answer is read from the code alone.

    Args:
        material: The analysed code.
    """

    def __init__(self, material: Material) -> None:
        self.material = material
        self._subjects: dict[str, Subject | None] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._function_at: dict[tuple[str, int], str | None] = {}
        self.outputs: dict[str, Enum] = {}  # filled by `reply_flow`
        self.finders: dict[tuple[str, frozenset[str]], bool] = {}  # filled by `evidence_flow`
        self.bound: dict[str, dict[str, list[tuple[str, Expr]]]] = {}  # filled by `evidence_flow`
        self.given: dict[tuple[str, str], Sequence[tuple[Subject, int, Expr]]] = {}  # filled by `prompt_flow`

    def subject(self, symbol: str) -> Subject | None:
        """Return a function by its symbol, or None."""
        if symbol not in self._subjects:
            material = self.material
            number = material.sites.numbers(material.program).get(symbol)
            found = material.program.functions[number] if number is not None else None
            self._subjects[symbol] = Subject(material.program, material.sites, found) if found is not None else None
        return self._subjects[symbol]

    def asks_through(self, symbols: list[str]) -> bool:
        """Return whether any of some functions, or a method of the class of one, calls a model."""
        if not symbols:
            return False
        owners = {s.rpartition(".")[0] for s in symbols if (o := self.subject(s)) is not None and o.info.owner >= 0}
        return any(s in symbols or s.rpartition(".")[0] in owners for s in self._asking)

    @cached_property
    def _asking(self) -> set[str]:
        return {hit.symbol for hit in self.material.hits if hit.pattern == "calls_llm"}

    def functions_of(self, module: int) -> list[FunctionInfo]:
        """Return the functions and methods of a module."""
        return self._by_module.get(module, [])

    @cached_property
    def _by_module(self) -> dict[int, list[FunctionInfo]]:
        out: dict[int, list[FunctionInfo]] = {}
        for info in self.material.program.functions:
            out.setdefault(info.module, []).append(info)
        return out

    @cached_property
    def _functions_of(self) -> dict[str, list[tuple[int, int, str]]]:
        out: dict[str, list[tuple[int, int, str]]] = {}
        for s in self.material.graph.symbols:
            if s.kind == "function":
                out.setdefault(s.path, []).append((s.line, s.end, s.id))
        return out

    def function_at(self, place: CodePlace) -> str | None:
        """Return the innermost function around the first line of a place, or None."""
        key = place.path, place.line
        if key not in self._function_at:
            around = [f for f in self._functions_of.get(place.path, ()) if f[0] <= place.line <= f[1]]
            self._function_at[key] = min(around, key=lambda f: f[1] - f[0])[2] if around else None
        return self._function_at[key]

    # -- what a function hands on ------------------------------------------------------------------------------

    def chain(self, symbol: str) -> list[str]:
        """Return a function and those that it only passes on to: `return inner(x)` with its own parameters."""
        out = [symbol]
        while len(out) <= MAX_HOPS:
            subject = self.subject(out[-1])
            body = _without_docstring(subject.ir.body) if subject is not None else ()
            if subject is None or len(body) != 1 or body[0][0] not in ("return", "expr"):
                break
            target = self.single_target(subject, value_of(body[0]))
            if target is None or target in out or not _passes_on(value_of(body[0])):
                break
            out.append(target)
        return out

    def worker(self, symbol: str) -> str:
        """Return the function that does the work of one that only passes on."""
        return self.chain(symbol)[-1]

    def givers(self, symbol: str) -> list[str]:
        """Return a function and those whose result it returns unchanged, whatever it did before."""
        out = [symbol]
        while len(out) <= MAX_HOPS:
            subject = self.subject(out[-1])
            given = [value_of(s) for s in subject.statements if s[0] == "return"] if subject is not None else []
            target = self.single_target(subject, given[0]) if subject is not None and len(given) == 1 else None
            if target is None or target in out:
                break
            out.append(target)
        return out

    def below(self, symbol: str) -> set[str]:
        """Return the functions that one calls, by at most `MAX_HOPS` calls."""
        seen, frontier = {symbol}, {symbol}
        for _ in range(MAX_HOPS):
            frontier = {e.dst for one in frontier for e in self.material.sites.callees.get(one, ())} - seen
            seen |= frontier
        return seen - {symbol}

    def single_target(self, subject: Subject, e: Expr | None) -> str | None:
        """Return the one function of the repository that an expression calls, or None."""
        inner = unwrapped(e)
        while inner is not None and inner[0] in ("y", "Y", "w"):
            inner = operand_of(inner)
        if inner is None or not is_call(inner):
            return None
        targets = {edge.dst for edge in subject.inside(inner)}
        target = next(iter(targets)) if len(targets) == 1 else None
        return target if target is not None and self.subject(target) is not None else None

    # -- values ------------------------------------------------------------------------------------------------

    @cached_property
    def reaching_out(self) -> set[str]:
        """Functions that reach a capability outside the process, by any chain of calls."""
        return self.reaching(None)

    def reaching(self, wanted: frozenset[str] | None) -> set[str]:
        """Return the functions that reach one of some capabilities; None means any but plumbing."""
        found = self._reaching.get(wanted)
        if found is None:
            sites = self.material.sites
            found = set()
            for hit in self.material.hits:
                if hit.pattern == "calls_llm" and hit.kind == "direct" and (wanted is None or "llm_chat" in wanted):
                    found.add(hit.symbol)
            for external in self.material.graph.externals:
                capability = sites.catalog.capability(external.dotted)
                if capability is not None and (capability in wanted if wanted else capability not in PLUMBING):
                    found.add(external.src)
            frontier = list(found)
            while frontier:
                for edge in sites.callers.get(frontier.pop(), ()):
                    if edge.src not in found:
                        found.add(edge.src)
                        frontier.append(edge.src)
            self._reaching[wanted] = found
        return found

    @cached_property
    def _reaching(self) -> dict[frozenset[str] | None, set[str]]:
        return {}

    def brings(self, subject: Subject, e: Expr, wanted: frozenset[str] | None) -> bool:
        """Return whether an expression holds a call that reaches one of some capabilities."""
        for call in (inner for inner in walk(e) if is_call(inner)):
            capability = subject.reach(call).capability
            if capability is not None and (capability in wanted if wanted else capability not in PLUMBING):
                return True
            if any(edge.dst in self.reaching(wanted) for edge in subject.inside(call)):
                return True
        return False

    def returned(self, subject: Subject) -> list[Expr]:
        """Return what a function gives back: values of `return` and `yield`."""
        return subject.returned

    def senders(self, symbol: str) -> list[str]:
        """Return a generator and those whose pieces it sends on, one after the other."""
        out = [symbol]
        while len(out) <= MAX_HOPS:
            subject = self.subject(out[-1])
            loops = [s for s in subject.statements if s[0] == "for"] if subject is not None else []
            targets = {t for s in loops if subject and (t := self.single_target(subject, iterable_of(s))) is not None}
            handed = self.single_target(subject, next(iter(self.returned(subject)), None)) if subject else None
            targets |= {handed} if handed is not None else set()
            target = next(iter(targets)) if len(targets) == 1 else None
            inner = self.subject(target) if target is not None else None
            if target is None or inner is None or target in out or not inner.ir.is_generator:
                break
            out.append(target)
        return out

    def names_brought(self, subject: Subject, wanted: frozenset[str] | None) -> set[str]:
        """Return the names whose values come from calls that reach some capabilities."""
        out: set[str] = set()
        for _ in range(2):
            for s in subject.statements:
                bound: list[Expr] = []
                values: list[Expr] = []
                if s[0] == "assign" and value_of(s) is not None:
                    bound, values = list(targets_of(s)), [value_of(s)]  # type: ignore[list-item]
                elif s[0] == "aug":
                    bound, values = [s[2]], [s[4]]
                elif s[0] == "for":
                    bound, values = [s[2]], [s[3]]
                elif s[0] == "with":
                    bound, values = [t for _, t in items_of(s) if t is not None], [e for e, _ in items_of(s)]
                elif s[0] == "expr" and is_call(s[2]) and s[2][1][0] == "a":
                    # `parts.append(answer)`, `state.update(found)`
                    bound, values = [s[2][1][1]], list(s[2][2])
                if any(names_in(v) & out or self.brings(subject, v, wanted) for v in values):
                    out.update(name for t in bound for name in target_names(t))
        return out

    def mentions(self, symbol: str, name: str) -> bool:
        """Return whether a function, or the one that works for it, reads a name."""
        return any(name in self.read_by(one) for one in self.chain(symbol))

    def read_by(self, symbol: str) -> frozenset[str]:
        """Return the last parts of the names that a function reads."""
        if symbol not in self._names:
            subject = self.subject(symbol)
            body = subject.statements if subject is not None else ()
            self._names[symbol] = frozenset(
                n.rpartition(".")[2] for s in body for e in own_expressions(s) for n in names_in(e)
            )
        return self._names[symbol]

    def statement_at(self, place: CodePlace) -> tuple[Subject | None, Stmt] | None:
        """Return the innermost statement that begins at a line or spans it, with its function (None for a module)."""
        symbol = self.function_at(place)
        subject = self.subject(symbol) if symbol is not None else None
        bodies: Iterable[Body]
        if subject is not None:
            bodies = [subject.ir.body]
        else:
            modules = [m.index for m in self.material.program.index.modules if m.path == place.path]
            irs = [ir for m in modules if (ir := self.material.program.irs[m]) is not None]
            bodies = [b for ir in irs for b in (ir.functions[0].body, *(c.body for c in ir.classes))]
        best: Stmt | None = None
        for body in bodies:
            for s in statements(body):
                if line_of(s) <= place.line and (best is None or line_of(s) >= line_of(best)):
                    best = s
        return (subject, best) if best is not None else None


def _passes_on(e: Expr | None) -> bool:
    """Return whether no argument of a call is made here."""
    inner = unwrapped(e)
    while inner is not None and inner[0] in ("y", "Y", "w"):
        inner = operand_of(inner)
    return inner is not None and all(a[0] in ("n", "a", "k", "*") for a in arguments_of(inner))


def _without_docstring(body: Body) -> Body:
    return tuple(s for s in body if not (s[0] == "expr" and s[2][0] == "k") and s[0] not in ("import", "from"))
