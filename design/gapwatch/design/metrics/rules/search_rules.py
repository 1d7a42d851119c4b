"""Rules of the critic about searches: why a place searches nothing, or why what it finds is not counted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.metrics.searches.stored_entries import may_find_none, no_question_of, values_of_names
from gapwatch.design.patterns.code_walk import arguments_of, constants_in, names_in, unwrapped
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.outside_calls import assigned_to
from gapwatch.design.source.ir import (
    Expr,
    call_line,
    is_call,
    is_name,
    is_text,
    name_of,
)
from gapwatch.design.source.program import last_name

#: Names by which the entries of one person or conversation are chosen.
_ONES_OWN = re.compile(r"(customer|user|session|thread|conversation|account|tenant_user)_?(id|name|email)$", re.I)


def no_search(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why a place does not support a count or a duration of searches; None where it does."""
    is_of_time = metric.claim.get("field") == "latency" and metric.family == "retrieval_latency"
    is_of_words = metric.pattern == "returns_failure"  # The search says itself that it found nothing.
    if is_of_words or (metric.claim.get("field") != "attributes.retrieved_count" and not is_of_time):
        return None
    subject = view.code.subject(view.code.worker(symbol))
    if subject is None:
        return None
    at = [c for c in subject.calls if call_line(c) == place.line and subject.reach(c).capability == "retrieval"]
    if not at and not any(view.errors.may_leave(subject, call) for call in subject.calls):
        return "it chooses from what it is given and searches nothing"
    at = at or [c for c in subject.calls if subject.reach(c).capability == "retrieval"]
    if not at and not is_of_time and _gives_text(subject):
        return "its result is a text, which has no count of what was found"
    if not at and not is_of_time and not subject.returned and not subject.ir.is_generator:
        return "it gives nothing back that could be counted"
    if (why := no_question_of(subject, at)) is not None:
        return why
    if is_of_time:
        return None
    if (why := may_find_none(subject, at)) is not None:
        return why
    if "batch" in subject.ir.name or any("batch" in last_name(c) for c in (*at, *_given_by(subject))):
        return "it searches for many questions at once and gives a list for each: its count is that of the questions"
    read = {n for c in at for a in arguments_of(c) for e in (a, *values_of_names(subject, a)) for n in _words_in(e)}
    own = sorted(n for n in read if _ONES_OWN.search(n))
    return f"it searches what belongs to one {own[0]}, who may have nothing yet" if own else None


def _given_by(subject: Subject) -> Iterator[Expr]:
    """Yield the calls whose results a function gives back as they are."""
    for e in subject.returned:
        for value in (e, *(assigned_to(subject.ir.body, str(name_of(e))) if is_name(e) else ())):
            inner = unwrapped(value)
            if inner is not None and is_call(inner):
                yield inner


#: Functions that make a text.
_TEXTS = frozenset({"join", "dumps", "str", "format", "strip", "dedent"})


def _gives_text(subject: Subject) -> bool:
    """Return whether a function gives a text back, by its annotation or by each of its values."""
    returns = subject.ir.returns
    if returns is not None:
        return is_name(returns) and name_of(returns) == "str"
    given = list(subject.returned)
    return bool(given) and all(_is_of_text(subject, e) for e in given)


def _is_of_text(subject: Subject, e: Expr) -> bool:
    while e[0] == "s" and e[2][0] == "sl":
        e = e[1]
    if is_name(e):
        values = list(assigned_to(subject.ir.body, str(name_of(e))))
        return bool(values) and all(not is_name(v) and _is_of_text(subject, v) for v in values)
    return e[0] == "f" or is_text(e) or (is_call(e) and last_name(e) in _TEXTS)


def _words_in(e: Expr) -> set[str]:
    return {n.rpartition(".")[2] for n in names_in(e)} | {t for t in constants_in(e) if t.isidentifier()}
