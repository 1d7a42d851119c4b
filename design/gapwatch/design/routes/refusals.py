"""Tells what refuses a request: words, codes and statuses that say so, and tests that look at arguments alone."""

from __future__ import annotations

import re

from gapwatch.design.patterns.code_walk import arguments_of, constants_in, text_of, unwrapped, walk
from gapwatch.design.source.ir import (
    Expr,
    constant_of,
    is_call,
    is_text,
    keywords_of,
    members_in,
    operand_of,
    operands_of,
    operators_of,
    pairs_in,
)
from gapwatch.design.source.program import last_name

#: Texts that refuse a request.
_REFUSED = re.compile(
    r"\b(is|are) (required|not (installed|configured|set up))\b"
    r"|^\W*(error\W+)?invalid (request|url|input|argument|format|parameter)"
    r"|\bmust be (an?|one of)\b|\bnot connected\b",
    re.I,
)
#: Names of codes that refuse a request.
_REFUSED_CODE = re.compile(
    r"(^|\.)(INVALID|BAD)_(REQUEST|INPUT|ARGUMENT|PARAM\w*)$|_REQUIRED$|(^|\.)(UNAUTHORI[SZ]ED|FORBIDDEN)$"
)
#: What an error says of a record that is not there, or there already.
_SAYS_MISSING = re.compile(
    r"NotFound|DoesNotExist|NoSuch|not[ _]found|not exist|no such|already[ _](exist|contain)", re.I
)


def says_missing(test: Expr) -> bool:
    """Return whether a test holds where an error is of a record that is not there, or there already."""
    if any(e[0] == "!" for e in walk(test)):
        return False
    return ("k", 404) in walk(test) or any(_SAYS_MISSING.search(t) for t in (*constants_in(test), text_of(test)))


def asks_of(test: Expr, given: set[str]) -> bool:
    """Return whether a test asks only whether arguments are there, of a kind, or one of fixed values."""
    e = unwrapped(test) or test
    if e[0] == "!":
        return asks_of(operand_of(e), given)
    if e[0] == "b":
        return all(asks_of(one, given) for one in operands_of(e))
    if e[0] == "n":
        return e[1] in given
    if is_call(e):
        return last_name(e) == "isinstance" and bool(arguments_of(e)) and asks_of(arguments_of(e)[0], given)
    if e[0] != "q" or not set(operators_of(e)) <= {"is", "is not", "==", "!=", "in", "not in"}:
        return False
    first, *others = operands_of(e)
    return asks_of(first, given) and all(one[0] == "k" or text_of(one).rpartition(".")[2].isupper() for one in others)


def refuses_request(value: Expr) -> bool:
    """Return whether a value says by its words, or a code of it, that a request is at fault."""
    if any(e[0] in ("a", "n") and _REFUSED_CODE.search(text_of(e)) for e in walk(value)):
        return True
    return any(_REFUSED.search(text) for text in constants_in(value))


def says_status(value: Expr) -> bool:
    """Return whether a value tells its failure by a status of 400 and more, or by a code of 400 to 499."""
    e = unwrapped(value) or value
    if e[0] == "t" and len(members_in(e)) > 1:  # Flask: an answer and its status
        last = members_in(e)[1]
        return last[0] == "k" and type(constant_of(last)) is int and 400 <= constant_of(last) < 500
    given = dict(keywords_of(e)) if is_call(e) else {}
    status = given.get("status_code")
    if status is not None and (status[0] != "k" or (type(constant_of(status)) is int and constant_of(status) >= 400)):
        return True
    fields = {str(k[1]): v for k, v in pairs_in(e) if k is not None and is_text(k)} if e[0] == "d" else given
    codes = [fields[name] for name in ("code", "status") if name in fields]
    return any(one[0] == "k" and type(constant_of(one)) is int and 400 <= constant_of(one) < 500 for one in codes)
