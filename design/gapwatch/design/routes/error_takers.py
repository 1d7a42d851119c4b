"""Tells of a `try` what its handlers make of errors: whose fault they are, and whether a run goes on."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from http import HTTPStatus

from gapwatch.design.patterns.code_walk import calls_in, kinds_of, names_in, own_expressions, tags_in, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    constant_of,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    is_name,
    keywords_of,
    line_of,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Exceptions that become the status of a response.
_STATUS = frozenset({"HTTPException", "HttpError", "APIException", "abort", "WebSocketException"})
_BROAD = frozenset({"Exception", "BaseException"})
#: Exceptions that say of a request that it is at fault.
_OF_REQUESTS = re.compile(
    r"NotFound|DoesNotExist|Unknown|Invalid|BadRequest|Validation|Auth|Permission|Forbidden|Missing|A2A|Rpc|Protocol"
    r"|JSONDecodeError|^(Value|Key|Type)Error$"
)
#: Exceptions of models, services and networks: what they tell is no fault of the request.
_OF_SERVICES = re.compile(
    r"^(API(Status|Connection|Timeout|Response)?Error|RateLimit\w*|OpenAIError|AnthropicError|ClientError|BotoCoreError"
    r"|ServiceUnavailable\w*|ResourceExhausted|GraphRecursionError|HttpResponseError|HTTPStatusError|RequestException"
    r"|ConnectionError|ConnectError|TimeoutError|Timeout|\w*APIError)$"
)
#: Calls that begin a task.
BEGINS = frozenset({"create_task", "ensure_future"})
#: Calls that read what a request says.
_READS_REQUEST = re.compile(
    r"^(get_json|json|loads|form|body|get|model_validate\w*|parse_obj|receive\w*|decode|int|float|str|UUID|strip|lower)$"
)


def protects_line(s: Stmt, line: int) -> bool:
    """Return whether a line lies in what a `try` protects."""
    first = min((int(h[0]) for h in handlers_of(s)), default=end_of(s) + 1)
    return line_of(s) <= line < first


def handles_line(s: Stmt, line: int) -> bool:
    """Return whether a line lies in a handler of a `try`."""
    return any(int(h[0]) <= line <= int(h[-1]) for h in handlers_of(s))


def takes_all_errors(s: Stmt) -> bool:
    """Return whether a `try` lets no error out."""
    return any(is_broad_handler(h) and not tags_in(handler_body(h), "raise") for h in handlers_of(s))


def takes_faults(s: Stmt, line: int) -> bool:
    """Return whether the handler around a line takes errors alone that say of a request that it is at fault."""
    taking = [h for h in handlers_of(s) if int(h[0]) <= line <= int(h[-1])]
    names = [last_name(kind) for h in taking for kind in kinds_of(h)]
    return bool(names) and all(map(_OF_REQUESTS.search, names))


def does_more_than_read(s: Stmt) -> bool:
    """Return whether a `try` protects more than reading what a request says."""
    names = [last_name(c) for c in calls_in(body_of(s))]
    return not names or not all(map(_READS_REQUEST.search, names))


def raises_status(s: Stmt) -> bool:
    """Return whether a handler of a `try` makes a status of any error, and not one that refuses the request."""
    bodies = [handler_body(h) for h in handlers_of(s) if is_broad_handler(h)]
    return any(raises_any_status(body) and not refusal_line(body) for body in bodies)


def refusal_line(body: tuple[Stmt, ...]) -> int:
    """Return the line at which a handler ends in a status of 400 to 499 for any error; 0 for none."""
    value = value_of(body[-1]) if body and body[-1][0] == "raise" else None
    if value is None or not is_call(value) or last_name(value) not in _STATUS:
        return 0
    given = [*positional_of(value)[:1], *(v for k, v in keywords_of(value) if k == "status_code")]
    return line_of(body[-1]) if any(_is_refusal([e]) for e in given) else 0


def raises_own_status(s: Stmt) -> bool:
    """Return whether what a `try` protects refuses a request by a status of its own."""
    return raises_any_status(body_of(s))


def raises_any_status(body: tuple[Stmt, ...]) -> bool:
    """Return whether some lines raise a status: an exception of theirs may say that a request is at fault."""
    raised = (value_of(s) for s in statements(body) if s[0] == "raise")
    return any(value is not None and last_name(value) in _STATUS for value in raised)


def is_broad_handler(handler: Stmt) -> bool:
    """Return whether a handler takes errors of any kind."""
    names = {last_name(one) for one in kinds_of(handler)}
    return not names or bool(names & _BROAD)


def is_of_service(handler: Stmt, own_classes: Collection[str]) -> bool:
    """Return whether a handler takes errors of models, services or networks.

    Args:
        handler: The handler.
        own_classes: Names of the program's classes: an exception of its own says what it likes.
    """
    names = {last_name(one) for one in kinds_of(handler)} - set(own_classes)
    return any(map(_OF_SERVICES.search, names))


def awaited_names(s: Stmt) -> set[str]:
    """Return the names that a statement waits for."""
    waits = [e for whole in own_expressions(s) for e in walk(whole) if e[0] == "w"]
    return {name for e in waits for name in names_in(e)}


def left_tasks(body: tuple[Stmt, ...]) -> list[Expr]:
    """Return the calls of coroutines that a function begins as tasks and neither waits for nor hands back."""
    out: list[tuple[set[str], Expr]] = []
    kept: set[str] = set()
    for s in statements(body):
        value = value_of(s) if s[0] == "assign" else s[2] if s[0] == "expr" else None
        if value is not None and is_call(value) and last_name(value) in BEGINS:
            names = {n for t in targets_of(s) for n in names_in(t)} if s[0] == "assign" else set()
            out += [(names, one) for one in positional_of(value)[:1] if is_call(one)]
        else:
            kept |= {
                n
                for e in own_expressions(s)
                if s[0] == "return" or any(x[0] == "w" for x in walk(e))
                for n in names_in(e)
            }
    return [call for names, call in out if not names & kept]


def says_the_end(s: Stmt) -> bool:
    """Return whether a statement sends a mark at the end of a stream, which says nothing of what came before."""
    return s[0] == "expr" and s[2][0] == "y" and not names_in(s[2])


def refused_exceptions(subjects: Sequence[Subject]) -> set[str]:
    """Return the names of the exceptions that a program answers with a status of 400 to 499 wherever they arise.

    It registers a function for them: `app.add_exception_handler(Missing, handler)`, `@app.exception_handler(Missing)`.
    """
    out: set[str] = set()
    made = {s.ir.name: s.ir.body for s in subjects}
    for subject in subjects:
        for call in subject.calls:
            given = positional_of(call)
            if last_name(call) in ("add_exception_handler", "register_error_handler") and len(given) > 1:
                handler = made.get(last_name(given[1]), ()) if is_name(given[1]) or given[1][0] == "a" else ()
                if _is_refusal([given[1], *_within(handler)]):
                    out.add(last_name(given[0]))
        for decorator in subject.ir.decorators:
            is_handler = is_call(decorator) and last_name(decorator) in ("exception_handler", "errorhandler")
            given = positional_of(decorator) if is_handler else ()
            if given and _is_refusal(_within(subject.ir.body)):
                out.add(last_name(given[0]))
    return {name for name in out - {"", "Exception", "BaseException"} if name[:1].isupper()}


def _within(body: tuple[Stmt, ...]) -> list[Expr]:
    return [e for s in statements(body) for e in own_expressions(s)]


def _is_refusal(found: list[Expr]) -> bool:
    """Return whether some expressions name statuses of 400 to 499 and none above."""
    codes: set[int] = set()
    for e in (inner for one in found for inner in walk(one)):
        if e[0] == "k" and type(constant_of(e)) is int:
            codes.add(constant_of(e))
        elif e[0] == "a" and (named := re.match(r"HTTP_(\d{3})_|", str(e[2]))) and named.group(1):
            codes.add(int(named.group(1)))
        elif e[0] == "a" and last_name(e) in HTTPStatus.__members__:
            codes.add(HTTPStatus[last_name(e)].value)
    statuses = {code for code in codes if 400 <= code < 600}
    return bool(statuses) and max(statuses) < 500
