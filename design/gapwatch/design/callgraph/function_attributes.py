"""Interprets attributes of functions that a library's decorator wraps: of tasks, chains and tools."""

from __future__ import annotations

from typing import Any

from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.values import EMPTY, Kind, Values

#: Attributes through which a task queue's decorated function is called.
_TASK_METHODS = frozenset({"delay", "apply_async", "s", "si", "send", "send_with_options", "apply", "remote", "submit"})


#: Attributes through which the function behind a decorator of a library is called: of a chain, a tool or a task.
_CALLS = frozenset({"__call__", "func", "invoke", "ainvoke", "run", "arun", "coroutine", "stream", "astream", "fn"})
_CALLS_EACH = frozenset({"batch", "abatch", "batch_as_completed", "abatch_as_completed"})


def call_attribute(frame: Frame, name: str, owner: int, positional: list[Any], named: list[Any], line: int) -> Values:
    """Call an attribute of a function: `task.delay(x)`, `chain.ainvoke(x)`, `chain.batch(xs)`."""
    if name in _TASK_METHODS:
        for target in callback_targets(frame, owner):
            frame.edge(target, "framework", line)
        return frame.interpreter.call_values(frame, frame.table.single(owner), positional, named, 0)
    if name in _CALLS:
        return frame.interpreter.call_values(frame, frame.table.single(owner), positional, named, line)
    if name in _CALLS_EACH and positional:
        # A chain of LangChain that runs for each input of a list.
        first = positional[0][1] if isinstance(positional[0], tuple) else positional[0]
        inputs = [(False, frame.interpreter.elements_of(frame, first, 0))]
        result = frame.interpreter.call_values(frame, frame.table.single(owner), inputs, [], line)
        box = frame.table.value(Kind.BOX, "l", (name, frame.number, line))
        frame.solver.put(box, None, result)
        return frame.table.single(box)
    return EMPTY


def callback_targets(frame: Frame, v: int) -> list[int]:
    """Return the functions that run where a value is called."""
    table = frame.table
    kind = table.kinds[v]
    if kind is Kind.PARTIAL:
        return callback_targets(frame, table.a[v])
    if kind is Kind.INST:
        found = (frame.solver.find_method(table.a[v], name) for name in ("__call__", "forward", "call"))
        return [number for number in found if number >= 0][:1]
    if kind in (Kind.FUNC, Kind.DECORATED):
        return [table.a[v]]
    return []
