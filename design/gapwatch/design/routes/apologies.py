"""Finds where a function says that it is sorry in place of an answer that is missing, and goes on to send it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import arguments_of, names_in, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.checks import failed_names
from gapwatch.design.source.ir import (
    Expr,
    branches_of,
    call_line,
    end_of,
    is_text,
    line_of,
    targets_of,
    text_parts,
    value_of,
)

#: Texts that begin with an apology, or say that there is no answer.
_SORRY = re.compile(
    r"^\W*((i'?m|i am|we'?re|we are)? ?(very |so |terribly )?sorry\b|(i|we) apologi[sz]e\b|(my|our) apologies\b"
    r"|(i|we) (don'?t|do not|couldn'?t|could not|can'?t|cannot|was unable|were unable|am unable|are unable)\b"
    r"|no (answer|response|reply)\b)",
    re.I,
)


def apologies(subject: Subject) -> Iterator[tuple[Expr, int]]:
    """Yield (text, line) of what a function binds to the name of a missing answer, and hands on afterwards.

    Example:
        `if not answer: answer = "I'm sorry, I don't have an answer"; await Message(answer).send()`
    """
    for s in subject.statements:
        if s[0] != "if":
            continue
        test, block = branches_of(s)[0]
        missing = failed_names(test)
        for x in block:
            value = value_of(x) if x[0] == "assign" else None
            names = {text_of(t) for t in targets_of(x)} & missing if value is not None else set()
            if value is None or not names or not _says_sorry(value):
                continue
            used = (c for c in subject.calls if call_line(c) > end_of(s))
            if any(names & names_in(a) for c in used for a in arguments_of(c)):
                yield value, line_of(x)


def _says_sorry(value: Expr) -> bool:
    first = value[1] if is_text(value) else next(iter(text_parts(value)), None) if value[0] == "f" else None
    return isinstance(first, str) and _SORRY.search(first) is not None
