"""Exceptions by their names and handlers: wrong values, refusals of a request, what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gapwatch.design.patterns.code_walk import calls_in, kinds_of, walk
from gapwatch.design.source.ir import Expr, Stmt, branches_of, handler_body, is_call, is_text, value_of
from gapwatch.design.source.program import last_name, statements

#: Exceptions of wrong values and missing parts; a handler of these alone lets the errors of a request pass.
OF_VALUES = frozenset(
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
        "GeneratorExit",
        "LookupError",
        "AssertionError",
        "NotImplementedError",
        "ZeroDivisionError",
        "OverflowError",
        "Empty",
        "Full",
        "QueueEmpty",
        "QueueFull",
        "UnicodeDecodeError",
        "CancelledError",
    ]
)


#: Names of further such exceptions, of libraries and of the repository; those of requests are errors of services.
_WRONG_VALUE = re.compile(
    r"^Invalid(Token|Signature|Key|URL|Url|Schema|Format|Date|Value|Input|Json|JSON|Argument\w*)(Error|Exception)?$"
    r"|(Decode|Decoding|Validation|Syntax|Malformed\w*)(Error|Exception)$"
)
#: Exceptions by which a function refuses what it is given.
REFUSES = re.compile(
    r"^(Malformed|Invalid(?!\w*(Connection|Response|Credential|Api|State))|Unsupported|Duplicate|BadRequest|Forbidden|Unauthorized"
    r"|Unprocessable)\w*$"
    r"|(NotFound|AlreadyExists|AlreadyExist|NotAllowed|NotSupported|ValidationError|DoesNotExist)(Error|Exception|Http\w*)?$"
)
#: Words in the name of an own exception that is an error (PEP 8: it ends in `Error`); others end or direct the work.
IS_ERROR = re.compile(
    r"error|exception|fail|fault|time_?d?_?out|invalid|unavailable|exceeded|denied|refused|missing|not_?found|bad"
    r"|unknown|unsupported|exhausted|abort|reject",
    re.I,
)
#: Beginnings of the names of exceptions by which a program ends its own work.
ENDS = re.compile(r"^(Stop|Exit|Quit|Shutdown|ShutDown|Interrupt|Finish|Terminate|GracefulExit|GracefulShutdown)\w*")
#: Exceptions of a stream or channel that its reader has closed.
LEFT = re.compile(r"^((Closed|Broken)ResourceError|(WebSocket|Client)Disconnect|ConnectionClosed|BrokenPipeError)$")
#: Exceptions of what is not there.
_MISSING = re.compile(r"NotFound|DoesNotExist|NoSuch|Missing(Key|Record)", re.I)


def raised(s: Stmt) -> str:
    """Return the name of the exception that a `raise` makes, or an empty text."""
    value = value_of(s)
    return last_name(value) if value is not None and is_call(value) else ""


def is_refusal(e: Expr) -> bool:
    """Return whether an expression is a status of 400 to 499."""
    if e[0] == "k":
        return type(e[1]) is int and 400 <= e[1] < 500
    return e[0] == "a" and str(e[2]).startswith("HTTP_4")


def is_for_missing(handler: Stmt) -> bool:
    """Return whether a handler takes a missing record: by its exception, or by status 404."""
    kinds = kinds_of(handler)
    if kinds and all(_MISSING.search(last_name(kind)) for kind in kinds):
        return True
    tests = [t for s in statements(handler_body(handler)) if s[0] == "if" for t, _ in branches_of(s)]
    return any(("k", 404) in walk(test) for test in tests)


def is_of_values(kinds: Iterable[Expr]) -> bool:
    """Return whether all of some exceptions are of wrong values and missing parts."""
    return all(name in OF_VALUES or _WRONG_VALUE.search(name) for name in map(last_name, kinds))


def tells_apart_by_text(handler: Stmt) -> bool:
    """Return whether a handler passes one error over by its words, and does something else about all others."""
    body = handler_body(handler)
    last = body[-1] if body else None
    if last is None or last[0] != "if" or len(branches_of(last)) != 1 or not last[3] or not handler[2]:
        return False
    (test, known), other = branches_of(last)[0], last[3]
    reads = any(e == ("n", handler[2]) for e in walk(test)) and any(is_text(e) for e in walk(test))
    passes = [all(s[0] in ("pass", "continue") for s in block) for block in (known, other)]
    rest = other if passes[0] else known
    return reads and passes.count(True) == 1 and any(s[0] == "raise" or any(calls_in((s,))) for s in rest)
