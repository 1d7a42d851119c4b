"""Library uses of a repository's functions, and its own retrieval functions, which are known by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.hit import PatternHit


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Lines of a file.

    Attributes:
        path: The file.
        line: First line.
        end: Last line; 0 for one line.
    """

    path: str
    line: int
    end: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f"-{self.end}" if self.end > self.line else "")


@dataclass(frozen=True, slots=True)
class LibraryUse:
    """A call that leaves the repository.

    Attributes:
        capability: Capability of the catalogue.
        symbol: Function that makes the call.
        dotted: Library name, or the text of the call.
        place: Line of the call.
    """

    capability: str
    symbol: str
    dotted: str
    place: CodePlace


_PASSAGES = (
    r"(docs?|documents?|passages?|chunks?|contexts?|nodes?|evidence|memor(y|ies)|snippets?|facts|candidates|papers?"
    r"|articles|entit(y|ies)|relations?|triples)"
)
_RETRIEVER = re.compile(
    rf"^_?a?((retrieve|get_relevant|get_similar|search)_(\w+_)?{_PASSAGES}(_\w+)?|retrieve_(similar|relevant|from_\w+)"
    rf"|(query|find|fetch|lookup)_(relevant|similar|related|nearest)_(\w+_)?{_PASSAGES}"
    r"|(similarity|semantic|vector|hybrid)_search|find_passages|search_(index|corpus|knowledge\w*))$"
)
#: Engines and chains of libraries that search before they ask a model, whatever they are asked.
_SEARCHES_FIRST = re.compile(
    r"^(as_query_engine|(Retriever|Citation|SimpleMultiModal)QueryEngine|(CondensePlus)?ContextChatEngine"
    r"|create_retrieval_chain|RetrievalQA\w*|ConversationalRetrievalChain)$"
)
#: Owners whose plain `retrieve` returns passages, and not a password or a translation.
_OF_RETRIEVAL = re.compile(
    rf"retriev|(?<!re)search|(^|[._])rag([._]|$)|index|vector|knowledge|corpus|embed|{_PASSAGES}", re.I
)


#: Classes whose plain `search` returns passages.
_SEARCHER = re.compile(r"(^|\.)\w*(Searcher|Retriever|Vector_?(Store|DB|Index|Database)|KnowledgeBase)$", re.I)


def find_library_uses(graph: CallGraph, sites: CallSites, hits: tuple[PatternHit, ...]) -> list[LibraryUse]:
    """Return every call that leaves the repository for a target with a capability.

    Args:
        graph: The call graph.
        sites: Targets of all call sites.
        hits: Patterns; direct model calls are taken from them.
    """
    out: list[LibraryUse] = []
    seen: set[tuple[str, int]] = set()
    for hit in hits:
        if hit.pattern == "calls_llm" and hit.kind == "direct":
            out.append(LibraryUse("llm_chat", hit.symbol, hit.evidence, CodePlace(hit.path, hit.line)))
            if any(map(_SEARCHES_FIRST.search, hit.evidence.split(".")[:-1])):
                out.append(LibraryUse("retrieval", hit.symbol, hit.evidence, CodePlace(hit.path, hit.line)))
            seen.add((hit.path, hit.line))
    for external in graph.externals:
        capability = sites.catalog.capability(external.dotted)
        if capability is None or capability == "llm_chat":
            continue
        for line in external.lines:
            if capability != "http" or (external.path, line) not in seen:
                out.append(LibraryUse(capability, external.src, external.dotted, CodePlace(external.path, line)))
    if any(use.capability == "llm_chat" for use in out):
        out += _retrievers_by_name(graph, {(use.symbol, use.capability) for use in out})
    return sorted(out, key=lambda u: (u.symbol, u.place.line, u.capability, u.dotted))


def _retrievers_by_name(graph: CallGraph, known: set[tuple[str, str]]) -> list[LibraryUse]:
    """Return the repository's own search functions, known by name; only for code that calls a model."""
    out = []
    for s in graph.symbols:
        owner, _, name = s.id.rpartition(".")
        plain = name.strip("_").removeprefix("a")
        is_one = _RETRIEVER.search(name) or (plain == "retrieve" and _OF_RETRIEVAL.search(owner))
        is_one = is_one or (plain == "search" and _SEARCHER.search(owner))
        if s.kind == "function" and is_one and (s.id, "retrieval") not in known:
            out.append(LibraryUse("retrieval", s.id, f"def {name}", CodePlace(s.path, s.line)))
    return out
