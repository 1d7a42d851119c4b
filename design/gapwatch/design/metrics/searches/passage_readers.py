"""Finds the functions of a pipeline whose spans have what is asked of a search, and the passages that it finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.component_names import snake
from gapwatch.design.architecture.evidence_flow import SEARCHED, is_found_by
from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.metrics.searches.found_passages import FoundPassages, gives_found, looks_up
from gapwatch.design.metrics.searches.given_passages import is_given_later, is_handed_on, is_without_text, members_read
from gapwatch.design.metrics.searches.stored_entries import may_find_none, no_question_of
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.code_walk import callee_text, names_in
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace, LibraryUse
from gapwatch.design.patterns.model_calls import CALLS
from gapwatch.design.source.ir import Param, call_line

_MODELS = frozenset({"llm_chat"})
#: Most calls from a search up to the function that is given the question as text.
_MAX_UP = 4
#: Most functions that one judge reads.
MOST_READERS = 4
#: Names of parameters that hold what is asked, and of those that say where, how or for whom it is searched.
_ASKED = re.compile(
    r"(^|_)(quer(y|ies)|questions?|search(es)?|prompts?|messages?|texts?|topics?|keywords?|terms?|input|utterance"
    r"|problem|task|instruction|claims?|statements?|user_input|inquiry|q)(_|$)"
)
_BESIDE = re.compile(
    r"embed|vector|(^|_)(ids?|names?|uris?|urls?|paths?|index(es)?|collections?|namespaces?|models?|files?|filenames?"
    r"|keys?|lang(uage)?|users?|tenants?|sessions?|roles?|filters?|modes?|types?|tables?|schemas?|dates?|tokens?"
    r"|regions?|prefix|config|settings?|limit|size|count|engine|provider|template|fields?|facets?|format|service)(_|$)"
)
#: Parameters that hold what is asked in a member.
_HOLDS = re.compile(r"^_?(state|request|req|body|payload|inputs?|params?|event|ev|data)$")
#: Annotations of numbers, which hold no words.
_NUMBERS = frozenset({"float", "int", "ndarray", "Embedding", "Vector", "bool", "None"})
#: Functions and classes that find what is no passage for an answer: tables to write SQL from, examples, caches, tools.
_OF_OTHERS = re.compile(
    r"(^|_)(schemas?|tables?|columns?|ddl|sql|dialects?|cache[ds]?|duplicates?|suggestions?|autocomplete|facets?"
    r"|emails?|mails?|inbox|files?|issues?|tickets?|users?|contacts?|events?|calendar|repos?|few_shots?|examples?|tool_?names?)(_|$)"
)
#: Names of functions that ask a service of searches.
_SEARCHES = re.compile(r"(^|_)search(_|$)")
#: Names of methods that find something, whoever implements them.
_FINDS = re.compile(r"search|quer(y|ies)|retriev|(^|_)(find|fetch|look_?up|recall|similar\w*|match\w*|documents?)(_|$)")
_OF_SUMMARIES = re.compile(r"(^|_)summar(y|ies|ize|ise)")
#: Files and functions that no question runs.
_OFFLINE = re.compile(
    r"(^|[._/])(ingest(ion|ing|or)?|index(ing|er)|migrat\w*|scripts?|eval(uat\w*)?|benchmarks?|(\w+[-_])*sdk)([._/]|$)"
)
#: Decorators of functions that answer requests.
_SERVES = re.compile(
    r"^(fastapi|flask|quart|sanic|starlette|litestar|robyn)\..*\.(get|post|put|route|websocket|api_route)$"
)


@dataclass
class PassageReader:
    """A function that is given the question and gives the passages.

    Attributes:
        subject: The function.
        depth: Number of calls from it down to the search.
        searches: The searches below it.
    """

    subject: Subject
    depth: int
    searches: list[LibraryUse] = field(default_factory=list)


class PassageReaders:
    """Finds the functions that a judge of searches reads.

    Args:
        architecture: The components.
        points: Spans that can be emitted.
        code: The analysed code.
    """

    def __init__(self, architecture: Architecture, points: list[IntegrationPoint], code: ClaimedCode) -> None:
        self._architecture = architecture
        self._points = points
        self._code = code
        self._found = FoundPassages(code)

    def chosen(self) -> tuple[ComponentDraft, list[PassageReader]] | None:
        """Return the functions of the first search whose finds are read, and their component; None without one."""
        for reader in sorted(self._readers.values(), key=self._rank):
            component = self._component(reader)
            if component is not None and (self._is_shown(reader) or self._is_asked_for(reader)):
                return component, [reader, *self._beside(reader)]
        return None

    def _beside(self, reader: PassageReader) -> list[PassageReader]:
        """Return the other nodes of a graph that search in the same way, or the methods that other vendors have."""
        name, component = reader.subject.ir.name, self._component(reader)
        if self._is_one_way(reader.subject.symbol):
            ways = [r for r in self._readers.values() if r is not reader and r.subject.ir.name == name]
            return [r for r in ways if self._component(r) is component][: MOST_READERS - 1]
        owner, searched = reader.subject.info.owner, {use.dotted for use in reader.searches}
        nodes = [
            r for r in self._readers.values() if not r.depth and any(p.name == "state" for p in r.subject.ir.params)
        ]
        others = [r for r in nodes if r is not reader] if reader in nodes else []
        return [
            r
            for r in others
            if owner >= 0 and r.subject.info.owner == owner and searched & {use.dotted for use in r.searches}
        ][: MOST_READERS - 1]

    # -- the function ------------------------------------------------------------------------------------------

    @cached_property
    def _readers(self) -> dict[str, PassageReader]:
        out: dict[str, PassageReader] = {}
        for component in self._architecture.components:
            for use in [*map(_as_search, component.uses), *self._of_instances(component)]:
                subject = self._code.subject(use.symbol)
                if use.capability not in ("retrieval", "web_search") or subject is None:
                    continue
                if self._why_no_passages(subject, use) is None:
                    self._climb(subject, use, out)
        return out

    def _of_instances(self, component: ComponentDraft) -> Iterator[LibraryUse]:
        """Yield the calls of retrievers that are objects: `self.retriever(query)`."""
        known = {(use.symbol, use.place.line) for use in component.uses}
        for subject in filter(None, map(self._code.subject, component.symbols)):
            path = subject.program.path(subject.info)
            for call in subject.calls:
                reach = subject.reach(call)
                if reach.dotted.endswith(".__call__") and (subject.symbol, call_line(call)) not in known:
                    yield LibraryUse(
                        str(reach.capability), subject.symbol, reach.dotted, CodePlace(path, call_line(call))
                    )

    def _why_no_passages(self, subject: Subject, use: LibraryUse) -> str | None:
        """Return why a search looks for no passages of an answer; None where it does."""
        names = [snake(part) for part in subject.symbol.split(".")[-2:]]
        if _is_of_summaries(subject.symbol):
            return "a summary takes all that there is"
        if any(map(_OF_OTHERS.search, names)) or _OFFLINE.search(use.place.path) or _OFFLINE.search(names[-1]):
            return "it looks for something else"
        if use.dotted.startswith("def ") and subject.symbol in self._routes:
            return "its name says what is asked of it, and not that it searches"
        if use.capability == "retrieval" and looks_up(subject):
            return "it looks up what is there"
        at = [c for c in subject.calls if call_line(c) == use.place.line and subject.reach(c).capability in SEARCHED]
        if at and (why := no_question_of(subject, at)) is not None:
            return why
        return may_find_none(subject, at)

    def _climb(self, subject: Subject, use: LibraryUse, out: dict[str, PassageReader]) -> None:
        """Add the functions from a search up that are given the question and give what was found."""
        sites = self._code.material.sites
        is_whole = use.dotted.startswith("def ")
        lines = {use.place.line} if not is_whole else {call_line(c) for c in subject.calls}
        frontier, seen = {subject.symbol: lines}, {subject.symbol}
        for depth in range(_MAX_UP):
            above: dict[str, set[int]] = {}
            for symbol, at in frontier.items():
                one = self._code.subject(symbol)
                if one is None or not (self._gives(one, at) or (is_whole and depth == 0)):
                    continue
                if depth and self._runs_any(symbol, at):
                    continue
                if self._is_readable(one, at, is_whole and depth == 0):
                    reader = out.setdefault(symbol, PassageReader(one, depth))
                    reader.depth = min(reader.depth, depth)
                    reader.searches += [use] if use not in reader.searches else []
                for edge in sites.callers.get(symbol, ()):
                    if edge.kind in CALLS and edge.src not in seen | self._tested:
                        above.setdefault(edge.src, set()).update(line for _, line in edge.sites)
            seen |= set(above)
            frontier = above

    def _runs_any(self, symbol: str, lines: set[int]) -> bool:
        """Return whether a function runs whatever it is told, of which most searches nothing: the entry of all tools.

        Args:
            symbol: The function.
            lines: Lines of its calls that lead to a search.
        """
        sites, searching = self._code.material.sites, self._code.reaching(SEARCHED)
        for line in lines:
            run = {e.dst for e in sites.inside.get((symbol, line), ()) if e.dst not in self._tested}
            for name in {one.rpartition(".")[2] for one in run & searching}:
                alike = {one for one in run if one.rpartition(".")[2] == name}
                others = alike - searching
                # A store of an own kind is asked by a method that has the name of a search.
                is_named = bool(_FINDS.search(snake(name)))
                if not is_named and len(others) > 1 and len(others) >= len(alike & searching):
                    return True
        return False

    def _gives(self, subject: Subject, lines: set[int]) -> bool:
        """Return whether a function gives back what calls at some lines of it find."""
        if gives_found(subject, lines):
            return True
        brought = self._code.names_brought(subject, SEARCHED)
        return any(not brought.isdisjoint(names_in(e)) for e in subject.returned)

    def _is_readable(self, subject: Subject, lines: set[int], is_named: bool) -> bool:
        """Return whether a span of a function has the question as text and the texts of the passages.

        Args:
            subject: The function.
            lines: Lines at which it searches.
            is_named: Whether its name says that it gives what it finds.
        """
        is_beside = _OFFLINE.search(subject.program.path(subject.info)) or _is_of_summaries(subject.symbol)
        if is_beside or not any(map(self._asks(subject), subject.ir.params)):
            return False
        returns = subject.ir.returns
        if returns is not None and not names_in(returns).isdisjoint(("bool", "int", "float")):
            return False
        given = [e for e in subject.returned if e != ("k", None)]
        if not given or all(is_without_text(e) for e in given):
            return False
        if any(is_given_later(subject, e) for e in given):
            return False
        if not self._asks_model(subject):
            return True
        if subject.symbol in self._code.reaching(SEARCHED):
            return is_found_by(self._code, subject.symbol, SEARCHED)
        return is_named or any(is_handed_on(subject, e, lines) for e in given)

    def _asks_model(self, subject: Subject) -> bool:
        return subject.symbol in self._code.reaching(_MODELS)

    def _asks(self, subject: Subject) -> Callable[[Param], bool]:
        """Return what says of a parameter whether it holds in words what is asked."""
        read = {part for e in subject.expressions for part in members_read(e)}
        is_node = any(e.kind == "framework" for e in self._code.material.sites.callers.get(subject.symbol, ()))

        def asks(param: Param) -> bool:
            kinds = names_in(param.annotation) if param.annotation is not None else set()
            words = {k.rpartition(".")[2] for k in kinds}
            if param.name in ("self", "cls") or words & _NUMBERS - {"None"}:
                return False
            name = snake(param.name)
            if _HOLDS.search(name):
                return (is_node and name == "state") or any(map(_ASKED.search, read))
            if _BESIDE.search(name):
                return False
            return bool(_ASKED.search(name)) or words == {"str"}

        return asks

    # -- the choice --------------------------------------------------------------------------------------------

    def _rank(self, reader: PassageReader) -> tuple[object, ...]:
        """Return the place of a function among others: whose finds a model reads, of most searches, next to them.

        Who chooses one of several stores or vendors comes before those.
        """
        searched = {use.symbol for use in reader.searches}
        is_of_web = all(use.capability == "web_search" for use in reader.searches)
        symbol, shown = reader.subject.symbol, self._is_shown(reader)
        is_last = symbol in self._routes or self._is_one_way(symbol)
        return (not shown, is_of_web, is_last, -len(searched), self._asks_model(reader.subject), reader.depth, symbol)

    def _is_one_way(self, symbol: str) -> bool:
        """Return whether a call may run this method or those of other classes: each store or vendor has its own."""
        sites, name = self._code.material.sites, symbol.rpartition(".")[2]
        beside = (
            other.dst
            for edge in sites.callers.get(symbol, ())
            if edge.src not in self._tested
            for _, line in edge.sites
            for other in sites.inside.get((edge.src, line), ())
        )
        own = self._code.subject(symbol)
        others = {dst for dst in beside if dst != symbol and dst.rpartition(".")[2] == name}
        return own is not None and any(_is_of_kind(own, one) for one in map(self._code.subject, others) if one)

    def _is_shown(self, reader: PassageReader) -> bool:
        """Return whether a model is sent what is found: by calls, or by another node of the same state."""
        subject = reader.subject
        if self._found.is_shown(subject):
            return True
        if subject.info.owner < 0 or all(p.name != "state" for p in subject.ir.params):
            return False
        nodes = (one for one in map(self._code.subject, self._code.reaching(_MODELS)) if one is not None)
        return any(
            one.info.owner == subject.info.owner and any(p.name == "state" for p in one.ir.params) for one in nodes
        )

    def _is_asked_for(self, reader: PassageReader) -> bool:
        """Return whether a request is answered with what a store finds, which a model beside the pipeline may read."""
        if any(use.capability != "retrieval" for use in reader.searches):
            return False
        seen, frontier = set[str](), {reader.subject.symbol}
        for _ in range(_MAX_UP + 1):
            if self._endpoints & frontier or any(map(self._is_served, frontier)):
                return True
            seen |= frontier
            above: dict[str, set[int]] = {}
            for symbol in frontier:
                for edge in self._code.material.sites.callers.get(symbol, ()):
                    if edge.kind in CALLS and edge.src not in seen:
                        above.setdefault(edge.src, set()).update(line for _, line in edge.sites)
            callers = ((self._code.subject(symbol), at) for symbol, at in above.items())
            frontier = {one.symbol for one, at in callers if one is not None and self._gives(one, at)}
        return False

    @cached_property
    def _tested(self) -> set[str]:
        """Functions of tests and examples."""
        return {s.id for s in self._code.material.graph.symbols if s.tags}

    @cached_property
    def _endpoints(self) -> set[str]:
        failing = {h.symbol for h in self._code.material.hits if h.pattern == "fails_request"}
        return failing | self._routes

    @cached_property
    def _routes(self) -> set[str]:
        every = (s for s in self._code.material.graph.symbols if not s.tags)
        return {s.id for s in every if any(map(_SERVES.search, s.decorators))}

    def _is_served(self, symbol: str) -> bool:
        """Return whether an endpoint calls a method by the name of its class, as of an object made at the start."""
        owner, name = symbol.split(".")[-2:] if "." in symbol else ("", symbol)
        callers = self._code.material.sites.callers.get(symbol, ())
        if not owner or not self._tested.issuperset(edge.src for edge in callers):
            return False
        for endpoint in filter(None, map(self._code.subject, self._endpoints)):
            for call in endpoint.calls:
                *_, holder, last = ["", *callee_text(call).split(".")]
                if last == name and holder.replace("_", "").lower() == owner.lower():
                    return True
        return False

    def _component(self, reader: PassageReader) -> ComponentDraft | None:
        symbol = reader.subject.symbol
        own = next((p.component for p in self._points if p.symbol == symbol), None)
        every = self._architecture.components
        return next((c for c in every if c.id == own or (own is None and symbol in c.symbols)), None)


def _as_search(use: LibraryUse) -> LibraryUse:
    """Return a request to a service as a search of the web where its function has the name of one."""
    is_search = use.capability in ("http", "saas") and _SEARCHES.search(snake(use.symbol.rpartition(".")[2]))
    return replace(use, capability="web_search") if is_search else use


def _is_of_kind(one: Subject, other: Subject) -> bool:
    """Return whether two methods are of classes of one kind: a class above both, or one of them, has it."""
    if min(one.info.owner, other.info.owner) < 0 or other.info.is_abstract:
        return False
    shared, name = _kinds(one) & _kinds(other), one.ir.name
    return any(f.owner in shared and f.ir.name == name for f in one.program.functions)


def _kinds(subject: Subject) -> set[int]:
    """Return the class of a method and those above it, by their numbers."""
    seen, frontier, classes = set[int](), {subject.info.owner}, subject.program.classes
    while frontier:
        seen |= frontier
        frontier = {base for number in frontier for base in classes[number].bases} - seen
    return seen


def _is_of_summaries(symbol: str) -> bool:
    """Return whether a function is of summaries, by its name, its class's or its module's: they take all there is."""
    return any(map(_OF_SUMMARIES.search, map(snake, symbol.split(".")[-3:])))
