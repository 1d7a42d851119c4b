"""Finds where a statement of a program has the reply of a model, so that a patch can read it there."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

#: Runs of agents: `Runner.run_streamed`, `agent.ainvoke`, `self.agent_executor.invoke`.
_AGENT_RUN = re.compile(r"(?i)(^|\.)(runner|\w*agent(_?executor)?)\.a?(run|invoke|stream|iter|chat|kickoff)\w*$")
#: Runs of chains and engines, and a question that is all that they are given.
_CHAIN_RUN = re.compile(
    r"(?i)(chain|engine|index|\brag|_qa|pipeline)\w*\.a?(invoke|stream|batch|run|call|query|chat|stream_chat)$"
)
_QUESTION = re.compile(
    r"(?i)^(?!.*(messages|context|docs|documents|history))([\w.]*\.)?\w*(question|query|text|topic|input|q)$"
)
#: Name of a file, with or without folders.
_FILE = re.compile(r"[\w./\\-]+\.[A-Za-z]\w{1,8}$")
_WITH = (ast.With, ast.AsyncWith)
#: Statements that define a function.
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match, ast.TryStar)


def statements_by_line(function: ast.AST) -> dict[int, ast.stmt]:
    """Return the innermost statement that holds each line; one with a block only where it begins there."""
    found: dict[int, ast.stmt] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and node is not function:
            last = node.lineno if isinstance(node, _COMPOUND) else node.end_lineno or 0
            for line in range(node.lineno, last + 1):
                if line not in found or node.lineno > found[line].lineno:
                    found[line] = node
    return {line: node for line, node in found.items() if not isinstance(node, FUNCTIONS)}


def reply_call(statement: ast.stmt, line: int, name: str) -> ast.expr | None:
    """Return the call of a model in a statement, with its `await`; None if it is not found.

    Args:
        statement: The statement.
        line: Line of the call.
        name: Last part of the name of what is called.
    """
    found: ast.Call | None = None
    others: list[ast.Call] = []
    awaits: dict[ast.expr, ast.expr] = {}
    for node in _own_nodes(statement):
        if isinstance(node, ast.Await):
            awaits[node.value] = node
        if not isinstance(node, ast.Call) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == name and (found is None or node.lineno > found.lineno):
            found = node
        others += [node] if _is_of_object(node) else []
    if name == "__call__" and len(others) == 1:
        found = others[0]  # An object that is called: `self.answer(question)`.
    return awaits.get(found, found) if found is not None else None


def _is_of_object(call: ast.Call) -> bool:
    """Return whether what is called may be an object: a name of the program, or what another call makes."""
    named = call.func
    if isinstance(named, ast.Call):
        return True
    last = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
    while isinstance(named, ast.Attribute):
        named = named.value
    return isinstance(named, ast.Name) and not last[:1].isupper() and last not in vars(builtins)


def function_of(call: ast.expr) -> ast.expr:
    """Return the function that a call is of, without its `await`."""
    inner = call.value if isinstance(call, ast.Await) else call
    return inner.func if isinstance(inner, ast.Call) else inner


def hides_prompt(call: ast.expr) -> bool:
    """Return whether a call is not given what the model is sent: the name of a file, or a run that searches inside.

    A library may look for the file beside whoever calls it; what an agent's tools, or the searches of a chain or an
    engine, give is sent inside of its run: who sees the question alone takes an answer from passages for invented.
    """
    inner = call.value if isinstance(call, ast.Await) else call
    if not isinstance(inner, ast.Call):
        return names_file(call)
    called = ast.unparse(inner.func)
    asks_alone = bool(inner.args) and _QUESTION.search(ast.unparse(inner.args[0])) is not None
    return bool(_AGENT_RUN.search(called) or (_CHAIN_RUN.search(called) and asks_alone)) or names_file(call)


def names_file(call: ast.expr) -> bool:
    """Return whether a call is given the name of a file, which a library may look for beside whoever calls it."""
    inner = call.value if isinstance(call, ast.Await) else call
    given = inner.args if isinstance(inner, ast.Call) else []
    return any(isinstance(a, ast.Constant) and isinstance(a.value, str) and _FILE.match(a.value) for a in given)


def streams(call: ast.expr) -> bool:
    """Return whether a call says by its name or its arguments that it gives a stream."""
    if not isinstance(call, ast.Call):
        return False
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [k.value for k in call.keywords if k.arg == "stream"]
    return "stream" in called.lower() or any(isinstance(v, ast.Constant) and v.value is True for v in given)


def told_of(e: ast.expr) -> str:
    """Return a function, or a call of one without what it is given, for people."""
    called = function_of(e)
    return ast.unparse(called) + ("" if called is e else "(...)")


def assigned_name(statement: ast.stmt, call: ast.expr | None) -> str | None:
    """Return the name that a statement gives to the result of a call; None if it gives it to none, or to a part of it.

    Args:
        statement: The statement.
        call: The call; None where it is not known, so that each value may be it.
    """
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0] if call is None or statement.value is call else None
    elif isinstance(statement, ast.AnnAssign) and (call is None or statement.value is call):
        target = statement.target
    return target.id if isinstance(target, ast.Name) else None


def entered_name(statement: ast.stmt, call: ast.expr | None) -> str | None:
    """Return the name that a `with` gives to what the call's result makes; None without one."""
    items = statement.items if isinstance(statement, _WITH) else ()
    names = [i.optional_vars for i in items if i.context_expr is call]
    return names[0].id if names and isinstance(names[0], ast.Name) else None


def entering(statement: ast.stmt, function: ast.AST, call: ast.expr, name: str | None) -> Iterator[ast.expr]:
    """Yield what a `with` of a function enters: the result of a call, or the name that a statement gives to it.

    Args:
        statement: The statement with the call.
        function: The function.
        call: The call.
        name: Name of its result; None without one.
    """
    for node in ast.walk(function):
        for item in node.items if isinstance(node, _WITH) else ():
            is_named = isinstance(item.context_expr, ast.Name) and item.context_expr.id == name
            if (node is statement and item.context_expr is call) or is_named:
                yield item.context_expr


def is_whole(statement: ast.stmt, call: ast.expr) -> bool:
    """Return whether a statement returns the result of a call as it is, or goes through it."""
    if isinstance(statement, ast.Return):
        return statement.value is call
    return isinstance(statement, ast.For | ast.AsyncFor) and statement.iter is call


def reader_of(statement: ast.stmt, call: ast.expr) -> str:
    """Return the function that reads a reply inside of an expression; `noted_chunks` where it goes through chunks."""
    comprehended = [n.iter for n in _own_nodes(statement) if isinstance(n, ast.comprehension) and not n.is_async]
    return "noted_chunks" if call in comprehended else "reply"


def reading_loops(statement: ast.stmt, function: ast.AST, name: str | None) -> Iterator[ast.For | ast.AsyncFor]:
    """Yield the loops of a function over the chunks of a reply that a statement streams; each names its chunk.

    Args:
        statement: The statement with the call.
        function: The function.
        name: Name of the reply, or of the response that `parse` makes it of.
    """
    parsed = {name} if name is not None else set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_parsed(node.value, name):
            parsed |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(function):
        if not isinstance(node, ast.For | ast.AsyncFor) or not isinstance(node.target, ast.Name):
            continue
        is_over = (isinstance(node.iter, ast.Name) and node.iter.id in parsed) or _is_parsed(node.iter, name)
        if isinstance(node, ast.AsyncFor) and isinstance(node.iter, ast.Attribute) and node.iter.attr == "content":
            is_over = _is_of(node.iter, name)  # the lines of aiohttp's responses
        if (node is statement or is_over) and node.body[0].lineno > node.iter.end_lineno:  # type: ignore[operator]
            yield node


def gone_through(statement: ast.stmt, function: ast.AST, call: ast.expr, names: set[str | None]) -> Iterator[ast.expr]:
    """Yield what the loops of a function go through that is a streamed reply, or a part of it.

    Args:
        statement: The statement with the call of the model.
        function: The function.
        call: The call.
        names: Names of the reply.
    """
    parsed = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(_is_parsed(node.value, name) for name in names)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    is_stream = streams(call.value if isinstance(call, ast.Await) else call)
    for node in ast.walk(function):
        if not isinstance(node, ast.For | ast.AsyncFor):
            continue
        inside = {n.id for n in ast.walk(node.iter) if isinstance(n, ast.Name)}
        is_reply = isinstance(node.iter, ast.Name) and node.iter.id in names
        is_part = (is_stream or isinstance(node, ast.AsyncFor)) and not inside.isdisjoint(names)
        if node.iter is call or is_reply or is_part or not parsed.isdisjoint(inside):
            yield node.iter


#: Methods of a response that give its reply in parts.
_PARTS = frozenset(
    [
        *("parse", "iter_lines", "aiter_lines", "iter_content", "iter_bytes", "aiter_bytes", "iter_text"),
        "aiter_text",
    ]
)


def _is_parsed(value: ast.expr, name: str | None) -> bool:
    """Return whether a value is what a response is parsed to, or its lines."""
    value = value.value if isinstance(value, ast.Await) else value
    is_one = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _PARTS
    return is_one and _is_of(value.func, name)  # type: ignore[attr-defined]


def _is_of(member: ast.expr, name: str | None) -> bool:
    owner = member.value if isinstance(member, ast.Attribute) else None
    return name is not None and isinstance(owner, ast.Name) and owner.id == name


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement without those of the statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [c for c in ast.iter_child_nodes(node) if not isinstance(c, ast.stmt | ast.excepthandler)]


def stands_at_its_place(e: ast.expr, lines: list[str]) -> bool:
    """Return whether an expression stands where it says; before Python 3.12 one inside of a text may not."""
    first, last = e.lineno - 1, e.end_lineno or 0
    source = "".join(lines[first:last])
    moved = ast.Constant(
        "", lineno=1, end_lineno=last - first, col_offset=e.col_offset, end_col_offset=e.end_col_offset
    )
    try:
        found = ast.parse(f"({ast.get_source_segment(source, moved)}\n)", mode="eval").body
    except SyntaxError:
        return False
    return ast.dump(found) == ast.dump(e)


def with_calls(lines: list[str], calls: Iterable[tuple[ast.expr, str]]) -> list[str]:
    """Return the lines of a file with functions around some expressions.

    Args:
        lines: The lines.
        calls: The expressions, each with the name of the function.
    """
    # What stands at one place: first the ends, then the beginnings, of which the one that ends last is the outermost.
    edits: list[tuple[int, int, bool, int, int, str]] = []
    for order, (call, function) in enumerate(calls):
        first, last = (call.lineno, call.col_offset), (call.end_lineno or 0, call.end_col_offset or 0)
        edits.append((*first, True, -last[0], -last[1], f"{function}("))
        edits.append((*last, False, 0, order, ")"))
    after = list(lines)
    for line, column, *_, text in sorted(edits, reverse=True):
        before = after[line - 1].encode("utf-8")
        after[line - 1] = (before[:column] + text.encode("utf-8") + before[column:]).decode("utf-8")
    return after
