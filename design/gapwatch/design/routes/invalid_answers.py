"""Finds where a function that reads the answer of a model gives nothing back, because the answer has not the form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import arguments_of, constants_in, names_in, target_names, unwrapped, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.check_steps import made_by
from gapwatch.design.routes.checks import failed_names
from gapwatch.design.routes.forms import SENTENCE
from gapwatch.design.routes.reaches import reaches
from gapwatch.design.routes.ways import flowing_calls
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    branches_of,
    call_line,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    keywords_of,
    line_of,
    members_in,
    operators_of,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

_READS = re.compile(r"^_*(validate|parse|extract|decode|interpret)(_|$)")
_OF_MODEL = re.compile(r"^(llm|model|ai|gpt|chat)_\w+$|(^|_)(completion|response|reply|generation)(_(text|content))?$")
#: What a line of a stream of events begins with.
_OF_EVENTS = re.compile(r"^(data|event|id|retry):")
#: A word that a prompt asks for where there is nothing to say.
_AGREED = re.compile(r"^(NO|NONE|NOT|NOTHING|N/A|UNSUPPORTED|UNKNOWN|SKIP|EMPTY)([_ ][A-Z_ ]+)?\W*$")
#: Callers that are read for where a text comes from.
_MOST = 6


def invalid_answers(subject: Subject) -> Iterator[tuple[Expr, int]]:
    """Yield (value, line) where a reader of a model's answers gives nothing back for a form that it cannot read.

    So does a function that asks a model, where what it has read of the answer is missing.
    """
    yield from _of_read(subject)
    if not _READS.search(subject.ir.name) or all(e[0] == "k" or _is_empty(e) for e in subject.returned):
        return
    given = [p.name for p in subject.ir.params if p.name not in ("self", "cls")]
    if not given or not _is_of_model(subject, given[0]):
        return
    if _is_plain_text_good(subject):
        return
    handled = {id(x) for s in subject.statements if s[0] == "try" for h in handlers_of(s) for x in _inside(h)}
    names = made_of(subject, given[0])
    branches = [one for s in subject.statements if s[0] == "if" for one in branches_of(s)]
    ends = [block[-1] for test, block in branches if block and names & names_in(test) and not _is_agreed(test)]
    last = subject.ir.body[-1]
    for s in (*ends, *([last] if any(x[0] in ("for", "try") for x in subject.ir.body) else [])):
        value = (value_of(s) or ("k", None)) if s[0] == "return" else None
        if value is not None and _is_empty(value) and id(s) not in handled:
            yield value, line_of(s)


def _is_agreed(test: Expr) -> bool:
    """Return whether a test holds for a word in capitals, by which the model says on demand that it has nothing."""
    parts = list(walk(test))
    if any(
        (e[0] == "!" and constants_in(e)) or (e[0] == "q" and not set(operators_of(e)) <= {"==", "in"}) for e in parts
    ):
        return False
    compared = [e for e in parts if e[0] == "q" or (is_call(e) and last_name(e) in ("startswith", "endswith"))]
    return any(_AGREED.search(text) for e in compared for text in constants_in(e))


def reads_event_line(subject: Subject) -> bool:
    """Return whether a function reads one line of a stream of events; lines without data are the normal course."""
    if any(s[0] in ("for", "while") for s in subject.statements):
        return False
    tests = [c for c in subject.calls if last_name(c) in ("startswith", "removeprefix")]
    return any(_OF_EVENTS.search(text) for c in tests for a in arguments_of(c) for text in constants_in(a))


def _of_read(subject: Subject) -> Iterator[tuple[Expr, int]]:
    """Yield (value, line) of what is given back where an own function has read nothing of what a model said."""
    before: list[Stmt] = []
    for s in subject.statements:
        test, block = branches_of(s)[0] if s[0] == "if" else (("k", None), ())
        value = value_of(block[-1]) or ("k", None) if block and block[-1][0] == "return" else None
        if value is not None and _is_empty(value):
            for _, made in made_by(before, failed_names(test), s):
                call = unwrapped(made)
                if call is not None and is_call(call) and _reads_answer(subject, before, call):
                    yield value, line_of(block[-1])
        before.append(s)


def _reads_answer(subject: Subject, before: list[Stmt], call: Expr) -> bool:
    """Return whether a call hands what a model said to an own function that asks none and parses it."""
    readers = [other for edge in subject.inside(call) if (other := subject.other(edge.dst)) is not None]
    if not readers or not arguments_of(call) or "llm_chat" in reaches(subject, call):
        return False
    if not any("json" in reaches(other, c) for other in readers for c in other.calls):
        return False
    text = positional_of(call)[0] if positional_of(call) else keywords_of(call)[0][1]
    return any("llm_chat" in reaches(subject, c) for c in flowing_calls(subject, before, text))


def _inside(handler: Stmt) -> Iterator[Stmt]:
    return statements(handler_body(handler))


def _is_empty(e: Expr) -> bool:
    is_nothing = e[0] == "k" and (constant_of(e) is None or constant_of(e) is False or constant_of(e) == "")
    return is_nothing or (e[0] in ("l", "d", "t") and not members_in(e))


def made_of(subject: Subject, name: str) -> set[str]:
    """Return a name, and those that the function binds to what is made of it."""
    made = {name}
    for s in subject.statements:
        value = value_of(s) if s[0] == "assign" else None
        if value is not None and made & {n.partition(".")[0] for n in names_in(value)}:
            made |= {n for t in s[2] for n in names_in(t)}
    return made


def hands_on(subject: Subject, value: Expr, text: Expr) -> bool:
    """Return whether a value is the text itself that was to be read, with no words around it."""
    if any(SENTENCE.search(words) for words in constants_in(value)):
        return False
    roots = {n.partition(".")[0] for n in names_in(text)}
    return any(made_of(subject, root) & names_in(value) for root in roots)


def _is_plain_text_good(subject: Subject) -> bool:
    """Return whether each caller takes a text without the form for an answer in words, and gives it back."""
    callers = subject.callers
    return bool(callers) and all(_gives_plain_text(subject, caller) for caller in callers)


def _gives_plain_text(subject: Subject, caller: Subject) -> bool:
    for s in caller.statements:
        call = unwrapped(value_of(s)) if s[0] == "assign" else None
        if call is None or call[0] != "c" or not any(e.dst == subject.symbol for e in caller.inside(call)):
            continue
        names = {n for t in targets_of(s) for n in target_names(t)}
        for other in caller.statements:
            test, block = branches_of(other)[0] if other[0] == "if" else (None, ())
            if test is None or not names & failed_names(test):
                continue
            given = [value for x in statements(block) if x[0] == "return" and (value := value_of(x)) is not None]
            if any(hands_on(caller, value, argument) for value in given for argument in arguments_of(call)):
                return True
    return False


def _is_of_model(subject: Subject, name: str) -> bool:
    """Return whether the first parameter of a function is a text that a model wrote, by its name or its callers."""
    if _OF_MODEL.search(name):
        return True
    for edge in subject.sites.callers[subject.symbol][:_MOST]:
        caller, lines = subject.other(edge.src), {line for _, line in edge.sites}
        for call in caller.calls if caller is not None else ():
            if caller is None or call_line(call) not in lines or not arguments_of(call):
                continue
            if not any(e.dst == subject.symbol for e in caller.inside(call)):
                continue
            text = positional_of(call)[0] if positional_of(call) else keywords_of(call)[0][1]
            if any("llm_chat" in reaches(caller, c) for c in flowing_calls(caller, caller.statements, text)):
                return True
    return False
