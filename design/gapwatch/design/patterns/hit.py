"""A pattern hit, and the view of a function that all pattern detectors share."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.call_sites import SEARCH_STEP, CallSites, Reach, steps_without_model
from gapwatch.design.patterns.code_walk import arguments_of, constants_in, names_in, own_expressions, text_of, walk
from gapwatch.design.patterns.model_requests import (
    address_capability,
    address_of,
    asks_by_body,
    bodies_of,
    is_other_work,
    keys_of,
    keys_set,
    only_reads,
    served_paths,
    written_in,
)
from gapwatch.design.source.ir import (
    Expr,
    Function,
    Stmt,
    call_line,
    callee_of,
    is_call,
    is_name,
    name_of,
    operand_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import FunctionInfo, Program, last_name, statements

PATTERNS = (
    "has_try_except",
    "has_retry_loop",
    "has_cascade",
    "parses_json",
    "calls_external_api",
    "calls_llm",
    "has_cache",
    "has_db_write",
    "streams_response",
    "has_queue",
    "has_circuit_breaker",
    "returns_failure",
    "fails_request",
    "fails_run",
    "runs_agent",
    "tells_model_error",
    "cuts_context",
    "runs_code",
)
#: Patterns of what a server or a program was asked to do, and that fails.
FAILS_WHOLE = ("fails_request", "fails_run")


@dataclass(frozen=True, slots=True, order=True)
class PatternHit:
    """A pattern at some lines of a function.

    Attributes:
        path: The file.
        line: First line.
        pattern: One of `PATTERNS`.
        symbol: Dotted name of the function.
        end: Last line.
        kind: Variant of the pattern, such as `swallows`, `client`, `wrapped` or `llm`.
        evidence: Short text with names of the code.
        confidence: In [0, 1].
    """

    path: str
    line: int
    pattern: str
    symbol: str
    end: int
    kind: str
    evidence: str
    confidence: float

    @property
    def outcome(self) -> str:
        """Return what a value given back here stands for: `failed`, or `nothing` where a search found nothing."""
        return "nothing" if self.kind == "nothing found" else "failed"


#: Most callers that are read for the address of a request, and calls between them and it.
MAX_CALLERS, _MAX_CALLS = 8, 2
#: Most assignments that are followed back from a request to its address and its body.
_MAX_ASSIGNED = 3


class Subject:
    """A function under inspection, with the queries of the pattern detectors.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        info: The function.
    """

    def __init__(self, program: Program, sites: CallSites, info: FunctionInfo) -> None:
        self.program = program
        self.sites = sites
        self.info = info

    @functools.cached_property
    def statements(self) -> list[Stmt]:
        """Every statement of the function, blocks included."""
        known = self.sites.statements_within.get(self.info.number)
        if known is None:
            known = self.sites.statements_within[self.info.number] = list(statements(self.info.ir.body))
        return known

    @functools.cached_property
    def expressions(self) -> list[Expr]:
        """Every expression of the function, those inside others included."""
        known = self.sites.expressions_within.get(self.info.number)
        if known is None:
            known = [inner for s in self.statements for e in own_expressions(s) for inner in walk(e)]
            self.sites.expressions_within[self.info.number] = known
        return known

    @functools.cached_property
    def returned(self) -> list[Expr]:
        """Values of `return` and `yield`."""
        out = [value for s in self.statements if s[0] == "return" and (value := value_of(s)) is not None]
        out += [operand_of(i) for i in self.expressions if i[0] in ("y", "Y") and operand_of(i) is not None]
        return [e for e in out if e != ("k", None)]

    @property
    def gives_number(self) -> bool:
        """True where the function is annotated to return `bool`, `int` or `float`."""
        returns = self.info.ir.returns
        return returns is not None and is_name(returns) and name_of(returns) in ("bool", "int", "float")

    @functools.cached_property
    def calls(self) -> list[Expr]:
        """Every call in the function."""
        return self._calls[0]

    @property
    def _named(self) -> dict[int, frozenset[str]]:
        """Last names of the calls of a line."""
        return self._calls[1]

    @functools.cached_property
    def _calls(self) -> tuple[list[Expr], dict[int, frozenset[str]]]:
        known = self.sites.calls_within.get(self.info.number)
        if known is None:
            calls = [e for e in self.expressions if is_call(e)]
            named: dict[int, set[str]] = {}
            for call in calls:
                named.setdefault(call_line(call), set()).add(last_name(call))
            known = calls, {line: frozenset(names) for line, names in named.items()}
            self.sites.calls_within[self.info.number] = known
        return known

    def reach(self, call: Expr) -> Reach:
        """Return the target of a call; a request to a server of models counts as a model call."""
        found = self.sites.reach(self.symbol, call, self._named.get(call_line(call), frozenset()))
        if found.capability == "llm_chat" and found.confidence < 1:
            # A chain by its name alone: its steps may be a prompt and a search.
            return steps_without_model(call, self.statements, self._lambda_step) or found
        if found.capability != "http":
            return found
        known = self.sites.asked_by_call.get(id(call))
        if known is None:
            known = self.sites.asked_by_call[id(call)] = call, _Request(self, call).capability()
        return Reach(known[1], found.dotted, 0.95) if known[1] is not None else found

    def _lambda_step(self, e: Expr) -> str | None:
        """Return what a lambda in a chain does: `search`, `plain`, or None where it may ask a model."""
        number = self.program.first_function[self.info.module] + e[1]
        inner = Subject(self.program, self.sites, self.program.functions[number])
        if any(inner.reach(c).capability == "llm_chat" for c in inner.calls):
            return None
        if any(SEARCH_STEP.search(n) for c in inner.calls for n in names_in(callee_of(c))):
            return "search"
        return None if any(map(inner.inside, inner.calls)) else "plain"

    def inside(self, call: Expr) -> list[CallEdge]:
        """Return the edges of a call inside the repository, also if its callee is a variable."""
        found = self.sites.inside_of(self.symbol, call)
        return found or self.sites.through_variable(self.symbol, call, self._named.get(call_line(call), frozenset()))

    @functools.cached_property
    def callers(self) -> list[Subject]:
        """Functions that call it, the first few."""
        symbols = sorted({edge.src for edge in self.sites.callers[self.symbol]} - {self.symbol})
        return [caller for symbol in symbols[:MAX_CALLERS] if (caller := self.other(symbol)) is not None]

    @functools.cached_property
    def own_texts(self) -> list[str]:
        """Constant texts of the function, those of the defaults of its parameters included."""
        defaults = [t for p in self.ir.params if p.default is not None for t in constants_in(p.default)]
        return defaults + [t for s in self.statements for e in own_expressions(s) for t in constants_in(e)]

    def assigned(self, name: str) -> list[Expr]:
        """Return the expressions that the function binds to a plain or dotted name."""
        return _assigned_in(self.statements, name)

    @property
    def around(self) -> Subject | None:
        """The function around this one; None for a method, and for a function of a module."""
        if self.info.parent < 0 or self.info.owner >= 0:
            return None
        return Subject(self.program, self.sites, self.program.functions[self.info.parent])

    def of_owner(self, name: str) -> list[Expr]:
        """Return the expressions that its class and the bases of that in the program bind to an attribute of `self`."""
        found: list[Expr] = []
        pending, seen = [self.info.owner], {-1}
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            cls = self.program.classes[number]
            pending += cls.bases
            found += _assigned_in(statements(cls.ir.body), name.removeprefix("self."))
            for at in range(self.program.first_function[cls.module], len(self.program.functions)):
                info = self.program.functions[at]
                if info.module != cls.module:
                    break
                if info.owner == number:
                    found += _assigned_in(statements(info.ir.body), name)
        return found

    def calls_it(self, call: Expr, other: Subject) -> bool:
        """Return whether a call of this function calls another one."""
        return any(edge.dst == other.symbol for edge in self.inside(call))

    def other(self, symbol: str) -> Subject | None:
        """Return another function by its symbol, or None."""
        number = self.sites.numbers(self.program).get(symbol)
        return Subject(self.program, self.sites, self.program.functions[number]) if number is not None else None

    @property
    def ir(self) -> Function:
        """The function's intermediate form."""
        return self.info.ir

    @property
    def symbol(self) -> str:
        """The function's dotted name."""
        return self.info.symbol

    def hit(self, pattern: str, line: int, end: int, kind: str, evidence: str, confidence: float) -> PatternHit:
        """Return a hit in this function.

        Args:
            pattern: One of `PATTERNS`.
            line: First line.
            end: Last line; smaller values mean one line.
            kind: Variant of the pattern.
            evidence: Text, cut to 160 characters.
            confidence: In [0, 1].
        """
        path = self.program.path(self.info)
        short = " ".join(evidence.split())[:160]
        return PatternHit(path, line, pattern, self.symbol, max(line, end), kind, short, round(confidence, 2))


def _assigned_in(body: Iterable[Stmt], name: str) -> list[Expr]:
    """Return what statements bind to a name, blocks that `statements` yields included."""
    found = [(s, value) for s in body if s[0] == "assign" and (value := value_of(s)) is not None]
    return [value for s, value in found if any(text_of(target) == name for target in targets_of(s))]


def _keys_made(subject: Subject, behind: Iterable[Expr]) -> set[str]:
    """Return the keys of the dictionaries that a function writes, and those that it sets in them by name."""
    out: set[str] = set()
    for e in (w for one in behind for w in written_in(one)):
        out |= keys_of(e) | (keys_set(subject.statements, name_of(e)) if is_name(e) else set())
    return out


class _Request:
    """A call of an HTTP client, with the questions where it is sent to and what it sends."""

    def __init__(self, subject: Subject, call: Expr) -> None:
        self._subject, self._call = subject, call

    def capability(self) -> str | None:
        """Return what the server does that is asked: llm_chat, embedding or None."""
        url = address_of(self._call)
        if only_reads(self._call) or url is None or is_other_work(constants_in(url)):
            return None
        texts = self._address_texts(url)
        address, words = " ".join(texts), self._subject.own_texts
        found = address_capability(address) or address_capability(" ".join(words))
        if found is not None:
            return found
        keys = frozenset(self._keys())
        if asks_by_body(address, keys or frozenset(words + self._words_around()), bool(keys)):
            return None if self._is_served(texts) else "llm_chat"
        return self._by_callers(url)

    def _address_texts(self, url: Expr) -> list[str]:
        """Return the constant texts that the address is made of, through names, attributes and parameters."""
        return [t for e in self._behind(url) for t in constants_in(e)]

    def _behind(self, e: Expr) -> list[Expr]:
        """Return an expression, and those that are bound to the names in it, up to `_MAX_ASSIGNED` steps back."""
        found, pending, seen = [e], [e], set[str]()
        for _ in range(_MAX_ASSIGNED):
            names = {n for one in pending for n in names_in(one)} - seen
            seen |= names
            pending = [value for name in sorted(names) for value in self._bound(name)]
            found += pending
        return found

    def _bound(self, name: str) -> list[Expr]:
        subject: Subject | None = self._subject
        if name.startswith("self."):
            return self._subject.assigned(name) or self._subject.of_owner(name)
        while subject is not None:
            if here := subject.assigned(name) or [p.default for p in subject.ir.params if p.name == name and p.default]:
                return here
            if any(p.name == name for p in subject.ir.params):
                return []
            subject = subject.around
        program = self._subject.program
        body = program.functions[program.bodies[self._subject.info.module]].ir.body
        return _assigned_in(statements(body), name)

    def _keys(self) -> set[str]:
        """Return the members of the body, as far as the function and what it calls for the body say them."""
        behind = [e for body in bodies_of(self._call) for e in self._behind(body)]
        out, around = _keys_made(self._subject, behind), self._subject.around
        for e in behind:
            for call in (w for w in written_in(e) if is_call(w)):
                places = (self._subject, around) if around is not None else (self._subject,)
                for maker in (m for s in places for edge in s.inside(call) if (m := s.other(edge.dst)) is not None):
                    bound = [v for r in maker.returned if is_name(r) for v in maker.assigned(name_of(r))]
                    out |= _keys_made(maker, [*maker.returned, *bound])
        given = {p.name for p in self._subject.ir.params} - {"self", "cls"}
        url = address_of(self._call)
        is_own = url is not None and given.isdisjoint(n for e in self._behind(url) for n in names_in(e))
        is_passed = not given.isdisjoint(name_of(e) for e in behind if is_name(e))
        # Where callers give the address, too, each of them may send to another service.
        return out | (self._keys_of_callers() if is_own and is_passed else set())

    def _keys_of_callers(self) -> set[str]:
        """Return the members of the dictionaries that callers of the function hand it."""
        out: set[str] = set()
        for caller in self._subject.callers:
            for call in (c for c in caller.calls if caller.calls_it(c, self._subject)):
                given = arguments_of(call)
                bound = [v for a in given if is_name(a) for v in caller.assigned(name_of(a))]
                out |= _keys_made(caller, [*given, *bound])
        return out

    def _words_around(self) -> list[str]:
        around = self._subject.around
        return around.own_texts if around is not None else []

    def _is_served(self, texts: list[str]) -> bool:
        """Return whether the program itself serves the path that the address ends with."""
        sites, program = self._subject.sites, self._subject.program
        if sites.served is None:
            sites.served = frozenset(p for info in program.functions for p in served_paths(info.ir.decorators))
        return any(text.split("?")[0].rstrip("/").endswith(path) for text in texts for path in sites.served)

    def _by_callers(self, url: Expr) -> str | None:
        """Return what most callers ask for, of a function that gets the address, or a part of it, as an argument."""
        names = {n for e in self._behind(url) for n in names_in(e)}
        return _asked_for(self._subject, names, _MAX_CALLS)


def _asked_for(subject: Subject, names: set[str], deep: int) -> str | None:
    if deep <= 0 or names.isdisjoint(p.name for p in subject.ir.params):
        return None
    votes: list[str | None] = []
    for caller in subject.callers:
        calls = [c for c in caller.calls if caller.calls_it(c, subject)]
        if not calls:
            continue  # It takes what a generator gives.
        given = {n for c in calls for a in arguments_of(c) for n in names_in(a)}
        given |= {n for name in given for e in caller.assigned(name) for n in names_in(e)}
        votes.append(address_capability(" ".join(caller.own_texts)) or _asked_for(caller, given, deep - 1))
    found = max(votes, key=votes.count, default=None)
    return found if votes.count(found) * 2 > len(votes) else None
