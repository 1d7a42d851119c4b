"""One place in the code where a pattern stands, and what the detectors share."""

from __future__ import annotations

from dataclasses import dataclass

from design.ir import Function
from design.program import FunctionInfo, Program
from design.sites import Sites

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


@dataclass(frozen=True)
class Subject:
    """The function that is looked at, with everything a detector may ask."""

    program: Program
    sites: Sites
    info: FunctionInfo

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
