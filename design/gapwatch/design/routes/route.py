"""A route: one place where an answer can be reached in more than one ordered way, as plain values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapwatch.design.patterns.hit import PatternHit


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """One way to the answer.

    Attributes:
        line: Line of the call or of the value that gives the answer.
        tier: Name, unique within its route.
        what: Code of the call or the value, cut to 80 characters.
        by: How it answers: a capability of the library catalogue (`llm_chat`, `cache`, ...), `code` for code of the
            repository that calls no library, `text` for a fixed answer, `given` for an argument that is handed back,
            `empty` or `error` for a failure that is given back at the end of a route.
        symbol: Function of the repository that is called, else the function that holds the route.
        goes_on: What makes the route take the next arm, in words; empty for the last one.
    """

    line: int
    tier: str
    what: str
    by: str
    symbol: str
    goes_on: str


#: Arms that compute, and values.
_OF_THE_PROCESS = frozenset({"code", "text", "given", "empty", "error"})
_STANDS_IN = re.compile(r"fall_?back", re.I)


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """Ordered ways to one answer.

    Attributes:
        path: The file.
        line: First line.
        symbol: Dotted name of the function.
        end: Last line.
        kind: cache, model, rules, canned text, partial answer, parser, query, person, table, option or tool.
        arms: At least two, in the order in which they are tried.
        confidence: In [0.5, 1].
    """

    path: str
    line: int
    symbol: str
    end: int
    kind: str
    arms: tuple[Arm, ...]
    confidence: float

    @property
    def text(self) -> str:
        """The arms in order, each but the last with what makes the route go on."""
        parts = [f"{arm.what} (line {arm.line})" + (f"; {arm.goes_on}:" if arm.goes_on else "") for arm in self.arms]
        return " ".join(parts)

    @property
    def answers(self) -> tuple[Arm, ...]:
        """The arms that give an answer, without a failure that is given back at the end."""
        return tuple(arm for arm in self.arms if arm.by not in ("empty", "error"))

    @property
    def asks_outside(self) -> bool:
        """True if something outside the process may fail: an arm asks for it, or is named as the one that stands in.

        A parser reads what came from outside.
        """
        return any(arm.by not in _OF_THE_PROCESS or _STANDS_IN.search(arm.what) for arm in self.arms)

    def hit(self) -> PatternHit:
        """Return the route as a pattern hit of its function."""
        short = self.text[:160]
        return PatternHit(self.path, self.line, "has_cascade", self.symbol, self.end, self.kind, short, self.confidence)
