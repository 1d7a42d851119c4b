"""Tells why a loop ends: by the conditions around a line, by the words of a status, by what is caught."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gapwatch.design.patterns.code_walk import arguments_of, constants_in, names_in, text_of, unwrapped, walk
from gapwatch.design.source.ir import Expr, constant_of, is_call, is_text, operand_of, operands_of, operators_of
from gapwatch.design.source.program import last_name

_LIMIT_NAME = re.compile(r"(^|_)(max|maximum|limit|budget|remaining|allowed|deadline|timeout|most)(_|$)", re.I)
_LEFT = re.compile(r"(^|_)(remaining|left)(_|$)", re.I)
_COUNTS = re.compile(
    r"(^|_)(n|num|steps?|turns?|iterations?|iters?|rounds?|calls?|count|cost|depth|timestep)(_|$)", re.I
)
_TOOL_CALL = re.compile(r"(^|_)(tool_?calls?|function_?calls?|tool_?uses?|actions?)$", re.I)
_DONE = re.compile(
    r"done|complet|finish|final|submit|success|solved|answered|end_turn|terminat|stop|satisf|converge|resolved|^end$|exit",
    re.I,
)
_OVER = re.compile(
    r"limit|exceed|exhaust|truncat|time_?out|timed_?out|too_?many|max_|maximum|budget|Max[A-Z]|deadline", re.I
)
_WRONG = re.compile(r"error|fail|exception|abort|invalid|crash|killed|stuck|repeat|cannot|unknown", re.I)
_FORM = re.compile(r"format|pars|malform|validat|json|decod|schema|invalid_?(tool|action|call)", re.I)
_STOPPED = re.compile(r"interrupt|cancel|keyboard|user|generator_?exit", re.I)


def of_words(text: str) -> str:
    """Return the cause that a status or the name of an exception says: done, limit, error, stopped, or nothing."""
    for pattern, cause in ((_OVER, "limit"), (_WRONG, "error"), (_STOPPED, "stopped"), (_DONE, "done")):
        if pattern.search(text):
            return cause
    return ""


def is_of_form(text: str) -> bool:
    """Return whether the name of an exception says that the model's answer had no right form."""
    return bool(_FORM.search(text))


def status_of(value: Expr | None) -> str:
    """Return the text of a status that a value is: a constant, a member of an enumeration, the name of an exception."""
    if value is None:
        return ""
    if is_text(value) and re.fullmatch(r"[\w .-]{1,40}", constant_of(value)):
        return str(constant_of(value))
    if value[0] == "a" and value[2].isupper():
        return str(value[2])
    return last_name(value) if is_call(value) and last_name(value)[:1].isupper() else ""


class ExitCauses:
    """Reads conditions of one function.

    Args:
        bound: Values by the local name that was bound last.
    """

    def __init__(self, bound: dict[str, Expr]) -> None:
        self._bound = bound

    def of(self, tests: Iterable[tuple[Expr, bool]]) -> list[tuple[str, str, str]]:
        """Return (cause, code, flag) of each reason that conditions give, the innermost that gives one; [] for none.

        Args:
            tests: Conditions around a line, the outermost first, each with whether it holds there.
        """
        for test, holds in reversed(list(tests)):
            causes = [(self._cause(part, holds), part) for part in self._parts(test)]
            found = [(cause, text_of(p)[:100], _flag(p) if holds else "") for cause, p in causes if cause is not None]
            if found:
                return found
        return []

    def _parts(self, test: Expr) -> list[Expr]:
        e = unwrapped(test) or test
        return [inner for part in operands_of(e) for inner in self._parts(part)] if e[0] == "b" else [e]

    def _cause(self, part: Expr, holds: bool) -> str | None:
        e = unwrapped(part) or part
        if e[0] == "n" and e[1] in self._bound:
            value = unwrapped(self._bound[e[1]]) or self._bound[e[1]]
            by_value = self._cause_of(value, holds)
            # `completed = answered or steps > most`: only its name says which of them is meant.
            if by_value is not None and (by_value != "limit" or not self._is_mixed(value)):
                return by_value
        return self._cause_of(e, holds)

    def _is_mixed(self, value: Expr) -> bool:
        """Return whether a value holds where a limit is reached, and where something else is so."""
        parts = operands_of(value) if value[0] == "b" else ()
        return any(self._cause_of(part, True) != "limit" for part in parts)

    def _cause_of(self, e: Expr, holds: bool) -> str | None:
        negated = not holds
        while e[0] == "!":
            e, negated = operand_of(e), not negated
        if e[0] == "n" and e[1] in self._bound and self._bound[e[1]][0] in "q!":
            return self._cause_of(self._bound[e[1]], not negated)
        if e[0] == "b":
            found = [c for p in operands_of(e) if (c := self._cause_of(p, not negated)) is not None]
            return found[0] if found else None
        names = {n.rpartition(".")[2] for n in names_in(e)}
        if e[0] == "q" and self.is_limit(e) and self._holds_below(e) == negated:
            return "limit"
        calls_tools = any(_TOOL_CALL.search(n) for n in [*names, *constants_in(e)])
        named = [
            t for t in constants_in(e) if re.fullmatch(r"\w+", t) and t not in ("name", "function", "type", "role")
        ]
        is_equal = any("==" in operators_of(q) or "in" in operators_of(q) for q in walk(e) if q[0] == "q")
        if is_equal and not negated and (calls_tools or _DONE.search(" ".join(named))):
            told = " ".join(named)
            return of_words(told) or ("done" if named and calls_tools else None)
        if calls_tools:
            return "no_tool_call" if negated or _is_absent(e) else None
        if e[0] in "nas" or is_call(e):
            words = f"{text_of(e)} {' '.join(constants_in(e))}"
            last = words if e[0] == "s" else last_name(e) or words
            cause = of_words(last)
            return None if negated and cause != "error" else cause or None
        if e[0] == "q" and is_equal and not negated:
            return of_words(text_of(e)) or None
        return None

    def _holds_below(self, comparison: Expr) -> bool:
        """Return whether a comparison with a limit holds as long as the limit is not reached: `steps < max_steps`."""
        operands, operators = list(operands_of(comparison)), list(operators_of(comparison))
        if len(operands) != 2 or len(operators) != 1 or operators[0] == "==":
            return False
        first, second = (_names(e) for e in operands)
        if any(_LEFT.search(n) for n in (*first, *second)):
            # Steps that are left are few at the limit.
            return operators[0] in (">", ">=")
        is_first = any(_LIMIT_NAME.search(n) or n.isupper() for n in first) or operands[0][0] == "k"
        is_second = any(_LIMIT_NAME.search(n) or n.isupper() for n in second) or operands[1][0] == "k"
        if is_first == is_second:
            return False
        return operators[0] in (("<", "<=") if is_second else (">", ">="))

    def is_limit(self, comparison: Expr) -> bool:
        """Return whether a comparison holds a count against a limit."""
        if not set(operators_of(comparison)) & {"<", "<=", ">", ">=", "=="}:
            return False
        names = [_names(e) for e in operands_of(comparison)]
        has_limit = [any(_LIMIT_NAME.search(n) or n.isupper() for n in mine) for mine in names]
        # `state["remaining_steps"] < 2`
        is_left = any(
            _LIMIT_NAME.search(t) and _COUNTS.search(t) for e in operands_of(comparison) for t in constants_in(e)
        )
        counted = any(_COUNTS.search(n) for mine in names for n in mine)
        is_number = any(e[0] == "k" and type(e[1]) in (int, float) and e[1] > 1 for e in operands_of(comparison))
        return is_left or any(has_limit) or (counted and is_number and "==" not in operators_of(comparison))


def _names(e: Expr) -> list[str]:
    """Return the last names and the texts in an operand; none of a constant."""
    return [*(n.rpartition(".")[2] for n in names_in(e)), *constants_in(e)] if e[0] != "k" else []


def _is_absent(e: Expr) -> bool:
    """Return whether a comparison asks for nothing: `calls is None`, `len(calls) == 0`, `calls == []`."""
    if e[0] != "q":
        return False
    is_empty = any(o in (("k", None), ("k", 0), ("k", "")) or (o[0] in "ld" and not o[1]) for o in operands_of(e))
    return is_empty and bool({"is", "=="} & set(operators_of(e)))


def _flag(part: Expr) -> str:
    e = unwrapped(part) or part
    return str(e[1]) if e[0] == "n" else ""


def limit_of_range(iterable: Expr) -> str | None:
    """Return the code of the end of `range(...)`, or None for other iterables."""
    e = unwrapped(iterable) or iterable
    if not is_call(e) or last_name(e) != "range" or not arguments_of(e):
        return None
    given = arguments_of(e)
    return text_of(given[1] if len(given) > 1 else given[0])
