"""Says why the second way to an answer is the normal course, or is hardly ever taken."""

from __future__ import annotations

import re

from gapwatch.design.metrics.outside.unset_settings import taken_where_unset
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.metrics.rules.harmless_calls import only_makes_stream
from gapwatch.design.metrics.rules.parsed_texts import reads_the_same_text
from gapwatch.design.patterns.code_walk import calls_in, kinds_of
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import body_of, end_of, handler_body, handlers_of, is_call, line_of, value_of
from gapwatch.design.source.program import last_name

#: Calls that keep what they are given, and exceptions of what is not kept yet.
_KEEPS = re.compile(r"(persist|save|write|dump|store|put|upload|create|add|insert|mkdir|makedirs)(_|$)")
_NOT_STORED = re.compile(r"^FileNotFoundError$|DoesNotExist|NoSuch|^KeyError$")


def why_no_second_way(symbol: str, place: CodePlace, view: CodeView) -> str | None:
    """Return why a second way says nothing of a failure of the first; None where it does."""
    if reads_the_same_text(view.code, symbol, place):
        return "both arms read the same text, the second without characters that say nothing"
    if (why := taken_where_unset(view.code, symbol, place)) is not None:
        return why
    if _makes_missing(symbol, place, view):
        return "it makes and keeps what is not there yet, which a first request finds by right"
    if _says_in_one_form(symbol, place, view):
        return "what is good and what is not are put into the same form, and nothing is tried instead"
    return _first_way_cannot_fail(symbol, place, view)


def _says_in_one_form(symbol: str, place: CodePlace, view: CodeView) -> bool:
    """Return whether the last arm is a call by which the function also gives what the first arm made."""
    subject = view.code.subject(symbol)
    routes = [r for r in view.code.material.routes if (r.path, r.line, r.symbol) == (place.path, place.line, symbol)]
    if subject is None or not routes or len(routes[0].arms) != 2 or routes[0].arms[1].by != "code":
        return False
    given = [(line_of(s), value) for s in subject.statements if s[0] == "return" and (value := value_of(s)) is not None]
    names = [last_name(value) for line, value in given if line == routes[0].arms[1].line and is_call(value)]
    return bool(names) and any(is_call(v) and last_name(v) == names[0] for n, v in given if n != routes[0].arms[1].line)


def _makes_missing(symbol: str, place: CodePlace, view: CodeView) -> bool:
    """Return whether a handler in a place makes and keeps what was not there."""
    subject = view.code.subject(symbol)
    for s in subject.statements if subject is not None else ():
        if s[0] == "try" and place.line <= line_of(s) <= max(place.end, place.line):
            for h in handlers_of(s):
                names = [last_name(kind) for kind in kinds_of(h)]
                kept = any(_KEEPS.match(last_name(c)) for c in calls_in(handler_body(h)))
                if kept and names and all(map(_NOT_STORED.search, names)):
                    return True
    return False


def _first_way_cannot_fail(symbol: str, place: CodePlace, view: CodeView) -> str | None:
    """Return why a second way that a handler takes is never needed: nothing outside fails where the first is tried."""
    subject = view.code.subject(symbol)
    for s in subject.statements if subject is not None else ():
        if subject is None or s[0] != "try" or line_of(s) != place.line or end_of(s) > place.end:
            continue
        tried = list(calls_in(body_of(s)))
        hits = view.hits_at("parses_json", symbol, place)
        if not tried or any(place.line <= h.line <= place.end for h in hits):
            continue
        failing = [c for c in tried if view.errors.may_leave(subject, c)]
        if not failing:
            return "the first way asks nothing outside the process, so that the second is hardly ever needed"
        if all(only_makes_stream(subject, c, body_of(s)) for c in failing):
            return "the first way only makes a generator, whose errors come where it is read, after the handler"
    return None
