"""Finds the instructions of a function that ask a model at known lines, wait for it, or go through what it gives."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from gapwatch.design.emission.reply_places import (
    FUNCTIONS,
    assigned_name,
    entered_name,
    entering,
    gone_through,
    reply_call,
    statements_by_line,
)

#: First line and column, last line and column: those of a node, or of an instruction.
Place = tuple[int, int, int, int]
#: Libraries whose responses say by their status that no reply came.
_OF_HTTP = frozenset({"requests", "httpx", "aiohttp"})


@dataclass(slots=True)
class AskingCode:
    """Offsets of instructions.

    Attributes:
        calls: Of the calls of models.
        raising: Of all at which an exception says that no reply came.
    """

    calls: set[int] = field(default_factory=set)
    raising: set[int] = field(default_factory=set)


def find_asking(code: CodeType, marks: Iterable[list[Any]]) -> AskingCode:
    """Return where a function asks models.

    Args:
        code: The function.
        marks: Its marks; those of `reply` have the line of the call and the last part of the name of what is called.
    """
    found, asking = AskingCode(), [(m[0], str(m[3])) for m in marks if m[1] == "reply"]
    function = _function_of(code) if asking else None
    if function is None:
        return found
    statements, calls, others = statements_by_line(function), list[ast.expr](), list[ast.AST]()
    for line, name in asking:
        statement = statements.get(line)
        call = reply_call(statement, line, name) if statement is not None else None
        if statement is not None and call is not None:
            calls.append(call.value if isinstance(call, ast.Await) else call)
            others += [call, *_read_after(statement, function, call)]
    ends = {_place(call)[2:]: _place(call)[:2] for call in calls}
    exact = {_place(node) for node in others}
    for position, (line_, last, column, column_end) in enumerate(code.co_positions()):
        if line_ is None or last is None or column is None or column_end is None:
            continue
        begin = ends.get((last, column_end))
        if begin is not None and (line_, column) >= begin:
            # Python 3.13 says of a call with keywords the instruction before it, which names them.
            found.calls.add(2 * position)
            found.raising |= {2 * position, 2 * position - 2}
        elif (line_, column, last, column_end) in exact:
            found.raising.add(2 * position)
    return found


def is_of_http(function: Any) -> bool:
    """Return whether a function that is called is one of a client of HTTP."""
    module = function.__module__ if type(function) in (FunctionType, MethodType) else ""
    return isinstance(module, str) and module.partition(".")[0] in _OF_HTTP


def _function_of(code: CodeType) -> ast.AST | None:
    tree = _tree(code.co_filename)
    if tree is None or code.co_name == "<module>":
        return tree
    named = (n for n in ast.walk(tree) if isinstance(n, FUNCTIONS) and n.name == code.co_name)
    return next((n for n in named if code.co_firstlineno in (n.lineno, *(d.lineno for d in n.decorator_list))), None)


@functools.lru_cache(maxsize=4)
def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _read_after(statement: ast.stmt, function: ast.AST, call: ast.expr) -> Iterator[ast.AST]:
    """Yield what is entered or gone through after a call; Python before 3.13 gives the place of the whole statement."""
    name = assigned_name(statement, call)
    entered = list(entering(statement, function, call, name))
    loops = list(gone_through(statement, function, call, {name, entered_name(statement, call)}))
    yield from entered
    for node in ast.walk(function):
        if isinstance(node, ast.With | ast.AsyncWith) and any(i.context_expr in entered for i in node.items):
            yield node
        elif isinstance(node, ast.For | ast.AsyncFor) and node.iter in loops:
            yield from (node, node.iter)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp) and node.generators[0].iter is call:
            yield node


def _place(node: Any) -> Place:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0
