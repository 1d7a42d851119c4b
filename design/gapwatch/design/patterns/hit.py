"""One place in the code where a pattern stands, and what the detectors share."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.call_sites import CallSites, Reach, address_capability
from gapwatch.design.patterns.code_walk import constants_in, names_in, own_expressions, text_of, walk
from gapwatch.design.source.ir import (
    Expr,
    Function,
    Stmt,
    call_line,
    is_call,
    keywords_of,
    positional_of,
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
)


@dataclass(frozen=True, slots=True, order=True)
class PatternHit:
    """A pattern at some lines of a function.

    Attributes:
        kind: What sort of it: `swallows`, `client`, `wrapped`, `llm`, ...
        evidence: What was seen, in a few words with names of the code.
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


#: Callers that are read for the address of a request.
MAX_CALLERS = 8


class Subject:
    """The function that is looked at, with everything a detector may ask."""

    def __init__(self, program: Program, sites: CallSites, info: FunctionInfo) -> None:
        self.program = program
        self.sites = sites
        self.info = info

    @functools.cached_property
    def statements(self) -> list[Stmt]:
        """Every statement of it, blocks included."""
        return list(statements(self.info.ir.body))

    @functools.cached_property
    def calls(self) -> list[Expr]:
        """Every call in it."""
        known = self.sites.calls_within.get(self.info.number)
        if known is None:
            known = [inner for s in self.statements for e in own_expressions(s) for inner in walk(e) if is_call(inner)]
            self.sites.calls_within[self.info.number] = known
        return known

    @functools.cached_property
    def _named(self) -> dict[int, frozenset[str]]:
        out: dict[int, set[str]] = {}
        for call in self.calls:
            out.setdefault(call_line(call), set()).add(last_name(call))
        return {line: frozenset(names) for line, names in out.items()}

    def reach(self, call: Expr) -> Reach:
        """Say what a call reaches; a request to an address of a model server is a call to a model."""
        found = self.sites.reach(self.symbol, call, self._named.get(call_line(call), frozenset()))
        if found.capability == "http" and (capability := address_capability(self._addresses(call))) is not None:
            return Reach(capability, found.dotted, 0.95)
        return found

    def inside(self, call: Expr) -> list[CallEdge]:
        """Edges that a call takes inside the repository, also where its callee is a variable."""
        found = self.sites.inside_of(self.symbol, call)
        return found or self.sites.through_variable(self.symbol, call, self._named.get(call_line(call), frozenset()))

    def _addresses(self, call: Expr) -> str:
        """Constant texts that a request may be sent to: those of the function, and of attributes that it hands over."""
        given = {name for arg in (*positional_of(call), *(v for _, v in keywords_of(call))) for name in names_in(arg)}
        attributes = {name for name in given if name.startswith("self.")}
        texts = self._own_texts
        if attributes and self.info.owner >= 0:
            texts = texts + [t for name, found in self._owner_texts.items() if name in attributes for t in found]
        own = " ".join(texts)
        if address_capability(own) is None and not given.isdisjoint(p.name for p in self.ir.params):
            # A function that posts what it is given, to where it is told: its callers say where that is.
            told = [" ".join(caller._own_texts) for caller in self._callers]
            if told and all(address_capability(text) is not None for text in told):
                return " ".join((own, *told))
        return own

    @functools.cached_property
    def _callers(self) -> list[Subject]:
        symbols = sorted({edge.src for edge in self.sites.callers[self.symbol]} - {self.symbol})
        return [caller for symbol in symbols[:MAX_CALLERS] if (caller := self.other(symbol)) is not None]

    @functools.cached_property
    def _own_texts(self) -> list[str]:
        return [t for s in self.statements for e in own_expressions(s) for t in constants_in(e)]

    @functools.cached_property
    def _owner_texts(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for number in range(self.program.first_function[self.info.module], len(self.program.functions)):
            info = self.program.functions[number]
            if info.module != self.info.module:
                break
            if info.owner == self.info.owner:
                for s in statements(info.ir.body):
                    if s[0] == "assign" and (assigned := value_of(s)) is not None:
                        for target in targets_of(s):
                            out.setdefault(text_of(target), []).extend(constants_in(assigned))
        return out

    def other(self, symbol: str) -> Subject | None:
        """Return another function by its symbol, or None where there is none."""
        number = self.sites.numbers(self.program).get(symbol)
        return Subject(self.program, self.sites, self.program.functions[number]) if number is not None else None

    @property
    def ir(self) -> Function:
        """Its intermediate form."""
        return self.info.ir

    @property
    def symbol(self) -> str:
        """Its dotted name."""
        return self.info.symbol

    def hit(self, pattern: str, line: int, end: int, kind: str, evidence: str, confidence: float) -> PatternHit:
        """Make a hit in this function."""
        path = self.program.path(self.info)
        short = " ".join(evidence.split())[:160]
        return PatternHit(path, line, pattern, self.symbol, max(line, end), kind, short, round(confidence, 2))
