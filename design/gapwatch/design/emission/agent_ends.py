"""Says how the lines of a function show the end of an agent's run."""

from __future__ import annotations

from collections.abc import Iterable

from gapwatch.design.agents.agent_loop import AgentLoop, LoopExit
from gapwatch.design.emission.planned_span import SpanMark


def agent_ends(
    loops: Iterable[AgentLoop], symbol: str, path: str
) -> tuple[dict[str, str | int | None], list[tuple[str, SpanMark]], str]:
    """Return the first values, the marks with their functions, and why the end cannot be told; empty where it can.

    Args:
        loops: Loops of the component.
        symbol: Dotted name of the function.
        path: Its file.
    """
    start: dict[str, str | int | None] = {}
    marks: list[tuple[str, SpanMark]] = []
    for loop in loops:
        mine = [e for e in loop.exits if e.path == path]
        if loop.kind != "graph" and loop.symbol == symbol:
            if loop.returns_at_limit and not loop.says_limit:
                return start, marks, "the library gives an answer at its limit and does not say so in it"
            start |= {"agent_exit": None, "agent_end": loop.default}
            if loop.kind == "loop":
                start["agent_began"] = 0
                marks.append((loop.symbol, SpanMark(loop.step, "set", "agent_began", 1)))
            if loop.is_told_by:
                start["agent_limit"] = "\n".join(loop.is_told_by)
        elif loop.kind == "graph" and any(e.symbol == symbol for e in mine):
            start["agent_exit"] = None
            mine = [e for e in mine if e.symbol == symbol]
        else:
            continue
        by_line: dict[tuple[str, int], list[LoopExit]] = {}
        for e in mine:
            by_line.setdefault((e.symbol, e.line), []).append(e)
        for (at, line), ends in sorted(by_line.items()):
            if len(ends) == 1:
                marks.append((at, SpanMark(line, "ends", "agent_exit", ends[0].how)))
            else:
                ordered = sorted(ends, key=lambda e: (not e.flag, not e.is_good, e.how != "limit", e.how))
                choice = tuple((e.flag, e.how) for e in ordered)
                marks.append((at, SpanMark(line, "choose", "agent_exit", choice)))
    return start, marks, "" if "agent_exit" in start else "the run does not end in this function"
