"""Reads conditions: the names whose result they take for failed, and those that they take for good."""

from __future__ import annotations

import re

from gapwatch.design.patterns.code_walk import arguments_of, names_in, text_of, unwrapped
from gapwatch.design.source.ir import Expr, constant_of, is_call, operand_of, operands_of, operators_of, positional_of
from gapwatch.design.source.program import last_name

_BAD = re.compile(
    r"error|fail|empty|missing|invalid|refus|timed?_?out|expired|stale|partial|insufficient|blocked", re.I
)
#: Local names that say that something failed.
_FLAG = re.compile(r"(^|_)(failed|failure|errors?|err)$", re.I)
_GOOD = re.compile(r"success|ok$|valid|sufficient|complete|hits?$|found|fresh|usable|good|healthy", re.I)
_NUMBERS = re.compile(r"confiden|score|similar|relevan|quality|len|count|threshold|min_|total|certain|remaining", re.I)
_LIMIT = re.compile(r"(remaining|max|limit|budget)\w*(\W|$).*[<>]|[<>].*(max|limit|budget)", re.I)
#: Results whose absence means that the work is done.
_DONE = re.compile(r"tool|function_call|next_|pending|todo|more", re.I)
#: Fields that tell how a call went.
_STATE = re.compile(r"status|verdict|result|state|outcome|decision|grade|quality", re.I)
_EMPTY = (("k", None), ("k", ""), ("k", 0), ("k", False))


def failed_names(test: Expr) -> set[str]:
    """Return the names whose result a condition takes for failed, empty or too weak."""
    return {name for name in _names(test, failed=True) if not _DONE.search(name) or _LIMIT.search(text_of(test))}


def good_names(test: Expr) -> set[str]:
    """Return the names whose result a condition takes for usable."""
    return _names(test, failed=False)


def _names(test: Expr, failed: bool) -> set[str]:
    e = unwrapped(test) or test
    tag = e[0]
    if test[0] == ":=":
        return set() if failed else {test[1]} | _names(e, failed)
    if tag == "!":
        return _names(operand_of(e), not failed)
    if tag == "b":
        if failed and any(_is_limit(part) for part in operands_of(e)):
            # A limit that is nearly reached: whatever else the condition names is given up.
            return {name for part in operands_of(e) for name in _held(part)}
        return {name for part in operands_of(e) for name in _names(part, failed)}
    if tag == "q":
        return _compared(e, failed)
    if tag in ("n", "a", "s"):
        return _of_value(e, failed)
    if is_call(e):
        return _of_call(e, failed)
    return set()


def _is_limit(part: Expr) -> bool:
    """Return whether a condition holds a count against one limit; `low < x <= high` asks for a range."""
    return part[0] == "q" and len(operators_of(part)) == 1 and bool(_LIMIT.search(text_of(part)))


def _held(e: Expr) -> set[str]:
    """Return the names of a value; a walrus gives the name that it binds."""
    if e[0] == ":=":
        return {e[1]}
    if e[0] == "w":
        return _held(e[1])
    return {n for n in names_in(e) if n not in ("self", "cls", "len", "any", "all", "bool", "isinstance", "str")}


def _of_value(e: Expr, failed: bool) -> set[str]:
    name = text_of(e).rpartition(".")[2]
    if failed is False and e[0] != "n" and name.endswith("ed") and not _GOOD.search(name):
        return set()
    is_bad = bool(_BAD.search(name) and not _GOOD.search(name)) if e[0] != "n" else bool(_FLAG.search(name))
    return _held(e) if is_bad == failed else set()


def _of_call(e: Expr, failed: bool) -> set[str]:
    name = last_name(e)
    if name in ("isinstance", "issubclass"):
        arguments = positional_of(e)
        is_bad = len(arguments) > 1 and bool(re.search(r"Exception|Error", text_of(arguments[1])))
        return _held(arguments[0]) if is_bad and failed else set()
    owner = e[1][1] if e[1][0] == "a" else None
    about = {n for a in arguments_of(e) for n in _held(a)} | (_held(owner) if owner is not None else set())
    key = next((constant_of(a) for a in positional_of(e) if a[0] == "k" and isinstance(constant_of(a), str)), "")
    word = key if name == "get" and key else name
    if name in ("len", "any", "all", "bool", "strip", "get"):
        is_bad = bool(key and _BAD.search(key) and not _GOOD.search(key))
        return about if is_bad == failed else set()
    if _BAD.search(word) and not _GOOD.search(word):
        return about if failed else set()
    if _GOOD.search(word):
        return about if not failed else set()
    return set()


def _compared(e: Expr, failed: bool) -> set[str]:
    operands, operators = operands_of(e), operators_of(e)
    if len(operands) != 2:
        return set()
    left, right, sign = operands[0], operands[1], operators[0]
    names = _held(left)
    if right in _EMPTY or (right[0] in ("l", "d", "t") and not right[1]):
        if sign in ("is", "=="):
            return names if failed else set()
        if sign in ("is not", "!=", ">"):
            return names if not failed else set()
    if sign in ("<", "<=", ">", ">="):
        if not (_NUMBERS.search(text_of(left)) or _NUMBERS.search(text_of(right)) or "status" in text_of(left)):
            return set()
        if "status" in text_of(left):
            return names if failed == (sign in (">", ">=")) else set()
        about = names | (_held(right) if right[0] != "k" and left[0] == "k" else set())
        return about if failed == (sign in ("<", "<=")) else set()
    if sign in ("==", "!=") and right[0] == "k":
        text = f"{text_of(left)} {constant_of(right)}"
        if "status" in text_of(left) and isinstance(constant_of(right), int):
            is_bad = (sign == "==") == (constant_of(right) >= 400)
            return names if failed == is_bad else set()
        is_word = isinstance(constant_of(right), str) and _STATE.search(text_of(left))
        if is_word and (_BAD.search(str(constant_of(right))) or _GOOD.search(text)):
            is_bad = (sign == "==") == bool(_BAD.search(str(constant_of(right))))
            return names if failed == is_bad else set()
    if sign in ("in", "not in") and left[0] == "k" and isinstance(constant_of(left), str):
        is_bad = (sign == "in") == bool(_BAD.search(constant_of(left)))
        return _held(right) if failed == is_bad else set()
    return set()
