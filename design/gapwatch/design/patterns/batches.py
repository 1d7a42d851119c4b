"""Finds handlers by which a batch goes on without one of its items: a file, a page, a table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import calls_of, keyword, leaves, names_in, tags_in
from gapwatch.design.patterns.outside_calls import assigned_to
from gapwatch.design.source.ir import (
    Body,
    Stmt,
    body_of,
    handler_body,
    handlers_of,
    is_call,
    is_name,
    iterable_of,
    line_of,
    positional_of,
)
from gapwatch.design.source.program import last_name, statements


def batch_handlers(body: Body) -> Iterator[int]:
    """Yield the lines of the `try` statements of a loop over items whose handler leaves one out and goes on.

    No such loop ends with the first item that succeeds, counts attempts, or reads the pieces of one answer.
    """
    for loop in statements(body):
        if loop[0] != "for" or _counts(loop) or _reads_stream(loop, body):
            continue
        if not tags_in(body_of(loop), "return", "break"):
            for s in statements(body_of(loop)):
                if s[0] == "try" and any(_goes_on(handler_body(h)) for h in handlers_of(s)):
                    yield line_of(s)


def _goes_on(body: Body) -> bool:
    last = body[-1] if body else None
    return last is None or last[0] == "continue" or not leaves(body)


#: Names of calls that give an answer in pieces.
_STREAMS = re.compile(r"(^|_)(a?stream\w*|deltas|tokens)(_|$)", re.I)


def _reads_stream(loop: Stmt, body: Body) -> bool:
    """Return whether a loop reads the pieces of an answer, such as `client.stream(question)`."""
    given = iterable_of(loop)
    values = [v for name in names_in(given) for v in assigned_to(body, name)] if is_name(given) else [given]
    calls = [c for v in values for c in calls_of(v)]
    return any(_STREAMS.search(last_name(c)) or keyword(c, "stream") == ("k", True) for c in calls)


def _counts(loop: Stmt) -> bool:
    """Return whether a loop runs a fixed number of times: `range(3)`, `range(retries)`."""
    iterable = iterable_of(loop)
    if not is_call(iterable) or last_name(iterable) not in ("range", "count"):
        return False
    return len(positional_of(iterable)) < 2 and not any(is_call(e) for e in positional_of(iterable))
