"""Errors inside a function: which of them leave it, and which a handler takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapwatch.design.architecture.claimed_code import MAX_HOPS, PLUMBING, ClaimedCode
from gapwatch.design.metrics.outside.exception_kinds import (
    ENDS,
    IS_ERROR,
    LEFT,
    OF_VALUES,
    REFUSES,
    is_for_missing,
    is_of_values,
    is_refusal,
    raised,
    tells_apart_by_text,
)
from gapwatch.design.metrics.rules.harmless_calls import handed_functions, is_end, only_makes_stream, stays_in_process
from gapwatch.design.metrics.rules.parsed_texts import reads_answer
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    calls_in,
    calls_of,
    keyword,
    kinds_of,
    names_in,
    own_expressions,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    items_of,
    line_of,
    operators_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Calls that look something up by its name, and those that make it.
_READS = re.compile(r"(get|read|head|describe|fetch|retrieve|find|load)(_|$)")
_MAKES = re.compile(r"(create|make|mkdir|makedirs|init|put|new)(_|$)")
#: Functions of libraries that turn an exception which they are given into another one.
_RERAISES = re.compile(r"_*(re_?raise|raise_(?!for_status)\w+|handle_(\w+_)?(bad_request|api_error|invalid_request))$")
_WRONG_VALUES = "it takes wrong values, missing entries and ends, which no service causes"


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
            if not targets and _RERAISES.match(last_name(call)):
                return True
            return bool(targets) and all(self.always_raises(t, depth + 1) for t in targets)
        if last[0] == "if":
            return all(self.raises(subject, b, depth) for b in (*(b for _, b in branches_of(last)), last[3]))
        return last[0] == "with" and self.raises(subject, body_of(last), depth)

    def swallows(self, subject: Subject, s: Stmt) -> bool:
        """Return whether a `try` or `with` takes the errors of requests inside it."""
        if s[0] == "with":
            return any(
                is_call(e) and last_name(e) == "suppress" and not is_of_values(list(e[2])) for e, _ in items_of(s)
            )
        for handler in handlers_of(s):
            kinds = kinds_of(handler)
            body = handler_body(handler)
            if (kinds and is_of_values(kinds)) or self.raises(subject, body):
                continue
            if any(inner[0] == "raise" for inner in statements(body)) and not _raises_one_kind(handler):
                continue
            gives = any(inner[0] == "return" for inner in statements(body)) or subject.ir.is_generator
            # Without a result of its own the handler goes on, to a `raise` after the last attempt.
            if gives or not any(o[0] == "raise" and line_of(o) > end_of(s) for o in subject.statements):
                return True
        return False

    def takes_all_at(self, symbol: str, line: int) -> bool:
        """Return whether no handler of the `try` that begins at a line raises, or one takes errors of requests."""
        subject = self.code.subject(symbol)
        return subject is not None and any(
            self.swallows(subject, s)
            or not any(x[0] == "raise" for h in handlers_of(s) for x in statements(handler_body(h)))
            for s in subject.statements
            if s[0] == "try" and line_of(s) == line
        )

    def passes_on_values(self, symbol: str, line: int) -> bool:
        """Return whether the `try` that begins at a line passes on wrong values alone: input, names, forms of texts.

        It may also turn what it takes into the refusal of a request.
        """
        subject = self.code.subject(symbol)
        for s in subject.statements if subject is not None else ():
            if s[0] == "try" and line_of(s) == line:
                raising = [h for h in handlers_of(s) if self.raises(subject, handler_body(h))]  # type: ignore[arg-type]
                return bool(raising) and all(
                    (kinds_of(h) and is_of_values(kinds_of(h))) or self.refuses(subject, s, h)  # type: ignore[arg-type]
                    for h in raising
                )
        return False

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
            and self.swallows(subject, s)
        ]
        calls = [c for c in subject.calls if line is None or call_line(c) == line]
        lines = [line] if line is not None else sorted({call_line(c) for c in calls if self._can_fail(subject, c)})
        if not lines:
            return False
        if all(any(in_body(s, at) for s in around) for at in lines):
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

    def why_normal(self, symbol: str, line: int) -> str | None:
        """Return why the handlers at a line take the normal course of the work; None where they take errors."""
        subject = self.code.subject(symbol)
        if subject is None:
            return None
        for s in subject.statements:
            if s[0] == "try" and line in (line_of(s), *(_handler_line(h) for h in handlers_of(s))):
                return self._why_normal(subject, s)
            if s[0] == "with" and line_of(s) == line:
                return None if self.swallows(subject, s) else _WRONG_VALUES
        inner = [t for t in self.code.chain(symbol)[1:] if self.code.subject(t) is not None]
        tries = [(one, s) for t in inner if (one := self.code.subject(t)) for s in one.statements if s[0] == "try"]
        reasons = [self._why_normal(one, s) for one, s in tries]
        return reasons[0] if reasons and all(reasons) else None

    def _why_normal(self, subject: Subject, s: Stmt) -> str | None:
        takes = [h for h in handlers_of(s) if not self.raises(subject, handler_body(h))]
        refusing = [h for h in takes if self.refuses(subject, s, h)]
        takes = [h for h in takes if h not in refusing]
        if refusing and not takes:
            return "it refuses what the request asks for, and says so to whoever sent it"
        kinds = [kind for h in takes for kind in kinds_of(h)]
        names = {last_name(kind) for kind in kinds}
        for name in sorted(names):
            if ENDS.match(name) or self._directs(subject, name):
                return f"{name} ends or directs the work and is no error"
        if names and names <= {"KeyboardInterrupt", "SystemExit", "EOFError"}:
            return "a person or the system ends the program, which is no error"
        if any(x[0] in ("import", "from") for x in body_of(s)[:1]) and any(
            x[0] in ("import", "from") for h in takes for x in handler_body(h)
        ):
            return "it goes on without an optional package"
        if takes and all(is_for_missing(h) for h in takes):
            return "it takes what is not there, which a first request finds by right"
        if takes and all(map(tells_apart_by_text, takes)):
            return "it passes one error over by its words, and does something else about all others"
        if takes and reads_answer(self.code, subject, body_of(s)):
            return None
        if kinds and all(kinds_of(h) for h in takes):
            if all(map(LEFT.search, names)):
                return "whoever was answered has left before the end"
            if is_of_values(kinds):
                return _WRONG_VALUES
            asks = {last_name(c) for x in statements(body_of(s)) for e in own_expressions(x) for c in calls_of(e)}
            if names <= OF_VALUES | {"RuntimeError"} and asks & {"get_running_loop", "get_event_loop"}:
                return "it asks whether a loop of events runs"
        calls = [c for x in statements(body_of(s)) for e in own_expressions(x) for c in calls_of(e)]
        calls = [c for c in calls if not only_makes_stream(subject, c, body_of(s))]
        leaving = [last_name(c) for c in calls if self.may_leave(subject, c) or self.checks_outcome(subject, c)]
        instead = [
            c for h in takes for x in statements(handler_body(h)) for e in own_expressions(x) for c in calls_of(e)
        ]
        if leaving and all(map(_READS.match, leaving)) and any(_MAKES.match(last_name(c)) for c in instead):
            return "it makes what is not there yet"
        if not leaving:
            return "nothing that it protects leaves the process or the files of the machine"
        return None

    def refuses(self, subject: Subject, s: Stmt, handler: Stmt) -> bool:
        """Return whether a handler answers that the request is at fault: by a status of 400 to 499, or an exception.

        One that takes every error of a model's or a service's call says so of failures, too.
        """
        names = {last_name(kind) for kind in kinds_of(handler)}
        if not names or names & {"Exception", "BaseException"}:
            models = self.code.reaching(frozenset({"llm_chat"}))
            for call in calls_in(body_of(s)):
                if subject.reach(call).capability == "llm_chat" or any(e.dst in models for e in subject.inside(call)):
                    return False
        body = list(statements(handler_body(handler)))
        if any(REFUSES.search(raised(x)) for x in body if x[0] == "raise"):
            return True
        given = [value for x in body if x[0] in ("raise", "return") and (value := value_of(x)) is not None]
        return bool(given) and all(self._is_refusal(subject, value) for value in given)

    def _is_refusal(self, subject: Subject, value: Expr) -> bool:
        """Return whether a value holds a status of 400 to 499, or what an own function makes does: `forbidden(...)`."""
        if any(is_refusal(e) for e in walk(value)):
            return True
        made = [self.code.subject(edge.dst) for c in calls_of(value) for edge in subject.inside(c)]
        given = [e for one in made if one is not None for e in one.returned]
        return bool(given) and all(any(is_refusal(e) for e in walk(one)) for one in given)

    def _directs(self, subject: Subject, name: str) -> bool:
        """Return whether an exception of the repository, or one that it derives from, is no error by its name."""
        pending = [cls for cls in subject.program.classes if cls.ir.name == name]
        for cls in pending:
            if not IS_ERROR.search(cls.ir.name):
                return True
            bases = [subject.program.classes[base] for base in cls.bases]
            pending += [base for base in bases if base not in pending]
        return False

    def may_leave(self, subject: Subject, call: Expr, depth: int = 0) -> bool:
        """Return whether a call may fail for a reason outside the process; a call of an unknown library may.

        Args:
            subject: Function that holds the call.
            call: The call.
            depth: Number of calls followed so far.
        """
        if is_end(call):
            return False
        reach = subject.reach(call)
        if reach.capability is not None and reach.capability not in PLUMBING:
            return True
        targets = [edge.dst for edge in subject.inside(call)] or handed_functions(subject, call)
        if targets:
            if any(t in self.code.reaching_out for t in targets):
                return True
            inner = [one for t in targets if (one := self.code.subject(t)) is not None and depth < MAX_HOPS]
            return any(self.may_leave(one, c, depth + 1) for one in inner for c in one.calls)
        return not stays_in_process(subject, call)

    def checks_outcome(self, subject: Subject, call: Expr) -> bool:
        """Return whether a call hands what came from outside to an own function that raises where it is not well."""
        targets = [other for edge in subject.inside(call) if (other := self.code.subject(edge.dst)) is not None]
        if not any(s[0] == "raise" for other in targets for s in other.statements):
            return False
        given = {name for argument in arguments_of(call) for name in names_in(argument)}
        return bool(given & self.code.names_brought(subject, None))

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


def _raises_one_kind(handler: Stmt) -> bool:
    """Return whether a handler raises only where what it takes is of one kind, and swallows the others.

    `if "timeout" in str(error): raise TimeoutError(...)`; a last attempt that raises is another thing.
    """
    raising = [s for s in handler_body(handler) if any(x[0] == "raise" for x in statements((s,)))]
    return all(
        s[0] == "if" and not s[3] and all(_is_of_one_kind(test, handler[2]) for test, _ in branches_of(s))
        for s in raising
    )


def _is_of_one_kind(test: Expr, name: str | None) -> bool:
    """Return whether a test holds where an exception is of a kind, by its class or its text."""
    if name not in {n.partition(".")[0] for n in names_in(test)}:
        return False
    return (is_call(test) and last_name(test) == "isinstance") or (
        test[0] == "q" and set(operators_of(test)) <= {"in", "=="}
    )


def in_body(s: Stmt, line: int) -> bool:
    """Return whether a line lies in the protected block of a `try` or `with`."""
    body = body_of(s)
    last = min((_handler_line(h) for h in handlers_of(s)), default=end_of(s)) - 1 if s[0] == "try" else end_of(s)
    return bool(body) and line_of(body[0]) <= line <= max(last, line_of(body[0]))
