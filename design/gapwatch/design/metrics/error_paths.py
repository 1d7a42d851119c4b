"""Errors inside a function: which of them leave it, and which a handler takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gapwatch.design.architecture.claimed_code import MAX_HOPS, PLUMBING, ClaimedCode
from gapwatch.design.patterns.code_walk import keyword, unwrapped
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    caught_by,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    items_of,
    line_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Exceptions of wrong values and missing parts; a handler of these alone lets the errors of a request pass.
_OF_VALUES = frozenset(
    [
        "KeyError",
        "ValueError",
        "TypeError",
        "IndexError",
        "AttributeError",
        "JSONDecodeError",
        "ValidationError",
        "ImportError",
        "ModuleNotFoundError",
        "StopIteration",
        "StopAsyncIteration",
        "UnicodeDecodeError",
        "CancelledError",
    ]
)


@dataclass(frozen=True)
class ErrorPaths:
    """Queries about the errors of functions.

    Attributes:
        code: The functions.
    """

    code: ClaimedCode

    def always_raises(self, symbol: str, depth: int = 0) -> bool:
        """Return whether a function never returns: each way through it ends in `raise`, or its annotation says so."""
        subject = self.code.subject(symbol)
        if subject is None or depth > MAX_HOPS:
            return False
        if subject.ir.returns is not None and last_name(subject.ir.returns) in ("NoReturn", "Never"):
            return True
        returns = [s for s in subject.statements if s[0] == "return"]
        return self.raises(subject, subject.ir.body, depth) and all(self.raises(subject, (s,), depth) for s in returns)

    def raises(self, subject: Subject, body: Body, depth: int = 0) -> bool:
        """Return whether a block always ends in an error."""
        if not body:
            return False
        last = body[-1]
        if last[0] == "raise":
            return True
        if last[0] in ("expr", "return"):
            call = unwrapped(value_of(last))
            if call is None or not is_call(call):
                return False
            if last_name(call) in ("exit", "abort") and not subject.inside(call):
                return True
            targets = [edge.dst for edge in subject.inside(call)]
            return bool(targets) and all(self.always_raises(t, depth + 1) for t in targets)
        if last[0] == "if":
            branches = [b for _, b in branches_of(last)]
            return bool(last[3]) and all(self.raises(subject, b, depth) for b in [*branches, last[3]])
        return last[0] == "with" and self.raises(subject, body_of(last), depth)

    def _swallows(self, subject: Subject, s: Stmt) -> bool:
        """Return whether a `try` or `with` takes the errors of requests inside it."""
        if s[0] == "with":
            return any(
                is_call(e) and last_name(e) == "suppress" and not _is_of_values(list(e[2])) for e, _ in items_of(s)
            )
        for handler in handlers_of(s):
            caught = caught_by(handler)
            kinds = [] if caught is None else list(caught[1]) if caught[0] == "t" else [caught]
            body = handler_body(handler)
            if (kinds and _is_of_values(kinds)) or self.raises(subject, body):
                continue
            if any(inner[0] == "raise" for inner in statements(body)):
                continue
            gives = any(inner[0] == "return" for inner in statements(body)) or subject.ir.is_generator
            # Without a result of its own the handler goes on, to a `raise` after the last attempt.
            if gives or not any(o[0] == "raise" and line_of(o) > end_of(s) for o in subject.statements):
                return True
        return False

    def takes_errors_at(self, symbol: str, line: int) -> bool:
        """Return whether the `try` that begins at a line takes the errors of requests inside it."""
        subject = self.code.subject(symbol)
        return subject is not None and any(
            self._swallows(subject, s) for s in subject.statements if s[0] == "try" and line_of(s) == line
        )

    def is_swallowed(self, symbol: str, line: int | None, depth: int = 0) -> bool:
        """Return whether an error of the code at a line never leaves its function.

        Args:
            symbol: The function.
            line: A line of it; None means all its calls.
            depth: Number of calls followed so far.
        """
        subject = self.code.subject(symbol)
        if subject is None or depth > MAX_HOPS:
            return False
        around = [
            s
            for s in subject.statements
            if (s[0] == "try" or (s[0] == "with" and any(is_call(e) for e, _ in items_of(s))))
            and self._swallows(subject, s)
        ]
        calls = [c for c in subject.calls if line is None or call_line(c) == line]
        lines = [line] if line is not None else sorted({call_line(c) for c in calls if self._can_fail(subject, c)})
        if not lines:
            return False
        if all(any(_in_body(s, at) for s in around) for at in lines):
            return True
        fallible = [c for c in calls if self._can_fail(subject, c)]
        if fallible and all(
            keyword(c, "return_exceptions") == ("k", True) for c in fallible if last_name(c) == "gather"
        ):
            gathers = [c for c in fallible if last_name(c) == "gather"] or [
                c for c in subject.calls if last_name(c) == "gather" and call_line(c) in lines
            ]
            if gathers and all(keyword(c, "return_exceptions") == ("k", True) for c in gathers):
                return True
        own = [edge.dst for c in calls for edge in subject.inside(c)]
        beyond = [c for c in fallible if not subject.inside(c)]
        return bool(own) and not beyond and all(self.is_swallowed(t, None, depth + 1) for t in own)

    def _can_fail(self, subject: Subject, call: Expr) -> bool:
        return (
            last_name(call) == "gather"
            or (subject.reach(call).capability or "json") not in PLUMBING
            or any(edge.dst in self.code.reaching_out for edge in subject.inside(call))
        )

    def swallowing_at(self, symbol: str, line: int) -> bool:
        """Return whether a handler of the statement at a line swallows what it catches."""
        subject = self.code.subject(symbol)
        if subject is None:
            return True
        for s in subject.statements:
            if s[0] == "with" and line_of(s) == line:
                return True
            if s[0] != "try":
                continue
            # A place is the `try`, or the line of one `except`.
            starts = [_handler_line(h) for h in handlers_of(s)]
            if line_of(s) != line and line not in starts:
                continue
            chosen = [h for h, at in zip(handlers_of(s), starts, strict=True) if line_of(s) == line or at == line]
            return not all(self.raises(subject, handler_body(h)) for h in chosen)
        inner = [t for t in self.code.chain(symbol)[1:] if (_found := self.code.subject(t)) is not None]
        tries = [(t, s) for t in inner for s in self.code.subject(t).statements if s[0] == "try"]  # type: ignore[union-attr]
        if not tries:
            return True
        return not all(
            self.raises(self.code.subject(t), handler_body(h))  # type: ignore[arg-type]
            for t, s in tries
            for h in handlers_of(s)
        )


def _handler_line(handler: Stmt) -> int:
    """Return the line of an `except`."""
    return int(handler[0])


def _is_of_values(kinds: Iterable[Expr]) -> bool:
    return {last_name(kind) for kind in kinds} <= _OF_VALUES


def _in_body(s: Stmt, line: int) -> bool:
    """Return whether a line lies in the protected block of a `try` or `with`."""
    body = body_of(s)
    last = min((_handler_line(h) for h in handlers_of(s)), default=end_of(s)) - 1 if s[0] == "try" else end_of(s)
    return bool(body) and line_of(body[0]) <= line <= max(last, line_of(body[0]))
