"""Finds where a search or a request that finds nothing says so in the text that it gives back."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import text_of, unwrapped
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.forms import WRAPS
from gapwatch.design.routes.reaches import reaches
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    branches_of,
    call_line,
    callee_of,
    handlers_of,
    is_call,
    is_text,
    keywords_of,
    line_of,
    members_in,
    operands_of,
    pairs_in,
    positional_of,
    targets_of,
    text_parts,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name

#: Texts that begin by saying that there is nothing of what was asked for.
_NOTHING = re.compile(
    r"^\W*(sorry\W+)?(((there|we) (is|are|was|were|have) )?(no|nothing)\b[^.:;,]{0,60}"
    r"\b(found|available|match(es|ed|ing)?|returned|retrieved|results)\b"
    r"|NO_(DATA|RESULTS?|MATCH(ES)?|DOCUMENTS?|RECORDS?|ROWS)\b|NO_(DATA|RESULTS?)_\w+"
    r"|((i|we) )?(could not|couldn'?t|can ?not|can'?t|did not|didn'?t|unable to) (find|retrieve|locate) "
    r"(any|anything|relevant|matching|information)\b)",
    re.I,
)
#: What has to be set up, or is listed and not searched.
_SET_UP = re.compile(
    r"\b(keys?|tokens?|credentials?|config\w*|settings?|models?|providers?|plugins?|tools?|sessions?|plans?|devices?"
    r"|users?|accounts?|description|title|abstract|content|provided|given|specified|selected|configured|longer|more)\b",
    re.I,
)
#: Names of functions that list, show or look after what there is.
_LISTS = re.compile(r"^_*(list|print|show|display|check|validate|delete|remove|clear|count|has|is)(_|$)")
#: Names of functions that put a text into the form of an answer.
_SAYS = re.compile(r"stream|text|respon[ds]|answer|reply|str(ing)?s?(_|$)", re.I)
#: Capabilities of calls that look for what was asked for.
_SEARCHES = frozenset({"retrieval", "rerank", "web_search", "http", "saas"})
#: Fields of an answer that hold its text.
_TEXTS = frozenset({"output", "content", "text", "message", "result", "results", "answer", "note", "response", "data"})


def nothing_found(subject: Subject) -> Iterator[tuple[Expr, int]]:
    """Yield (value, line) where a function that searches gives a text back that says that nothing was found."""
    if _LISTS.search(subject.ir.name):
        return
    told = [(v, at) for v, at in _given(subject, subject.ir.body, False) if any(map(_says_nothing, _texts_of(v)))]
    if told:
        lines = [call_line(c) for c in subject.calls if not reaches(subject, c).isdisjoint(_SEARCHES)]
        yield from ((value, line) for value, line in told if any(at < line for at in lines))


def _says_nothing(text: str) -> bool:
    found = _NOTHING.search(text)
    return found is not None and not _SET_UP.search(found[0])


def _given(subject: Subject, body: Body, is_checked: bool) -> Iterator[tuple[Expr, int]]:
    """Yield (value, line) of what the branches of checks give back, bind to an answer or put into one."""
    returned = {text_of(e) for e in subject.returned}
    for i, s in enumerate(body):
        after_check = is_checked or any(x[0] in ("if", "for") for x in body[:i])
        value = value_of(s) if s[0] == "return" and after_check else None
        if s[0] == "assign" and is_checked and returned & {text_of(t) for t in targets_of(s)}:
            value = value_of(s)
        if value is not None:
            yield value, line_of(s)
        for inner in _inside(s):
            yield from _given(subject, inner, is_checked or s[0] == "if")


def _inside(s: Stmt) -> Iterator[Body]:
    """Yield the blocks of a statement; those of handlers tell of errors."""
    if s[0] == "if":
        yield from (*(block for _, block in branches_of(s)), s[3])
    elif s[0] == "try":
        handled = {id(h[3]) for h in handlers_of(s)}
        yield from (b for b in inner_bodies(s) if id(b) not in handled)
    else:
        yield from inner_bodies(s)


def _texts_of(value: Expr) -> Iterator[str]:
    """Yield the texts with which a value, or what it only wraps, begins."""
    e = unwrapped(value) or value
    if is_text(e):
        yield e[1]
    elif e[0] == "f":
        first = next(iter(text_parts(e)), None)
        if isinstance(first, str):
            yield first
    elif e[0] == "o":
        yield from _texts_of(operands_of(e)[0])
    elif e[0] in ("l", "t"):
        for member in members_in(e):
            yield from _texts_of(member)
    elif e[0] == "d":
        for key, field in pairs_in(e):
            if key is not None and key[1] in _TEXTS:
                yield from _texts_of(field)
    elif is_call(e) and (last_name(e) in WRAPS or last_name(e).lstrip("_")[:1].isupper()):
        for argument in (*positional_of(e), *(v for n, v in keywords_of(e) if n in _TEXTS)):
            yield from _texts_of(argument)
        if callee_of(e)[0] == "a":
            yield from _texts_of(callee_of(e)[1])
    elif is_call(e) and _SAYS.search(last_name(e)) and positional_of(e) and is_text(positional_of(e)[0]):
        # `return streamed("No results found")`
        yield positional_of(e)[0][1]
