"""Follows a model's reply to the output of the function that asks: whether its words are what the function gives."""

from __future__ import annotations

import enum

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.prompt_flow import bindings_of
from gapwatch.design.patterns.code_walk import children, unwrapped
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Expr, call_line, handler_body, handlers_of, is_call, is_text, value_of
from gapwatch.design.source.program import last_name, statements


class Output(enum.Enum):
    """Share of the model's reply in the output of a function."""

    REPLY = "the reply, or something with its words"
    KEPT = "no word of it, but the span of the function does: it gives no text itself"
    SELDOM = "the reply in few of its answers"
    NOTHING = "no word of it"
    UNKNOWN = "what cannot be told: it asks no model by itself"


#: Functions that make a number, a flag or a new id of a text.
_NUMBERS = frozenset(
    {"len", "int", "float", "bool", "isinstance", "sum", "any", "all", "round", "abs", "hash", "id", "uuid4", "uuid1"}
)
#: Most statements in a row through which a reply is followed.
_MAX_STEPS = 5
#: Answers of a function without the reply, for each with it, at which its output is something else.
_SELDOM, _LEAST_OTHERS = 3, 4


def output_of(code: ClaimedCode, symbol: str) -> Output:
    """Return what the output of a function holds of the reply of the models that it asks.

    Args:
        code: The functions.
        symbol: The function; one that only passes on stands for the one that works for it.
    """
    found = code.outputs.get(symbol)
    if not isinstance(found, Output):
        found = code.outputs[symbol] = _output_of(code, symbol)
    return found


def _output_of(code: ClaimedCode, symbol: str) -> Output:
    subject = code.subject(code.worker(symbol))
    hits = [h for h in code.material.hits_of(subject.symbol) if h.pattern == "calls_llm"] if subject is not None else []
    if subject is None or not hits:
        return Output.UNKNOWN
    replies = _Replies(subject, {line for h in hits for line in range(h.line, max(h.line, h.end) + 1)})
    given = subject.returned
    carrying = [e for e in given if replies.holds(e)]
    # What a handler gives is the answer of a failure.
    handlers = [h for s in subject.statements if s[0] == "try" for h in handlers_of(s)]
    failed = [value_of(x) for h in handlers for x in statements(handler_body(h)) if x[0] == "return"]
    others = [e for e in given if e[0] != "k" and e not in carrying and not any(e is f for f in failed)]
    if carrying:
        return Output.SELDOM if len(others) >= max(_LEAST_OTHERS, _SELDOM * len(carrying)) else Output.REPLY
    # The span of an agent has what the function gives.
    is_agent = any(loop.symbol == subject.symbol and loop.kind != "graph" for loop in code.material.loops)
    is_direct = any(h.kind == "direct" for h in hits) and not is_agent
    if is_direct and not subject.ir.is_generator and all(_is_no_text(e) for e in given):
        return Output.KEPT
    return Output.NOTHING


def _is_no_text(e: Expr) -> bool:
    """Return whether a value is certainly no text: a flag, a number, a tuple, a list or a dictionary."""
    inner = unwrapped(e)
    return inner is None or inner[0] in ("t", "l", "S", "d", "q", "!") or (inner[0] == "k" and not is_text(inner))


class _Replies:
    """The names of a function that hold replies.

    Args:
        subject: The function.
        lines: Lines of its calls that reach a model.
    """

    def __init__(self, subject: Subject, lines: set[int]) -> None:
        self._subject = subject
        self._lines = lines
        self._names: set[str] = set()
        bound = [pair for s in subject.statements for pair in bindings_of(s)]
        numbers = {name for name, value in bound if self._is_number(value)}
        for _ in range(_MAX_STEPS):
            before = len(self._names)
            self._names |= {name for name, value in bound if name not in numbers and self.holds(value)}
            if len(self._names) == before:
                break

    def holds(self, e: Expr) -> bool:
        """Return whether a value holds words of a reply."""
        if self._is_number(e):
            return False
        if is_call(e) and call_line(e) in self._lines:
            return True
        if e[0] == "n":
            return e[1] in self._names
        if e[0] == "a" and e[1] in (("n", "self"), ("n", "cls")):
            return f"{e[1][1]}.{e[2]}" in self._names
        inner = e[2:] if e[0] == "?" else tuple(children(e))
        return any(self.holds(one) for one in inner)

    def _is_number(self, e: Expr) -> bool:
        inner = unwrapped(e)
        if inner is None or inner[0] in ("q", "!"):
            return inner is not None
        if inner[0] == "o" and inner[1] in ("/", "-", "//", "**"):
            return True
        if not is_call(inner):
            return False
        others = [self._subject.other(edge.dst) for edge in self._subject.inside(inner)]
        made = bool(others) and all(other is not None and other.gives_number for other in others)
        return made or (last_name(inner) in _NUMBERS and not others)
