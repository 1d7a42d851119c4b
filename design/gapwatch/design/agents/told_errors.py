"""Finds what a model is told when its call failed: error texts as results of tools, answers without the right form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gapwatch.design.agents.exit_causes import is_of_form
from gapwatch.design.agents.turns import runs_tool
from gapwatch.design.patterns.code_runs import find_code_runs
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    constants_in,
    keyword,
    own_expressions,
    target_names,
    text_of,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.routes.failure_answers import find_failure_answers
from gapwatch.design.routes.forms import Forms
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    caught_by,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    line_of,
    members_in,
    pairs_in,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

_RESULTS = frozenset(
    {"ToolMessage", "ToolResult", "ToolResultBlock", "ToolResponse", "FunctionMessage", "ToolReturnPart"}
)
_PATTERN = "tells_model_error"
#: Functions that put the result of a tool into the conversation.
_TELLS = re.compile(r"(^|_)(observation|tool_(result|message|output|response))s?$", re.I)
#: Texts that say that a model named a tool which there is not.
NO_SUCH_TOOL = re.compile(
    r"\b(unknown|no such|unrecogni[sz]ed|unsupported) tool\b"
    r"|\btools?\b.{0,60}\b(not found|does(n't| not) exist|not (available|registered|recogni[sz]ed|supported))\b",
    re.I | re.S,
)


def tool_errors(subject: Subject, inside: Iterable[Stmt]) -> Iterator[PatternHit]:
    """Yield the lines at which some statements of a function make an error text the result of a tool."""
    inside = list(inside)
    seen: set[int] = set()
    told: set[str] = set()  # names that are the content of a result
    for s in inside:
        for e in own_expressions(s):
            for one in walk(e):
                content = _result(one)
                told |= {str(content[1])} if content is not None and content[0] == "n" else set()
                if content is not None and _is_error(content) and line_of(s) not in seen:
                    seen.add(line_of(s))
                    yield subject.hit(_PATTERN, line_of(s), line_of(s), "tool error", f"told: {text_of(content)}", 0.9)
    for s in inside:
        value = (
            value_of(s) if s[0] == "assign" and told.intersection(n for t in s[2] for n in target_names(t)) else None
        )
        if value is not None and value[0] in "fko" and _is_error(value) and line_of(s) not in seen:
            seen.add(line_of(s))
            yield subject.hit(_PATTERN, line_of(s), line_of(s), "tool error", f"told: {text_of(value)}", 0.8)
        for handler in handlers_of(s) if s[0] == "try" else ():
            body = list(statements(handler_body(handler)))
            for x in body:
                value = value_of(x) if x[0] == "assign" else None
                is_text = value is not None and value[0] in "fkod" and line_of(x) not in seen
                if is_text and value is not None and Forms(body, handler[2] or "").of(value) == "error":
                    seen.add(line_of(x))
                    yield subject.hit(_PATTERN, line_of(x), line_of(x), "tool error", f"told: {text_of(value)}", 0.8)


def errors_of_tools(subject: Subject) -> Iterator[PatternHit]:
    """Yield the error texts that functions return which run tools for a function: `execute_tool(call)`."""
    for call in subject.calls:
        for edge in subject.inside(call) if runs_tool(call) else ():
            other = subject.other(edge.dst)
            if other is None or any(True for _ in find_code_runs(other)):
                continue  # The code that the model wrote has a metric of its own.
            yield from tool_errors(other, other.statements)
            for hit in find_failure_answers(other):
                if hit.kind == "error text":
                    yield replace(hit, pattern=_PATTERN, kind="tool error", evidence=f"told: {hit.evidence}"[:160])


def once_each(functions: Iterable[Subject], told: Iterable[PatternHit]) -> set[PatternHit]:
    """Return what a model is told without the texts that a handler makes before it gives them back or sends them."""
    out = set(told)
    for subject in functions:
        mine = [h for h in out if h.symbol == subject.symbol]
        for s in subject.statements if mine else ():
            for handler in handlers_of(s) if s[0] == "try" else ():
                block = list(statements(handler_body(handler)))
                last = max((h.line for h in mine if any(line_of(x) == h.line for x in block)), default=0)
                made = {line_of(x) for x in block if x[0] == "assign" and line_of(x) < last}
                out -= {h for h in mine if h.line in made}
    return out


def says_no_such_tool(value: Expr) -> bool:
    """Return whether a text says that there is no tool of the name that a model gave."""
    return NO_SUCH_TOOL.search(" ".join(constants_in(value))) is not None


def _is_error(content: Expr) -> bool:
    return Forms([], "").of(content) == "error" or says_no_such_tool(content)


def _result(e: Expr) -> Expr | None:
    """Return the content of a message with the result of a tool, or None."""
    if is_call(e) and last_name(e) in _RESULTS:
        return keyword(e, "content") or next(iter(arguments_of(e)), None)
    if is_call(e) and _TELLS.search(last_name(e)):
        return next((given for given in arguments_of(e) if given[0] in "kf" and _is_error(given)), None)
    if e[0] != "d":
        return None
    fields = {constant_of(k): v for k, v in pairs_in(e) if k is not None and k[0] == "k"}
    is_result = fields.get("role") == ("k", "tool") or fields.get("type") in (
        ("k", "tool_result"),
        ("k", "function_call_output"),
    )
    if not is_result:
        return None
    if fields.get("is_error") == ("k", True):
        return ("k", "error")
    return fields.get("content") or fields.get("output")


def format_errors(subject: Subject, loop: Stmt) -> Iterator[PatternHit]:
    """Yield the handlers in a loop that carry on where the model's answer had no right form."""
    for s in statements(body_of(loop)):
        for handler in handlers_of(s) if s[0] == "try" else ():
            names = caught_names(handler)
            body = handler_body(handler)
            leaves = any(x[0] in ("raise", "return") for x in body)
            if names and all(is_of_form(n) for n in names) and body and not leaves:
                evidence = f"except {', '.join(names)}: goes on"
                yield subject.hit(_PATTERN, line_of(body[0]), line_of(body[0]), "format error", evidence, 0.9)


def caught_names(handler: Stmt) -> list[str]:
    """Return the last names of the exceptions that a handler catches; empty for all."""
    kind = caught_by(handler)
    if kind is None:
        return []
    return [last_name(one) for one in (members_in(kind) if kind[0] == "t" else (kind,))]
