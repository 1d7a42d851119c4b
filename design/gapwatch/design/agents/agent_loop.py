"""A loop of an agent as plain values: where it is, and how its runs end."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.design.patterns.hit import PatternHit

_KINDS = {"loop": "loop", "graph": "cycle of a graph", "library": "run of an agent of a library"}
#: How runs end that ended because of an exception.
ERROR = "error"
#: How runs end of which nothing says whether they reached their limit.
LEFT = "left"
#: Ends that are no limit: exceptions, and those of which it is not known whether they are good.
_UNTOLD = frozenset({ERROR, LEFT, "no_tool_call", "stopped"})


@dataclass(frozen=True, slots=True, order=True)
class LoopExit:
    """A line at which a run ends.

    Attributes:
        path: The file.
        line: The line.
        symbol: Dotted name of the function.
        how: `done`, `limit`, `no_tool_call`, `left` or `error`; or the status that the code itself gives the run.
        why: Code that says so, cut to 100 characters.
        flag: Local name that is true where the run ends in this way; empty where the line alone says it.
        is_good: Whether it is how a run should end.
    """

    path: str
    line: int
    symbol: str
    how: str
    why: str
    flag: str = ""
    is_good: bool = False


@dataclass(frozen=True, slots=True, order=True)
class AgentLoop:
    """A loop in which a model is asked and what it calls is run.

    Attributes:
        path: The file.
        line: First line of the loop; of a graph's cycle, of the function that asks the model.
        symbol: Dotted name of the function that holds the loop or asks the model.
        end: Last line.
        kind: `loop` of a function, `graph` for a cycle of its nodes, or `library` for a call that runs an agent.
        step: Line at which a step begins.
        default: How a run ends where no line of `exits` is reached; empty for a graph, whose last step has one.
        exits: Lines at which a run ends.
        told: Lines at which the model is told that its call failed or had no right form.
        flow: First lines of `try` statements whose handlers only carry on with what the loop itself raises.
        can_raise: Whether an exception can end a run.
        limit: Code of the limit of its steps; empty for none.
        is_told_by: Of a library: names of exceptions, and pieces of an answer, that say that a run ended by its limit.
        returns_at_limit: Whether a run gives an answer at its limit, so that no exception tells of it.
        says_limit: Whether that answer holds a text of the library that says so.
    """

    path: str
    line: int
    symbol: str
    end: int
    kind: str
    step: int
    default: str
    exits: tuple[LoopExit, ...]
    told: tuple[PatternHit, ...] = ()
    flow: tuple[int, ...] = ()
    can_raise: bool = True
    limit: str = ""
    is_told_by: tuple[str, ...] = ()
    returns_at_limit: bool = False
    says_limit: bool = False

    @property
    def good(self) -> tuple[str, ...]:
        """Ways in which a run should end."""
        return tuple(sorted({e.how for e in self.exits if e.is_good}))

    @property
    def bad(self) -> tuple[str, ...]:
        """Ways in which a run gives up, sorted; an exception is told by the status of the run's span."""
        found = {e.how for e in self.exits if not e.is_good and e.how not in _UNTOLD}
        has_error = self.can_raise and bool(self.is_told_by)
        found |= {"limit"} if self.limit and (self.says_limit or has_error) else set()
        return tuple(sorted(found | ({"limit"} if self.default == "limit" else set())))

    def hits(self) -> tuple[PatternHit, ...]:
        """Return it as pattern hits: the loop, for a graph its exits, and what the model is told."""
        what = f"{_KINDS[self.kind]}: asks a model and runs what it calls"
        what += f"; ends at the latest by {self.limit}" if self.limit else ""
        out = [PatternHit(self.path, self.line, "runs_agent", self.symbol, self.end, self.kind, what[:160], 0.9)]
        if self.kind == "graph":
            by_line: dict[tuple[str, int, str], list[LoopExit]] = {}
            for e in self.exits:
                by_line.setdefault((e.path, e.line, e.symbol), []).append(e)
            for (path, line, symbol), mine in sorted(by_line.items()):
                text = "ends: " + ", ".join(f"{e.how} ({e.why})" for e in mine)
                out.append(PatternHit(path, line, "runs_agent", symbol, line, "exit", text[:160], 0.9))
        return (*out, *self.told)
