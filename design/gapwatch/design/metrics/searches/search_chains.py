"""Finds chains of libraries that put a search before an answer, and the calls that make a search."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapwatch.design.patterns.code_walk import callee_text, names_in, own_expressions, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import Expr, call_line, is_call, keywords_of, line_of, pairs_in
from gapwatch.design.source.program import last_name

#: Calls of libraries that make a tool or an engine of a search.
_SEARCHES = re.compile(
    r"^(as_(retriever|query_engine|chat_engine)|create_retriever_tool|(QueryEngine|Retriever)Tool|\w+QueryEngine"
    r"|create_retrieval_chain|\w*RetrievalQA\w*|\w*RetrievalChain|ContextChatEngine|CondensePlusContextChatEngine)$"
)
_LIBRARIES = re.compile(r"^(llama_index|langchain|haystack|llama_cloud|txtai)")
#: Parts of a chain that give the next one several values.
_PARALLEL = frozenset({"assign", "RunnableParallel", "RunnableMap"})
#: Calls of libraries that make a chain of a search and an answer, and names of what searches.
_ANSWERS = re.compile(
    r"^(create_retrieval_chain|\w*RetrievalQA\w*|\w*RetrievalChain|as_(query|chat)_engine|\w+QueryEngine"
    r"|ContextChatEngine|CondensePlusContextChatEngine)$"
)
_RETRIEVER = re.compile(r"(^|[._])retriever\d?$|as_retriever$")


@dataclass(frozen=True)
class FoundLine:
    """A line that gets what an answer can rest on.

    Attributes:
        symbol: Its function.
        place: The line.
        what: Its capability, or the call.
    """

    symbol: str
    place: CodePlace
    what: str


def search_chain(subject: Subject) -> FoundLine | None:
    """Return the line at which a function puts a search before an answer: by a library, or in a chain with `|`."""
    path = subject.program.path(subject.info)
    for call in subject.calls:
        if _is_of_library(subject, call, _ANSWERS):
            return FoundLine(subject.symbol, CodePlace(path, call_line(call)), last_name(call))
    file = subject.program.files[subject.info.module]
    if file is None or b"etriever" not in file.source:
        return None
    every = [(s, e) for s in subject.statements for own in own_expressions(s) for e in walk(own)]
    if any(e[0] == "o" and e[1] == "|" for _, e in every):
        for s, e in every:
            given = [v for _, v in pairs_in(e)] if e[0] == "d" else []
            given += [v for _, v in keywords_of(e)] if is_call(e) and last_name(e) in _PARALLEL else []
            if any(_RETRIEVER.search(n) for v in given for n in names_in(v)):
                return FoundLine(subject.symbol, CodePlace(path, line_of(s)), "search of a chain")
    return None


def library_searches(subject: Subject) -> list[FoundLine]:
    """Return the lines at which a function makes a search of a library."""
    out = []
    for call in subject.calls:
        if _is_of_library(subject, call, _SEARCHES):
            place = CodePlace(subject.program.path(subject.info), call_line(call))
            out.append(FoundLine(subject.symbol, place, last_name(call)))
    return out


def _is_of_library(subject: Subject, call: Expr, name: re.Pattern[str]) -> bool:
    """Return whether a call is one of a library of searches, by a part of its name."""
    if not any(map(name.search, callee_text(call).split("."))):
        return False
    names = subject.sites.names_outside(subject.symbol, call)
    return any(_LIBRARIES.search(n) and any(map(name.search, n.split("."))) for n in names)
