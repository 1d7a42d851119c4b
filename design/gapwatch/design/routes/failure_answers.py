"""Finds failures that are given back as answers: error text, a sentinel, nothing, a default for an invalid value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    calls_in,
    calls_of,
    constants_in,
    kinds_of,
    leaves,
    names_in,
    own_expressions,
    tags_in,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.routes.apologies import apologies
from gapwatch.design.routes.check_steps import made_by, only_decides
from gapwatch.design.routes.checks import failed_names, good_names
from gapwatch.design.routes.forms import ERROR_NAME, SENTENCE, STATUS_FIELDS, Forms
from gapwatch.design.routes.given_back import is_argument, lacks_a_part
from gapwatch.design.routes.invalid_answers import hands_on, invalid_answers, reads_event_line
from gapwatch.design.routes.normal_ends import NormalEnds
from gapwatch.design.routes.nothing_found import nothing_found
from gapwatch.design.routes.reaches import SOURCES, WORK, answer_fields, reaches
from gapwatch.design.routes.refusals import says_status
from gapwatch.design.routes.ways import best_call, flowing_calls, sent_by
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    callee_of,
    caught_by,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    is_text,
    line_of,
    members_in,
    operands_of,
    operators_of,
    pairs_in,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name, statements

#: Exceptions that are no failure of an answer; a guard's tripwire refuses a message, as it should.
_ASIDE = re.compile(
    r"ImportError|ModuleNotFoundError|PackageNotFound|KeyboardInterrupt|CancelledError|StopIteration|StopAsync|Tripwire"
)
#: Methods of a log that tell of a failure.
_TELLS = frozenset({"error", "exception", "critical"})
_KINDS = {"error": "error text", "empty": "empty", "text": "fixed text", "given": "argument"}


def find_failure_answers(subject: Subject) -> Iterator[PatternHit]:
    """Yield the lines at which a function gives a failure back as if it were an answer; status 400 and more is none."""
    if subject.ir.kind == "module" or _is_aside(subject) or reads_event_line(subject):
        return
    # A block on the line of its condition is no line of its own.
    handlers = [h for s in subject.statements if s[0] == "try" for h in handlers_of(s)]
    handled = {line_of(x) for h in handlers for x in statements(handler_body(h))}
    seen = {line_of(s) for s in subject.statements if s[0] in ("if", "for", "while", "with", "try")} - handled
    others = [(*one, "no right form", 0.7) for one in invalid_answers(subject)]
    found = list(nothing_found(subject))
    others += [(*one, "nothing found", 0.7) for one in found]
    others += [(*one, "fixed text", 0.7) for one in apologies(subject)]
    ends = NormalEnds(subject)
    for value, line, kind, confidence in (*_of_block(subject, subject.ir.body, []), *others):
        if line not in seen and not says_status(value) and not ends.holds(value, line, kind):
            seen.add(line)
            kind = "nothing found" if any(at == line for _, at in found) else kind
            shown = text_of(sent_by(value) or value)
            end = max((call_line(c) for c in calls_of(value)), default=line)
            yield subject.hit("returns_failure", line, end, kind, f"{kind}: {shown}", confidence)


def _is_aside(subject: Subject) -> bool:
    """Return whether a function serves no request: it starts a part of the program, or words an exception."""
    owner = subject.program.classes[subject.info.owner] if subject.info.owner >= 0 else None
    is_of_exception = owner is not None and any(
        last_name(base).endswith(("Error", "Exception")) for base in owner.ir.bases
    )
    name = subject.ir.name
    return is_of_exception or _STARTS.search(name) is not None or _OF_ERRORS.search(name) is not None


#: Value, line, kind, confidence.
_Found = tuple[Expr, int, str, float]


def _of_block(subject: Subject, body: Body, before: list[Stmt]) -> Iterator[_Found]:
    before = list(before)
    for i, s in enumerate(body):
        if s[0] == "try":
            yield from _of_handlers(subject, s, body[i + 1 :])
        elif s[0] == "if":
            yield from _of_check(subject, s, before, body[i + 1 :])
            yield from _of_invalid_value(s, body[i + 1 :])
            yield from _of_told_failure(s)
            yield from _of_words(s)
        elif (given := _given(s)) is not None and (
            (_is_surely(given, body[:i]) and _is_failure(subject, before, given)) or _is_flagged(subject, given)
        ):
            yield given, line_of(s), "error text", 0.8
        elif (mark := _marked(s)) is not None and body[-1][0] != "raise":
            yield mark, line_of(s), "status", 0.8
        for inner in inner_bodies(s):
            yield from _of_block(subject, inner, before)
        before.append(s)
        before.extend(x for block in inner_bodies(s) for x in statements(block))


def _form(subject: Subject, before: Iterable[Stmt], value: Expr, caught: str = "") -> str:
    """Return the form of what is given back or sent, read through the function of the repository that makes it."""
    return Forms(before, caught, partial(answer_fields, subject)).of(sent_by(value) or value)


#: Names of functions that say whether something holds.
_SAYS_WHETHER = re.compile(r"(^|_)(is|has|can|should)_")
#: Exceptions by which a library refuses what it is given.
_REFUSES = re.compile(r"Expired|Invalid\w*(Token|Signature|Key)|Unauthorized|Forbidden|NotFound|DoesNotExist|NoSuch")
#: Texts that refuse what was given or set.
_GIVEN_WRONG = re.compile(
    r"^\W*(no \S.* (provided|given|specified|supplied|configured|set)\b|(unknown|unsupported|missing)\b)"
    r"|\b(other than|not an?|not) (accepted|supported|allowed|valid)\b",
    re.I,
)
#: Names of functions that start a part of the program.
_STARTS = re.compile(r"^_*(init|initiali[sz]e|set_?up|configure)(_|$)|^_+init__$")
#: Names of functions that word errors.
_OF_ERRORS = re.compile(r"(^|_)(errors?|exceptions?|failures?)(_|$)")
#: Names of functions that look at what they are given, and texts that say that nothing is there.
_CHECKS = re.compile(r"^_*(validate|check|verify|is|has|can|should|needs|test|probe|ping|classify|normali[sz]e)_")
_NOTHING = re.compile(r"^\W*(no|nothing|none|unable|could not|couldn't)\b|\bnot found\b", re.I)
#: Fields that say how something stands.
_STATES = frozenset({"status", "state", "outcome"})
#: Exceptions of wrong values, and of files.
_OF_INPUT = re.compile(r"(Value|Type|Key|Index|Attribute|Lookup|OS|IO|FileNotFound|JSONDecode|Unicode\w*)Error")


def _given(s: Stmt) -> Expr | None:
    """Return what a statement gives back or sends, None for nothing."""
    if s[0] == "return":
        return value_of(s) or ("k", None)
    return s[2] if s[0] == "expr" and sent_by(s[2]) is not None else None


def _of_handlers(subject: Subject, s: Stmt, after: Body) -> Iterator[_Found]:
    if not any(True for _ in calls_in(body_of(s))):
        return
    works = _does_work(subject, body_of(s))
    for handler in handlers_of(s):
        if _ASIDE.search(text_of(caught_by(handler))):
            continue
        refuses = not works and _takes_input(handler)
        body, caught = handler_body(handler), handler[2] or ""
        inside = list(statements(body))
        for x in inside:
            value = _given(x)
            if value is None or (_is_one_of(value, False) and _SAYS_WHETHER.search(subject.ir.name)):
                continue  # the answer to a question, and no failure
            is_said = _is_one_of(value, None, False) and _REFUSES.search(text_of(caught_by(handler)))
            if is_said or (refuses and (_is_one_of(value, None) or is_text(value))):
                continue  # what a person wrote is refused
            form = _form(subject, inside, value, caught)
            if form == "given" and lacks_a_part(subject, value):
                yield value, line_of(x), "empty", 0.8
            elif form in _KINDS and (form != "given" or is_argument(subject, value)):
                yield value, line_of(x), _KINDS[form], 0.9
        yield from ((value, line_of(x), "error text", 0.8) for x in inside if (value := _recorded(subject, x)))
        bound = {text_of(t) for y in statements(body_of(s)) if y[0] == "assign" for t in targets_of(y)}
        returned = {text_of(e) for e in subject.returned}
        for x in inside if body and body[-1][0] not in ("return", "raise") else ():
            value = value_of(x) if x[0] == "assign" else None
            is_plain = value is not None and (value[0] == "k" or _is_nothing(value))
            if value is None or (refuses and (_is_one_of(value, None) or is_text(value))):
                continue
            if is_plain and any(text_of(t) in bound for t in targets_of(x)):
                form = Forms(inside, caught).of(value)
                yield value, line_of(x), _KINDS.get(form, "empty"), 0.7
            is_returned = any(text_of(t) in returned for t in targets_of(x))
            if not is_plain and is_returned and _form(subject, inside, value, caught) == "error":
                yield value, line_of(x), "error text", 0.7
        # A line of a log, or what tells a span of the failure, may stand between.
        follows = next((x for x in after if x[0] != "expr"), None) if not leaves(body) else None
        if follows is not None and follows[0] == "return" and _returns(body_of(s)):
            value = value_of(follows) or ("k", None)
            form = _form(subject, [], value)
            # What the normal course gives too tells no failure.
            is_shared = (form == "given" or _is_one_of(value, True, False, "")) and not leaves(body_of(s))
            if form in ("empty", "text", "error") or (form == "given" and is_argument(subject, value)):
                yield from [] if is_shared else [(value, line_of(follows), _KINDS[form], 0.7)]
        is_refused = refuses or _REFUSES.search(text_of(caught_by(handler)))
        is_end = s is subject.ir.body[-1] and not is_refused
        if is_end and _falls_through(body) and _always_gives(body_of(s)):
            yield ("k", None), line_of(inside[-1]), "empty", 0.7


def _is_nothing(value: Expr) -> bool:
    """Return whether a value is an empty list, dictionary or set."""
    return text_of(value) in ("[]", "d()", "set()", "dict()", "list()")


def _is_surely(value: Expr, block: Body) -> bool:
    """Return whether a value is what its own block made of it, and not what only a branch or a handler did."""
    if value[0] != "n":
        return True
    return any(s[0] == "assign" and any(value[1] in target_names(t) for t in targets_of(s)) for s in block)


def _refuses(value: Expr) -> bool:
    """Return whether a text refuses what was given: nothing was tried."""
    return any(_GIVEN_WRONG.search(text) for text in constants_in(value))


def _is_failure(subject: Subject, before: list[Stmt], value: Expr) -> bool:
    """Return whether a value words a failure; a model's refusal of what a guard has blocked is the normal course."""
    if _form(subject, before, value) != "error" or _refuses(value):
        return False
    # What a model says of a failure may stand in its record.
    calls = [] if Forms(before, "").is_failed(value) else flowing_calls(subject, before, value)
    return not any(ERROR_NAME.search(last_name(c)) and "llm_chat" in reaches(subject, c) for c in calls)


def _recorded(subject: Subject, s: Stmt) -> Expr | None:
    """Return the record of a failure, with a status that says so, that a statement puts into a list of results."""
    call = s[2] if s[0] == "expr" else None
    if call is None or not is_call(call) or last_name(call) != "append" or len(positional_of(call)) != 1:
        return None
    record = positional_of(call)[0]
    has_status = record[0] == "d" and any(key is not None and key[1] in STATUS_FIELDS for key, _ in pairs_in(record))
    return record if has_status and _form(subject, [], record) == "error" else None


def _is_flagged(subject: Subject, value: Expr) -> bool:
    """Return whether a tuple holds False and words where another tuple of the function begins with True."""
    members = members_in(value) if value[0] == "t" else ()
    if len(members) < 2 or not _is_one_of(members[0], False) or _CHECKS.search(subject.ir.name) or _refuses(value):
        return False
    others = [members_in(e) for e in subject.returned if e[0] == "t"]
    is_told = any(Forms((), "").of(e) in ("text", "error") for e in members[1:])
    return is_told and any(len(e) == len(members) and _is_one_of(e[0], True) for e in others)


def _marked(s: Stmt) -> Expr | None:
    """Return the word of failure that a statement sets as the status of an object: `job.status = Status.FAILED`."""
    value = value_of(s) if s[0] == "assign" else None
    if value is None or not (is_text(value) or value[0] == "a"):
        return None
    fields = [t[2] if t[0] == "a" else text_of(t[2]).strip("'") for t in targets_of(s) if t[0] in ("a", "s")]
    return value if any(f in _STATES for f in fields) and Forms((), "").says_error(value) else None


def _of_words(s: Stmt) -> Iterator[_Found]:
    """Yield the words of failure that one branch binds to a name to which the other one binds other words."""
    for block, other in ((branches_of(s)[0][1], s[3]), (s[3], branches_of(s)[0][1])) if s[3] else ():
        for x in block:
            value = value_of(x) if x[0] == "assign" else None
            if value is None or value[0] not in "kfo" or not any(map(SENTENCE.search, constants_in(value))):
                continue
            names = {text_of(t) for t in targets_of(x)}
            said = [
                v for y in other if y[0] == "assign" and (v := value_of(y)) and names & {*map(text_of, targets_of(y))}
            ]
            if any(Forms((), "").of(v) in ("text", "given") for v in said) and Forms((), "").of(value) == "error":
                yield value, line_of(x), "error text", 0.7


def _falls_through(body: Body) -> bool:
    """Return whether a handler only tells of its failure, and goes on."""
    return bool(body) and not tags_in(body, "raise", "return", "break", "continue")


def _always_gives(body: Body) -> bool:
    """Return whether a block that ends well has given a value back, and never nothing."""
    given = [value_of(x) for x in statements(body) if x[0] == "return"]
    return leaves(body) and bool(given) and not any(value in (None, ("k", None)) for value in given)


def _returns(body: Body) -> bool:
    return any(x[0] == "return" for x in statements(body))


def _is_one_of(value: Expr, *wanted: object) -> bool:
    return value[0] == "k" and any(constant_of(value) is one or constant_of(value) == one == "" for one in wanted)


def _does_work(subject: Subject, body: Body) -> bool:
    """Return whether a block asks something outside, calls a function of the code, or parses a text."""
    for call in calls_in(body):
        reach = subject.reach(call)
        is_unknown = callee_of(call)[0] == "n" and not subject.sites.named_at(subject.symbol, call)
        if reach.capability not in (None, "tracing") or subject.inside(call) or is_unknown:
            return True
    return False


def _takes_input(handler: Stmt) -> bool:
    """Return whether a handler takes wrong values and files alone: a person's input, a setting, a default."""
    kinds = kinds_of(handler)
    return bool(kinds) and all(_OF_INPUT.fullmatch(last_name(kind)) for kind in kinds)


def _of_check(subject: Subject, s: Stmt, before: list[Stmt], after: Body) -> Iterator[_Found]:
    """Yield what is given back where the result of a call is missing or bad, or a sentence that is bound there."""
    test, body = branches_of(s)[0]
    if ("k", 404) in walk(test):
        return
    last = body[-1] if body else None
    given = _given(last) if last is not None and (last[0] != "return" or value_of(last) is not None) else None
    # What is sent before the work goes on tells how far it is.
    goes_on = last is not None and last[0] == "expr" and any(SOURCES & reaches(subject, c) for c in calls_in(after))
    bad = [(given, line_of(last))] if given is not None and last is not None and not goes_on else []
    failed = failed_names(test), [*bad, *_sentences(body, s[3])]
    for names, found in (failed, (good_names(test), [*_sentences(s[3], body), *_otherwise(s, after)])):
        for value, line in found:
            form = _form(subject, body, value)
            if form in ("text", "empty", "error") and _is_missed(subject, s, before, names, value, form):
                yield value, line, _KINDS[form], 0.7
                break


def _otherwise(s: Stmt, after: Body) -> Iterator[tuple[Expr, int]]:
    """Yield (sentence, line) of what follows a branch that gives what is good back."""
    value = value_of(after[0]) if after and after[0][0] == "return" else None
    if value is None or s[3] or len(branches_of(s)) != 1 or not _returns(branches_of(s)[0][1]):
        return
    if any(SENTENCE.search(text) and _NOTHING.search(text) for text in constants_in(value)):
        yield value, line_of(after[0])


def _sentences(block: Body, other: Body) -> Iterator[tuple[Expr, int]]:
    """Yield (sentence, line) where a block binds one to a name, and another block binds an answer to that name."""
    answers: set[str] = set()
    for x in other:
        value = value_of(x) if x[0] == "assign" else None
        if value is not None and Forms((), "").of(value) in ("call", "given"):
            answers.update(name for t in targets_of(x) for name in target_names(t))
    for x in block:
        value = value_of(x) if x[0] == "assign" else None
        if value is None or not is_text(value) or not SENTENCE.search(value[1]):
            continue
        if not answers.isdisjoint(text_of(t) for t in targets_of(x)):
            yield value, line_of(x)


def _is_missed(subject: Subject, s: Stmt, before: list[Stmt], names: set[str], value: Expr, form: str) -> bool:
    """Return whether a value stands for the result of work that a condition takes for missing."""
    for name, made in made_by(before, names, s):
        if form == "text" and any(e[0] == "s" and name in names_in(e[2]) for e in walk(value)):
            continue  # It gives what was chosen.
        call, found = best_call(subject, flowing_calls(subject, before, made))
        if form == "text" and call is not None and only_decides(subject, call):
            continue
        if form == "text" and call is not None and any(hands_on(subject, value, a) for a in arguments_of(call)):
            continue  # A text without the form is an answer in words.
        if not found.isdisjoint(WORK) and (form != "empty" or "status" in text_of(branches_of(s)[0][0])):
            return True
    return False


def _of_told_failure(s: Stmt) -> Iterator[_Found]:
    """Yield the empty value of a branch that tells of an error, and then gives it back or goes on with it."""
    for body in (*(block for _, block in branches_of(s)), s[3]):
        told = [c for x in body for e in own_expressions(x) for c in calls_of(e) if last_name(c) in _TELLS]
        for x in body if told else ():
            value = value_of(x) or ("k", None) if x[0] == "return" else value_of(x) if x[0] == "assign" else None
            if value is not None and Forms(body, "").of(value) == "empty":
                yield value, line_of(x), "empty", 0.7


def _of_invalid_value(s: Stmt, after: Body) -> Iterator[_Found]:
    """Yield the default that replaces a value which is not one of the allowed ones."""
    test, body = branches_of(s)[0]
    e = unwrapped(test) or test
    if e[0] != "q" or operators_of(e) not in (("in",), ("not in",)) or not body or not after:
        return
    name = text_of(operands_of(e)[0])
    first, second = (body[-1], after[0]) if operators_of(e) == ("in",) else (after[0], body[-1])
    if first[0] != "return" or second[0] != "return":
        return
    kept, default = value_of(first), value_of(second)
    is_default = default is not None and default[0] == "k" and constant_of(default) not in (None, True, False)
    if kept is not None and default is not None and is_default and name in names_in(kept):
        yield default, line_of(second), "default for an invalid value", 0.8
