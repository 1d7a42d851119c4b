"""Ways by which errors leave functions, and metrics that fail only where others of the portfolio do."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gapwatch.design.architecture.claimed_code import MAX_HOPS, ClaimedCode
from gapwatch.design.metrics.metric_design import MetricDesign, without_number
from gapwatch.design.metrics.outside.told_models import ASKED, asked_alone, asked_at, forward_of, is_context_of_calls
from gapwatch.design.metrics.rules.code_view import keep_places
from gapwatch.design.metrics.rules.error_paths import ErrorPaths, in_body
from gapwatch.design.metrics.rules.harmless_calls import handed_functions, only_makes_stream
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.code_walk import calls_in, kinds_of, names_in
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import Stmt, body_of, branches_of, call_line, handler_body, handlers_of, line_of
from gapwatch.design.source.program import last_name

#: One way of an error: the functions that it leaves, as ("leaves", symbol), and the `try` that takes it at last, as
#: ("taken", file, line). A metric that watches one of these counts the error, too.
Way = frozenset[tuple[object, ...]]
#: Most ways that are followed; a block with more has errors of many kinds.
_MAX_WAYS = 60
#: Fields of metrics that count what a handler takes.
_OF_HANDLERS = frozenset(
    {"attributes.swallowed_errors", "attributes.answer_outcome", "attributes.tool_errors", "attributes.format_errors"}
)
#: Fields of metrics that count an error which leaves their function.
_OF_ERRORS = frozenset({"status", "output", "attributes.retry_outcome"})
#: Fields of metrics of what is given instead where a handler takes an error.
_OF_WAYS_OUT = frozenset({"attributes.answer_outcome", "attributes.fallback_depth"})
#: What became of a run.
_OF_RUNS = "attributes.request_outcome"
#: Calls of models that get no reply.
_OF_MODELS = "attributes.model_errors"
#: Families of errors that leave their function, whatever failed; those of services, stores and models say what.
_OF_ANY_ERROR = ("error_rate", "stream_completed")
_WIDE = frozenset({"Exception", "BaseException"})


@dataclass
class _RunSearch:
    """Search for where the errors of functions end.

    Attributes:
        watched: What metrics of runs count.
        known: Whether what leaves a function is counted wherever it goes, of the functions that were asked.
        cut: Callers that were passed over because the search came from them; what rests on them is not known for good.
    """

    watched: Way
    known: dict[str, bool] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)


class FailurePaths:
    """Queries about the errors that metrics count.

    Args:
        code: The analysed code.
        points: Spans by component.
    """

    def __init__(self, code: ClaimedCode, points: Mapping[str, list[IntegrationPoint]]) -> None:
        self.code = code
        self.points = points
        self.errors = ErrorPaths(code)
        self._leaving: dict[str, frozenset[Way]] = {}
        self._ways: dict[str, frozenset[Way]] = {}
        self._watched: dict[str, Way] = {}

    def is_told(self, metric: MetricDesign, others: Iterable[MetricDesign]) -> bool:
        """Return whether each failure of a metric is one of other metrics: of what it calls, or of the same handler."""
        others = [o for o in others if o is not metric]
        runs = [o for o in others if o.claim.get("field") == _OF_RUNS]
        if runs and self._ends_runs(metric, frozenset[tuple[object, ...]]().union(*map(self._watches, runs))):
            return True
        ways = self.ways(metric)
        if not ways:
            return False
        if metric.claim.get("field") in _OF_WAYS_OUT:
            # A missing answer says that something failed, and not what was given instead; nor does a call of a model,
            # unless that is nothing.
            others = [o for o in others if o.claim.get("field") != "output"]
            if not self._gives_nothing(metric):
                others = [o for o in others if o.claim.get("field") != _OF_MODELS]
        watched = frozenset[tuple[object, ...]]().union(*map(self._watches, others))
        return all(not way.isdisjoint(watched) for way in ways)

    def untold(self, metrics: list[MetricDesign], others: Iterable[MetricDesign]) -> list[MetricDesign]:
        """Return metrics without the places whose errors are counted elsewhere, or never leave their function.

        Of functions that call each other and fail together, the innermost stays.

        Args:
            metrics: Metrics of errors; one that no place is left of is left out.
            others: Metrics that count errors, too.
        """
        # That a run failed does not say which service did.
        others = [o for o in others if o.claim.get("field") != _OF_RUNS]
        watched = {key for other in others for key in self._watches(other)}
        # A missing answer says that something failed, and not where.
        above = {key for o in others if o.claim.get("field") != "output" for key in self._watches(o)}
        told: set[tuple[str, CodePlace]] = set()
        found: list[tuple[int, int, MetricDesign, CodePlace, str]] = []
        for position, metric in enumerate(metrics):
            for place in metric.places if not metric.members else ():
                symbol = self.code.function_at(place)
                subject = self.code.subject(symbol) if symbol is not None else None
                if symbol is not None and subject is not None:
                    length = max(map(len, self._ways_at(metric, place, subject)), default=0)
                    found.append((length, position, metric, place, symbol))
        for _, _, metric, place, symbol in sorted(found, key=lambda f: (f[0], f[1], f[3].path, f[3].line)):
            ways = self._ways_at(metric, place, self.code.subject(symbol))  # type: ignore[arg-type]
            is_of_status = metric.claim.get("field") == "status"
            # Of what calls own functions alone, it is not known what fails.
            is_passed_on = is_of_status and not metric.pattern and all(len(way) > 1 for way in ways)
            is_known = is_passed_on or (all(not way.isdisjoint(watched) for way in ways) if ways else is_of_status)
            if is_known or (is_of_status and self._is_told_above(symbol, above)):
                told.add((metric.name, place))
            elif is_of_status:
                watched.add(("leaves", symbol))
        out: list[MetricDesign] = []
        for metric in metrics:
            good = [p for p in metric.places if (metric.name, p) not in told]
            if good and len(good) < len(metric.places):
                kept = keep_places(replace(metric), good, self.code, self.points.get(metric.component, ()))
                out += [kept] if kept is not None else []
            elif good:
                out.append(metric)
        return out

    def _gives_nothing(self, metric: MetricDesign) -> bool:
        """Return whether each answer that stands for a failure is empty: no text tells anybody of it."""
        hits = [h for symbol in metric.symbols for h in self.code.material.hits_of(symbol)]
        given = {(h.path, h.line): h.kind for h in hits if h.pattern == "returns_failure"}
        return bool(metric.places) and all(given.get((p.path, p.line)) == "empty" for p in metric.places)

    def _ends_runs(self, metric: MetricDesign, watched: Way) -> bool:
        """Return whether each error that a metric counts reaches where a run begins, and ends it there."""
        if metric.source != "catalog" or not without_number(metric.family).endswith(_OF_ANY_ERROR):
            return False
        symbols = [self.code.function_at(p) for p in metric.places]
        search = _RunSearch(watched)
        return bool(symbols) and all(s is not None and self._reaches(s, search, frozenset()) for s in symbols)

    def _reaches(self, symbol: str, search: _RunSearch, above: frozenset[str]) -> bool:
        """Return whether what leaves a function is counted where each of its callers, or theirs, hands it on to."""
        if ("leaves", symbol) in search.watched:
            return True
        if symbol in search.known:
            return search.known[symbol]
        callers = [(c, line) for c, line in self._callers.get(symbol, ()) if c != symbol]
        calls = [(c, line) for c, line in callers if c not in above]
        before, search.cut = search.cut, {c for c, _ in callers if c in above}
        found = bool(calls) and all(self._reaches_from(c, line, search, above | {symbol}) for c, line in calls)
        search.cut.discard(symbol)
        if not search.cut:
            search.known[symbol] = found
        search.cut |= before
        return found

    def _reaches_from(self, caller: str, line: int, search: _RunSearch, above: frozenset[str]) -> bool:
        subject = self.code.subject(caller)
        if subject is None:
            return False
        if (taking := self._taking(subject, line)) is not None:
            return ("ends", *_taken(subject, taking)) in search.watched
        return self._reaches(caller, search, above)

    def _taking(self, subject: Subject, line: int) -> Stmt | None:
        """Return the innermost `try` around a line that lets no error out; None without one."""
        around = [s for s in subject.statements if s[0] == "try" and in_body(s, line)]
        return max((s for s in around if self.errors.swallows(subject, s)), key=line_of, default=None)

    def _is_told_above(self, symbol: str, watched: set[tuple[object, ...]], depth: int = 0) -> bool:
        """Return whether each caller of a function hands its errors to something that a metric watches."""
        calls = self._callers.get(symbol, ())
        return depth <= MAX_HOPS and bool(calls) and all(self._is_told_at(c, line, watched, depth) for c, line in calls)

    def _is_told_at(self, caller: str, line: int, watched: set[tuple[object, ...]], depth: int) -> bool:
        subject = self.code.subject(caller)
        if subject is None:
            return False
        if (taking := self._taking(subject, line)) is not None:
            return _taken(subject, taking) in watched
        return ("leaves", caller) in watched or self._is_told_above(caller, watched, depth + 1)

    @functools.cached_property
    def _callers(self) -> dict[str, list[tuple[str, int]]]:
        out: dict[str, list[tuple[str, int]]] = {}
        tagged = {s.id for s in self.code.material.graph.symbols if s.tags}
        for edge in self.code.material.graph.edges:
            if edge.src in tagged:
                continue
            out.setdefault(edge.dst, []).extend((edge.src, line) for _, line in edge.sites)
        return out

    def ways(self, metric: MetricDesign) -> frozenset[Way]:
        """Return the ways of the errors that a metric counts; none where it counts something else, too."""
        if metric.name not in self._ways:
            self._ways[metric.name] = self._ways_of(metric)
        return self._ways[metric.name]

    def leaving(self, symbol: str, depth: int = 0) -> frozenset[Way]:
        """Return the ways of the errors that leave a function; the function itself is part of each."""
        known = self._leaving.get(symbol)
        if known is not None:
            return known
        subject = self.code.subject(symbol)
        own: Way = frozenset({("leaves", symbol)})
        if subject is None:
            return frozenset()
        if depth > MAX_HOPS:
            return frozenset({own})
        self._leaving[symbol] = frozenset()  # What calls itself fails by what else it calls.
        inner = self._arising(subject, None, depth)
        if inner and any(h.pattern == "has_retry_loop" for h in self.code.material.hits_of(symbol)):
            # One attempt that fails is no failure; of a model each counts.
            asked = {way for way in inner if any(key[0] == ASKED for key in way)}
            inner = frozenset(asked if asked == inner else {frozenset[tuple[object, ...]]()})
        self._leaving[symbol] = frozenset(own | way for way in inner)
        return self._leaving[symbol]

    def raised_in(self, subject: Subject, s: Stmt) -> frozenset[Way]:
        """Return the ways of the errors that reach the handlers of a `try`."""
        alone = asked_alone(subject, s, self.code.material.hits_of(subject.symbol))
        return frozenset(frozenset({one}) for one in alone) or self._arising(subject, s, 0)

    # -- errors of a block -------------------------------------------------------------------------------------

    def _arising(self, subject: Subject, block: Stmt | None, depth: int) -> frozenset[Way]:
        """Return the ways of the errors of a function, or of the protected block of one of its `try`."""
        out: set[Way] = set()
        tries = [s for s in subject.statements if s[0] in ("try", "with") and s is not block]
        for call in subject.calls:
            line = call_line(call)
            if (block is not None and not in_body(block, line)) or self._is_taken(subject, tries, block, line):
                continue
            if is_context_of_calls(call) or (block is not None and only_makes_stream(subject, call, body_of(block))):
                continue
            targets = [edge.dst for edge in subject.inside(call)] or handed_functions(subject, call)
            targets = targets or forward_of(subject, call)
            if targets:
                out.update(way for target in targets for way in self.leaving(target, depth + 1))
            elif (asked := asked_at(subject, call, self.code.material.hits_of(subject.symbol))) is not None:
                out.add(frozenset({asked}))
            elif self.errors.may_leave(subject, call):
                out.add(frozenset())
            if self.errors.checks_outcome(subject, call):
                out.add(frozenset())
            if len(out) > _MAX_WAYS:
                return frozenset({frozenset()})
        parses = {h.line for h in self.code.material.hits_of(subject.symbol) if h.pattern == "parses_json"}
        parses = {at for at in parses if block is None or in_body(block, at)}
        if any(not self._parse_taken_by(at, tries, block, subject) for at in parses):
            out.add(frozenset())
        if self._raises_by_itself(subject, block, tries):
            out.add(frozenset())
        return frozenset(out)

    def _is_taken(self, subject: Subject, tries: list[Stmt], block: Stmt | None, line: int) -> bool:
        return any(
            in_body(s, line) and _is_inside(s, block) and self.errors.swallows(subject, s)
            for s in tries
            if s[0] == "try" or _suppresses(s)
        )

    def _parse_taken_by(self, line: int, tries: list[Stmt], block: Stmt | None, subject: Subject) -> Stmt | None:
        """Return the `try` that takes the error of a parse, or None."""
        inner = [s for s in tries if s[0] == "try" and in_body(s, line) and _is_inside(s, block)]
        for s in sorted(inner, key=lambda s: -line_of(s)):
            for handler in handlers_of(s):
                names = {last_name(kind) for kind in kinds_of(handler)}
                takes = not names or names & _WIDE or any(n.endswith(("DecodeError", "ValueError")) for n in names)
                if takes and not self.errors.raises(subject, handler_body(handler)):
                    return s
        return None

    def _raises_by_itself(self, subject: Subject, block: Stmt | None, tries: list[Stmt]) -> bool:
        """Return whether it raises for what it was given from outside, and not for its arguments or settings."""
        raising = [
            s for s in subject.statements if s[0] == "if" and any(b and b[-1][0] == "raise" for _, b in branches_of(s))
        ]
        raising = [s for s in raising if block is None or in_body(block, line_of(s))]
        raising = [s for s in raising if not self._is_taken(subject, tries, block, line_of(s))]
        if not raising:
            return False
        brought = self.code.names_brought(subject, None)
        return any(names_in(test) & brought for s in raising for test, b in branches_of(s) if b and b[-1][0] == "raise")

    # -- metrics -----------------------------------------------------------------------------------------------

    def _ways_of(self, metric: MetricDesign) -> frozenset[Way]:
        if metric.source != "catalog" or not metric.places:
            return frozenset()
        out: set[Way] = set()
        for place in metric.places:
            symbol = self.code.function_at(place)
            subject = self.code.subject(symbol) if symbol is not None else None
            found = self._ways_at(metric, place, subject) if subject is not None else None
            if not found:
                return frozenset()
            out |= found
        return frozenset(out)

    def _ways_at(self, metric: MetricDesign, place: CodePlace, subject: Subject) -> frozenset[Way]:
        field = metric.claim.get("field")
        if field == "status":
            return self.leaving(subject.symbol)
        if field == "attributes.retry_outcome":
            kinds = {h.kind for h in self.code.material.hits_of(subject.symbol) if h.pattern == "has_retry_loop"}
            # What a library tries in vain leaves the function as an exception.
            return self.leaving(subject.symbol) if kinds <= {"decorator", "client"} else frozenset()
        if field == "attributes.swallowed_errors":
            s = self._try_at(subject, place.line, is_inside=False)
            if s is not None and self._asks_again(subject, s):
                return frozenset()  # A poorer answer takes the place of the one that failed.
            return frozenset(way | {_taken(subject, s)} for way in self.raised_in(subject, s)) if s else frozenset()
        if field in _OF_WAYS_OUT:
            # What a handler gives instead, or the second way that it takes, tells an error of what it protects.
            s = self._try_at(subject, place.line, is_inside=field == "attributes.answer_outcome")
            return frozenset(way | {_taken(subject, s)} for way in self.raised_in(subject, s)) if s else frozenset()
        if field == "attributes.parsed_text" and not metric.is_of_model:
            # What a model wrote wrongly is worth a number of its own.
            s = self._parse_taken_by(place.line, subject.statements, None, subject)
            return frozenset({frozenset({_taken(subject, s) if s else ("leaves", subject.symbol)})})
        return frozenset()

    def _asks_again(self, subject: Subject, s: Stmt) -> bool:
        """Return whether a handler asks a model itself."""
        calls = [c for h in handlers_of(s) for c in calls_in(handler_body(h))]
        return any(self.code.brings(subject, c, frozenset({"llm_chat"})) for c in calls)

    def _watches(self, metric: MetricDesign) -> Way:
        """Return what a metric counts: errors that leave functions, and those that handlers take."""
        if metric.name not in self._watched:
            self._watched[metric.name] = frozenset(self._watched_by(metric))
        return self._watched[metric.name]

    def _watched_by(self, metric: MetricDesign) -> Iterator[tuple[object, ...]]:
        field = metric.claim.get("field")
        if metric.source != "catalog" or (field == "output" and metric.claim.get("present") is not True):
            return
        for place in metric.places:
            symbol = self.code.function_at(place)
            subject = self.code.subject(symbol) if symbol is not None else None
            if subject is None:
                continue
            if field in _OF_ERRORS or (field == "attributes.tool_errors" and place.line == subject.ir.line):
                yield "leaves", subject.symbol
            elif field == _OF_RUNS:
                yield "leaves", subject.symbol
                if (s := self._try_at(subject, place.line, is_inside=True)) is not None:
                    yield "ends", *_taken(subject, s)
            elif field == _OF_MODELS:
                yield ASKED, place.path, place.line
            elif field in _OF_HANDLERS:
                s = self._try_at(subject, place.line, is_inside=field != "attributes.swallowed_errors")
                if s is not None:
                    yield _taken(subject, s)

    def _try_at(self, subject: Subject, line: int, is_inside: bool) -> Stmt | None:
        """Return the `try` that begins at a line or has a handler there; or the one with the line in a handler."""
        found = None
        for s in subject.statements:
            if s[0] != "try":
                continue
            for first, *_, last in handlers_of(s):
                if line in (line_of(s), first) or (is_inside and first <= line <= last):
                    found = s
        return found


def _taken(subject: Subject, s: Stmt) -> tuple[object, ...]:
    return "taken", subject.program.path(subject.info), line_of(s)


def _is_inside(s: Stmt, block: Stmt | None) -> bool:
    return block is None or in_body(block, line_of(s))


def _suppresses(s: Stmt) -> bool:
    return any(e[0] == "c" and last_name(e) == "suppress" for e, _ in s[2])
