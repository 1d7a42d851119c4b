"""Reads one step of a loop: the functions that it runs, whether it asks a model and runs what the model calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    callee_text,
    calls_in,
    constants_in,
    names_in,
    own_expressions,
    text_of,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Body, Expr, Stmt, callee_of, is_call, is_member, owner_of
from gapwatch.design.source.program import last_name, statements

#: Calls between a loop and what it does in one step.
_DEPTH = 4
#: Functions that are read of one step; more belong to the libraries of a framework.
_MOST = 80
_RUNS_TOOL = (
    r"^_*a?(execute|run|call|invoke|exec|perform|dispatch|handle|process|apply)_?(the_?|one_?|single_?)?"
    r"(tool|action|function_call|command)s?(_?(calls?|use|safely|async))?$"
)
_TOOL_WORD = re.compile(
    r"(^|_)(tool_?calls?|tool_?uses?|function_?calls?)$"
    rf"|{_RUNS_TOOL}"
    r"|^(tool_(input|name|args|result)s?|function_map|observations?)$|^(tools_by_name|tool_map|available_(functions|tools)|tool_registry|ToolMessage|ToolNode|exec_tool_calls)$",
    re.I,
)
_RUN_OF_TOOL = re.compile(_RUNS_TOOL, re.I)
_ACTS = frozenset(
    {"step", "execute", "exec", "run", "act", "run_command", "execute_command", "communicate", "interact"}
)
_ACTED_ON = re.compile(
    r"(^|_)(env|environment|sandbox|executor|interpreter|shell|terminal|browser|toolbox|toolkit|tools?|actions?"
    r"|tools?_?(registry|manager|runner|router|handler|service|collection))$",
    re.I,
)
#: Variables that hold what runs one call of a model: `executor = getattr(self, f"{tool_type}_executor")`.
_EXECUTOR = re.compile(r"^_?((tool|action|plugin|code)_)?executor$", re.I)
_TOOLS_BY_NAME = re.compile(
    r"(^|_)(tools|tools?_?(map|by_name|registry|functions|handlers)|available_functions|function_map)$", re.I
)


@dataclass
class LoopTurn:
    """One step of a loop.

    Attributes:
        functions: Functions of the repository that it runs.
        asks: Whether it asks a model.
        acts: Whether it runs what a model calls.
    """

    functions: list[Subject] = field(default_factory=list)
    asks: bool = False
    acts: bool = False


def turn_of(subject: Subject, body: Body, models: set[str]) -> LoopTurn:
    """Return what one step of a loop does.

    Args:
        subject: The function that holds the loop.
        body: Its block.
        models: Functions that call a model themselves.
    """
    turn = LoopTurn()
    _read(turn, subject, list(statements(body)), list(calls_in(body)), models)
    seen = {subject.symbol}
    frontier = _called(subject, calls_in(body), seen)
    for _ in range(_DEPTH):
        following: list[Subject] = []
        for one in frontier:
            if len(turn.functions) >= _MOST:
                return turn
            turn.functions.append(one)
            _read(turn, one, one.statements, one.calls, models)
            following += _called(one, one.calls, seen)
        frontier = following
    return turn


#: Variables that hold a model, or an agent that asks one; calling one is a step.
_MODEL = re.compile(r"^_?(llm|lm|model|agent|policy|chat_?model|planner|tool_selector)$", re.I)


def is_asked(subject: Subject, call: Expr) -> bool:
    """Return whether a call in a loop asks a model, by the library that it reaches or the name of what is called."""
    if subject.reach(call).capability in ("llm_chat", "framework"):
        return True
    return bool(_MODEL.search(last_name(call))) and bool(arguments_of(call)) and not subject.inside(call)


def _read(turn: LoopTurn, subject: Subject, inside: list[Stmt], calls: list[Expr], models: set[str]) -> None:
    is_near = not turn.functions or subject.symbol in models
    turn.asks = turn.asks or (is_near and any(is_asked(subject, c) for c in calls))
    turn.acts = turn.acts or acts(inside, calls)


def acts(inside: Iterable[Stmt], calls: Iterable[Expr]) -> bool:
    """Return whether statements run what a model calls."""
    if any(acts_on(call) for call in calls):
        return True
    return any(
        _TOOL_WORD.search(word)
        for s in inside
        for e in own_expressions(s)
        for word in (*(n.rpartition(".")[2] for n in names_in(e)), *constants_in(e))
    )


def runs_tool(call: Expr) -> bool:
    """Return whether a call runs one of the tools that a model calls, by its name or its receiver's."""
    return acts_on(call) or _RUN_OF_TOOL.search(last_name(call)) is not None


def acts_on(call: Expr) -> bool:
    """Return whether a call runs what a model calls, by its name or its receiver's."""
    callee = callee_of(call)
    if callee[0] == "s":  # `TOOLS[name](**arguments)`
        return bool(_TOOLS_BY_NAME.search(text_of(callee[1]).rpartition(".")[2]))
    if not is_member(callee):
        return bool(_TOOL_WORD.search(last_name(call)) or _EXECUTOR.search(last_name(call)))
    owner = owner_of(callee)
    while owner[0] == "s":  # `tools[name].run(arguments)`
        owner = owner[1]
    receiver = last_name(owner) if is_call(owner) else callee_text(("c", owner, (), (), 0)).rpartition(".")[2]
    return last_name(call) in _ACTS and bool(_ACTED_ON.search(receiver.strip("_")))


def _called(subject: Subject, calls: Iterable[Expr], seen: set[str]) -> list[Subject]:
    out: list[Subject] = []
    for call in calls:
        for edge in subject.inside(call):
            if edge.dst not in seen:
                seen.add(edge.dst)
                if (other := subject.other(edge.dst)) is not None:
                    out.append(other)
    return out
