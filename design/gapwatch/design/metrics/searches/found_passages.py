"""Follows what a search finds: whether its number can be counted, and whether it reaches a model in a run."""

from __future__ import annotations

import re
from functools import cached_property

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.prompt_flow import bindings_of, flowing_into
from gapwatch.design.patterns.code_walk import arguments_of, callee_text, names_in, own_expressions, unwrapped, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import Expr, call_line, is_call, keywords_of, operand_of, pairs_in
from gapwatch.design.source.program import last_name

_MODELS = frozenset({"llm_chat"})
#: Searches of clients that the recorders watch themselves: their results are counted whatever a function makes of them.
_WATCHED = re.compile(
    r"^langchain\w*\..*(as_retriever|Retriever)\.(with_\w+\.)?a?invoke$|^llama_index\..*[rR]etriever\.a?retrieve$"
    r"|^chromadb\..*\.query$|^qdrant_client\.QdrantClient\.(search|query_points)$"
)
#: Engines that ask a model with what a watched retriever finds.
_ENGINES = re.compile(r"^llama_index\..*(query_engine|QueryEngine|chat_engine|ChatEngine)\.a?(query|chat)$")
#: Methods of retrievers whose library is not known: LangChain's and LlamaIndex' all go through one base class.
_RETRIEVER = re.compile(r"retriever\w*\.(a?invoke|a?retrieve|a?get_relevant_documents)$", re.I)
#: Libraries whose results, given back as they are, are lists, or hold one that is counted.
_LISTS = re.compile(
    r"^(langchain\w*|llama_index|pinecone|qdrant_client|weaviate|pymilvus|chromadb)\.|^lancedb\..*\.to_list$"
)
#: Members of a result that are counted.
_HOLDERS = frozenset({"documents", "source_nodes", "points", "matches", "results", "objects", "ids"})
#: Annotations of lists, of what is gone through later, and calls that make a list.
_OF_LIST = frozenset({"list", "List", "Sequence", "MutableSequence", "tuple", "Tuple", "set", "Set"})
_MAKES_LIST = frozenset({"list", "sorted", "set", "tuple", "reversed", "filter_complex_metadata"})
#: Names by which a search drops what is not near enough: it may rightly keep nothing.
_DROPS = re.compile(
    r"threshold|cut_?off|min(imum)?_?(score|relevance|similarity|certainty)|max(imum)?_?distance|score_limit", re.I
)
#: Names of functions that give what is stored, by a key or whole.
#: Names of functions that change what is stored, and of searches through a person's own things, which may hold nothing.
_CHANGES = re.compile(r"^_*(create|update|delete|send|make|add|set|remove|move|trash|mark|insert|upsert|save)_")
_OF_PERSON = re.compile(
    r"(^|_)(e?mails?|gmail|inbox|calendars?|events?|contacts?|notifications?|tickets?|conversations?|chats?|threads?)(_|$)"
)
_LOOKS_UP = re.compile(
    r"^_*(get|list|fetch|load|read|filter|describe)_(?!\w*(relevant|similar|context|nearest|passage|match))"
    r"|_by_(filters?|ids?|keys?|names?|url)$"
)
#: Most functions up that a result is followed, and most names within one.
_MAX_UP, _MAX_NAMES = 6, 5


class FoundPassages:
    """Queries about searches.

    Args:
        code: The analysed code.
    """

    def __init__(self, code: ClaimedCode) -> None:
        self._code = code

    @cached_property
    def _tools(self) -> set[str]:
        return {h.symbol for h in self._code.material.hits if h.pattern == "tells_model_error" and h.kind == "tool"}

    def why_not(self, symbol: str, place: CodePlace) -> str | None:
        """Return why a run does not fail where a search finds nothing, or why nobody counts it; None where it does.

        Args:
            symbol: The function with the search.
            place: Line of the search; that of the function where the function as a whole is one.
        """
        subject = self._code.subject(symbol)
        if subject is None:
            return None
        at = [c for c in subject.calls if call_line(c) == place.line]
        if any(_ENGINES.search(name) for c in at for name in subject.sites.named_at(subject.symbol, c)):
            return None
        at = [c for c in at if subject.reach(c).capability == "retrieval"]
        if looks_up(subject):
            return "it looks up what is there and asks no question"
        if _CHANGES.search(subject.ir.name):
            return "it changes what is stored and asks no question"
        if _OF_PERSON.search(subject.ir.name):
            return "it searches what is a person's own, of which there may rightly be nothing"
        if subject.ir.is_generator:
            return "it gives what it finds piece by piece"
        if not self.is_counted(subject, at):
            return "nobody can count what it finds: its result is no list"
        return self.why_unseen(subject)

    def why_unseen(self, subject: Subject) -> str | None:
        """Return why no answer lacks what a search does not find: it may rightly keep nothing, or no model reads it."""
        if (dropped := self._dropping(subject)) is not None:
            return f"it drops by {dropped} what is not near enough, which may be all"
        return None if self.is_shown(subject) else "what it finds reaches no model and answers no request"

    def _dropping(self, subject: Subject) -> str | None:
        """Return the name by which a search, or who calls it, says how near is near enough; None without one."""
        names = [p.name for p in subject.ir.params] + [n for c in subject.calls for n, _ in keywords_of(c) if n]
        names += [n.rpartition(".")[2] for s in subject.statements for e in own_expressions(s) for n in names_in(e)]
        for edge in self._code.material.sites.callers.get(subject.symbol, ()):
            caller, lines = self._code.subject(edge.src), {line for _, line in edge.sites}
            calls = [c for c in caller.calls if call_line(c) in lines] if caller is not None else []
            names += [n for c in calls for n, _ in keywords_of(c) if n]
        return next((n for n in names if _DROPS.search(n)), None)

    # -- the number ----------------------------------------------------------------------------------------------

    def is_counted(self, subject: Subject, at: list[Expr]) -> bool:
        """Return whether the recorders count what a function finds: a watched client finds it, or a list is given."""
        if any(_WATCHED.search(name) for c in at for name in subject.sites.named_at(subject.symbol, c)):
            return True
        if any(_is_of_retriever(c) and not subject.inside(c) for c in subject.calls):
            return True
        given = [e for e in subject.returned if e != ("k", None)]
        if given and all(self._is_list(subject, e, frozenset()) for e in given):
            return True
        return subject.ir.returns is not None and bool(self._of_annotation(subject, subject.ir.returns))

    def _of_annotation(self, subject: Subject, kind: Expr, depth: int = 0) -> bool | None:
        """Return whether an annotation is that of a list or of an object with one; None where it does not say."""
        if kind[0] == "k" and isinstance(kind[1], str):
            word = re.match(r"[\w.]+", kind[1])
            return None if word is None else self._of_name(subject, word.group().rpartition(".")[2])
        if kind[0] == "s" and last_name(kind[1]) in ("Optional", "Annotated") and depth < _MAX_NAMES:
            inner = kind[2][1][0] if kind[2][0] == "t" and kind[2][1] else kind[2]
            return self._of_annotation(subject, inner, depth + 1)
        if kind[0] == "o":
            found = [self._of_annotation(subject, e, depth + 1) for e in kind[2] if e != ("k", None)]
            return found[0] if found else None
        return self._of_name(subject, last_name(kind[1] if kind[0] == "s" else kind))

    def _of_name(self, subject: Subject, name: str) -> bool | None:
        if name in _OF_LIST:
            return True
        if name in ("Any", "dict", "Dict", "object", "Mapping"):
            return None
        made = [cls for cls in subject.program.classes if cls.ir.name == name]
        return any(_HOLDERS & cls.ir.local_names for cls in made) if made else False

    def _is_list(self, subject: Subject, e: Expr, seen: frozenset[str]) -> bool:
        inner = unwrapped(e)
        while inner is not None and inner[0] == "w":
            inner = unwrapped(operand_of(inner))
        if inner is None:
            return False
        if inner[0] in ("l", "lc", "S", "sc"):
            return True
        if inner[0] == "t":
            return bool(inner[1]) and self._is_list(subject, inner[1][0], seen)
        if inner[0] == "s":
            return inner[2][0] == "sl" and self._is_list(subject, inner[1], seen)
        if inner[0] == "?":
            return all(self._is_list(subject, one, seen) for one in inner[2:4])
        if inner[0] == "d":
            pairs = [(k[1] if k is not None and k[0] == "k" else "", v) for k, v in pairs_in(inner)]
            lists = [k for k, v in pairs if self._is_list(subject, v, seen)]
            return bool(_HOLDERS.intersection(lists)) or len(lists) == 1
        if is_call(inner):
            if last_name(inner) in _MAKES_LIST:
                return True
            names = subject.sites.named_at(subject.symbol, inner)
            if subject.reach(inner).capability == "retrieval" and any(map(_LISTS.search, names)):
                return True
            others = [o for edge in subject.inside(inner) if (o := subject.other(edge.dst)) is not None]
            return bool(others) and all(self._gives_list(o, seen) for o in others)
        name = inner[1] if inner[0] == "n" else ""
        if not name or name in seen or len(seen) > _MAX_NAMES:
            return False
        values = [v for s in subject.statements if s[0] == "assign" for n, v in bindings_of(s) if n == name]
        return bool(values) and all(self._is_list(subject, v, seen | {name}) for v in values if v != ("k", None))

    def _gives_list(self, subject: Subject, seen: frozenset[str]) -> bool:
        """Return whether a function says that it gives a list, or gives one wherever it returns something."""
        if subject.ir.returns is not None:
            return bool(self._of_annotation(subject, subject.ir.returns))
        given, inside = [e for e in subject.returned if e != ("k", None)], seen | {subject.symbol}
        is_new = subject.symbol not in seen and len(seen) <= _MAX_NAMES and not subject.ir.is_generator
        return is_new and bool(given) and all(self._is_list(subject, e, inside) for e in given)

    # -- the way to a model --------------------------------------------------------------------------------------

    def is_shown(self, subject: Subject) -> bool:
        """Return whether a model or a request gets what a function gives, by it or by those that it is handed on to."""
        seen, frontier = {subject.symbol}, [subject]
        is_shown, sites, models = False, self._code.material.sites, self._code.reaching(_MODELS)
        carried: set[str] = set()
        for _ in range(_MAX_UP):
            above: dict[str, set[int]] = {}
            for one in frontier:
                is_shown = is_shown or one.symbol in self._tools or self._goes_on_to_model(one)
                for edge in sites.callers.get(one.symbol, ()):
                    above.setdefault(edge.src, set()).update(line for _, line in edge.sites)
                    if edge.kind == "framework":  # A tool, or a node of a graph, whose state goes on.
                        is_shown = is_shown or edge.src in models
                        carried.add(edge.src)
            frontier = []
            for symbol, lines in above.items():
                caller = self._code.subject(symbol)
                if caller is None or symbol in seen:
                    continue
                seen.add(symbol)
                is_shown = is_shown or self._sends(caller, lines)
                if symbol in carried or gives_found(caller, lines):
                    frontier.append(caller)
                    is_shown = is_shown or symbol in self._endpoints
            if not frontier:
                break
        return is_shown

    @cached_property
    def _endpoints(self) -> set[str]:
        """Functions that answer the requests of a service that only searches and asks no model."""
        found = {h.symbol for h in self._code.material.hits if h.pattern == "fails_request"}
        return found if found.isdisjoint(self._code.reaching(_MODELS)) else set()

    def _goes_on_to_model(self, subject: Subject) -> bool:
        """Return whether a function asks a model with what it finds itself, or a later node of its graph does."""
        models = self._code.reaching(_MODELS)
        edges = self._code.material.sites.callees.get(subject.symbol, ())
        if any(edge.kind == "framework" and edge.dst in models for edge in edges):
            return True
        lines = {call_line(c) for c in subject.calls if subject.reach(c).capability == "retrieval"}
        return self._sends(subject, lines)

    def _sends(self, subject: Subject, lines: set[int]) -> bool:
        """Return whether what calls at some lines give flows into a call that reaches a model."""
        models = self._code.reaching(_MODELS)
        asking = [
            c
            for c in subject.calls
            if subject.reach(c).capability in _MODELS or any(edge.dst in models for edge in subject.inside(c))
        ]
        given = [e for c in asking if call_line(c) not in lines for e in (*arguments_of(c), c[1])]
        # `answer(question, find(question))` asks and searches in one line.
        in_line = [e for c in asking if call_line(c) in lines for e in arguments_of(c)]
        found = (i for e in in_line for i in walk(e) if is_call(i) and call_line(i) in lines and i not in asking)
        return _flows(subject, given, lines) or any(map(subject.inside, found))


def looks_up(subject: Subject) -> bool:
    """Return whether a function gives what is stored, by a key or whole, and asks no question."""
    return bool(_LOOKS_UP.search(subject.ir.name)) and not any(map(_is_of_retriever, subject.calls))


def _is_of_retriever(call: Expr) -> bool:
    return bool(_RETRIEVER.search(callee_text(call)))


def gives_found(subject: Subject, lines: set[int]) -> bool:
    """Return whether a function gives on what calls at some lines of it give."""
    yielded = [
        i for s in subject.statements for e in own_expressions(s) for i in walk(e) if i[0] == "y" and operand_of(i)
    ]
    return _flows(subject, [*subject.returned, *yielded], lines)


def _flows(subject: Subject, given: list[Expr], lines: set[int]) -> bool:
    return any(
        is_call(inner) and call_line(inner) in lines for _, e in flowing_into(subject, given) for inner in walk(e)
    )
