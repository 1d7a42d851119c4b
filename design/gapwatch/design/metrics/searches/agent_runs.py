"""Finds the function below which the last call of a model is the answer of an agent that asks at several lines."""

from __future__ import annotations

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.model_calls import CALLS
from gapwatch.design.source.ir import call_line


def asking_lines(code: ClaimedCode, symbol: str) -> set[int]:
    """Return the lines of a function at which it asks a model, by itself or through others."""
    return {h.line for h in code.material.hits_of(symbol) if h.pattern == "calls_llm"}


def last_asker(code: ClaimedCode, symbol: str) -> str | None:
    """Return the function whose span ends with the answer of an agent; None where nobody can say.

    It is the function itself where it asks at one line, the one through which it asks at each of several lines, or
    the one that runs it, where it hands each reply to itself.

    Args:
        code: The functions.
        symbol: Function of the loop.
    """
    lines = asking_lines(code, symbol)
    if len(lines) < 2:
        return symbol
    subject = code.subject(symbol)
    if subject is None:
        return None
    calls = [call for call in subject.calls if call_line(call) in lines]
    asked = {e.dst for call in calls for e in subject.inside(call) if asking_lines(code, e.dst)}
    if symbol in {e.dst for e in code.material.sites.callees.get(symbol, ()) if e.kind in CALLS}:
        return _runs(code, symbol)
    # A function of the same object: a client of models is asked for other things, too.
    one = next(iter(asked)) if len(asked) == 1 else ""
    is_own = one.rpartition(".")[0] == symbol.rpartition(".")[0]
    return one if is_own and len(asking_lines(code, one)) == 1 else None


def _runs(code: ClaimedCode, symbol: str) -> str | None:
    """Return the function that runs one which calls itself, or goes through what it gives; None for several."""
    subject = code.subject(symbol)
    # Who only hands on what is given piece by piece ends before it does.
    is_stream = subject is not None and subject.ir.is_generator
    sources = {e.src for e in code.material.sites.callers[symbol] if e.kind in CALLS} - {symbol}
    above = [s for s in map(code.subject, sorted(sources)) if s is not None and not _is_beside(s)]
    above = [s for s in above if s.ir.is_generator or not is_stream]
    return above[0].symbol if len(above) == 1 else None


def _is_beside(subject: Subject) -> bool:
    """Return whether a function is one of a test, an example or a script."""
    file = subject.program.files[subject.info.module]
    return file is None or bool(file.tags)
