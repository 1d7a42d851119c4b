"""Rules of the critic about searches: why a place searches nothing, or why what it finds is not counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import CodeView
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
    keywords_of,
    name_of,
    positional_of,
)
from gapwatch.design.source.program import last_name

#: Methods of stores that give what is there, without a question.
_LISTS = frozenset({"get", "fetch", "fetch_objects", "fetch_object_by_id", "scroll", "list", "peek", "get_by_ids"})
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
    chained = {last_name(inner) for c in at for inner in _receivers(c)}
    if at and chained <= _LISTS | {"to_list", "where", "limit"}:
        return "it lists what is there and asks nothing"
    if at and all(_is_by_key(subject, c) for c in at):
        return "it looks up what has a known key and searches nothing"
    if is_of_time:
        return None
    if (why := _may_be_none(subject, at)) is not None:
        return why
    if "batch" in subject.ir.name or any("batch" in last_name(c) for c in (*at, *_given_by(subject))):
        return "it searches for many questions at once and gives a list for each: its count is that of the questions"
    read = {n for c in at for a in arguments_of(c) for e in (a, *_values_of(subject, a)) for n in _words_in(e)}
    own = sorted(n for n in read if _ONES_OWN.search(n))
    return f"it searches what belongs to one {own[0]}, who may have nothing yet" if own else None


#: Arguments that say which entries are meant, and those that ask a question.
_KEYS = frozenset({"id", "ids", "uuid", "uuids", "point_ids", "doc_ids", "document_ids", "node_ids"})
_ASKS = re.compile(r"quer(y|ies)|text|vector|embedding|question|near", re.I)
#: Clients whose `query` chooses entries by a filter alone, beside their `search`.
_FILTERS = re.compile(r"^pymilvus\.")


def _is_by_key(subject: Subject, call: Expr) -> bool:
    """Return whether a call of a store looks up entries by their keys or by a filter, and asks no question."""
    if last_name(call) == "query" and _FILTERS.match(subject.reach(call).dotted):
        return True
    given = {name for name, _ in keywords_of(call) if name}
    return not positional_of(call) and not _KEYS.isdisjoint(given) and not any(map(_ASKS.search, given))


def _may_be_none(subject: Subject, at: list[Expr]) -> str | None:
    """Return why a search may rightly find nothing; None where an answer needs what it finds."""
    if any(_REMEMBERS.search(part) for part in subject.ir.qual.split(".")) or _OF_MEMORY.search(subject.ir.qual):
        return "it looks for what was remembered of former requests, which may rightly be nothing"
    if _EXAMPLES.search(subject.ir.name) or _keeps_examples(subject):
        return "it looks for examples that somebody may have kept for the model, which may rightly be none"
    own = {p.name for p in subject.ir.params}
    skipped = [value for c in at for name, value in keywords_of(c) if name in _SKIPS]
    if any(own & names_in(e) for value in skipped for e in (value, *_values_of(subject, value))):
        return "it gives a page of a list that a person browses, whose end is no failure"
    return None


#: Examples, and what people said of answers, that a model is shown: no request needs them.
_EXAMPLES = re.compile(
    r"(^|_)(question_answers?|questions?_(and_)?sqls?|qa_pairs?|sql_pairs?|few_shots?|(few_shot_)?examples?"
    r"|golden_\w+|feedbacks?|preferences?|demonstrations?|exemplars?)(_|$)",
    re.I,
)
_KEEPS = re.compile(r"^_?(a)?(add|train|save|insert|store|upsert|learn|record)(_|$)", re.I)
_SKIPS = frozenset({"offset", "skip", "page", "page_number", "from_"})


def _keeps_examples(subject: Subject) -> bool:
    """Return whether the class of a search also keeps examples that it is given: each part of it is optional."""
    if subject.info.owner < 0:
        return False
    start = subject.program.first_function[subject.info.module]
    of_file = takewhile(lambda f: f.module == subject.info.module, islice(subject.program.functions, start, None))
    return any(
        _KEEPS.match(f.ir.name) and any(map(_EXAMPLES.search, (f.ir.name, *(p.name for p in f.ir.params))))
        for f in of_file
        if f.owner == subject.info.owner
    )


def _given_by(subject: Subject) -> Iterator[Expr]:
    """Yield the calls whose results a function gives back as they are."""
    for e in subject.returned:
        for value in (e, *(assigned_to(subject.ir.body, str(name_of(e))) if is_name(e) else ())):
            inner = unwrapped(value)
            if inner is not None and is_call(inner):
                yield inner


#: Names of functions and classes that give what was kept of former talks, whose store begins empty.
_REMEMBERS = re.compile(r"(^|_)(?<!in_)(memor(y|ies)|remember\w*)(_|$)")
_OF_MEMORY = re.compile(r"[a-z]Memory\.")
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


def _receivers(call: Expr) -> Iterator[Expr]:
    """Yield a call and the calls whose results it works on: `store.where(a).limit(3)`."""
    e = call
    while e[0] in ("c", "a", "s", "w"):
        if is_call(e):
            yield e
        e = e[1]


def _values_of(subject: Subject, e: Expr) -> list[Expr]:
    return [value for name in names_in(e) for value in assigned_to(subject.ir.body, name)]


def _words_in(e: Expr) -> set[str]:
    return {n.rpartition(".")[2] for n in names_in(e)} | {t for t in constants_in(e) if t.isidentifier()}
