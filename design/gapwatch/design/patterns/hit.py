"""A pattern hit, and the view of a function that all pattern detectors share."""

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
    is_name,
    keywords_of,
    name_of,
    operand_of,
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


#: Most callers that are read for the address of a request.
MAX_CALLERS = 8


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
        """Return the target of a call; a request to the address of a model server counts as a model call."""
        found = self.sites.reach(self.symbol, call, self._named.get(call_line(call), frozenset()))
        if found.capability == "http" and (capability := address_capability(self._addresses(call))) is not None:
            return Reach(capability, found.dotted, 0.95)
        return found

    def inside(self, call: Expr) -> list[CallEdge]:
        """Return the edges of a call inside the repository, also if its callee is a variable."""
        found = self.sites.inside_of(self.symbol, call)
        return found or self.sites.through_variable(self.symbol, call, self._named.get(call_line(call), frozenset()))

    def _addresses(self, call: Expr) -> str:
        """Return the constant texts that may hold a request's address: of the function and of attributes it passes."""
        given = {name for arg in (*positional_of(call), *(v for _, v in keywords_of(call))) for name in names_in(arg)}
        attributes = {name for name in given if name.startswith("self.")}
        texts = self._own_texts
        if attributes and self.info.owner >= 0:
            texts = texts + [t for name, found in self._owner_texts.items() if name in attributes for t in found]
        own = " ".join(texts)
        if address_capability(own) is None and not given.isdisjoint(p.name for p in self.ir.params):
            # A function that gets the address as an argument: its callers hold the address.
            passed = [" ".join(caller._own_texts) for caller in self.callers]
            if passed and all(address_capability(text) is not None for text in passed):
                return " ".join((own, *passed))
        return own

    @functools.cached_property
    def callers(self) -> list[Subject]:
        """Functions that call it, the first few."""
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
