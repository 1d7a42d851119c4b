"""Finds the arms of an `if` that a setting of the environment leaves out, unless somebody sets it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    branches_of,
    callee_of,
    constant_of,
    is_call,
    is_name,
    is_text,
    line_of,
    name_of,
    operand_of,
    operands_of,
    operators_of,
    owner_of,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Texts by which a setting of the environment is switched on or off.
_ON, _OFF = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})
_READS = frozenset({"getenv", "get"})
#: Methods and functions through which the text is read.
_CLEANS = frozenset({"lower", "strip", "casefold", "upper"})
_CASTS = frozenset({"bool", "int", "strtobool", "str"})


def default_values(bodies: Iterable[Body]) -> dict[str, bool]:
    """Return the names that hold a switch of the environment, by what they hold where nobody sets it.

    Args:
        bodies: Code of a file and of a function in it.
    """
    out: dict[str, bool] = {}
    for s in (s for body in bodies for s in statements(body) if s[0] == "assign"):
        names = [str(name_of(t)) for t in targets_of(s) if is_name(t)]
        held = _held(value, {}) if (value := value_of(s)) is not None and len(names) == 1 else None
        for name in names:
            # What is assigned a second time may be anything.
            if held is None or name in out:
                out.pop(name, None)
            else:
                out[name] = held
    return out


def run_by_default(body: Body, known: Mapping[str, bool]) -> tuple[Body, set[int]]:
    """Return a body without the arms that do not run where nobody sets a switch, and the first lines of what is gone.

    Arms in loops and in `try` stay as they are.

    Args:
        body: Statements of a function.
        known: Switches by name, with their defaults.
    """
    out: list[Stmt] = []
    gone: set[int] = set()
    for n, s in enumerate(body):
        if s[0] != "if":
            out.append(s)
            continue
        arms: list[Body] = []
        taken: Body | None = None
        for test, block in (*branches_of(s), (None, s[3])):
            held = _held(test, known) if test is not None else None
            if taken is not None or held is False:
                gone |= {line_of(one) for one in statements(block)}
                arms.append(())
                continue
            run, below = run_by_default(block, known)
            gone |= below
            arms.append(run)
            taken = block if held else None
        tests = [test for test, _ in branches_of(s)]
        out.append((*s[:2], tuple(zip(tests, arms, strict=False)), arms[-1], *s[4:]))
        if taken and taken[-1][0] in ("return", "raise"):
            gone |= {line_of(one) for one in statements(body[n + 1 :])}
            break
    return tuple(out), gone


def _held(e: Expr, known: Mapping[str, bool]) -> bool | None:
    """Return what a switch of the environment is where nobody sets it; None of anything else."""
    if e[0] == "!":
        inner = _held(operand_of(e), known)
        return None if inner is None else not inner
    if is_name(e):
        return known.get(str(name_of(e)))
    if e[0] == "q" and len(operands_of(e)) == 2:
        text = _default(operands_of(e)[0])
        wanted = _texts(operands_of(e)[1])
        if text is None or not wanted or not wanted <= _ON | _OFF:
            return None
        is_in = text in wanted
        return {"==": is_in, "in": is_in, "!=": not is_in, "not in": not is_in}.get(operators_of(e)[0])
    if is_call(e) and last_name(e) in ("bool", "strtobool", "int") and len(positional_of(e)) == 1:
        text = _default(positional_of(e)[0])
        is_word = last_name(e) == "strtobool" or text in ("0", "1")
        return None if text is None or not is_word else text in _ON
    return None


def _default(e: Expr) -> str | None:
    """Return the default of what is read from the environment, as a word of a switch in lower case, or None."""
    while is_call(e):
        name, given = last_name(e), positional_of(e)
        if name in _CLEANS and not given:
            e = owner_of(callee_of(e))
        elif name in _CASTS and len(given) == 1:
            e = given[0]
        elif name in _READS and len(given) == 2 and (name == "getenv" or _is_environment(e)):
            said = str(constant_of(given[1])).lower() if given[1][0] == "k" else ""
            return said if said in _ON | _OFF else None
        else:
            return None
    return None


def _is_environment(call: Expr) -> bool:
    owner = owner_of(callee_of(call)) if callee_of(call)[0] == "a" else None
    return owner is not None and last_name(owner) in ("environ", "env")


def _texts(e: Expr) -> frozenset[str]:
    members = e[1] if e[0] in ("l", "t", "S") else (e,)
    if not all(is_text(m) for m in members):
        return frozenset()
    return frozenset(str(constant_of(m)).lower() for m in members)
