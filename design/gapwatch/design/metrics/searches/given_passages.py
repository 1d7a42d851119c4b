"""Says of the values that a function gives whether they hold the texts of what a search found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.architecture.component_names import snake
from gapwatch.design.architecture.prompt_flow import bindings_of
from gapwatch.design.patterns.code_walk import unwrapped
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Expr, call_line, is_call, is_text, pairs_in
from gapwatch.design.source.program import last_name

#: Results that are gone through later, so that nothing of them is recorded.
_LATER = re.compile(r"^(azure\.search|googlesearch|tantivy)\.")
#: Members that say which passage it is, and not what it says.
_NO_TEXT = frozenset({"id", "id_", "ids", "node_id", "doc_id", "score", "scores", "distance", "distances"})


def is_handed_on(subject: Subject, e: Expr, lines: set[int]) -> bool:
    """Return whether a value, or a member of it, is what a search gave: `return answer, documents`."""
    members = [*e[1]] if e[0] == "t" else [v for _, v in pairs_in(e)] if e[0] == "d" else [e]
    found = {
        name
        for s in subject.statements
        for name, value in bindings_of(s)
        if any(is_call(inner) and call_line(inner) in lines for inner in (unwrapped(value),) if inner is not None)
    }
    return any(m[0] == "n" and m[1] in found for m in members)


def members_read(e: Expr) -> Iterator[str]:
    """Yield what an expression reads of a value: `state["question"]`, `body.query`, `inputs.get("topic")`."""
    if e[0] == "a":
        yield snake(str(e[2]))
    elif e[0] == "s" and is_text(e[2]):
        yield snake(e[2][1])
    elif is_call(e) and last_name(e) == "get" and e[2] and is_text(e[2][0]):
        yield snake(e[2][0][1])


def is_without_text(e: Expr) -> bool:
    """Return whether a value is a number, or says of passages only which they are."""
    inner = unwrapped(e)
    if inner is None or inner[0] == "k":
        return inner is None or not isinstance(inner[1], str)
    if is_call(inner):
        return last_name(inner) in ("len", "sum", "bool", "any", "all")
    if inner[0] in ("lc", "sc"):
        made = inner[1]
        if made[0] == "a":
            return made[2] in _NO_TEXT
        return made[0] == "s" and is_text(made[2]) and made[2][1] in _NO_TEXT
    return False


def is_given_later(subject: Subject, e: Expr) -> bool:
    """Return whether a value is gone through by whoever gets it."""
    inner = unwrapped(e)
    if inner is None or not is_call(inner):
        return False
    return any(map(_LATER.search, subject.sites.named_at(subject.symbol, inner)))
