"""Says why exceptions that leave a function are not those of the service or the store that it asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.patterns.code_walk import text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.error_takers import handles_line, raises_any_status
from gapwatch.design.source.ir import Expr, Stmt, branches_of, line_of, value_of
from gapwatch.design.source.program import last_name, statements

#: Exceptions that say what is missing, at fault or not allowed.
_OF_WHO_ASKS = re.compile(
    r"NotFound|NotExist|DoesNot|Missing|Exists|Conflict|Duplicate|Permission|Forbidden|Unauthori[sz]ed|Denied|Validation"
    r"|Invalid|Quota|LimitExceeded|BadRequest|^(Key|Value|Lookup|FileNotFound|Type)Error$"
)
#: Own exceptions that say that a service failed.
_OF_SERVICES = re.compile(
    r"(Service|A[Pp][Ii]|Connection|Timeout|Request|Provider|Server|Response|Client|Fetch|Http|HTTP)\w*(Error|Exception)$"
)
#: Tests by which a function looks whether a service answered well.
_LOOKS = re.compile(
    r"status|\bcode\b|\bok\b|err(or|no|_?code)?|fail|success|attempt|retr(y|ies)|timeout|expired|raise_for", re.I
)
#: Capabilities of which a failure says nothing of a store.
_BESIDE_STORES = frozenset({"llm_chat", "http", "saas", "web_search"})


class OwnExceptions:
    """Queries about the exceptions that leave functions.

    Args:
        code: The analysed code.
    """

    def __init__(self, code: ClaimedCode) -> None:
        self._code = code
        self._own = {c.ir.name for c in code.material.program.classes}

    def why_not(self, subject: Subject, is_write: bool) -> str | None:
        """Return why the exceptions of a function are not those of what it asks; None where they are.

        Args:
            subject: A function that asks a service or a store.
            is_write: Whether what it asks is a store to which it writes.
        """
        hits = self._code.material.hits_of(subject.symbol)
        if any(h.pattern == "tells_model_error" and h.kind == "tool" for h in hits):
            return "it is a tool, whose errors are counted with those of tools"
        called = (self._code.subject(edge.dst) for call in subject.calls for edge in subject.inside(call))
        if any(raises_any_status(one.ir.body) for one in (subject, *called) if one is not None):
            return "its exceptions refuse requests that are at fault, too"
        if (name := next(self._raised(subject), None)) is not None:
            return f"it raises {name} itself, where what was asked for is missing or at fault"
        if is_write and subject.symbol in self._code.reaching(_BESIDE_STORES):
            return "what else it asks may fail, too"
        return None

    def _raised(self, subject: Subject) -> Iterator[str]:
        """Yield the exceptions that a function raises by a test of its own, and not because a service failed."""
        tries = [s for s in subject.statements if s[0] == "try"]
        for test, s in _under_tests(subject.statements):
            value = value_of(s)
            if value is None or any(handles_line(t, line_of(s)) for t in tries) or _LOOKS.search(text_of(test)):
                continue
            name = last_name(value)
            if _OF_WHO_ASKS.search(name) or (name in self._own and not _OF_SERVICES.search(name)):
                yield name


def _under_tests(found: list[Stmt]) -> Iterator[tuple[Expr, Stmt]]:
    """Yield each `raise` with the test of the `if` that it stands under."""
    for s in found:
        for test, block in branches_of(s) if s[0] == "if" else ():
            yield from ((test, inner) for inner in statements(block) if inner[0] == "raise")
