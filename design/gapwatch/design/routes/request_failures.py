"""Finds where a run fails: errors that leave the function it begins in, and what that gives instead of an answer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from gapwatch.design.callgraph.graph import CallEdge, CallGraph
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import calls_of, kinds_of, names_in, own_expressions, tags_in, walk
from gapwatch.design.patterns.hit import FAILS_WHOLE, PatternHit, Subject
from gapwatch.design.patterns.library_uses import LibraryUse
from gapwatch.design.patterns.node_graph import NodeGraph
from gapwatch.design.routes.error_takers import (
    BEGINS,
    awaited_names,
    does_more_than_read,
    handles_line,
    is_broad_handler,
    is_of_service,
    left_tasks,
    protects_line,
    raises_own_status,
    raises_status,
    refusal_line,
    says_the_end,
    takes_all_errors,
    takes_faults,
)
from gapwatch.design.routes.given_back import gives_on
from gapwatch.design.routes.ways_in import WAITS, WaysIn
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    is_name,
    iterable_of,
    line_of,
    name_of,
    positional_of,
    value_of,
)
from gapwatch.design.source.program import Program, last_name, statements

_REQUEST, _RUN = FAILS_WHOLE
#: Capabilities of what searches for an answer or takes documents in, and calls that take none in.
_SEARCHES_OR_STORES = frozenset({"retrieval", "rerank", "embedding", "vector_write"})
_KEEPS_NOTHING = re.compile(
    r"(^|\.)(delete\w*|create\w*|recreate\w*|update|set_payload|data\.insert|add_object|write_index)$"
)
#: Calls that take the pieces of a generator.
_TAKES = frozenset({"list", "tuple", "next", "anext", "join"})
_BLOCKS = frozenset({"try", "with", "if", "for", "while", "match"})
_MAX_DEPTH = 2


def find_request_failures(
    program: Program,
    sites: CallSites,
    graph: CallGraph,
    hits: Collection[PatternHit],
    distances: dict[str, int],
    graphs: Sequence[NodeGraph] = (),
    uses: Iterable[LibraryUse] = (),
) -> set[PatternHit]:
    """Return the failures of requests and runs that lead to a model, a search or a store of vectors.

    A server is told by its requests; a program without one by the runs of its graphs and commands, and a library by the
    calls of its public functions. Requests that search or take documents in count, too. A failure below counts where
    the function in which the run begins calls one that takes every error of its work and gives something back: what
    the layers under it raise and wrap ends there.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        graph: The call graph.
        hits: Patterns of production code.
        distances: Calls to the nearest model by symbol.
        graphs: Graphs of nodes.
        uses: Library uses of production code.
    """
    asked = [(h.symbol, range(h.line, h.end + 1)) for h in hits if h.pattern == "calls_llm" and h.kind == "direct"]

    def failures(places: Iterable[tuple[str, range]]) -> _Failures:
        lines: dict[str, set[int]] = defaultdict(set)
        for symbol, found in places:
            lines[symbol].update(found)
        return _Failures(
            program, sites, hits, WaysIn(program, sites, graph, graphs, lines, distances), distances, lines
        )

    first = failures(asked)
    stored = (u for u in uses if u.capability in _SEARCHES_OR_STORES and not _keeps_nothing(u))
    further = failures((u.symbol, range(u.place.line, u.place.end + 1)) for u in stored)
    return first.of_requests() | first.of_runs() | further.of_requests(first.waiting)


def _keeps_nothing(use: LibraryUse) -> bool:
    return use.capability == "vector_write" and _KEEPS_NOTHING.search(use.dotted) is not None


class _Failures:
    def __init__(
        self,
        program: Program,
        sites: CallSites,
        hits: Collection[PatternHit],
        ways: WaysIn,
        distances: dict[str, int],
        lines: dict[str, set[int]],
    ) -> None:
        self._program, self._sites, self._ways, self._distances = program, sites, ways, distances
        self._numbers, self._lines = sites.numbers(program), lines
        self._by_symbol: dict[str, list[PatternHit]] = defaultdict(list)
        for hit in hits:
            if hit.pattern in ("returns_failure", "has_try_except"):
                self._by_symbol[hit.symbol].append(hit)

    @property
    def waiting(self) -> set[str]:
        """Functions that wait for what is asked."""
        return self._ways.waiting

    def of_requests(self, known: Collection[str] = ()) -> set[PatternHit]:
        """Return the failures of what a server runs.

        Args:
            known: Functions that wait for something else; they are left out, and then only those that wait for what is
                asked count.
        """
        out: set[PatternHit] = set()
        for symbol in self._requests & self.waiting - set(known) if known else self._requests:
            subject = self._subject(symbol)
            if not self._work(subject) and left_tasks(subject.ir.body):
                continue  # What it begins is a request of its own.
            seen = {h for s in self._nested(symbol) for h in self._seen(s)} | set(self._lost(subject))
            taken: set[int] = set()
            for edge in self._sites.callees.get(symbol, ()):
                if edge.dst in self._requests or edge.dst not in self._numbers or self._ways.is_shared_client(edge.dst):
                    continue
                below = self._subject(edge.dst)
                is_work = edge.dst in self._distances and (gives_on(subject, edge.dst) or self._is_all(symbol, edge))
                handed = self._handed_on(subject) if edge.dst in self._ways.waiting else set()
                if any(line in handed for _, line in edge.sites):
                    ended = {h for h in self._ended(below, _MAX_DEPTH) if not h.evidence.startswith("empty")}
                    out |= ended or set(self._raised(below))
                    taken |= {line for _, line in edge.sites}
                if (is_work or _hands_on(below)) and (given_up := set(self._given_up(below))):
                    out |= given_up
                    taken |= {line for _, line in edge.sites}
            out |= seen or self._ended_tasks(subject, 0) or set(self._raised(subject, taken))
        return out

    def of_runs(self) -> set[PatternHit]:
        """Return the failures of graphs, commands and public functions that no request leads to."""
        ways = self._ways
        served = ways.below(self._requests)
        is_server = not self._requests.isdisjoint(ways.waiting)
        roots = set() if is_server else set(ways.commands)
        is_told = bool(self._program.texts.named("langgraph.json", ""))
        nodes = ways.nodes - served - (set() if is_told else ways.below(roots))
        if not is_server and not roots:
            roots |= ways.exported - ways.below(nodes)
        out: set[PatternHit] = set()
        for symbol in roots | nodes:
            subject = self._subject(symbol)
            found = set(self._raised(subject)) or (set() if symbol in nodes else set(self._ended(subject, 0)))
            # What a server runs in a graph is told with its requests.
            out |= {replace(h, pattern=_REQUEST if is_server else _RUN) for h in found}
        return out

    def _ended_tasks(self, subject: Subject, depth: int) -> set[PatternHit]:
        """Return where a task that a stream begins, or a stream within it, takes every error and lets none out."""
        if not subject.ir.is_generator:
            return set()
        waiting = self._ways.waiting & self._numbers.keys()
        below = {e.dst for e in self._sites.callees.get(subject.symbol, ()) if e.kind in WAITS and e.dst in waiting}
        tasks = {s for s in below if s.startswith(f"{subject.symbol}.")}
        found = {h for s in tasks for h in self._lost(self._subject(s))}
        if found or depth == _MAX_DEPTH:
            return found
        return {h for s in below - tasks for h in self._ended_tasks(self._subject(s), depth + 1)}

    def _handed_on(self, subject: Subject) -> set[int]:
        """Return the lines at which a function hands each request on by its path or kind, if it does no more."""
        ends = [b[-1] for s in subject.statements if s[0] == "if" for _, b in branches_of(s) if b]
        calls = {line_of(s) for s in ends if s[0] == "expr" and is_call(s[2])}
        work = self._work(subject)
        return calls if len(calls) > 1 and work and work <= calls else set()

    def _is_all(self, symbol: str, edge: CallEdge) -> bool:
        """Return whether the work of a function is one call, or the one node of a graph that it runs."""
        kinds = {"framework"} if edge.kind == "framework" else WAITS
        below = {e.dst for e in self._sites.callees.get(symbol, ()) if e.kind in kinds and e.dst in self._distances}
        return below == {edge.dst}

    # -- where a run begins ------------------------------------------------------------------------------------

    @cached_property
    def _requests(self) -> set[str]:
        """Functions that answer requests; where one hands back a stream, the generator that makes it."""
        found: set[str] = set()
        for symbol in self._ways.requests:
            is_socket = any(d.endswith(".websocket") for d in self._ways.symbols[symbol].decorators)
            found |= self._streams(self._subject(symbol), 0) | ({symbol} if not is_socket else set())
        return found

    def _streams(self, subject: Subject, depth: int) -> set[str]:
        """Return the generators that lead to a model, and that a function makes and does not take from."""
        out: set[str] = set()
        if subject.ir.is_generator:
            return out
        for call in subject.calls:
            for edge in subject.inside(call):
                if edge.dst not in self._numbers or edge.dst not in {*self._distances, *self._ways.waiting}:
                    continue
                below = self._subject(edge.dst)
                if below.ir.is_generator and id(call) not in self._taken_from(subject):
                    out.add(edge.dst)
                elif depth < _MAX_DEPTH and not below.ir.is_generator and edge.dst not in self._ways.requests:
                    out |= self._streams(below, depth + 1)
        return out

    def _taken_from(self, subject: Subject) -> set[int]:
        """Return the calls, by id, whose pieces a function takes."""
        taken: list[Expr] = []
        for s in subject.statements:
            taken += [iterable_of(s)] if s[0] == "for" else []
            for e in (inner for whole in own_expressions(s) for inner in walk(whole)):
                if e[0] in ("lc", "gc", "sc", "dc"):
                    taken += [iterable for _, iterable, _ in e[3]]
                elif e[0] == "Y":
                    taken.append(e[1])
                elif is_call(e) and (last_name(e) in _TAKES or any(map(self._takes_given, subject.inside(e)))):
                    taken += list(positional_of(e))
        names = {str(name_of(e)) for e in taken if is_name(e)}
        for s in subject.statements:
            if s[0] == "assign" and (value := value_of(s)) is not None and names & names_in(s[2][0]):
                taken.append(value)
        return {id(c) for e in taken for c in calls_of(e)}

    def _takes_given(self, edge: CallEdge) -> bool:
        return edge.dst in self._numbers and _hands_on(self._subject(edge.dst))

    def _subject(self, symbol: str) -> Subject:
        return Subject(self._program, self._sites, self._program.functions[self._numbers[symbol]])

    def _nested(self, symbol: str) -> list[str]:
        inside = f"{symbol}."
        return [s for s in self._by_symbol if s == symbol or s.startswith(inside)]

    # -- how it fails ------------------------------------------------------------------------------------------

    def _work(self, subject: Subject) -> set[int]:
        """Return the lines at which a function waits for a model."""
        lines = set(self._lines.get(subject.symbol, ()))
        for edge in self._sites.callees.get(subject.symbol, ()):
            if edge.kind in WAITS and edge.dst in self._ways.waiting:
                lines |= {line for _, line in edge.sites}
        made = {call_line(c) for c in subject.calls if self._makes_stream(subject, c)}
        for s in subject.statements:
            value = value_of(s) if s[0] == "assign" else None
            if value is not None and is_call(value) and last_name(value) in BEGINS:
                # A task fails where it is waited for.
                made |= {call_line(c) for c in calls_of(value)}
                names = {n for t in s[2] for n in names_in(t)}
                lines |= {line_of(x) for x in subject.statements if x[0] not in _BLOCKS and names & awaited_names(x)}
        return lines - made - {call_line(c) for c in left_tasks(subject.ir.body)}

    def _makes_stream(self, subject: Subject, call: Expr) -> bool:
        inside = [e for e in subject.inside(call) if e.dst in self._numbers]
        is_stream = bool(inside) and all(self._subject(e.dst).ir.is_generator for e in inside)
        return is_stream and id(call) not in self._taken_from(subject)

    def _raised(self, subject: Subject, taken: Collection[int] = ()) -> Iterator[PatternHit]:
        """Yield the whole of a function that does not take each error of its work: its framework answers for it.

        Args:
            subject: The function.
            taken: Lines at which it calls what takes each error itself.
        """
        work, symbol = self._work(subject), subject.symbol
        if work and all(line in taken or self._is_taken_below(subject, line) for line in work):
            return
        taking = [s for s in subject.statements if s[0] == "try" and takes_all_errors(s)]
        if not work and symbol in self._ways.waiting and not self._makes_streams(subject):
            # Whom it asks is not known.
            is_left = not any(s in subject.ir.body for s in taking)
        else:
            is_left = any(not any(protects_line(s, line) for s in taking) for line in work)
        is_node = symbol in self._ways.nodes and not any(s in subject.ir.body for s in taking)
        if is_left or is_node:
            line, end, name = subject.ir.line, subject.ir.end, subject.ir.name or "the page"
            yield subject.hit(_REQUEST, max(line, 1), end, "raises", f"errors leave {name}", 0.9)

    def _is_taken_below(self, subject: Subject, line: int) -> bool:
        """Return whether what a line calls takes each error of its own work."""
        inside = [e for e in self._sites.inside.get((subject.symbol, line), ()) if e.dst in self._ways.waiting]
        return bool(inside) and line not in self._lines.get(subject.symbol, ()) and all(map(self._takes_all, inside))

    def _takes_all(self, edge: CallEdge) -> bool:
        below = self._subject(edge.dst) if edge.dst in self._numbers else None
        if below is None or below.ir.is_generator:
            return False
        taking, work = [s for s in _tries(below) if takes_all_errors(s)], self._work(below)
        return bool(work) and all(any(protects_line(s, line) for s in taking) for line in work)

    def _makes_streams(self, subject: Subject) -> bool:
        return any(self._makes_stream(subject, c) for c in subject.calls)

    def _seen(self, symbol: str) -> Iterator[PatternHit]:
        """Yield where a function gives a failure back, but for what refuses the request before its work begins."""
        subject = self._subject(symbol)
        work = self._work(subject)
        for hit in self._by_symbol[symbol]:
            around = [s for s in subject.statements if s[0] == "try" and handles_line(s, hit.line)]
            if hit.pattern == "returns_failure":
                is_of_work = any(map(does_more_than_read, around)) if around else not work or hit.line > min(work)
                is_of_work &= not any(takes_faults(s, hit.line) for s in around)
                if is_of_work:
                    yield replace(hit, pattern=_REQUEST, kind="answer")
            elif any(line_of(s) == hit.line and raises_status(s) for s in subject.statements if s[0] == "try"):
                yield replace(hit, pattern=_REQUEST, kind="status")

    def _lost(self, subject: Subject) -> Iterator[PatternHit]:
        """Yield handlers that end a run whose work has failed, whatever they give back."""
        work = self._work(subject)
        told = {h.line for h in self._by_symbol[subject.symbol] if h.pattern == "returns_failure"}
        loops = [s for s in subject.statements if s[0] in ("for", "while")]
        for s in subject.statements:
            if s[0] != "try" or not any(protects_line(s, line) for line in work):
                continue
            first, last = line_of(s), end_of(s)
            if any(line > last for line in work) or any(line_of(o) < first and last <= end_of(o) for o in loops):
                continue
            for handler in handlers_of(s):
                body = handler_body(handler)
                at = range(int(handler[0]), int(handler[-1]) + 1)
                if work & set(at) or not (is_broad_handler(handler) or is_of_service(handler, self._own_classes)):
                    continue
                if (refused := refusal_line(body)) and not raises_own_status(s):
                    yield subject.hit(_REQUEST, refused, refused, "answer", "a failure is sent as a refusal", 0.8)
                elif not tags_in(body, "raise") and not told & set(at):
                    line = line_of(body[0]) if body else int(handler[-1])
                    caught = ", ".join(last_name(k) for k in kinds_of(handler)) or "everything"
                    yield subject.hit(_REQUEST, line, line, "answer", f"except {caught}: ends the run", 0.8)

    @cached_property
    def _own_classes(self) -> set[str]:
        return {c.ir.name for c in self._program.classes}

    def _ended(self, subject: Subject, depth: int) -> Iterator[PatternHit]:
        """Yield where a run ends that lets no error out: in its own handlers, or in the one function that it calls."""
        lost = list(self._lost(subject))
        seen = [h for h in self._seen(subject.symbol) if any(handles_line(s, h.line) for s in _tries(subject))]
        if lost or seen:
            yield from {*lost, *seen}
            return
        work, callees = self._work(subject), self._sites.callees.get(subject.symbol, ())
        waited = [e for e in callees if e.kind in WAITS and e.dst in self._ways.waiting]
        below = {e.dst for e in waited if any(line in work for _, line in e.sites)}
        if len(below) == 1 and depth < _MAX_DEPTH and (symbol := below.pop()) in self._numbers:
            under = self._subject(symbol)
            yield from set(self._raised(under)) or self._ended(under, depth + 1)

    def _given_up(self, subject: Subject) -> Iterator[PatternHit]:
        """Yield what a function gives back where all that it does has failed."""
        body = [s for s in subject.ir.body if s[0] != "expr" or s[2][0] != "k"]
        while body and says_the_end(body[-1]):
            body.pop()
        if not body or body[-1][0] != "try" or sum(1 for s in body if s[0] == "try") > 1:
            return
        if len(list(statements(body_of(body[-1])))) < len(list(statements(tuple(body[:-1])))):
            return
        for handler in handlers_of(body[-1]):
            if is_broad_handler(handler):
                last = max((line_of(x) for x in statements(handler_body(handler))), default=0)
                for hit in self._by_symbol[subject.symbol]:
                    if hit.pattern == "returns_failure" and int(handler[0]) <= hit.line <= last:
                        yield replace(hit, pattern=_REQUEST, kind="answer")


def _tries(subject: Subject) -> list[Stmt]:
    return [s for s in subject.statements if s[0] == "try"]


def _hands_on(subject: Subject) -> bool:
    """Return whether a generator sends what it gets from a stream that it is given."""
    given = {p.name for p in subject.ir.params}
    loops = [s for s in subject.statements if s[0] == "for"]
    return subject.ir.is_generator and any(is_name(iterable_of(s)) and name_of(iterable_of(s)) in given for s in loops)
