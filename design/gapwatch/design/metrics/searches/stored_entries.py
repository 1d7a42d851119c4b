"""Says of the calls of a store whether they ask a question, or may rightly find nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from gapwatch.design.patterns.code_walk import names_in
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.outside_calls import assigned_to
from gapwatch.design.source.ir import Expr, is_call, keywords_of, positional_of
from gapwatch.design.source.program import last_name

#: Methods of stores that give what is there, without a question.
_LISTS = frozenset({"get", "fetch", "fetch_objects", "fetch_object_by_id", "scroll", "list", "peek", "get_by_ids"})
#: Names of functions and classes that give what was kept of former talks, whose store begins empty.
_REMEMBERS = re.compile(r"(^|_)(?<!in_)(memor(y|ies)|remember\w*)(_|$)")
_OF_MEMORY = re.compile(r"[a-z]Memory\.")


def no_question_of(subject: Subject, at: list[Expr]) -> str | None:
    """Return why calls of a store ask no question, but list what is there or look up keys; None where they ask one."""
    chained = {last_name(inner) for c in at for inner in _receivers(c)}
    if at and chained <= _LISTS | {"to_list", "where", "limit"}:
        return "it lists what is there and asks nothing"
    if at and all(_is_by_key(subject, c) for c in at):
        return "it looks up what has a known key and searches nothing"
    return None


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


def may_find_none(subject: Subject, at: list[Expr]) -> str | None:
    """Return why a search may rightly find nothing; None where an answer needs what it finds."""
    if any(_REMEMBERS.search(part) for part in subject.ir.qual.split(".")) or _OF_MEMORY.search(subject.ir.qual):
        return "it looks for what was remembered of former requests, which may rightly be nothing"
    if _EXAMPLES.search(subject.ir.name) or _keeps_examples(subject):
        return "it looks for examples that somebody may have kept for the model, which may rightly be none"
    own = {p.name for p in subject.ir.params}
    skipped = [value for c in at for name, value in keywords_of(c) if name in _SKIPS]
    if any(own & names_in(e) for value in skipped for e in (value, *values_of_names(subject, value))):
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


def _receivers(call: Expr) -> Iterator[Expr]:
    """Yield a call and the calls whose results it works on: `store.where(a).limit(3)`."""
    e = call
    while e[0] in ("c", "a", "s", "w"):
        if is_call(e):
            yield e
        e = e[1]


def values_of_names(subject: Subject, e: Expr) -> list[Expr]:
    """Return what a function gives the names that an expression reads."""
    return [value for name in names_in(e) for value in assigned_to(subject.ir.body, name)]
