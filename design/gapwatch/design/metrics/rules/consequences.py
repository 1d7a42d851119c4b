"""Says what a failure costs whom: of metrics of kinds that are often wrong only those come in that show it.

A handled error, an answer that stands for a failure, an error that leaves a function, a second way, a text that is
parsed and a stream lie in nearly every file. Worth a metric of its own are those on the way from a request to an answer
(it asks a model, embeds or searches, or is called where that is done), where what was tried asks something outside the
process or reads what a model wrote, and where the user or the model gets something else instead. The others stay on the
shelf, from which they are added by name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.metrics.metric_design import MetricDesign, without_number
from gapwatch.design.metrics.outside.asked_services import why_no_service_error
from gapwatch.design.metrics.outside.own_exceptions import OwnExceptions
from gapwatch.design.metrics.rules.code_view import keep_places
from gapwatch.design.metrics.rules.error_paths import in_body
from gapwatch.design.metrics.rules.failure_paths import FailurePaths
from gapwatch.design.metrics.rules.harmless_calls import is_beside_the_answer
from gapwatch.design.metrics.rules.parsed_texts import reads_answer
from gapwatch.design.metrics.rules.served_code import is_of_server
from gapwatch.design.metrics.searches.found_passages import FoundPassages
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.alternatives import LEAST, ClassChoice, find_choices
from gapwatch.design.patterns.code_walk import arguments_of, calls_of, names_in, own_expressions, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.routes.apologies import apologies
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    call_line,
    constant_of,
    handler_body,
    handlers_of,
    is_name,
    line_of,
    members_in,
    name_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Of the metrics of a kind that persons read on code that nobody had seen before: how many were right, and how many
#: there were. A kind that was wrong or useless in most readings comes in by name alone.
READINGS_OF_KINDS: Mapping[str, tuple[int, int]] = {
    "error_rate": (9, 28),
    "fallback_rate": (9, 32),
    "output_parses": (9, 26),
    "stream_completed": (8, 19),
    "first_chunk_seconds": (5, 11),
    "embedding_errors": (3, 8),
    "service_latency": (2, 7),
    "rows_written": (0, 5),
    "cache_hit_rate": (0, 4),
}
#: Folders of clients, which run at others.
_BESIDE_THE_PIPELINE = re.compile(r"(^|/)(\w+[-_])*sdk/")
#: Files whose failures somebody sees: whoever types a command reads its error, and settings are read once.
_SEEN = re.compile(r"(^|/)(cli/|(cli|config|settings)\.py$)")
#: Fields of metrics of failures.
_ANSWERS, _SWALLOWED, _STATUS = "attributes.answer_outcome", "attributes.swallowed_errors", "status"
_FAILURES = frozenset({_ANSWERS, _SWALLOWED, _STATUS})
_STREAMS = frozenset({"attributes.first_chunk_seconds", "attributes.stream_outcome"})
#: Libraries of pages; who looks at a page sees what fails there.
_PAGES = ("streamlit.", "gradio.", "nicegui.", "textual.")
#: Codes of requests that ask for what is not there or not allowed; a time limit or too many requests are none.
_FAULTS_OF_REQUESTS = frozenset(range(400, 500)) - {408, 429}
#: Capabilities that make an answer, and those that keep what a user gave.
_PIPELINE = frozenset({"llm_chat", "embedding", "retrieval", "rerank"})
_MODELS = frozenset({"llm_chat"})
_WRITES = frozenset({"db_write", "vector_write"})
#: Names of functions that give what is shown beside an answer, or that a person uses to administer.
_ASIDE = re.compile(
    r"(^|_)(titles?|labels?|icons?|thumbnails?|display_names?|workspace_names?|versions?|languages?|(token|word)_counts?"
    r"|tokens_count|estimates?|mime_types?|colou?rs?|avatars?|greetings?|(api_)?keys?|secrets?|settings?|configs?"
    r"|configuration|ping|health|healthcheck)$|^_*(migrate|seed|backfill|bootstrap)_"
    r"|^_*(get|find|discover|locate|resolve|ensure|make|default)_(\w+_)?(dirs?|director(y|ies)|folders?|paths?)$"
)
#: Calls that hand a value to another thread or to the end of a function.
_KEEPS = frozenset({"append", "put", "put_nowait", "set_exception"})
#: Names of caches and their functions.
_CACHE = re.compile(r"(^|_)cached?(_|$)|Cached?(?![a-z])")
#: Names of what is remembered of earlier requests.
_MEMORY = re.compile(r"memor(y|ies)", re.I)
_OFF_PATH = "no way from a request to an answer leads through it"
_GROWS = "what is remembered grows with use: nothing is the normal course"
_NOTHING_OUTSIDE = "what is tried asks nothing outside the process and reads no text of a model"


class Consequences:
    """Queries about what the failures of metrics cost.

    Args:
        code: The analysed code.
        points: Spans by component.
        failures: The ways of errors.
        concerns: Concerns that the goal speaks of, whose metrics come in whatever their kind.
    """

    def __init__(
        self,
        code: ClaimedCode,
        points: Mapping[str, list[IntegrationPoint]],
        failures: FailurePaths,
        concerns: Collection[str] = (),
    ) -> None:
        self.code = code
        self.points = points
        self.concerns = concerns
        self.errors = failures.errors
        self._on_path: dict[str, bool] = {}
        self._found = FoundPassages(code)
        self._exceptions = OwnExceptions(code)
        self._failures = failures

    def kept(self, metric: MetricDesign) -> MetricDesign | str:
        """Return a metric with the places that show a consequence, or why it comes into a portfolio by name alone."""
        if not metric.places or metric.source != "catalog":
            return metric
        why: dict[CodePlace, str] = {p: found for p in metric.places if (found := self._why_not(metric, p)) is not None}
        good = [p for p in metric.places if p not in why]
        if not good:
            return why[metric.places[0]]
        kept: MetricDesign | None = metric
        if len(good) < len(metric.places):
            kept = keep_places(replace(metric), good, self.code, self.points.get(metric.component, ()))
        if kept is None:
            return why[next(iter(why))]
        if metric.claim.get("field") in _FAILURES:
            asking = self.code.reaching(_MODELS)
            kept = replace(kept, is_of_model=any(self.code.function_at(p) in asking for p in kept.places))
        seldom = _right_seldom(kept) if metric.concern not in self.concerns else None
        return seldom or kept

    def why_unlikely(self, metric: MetricDesign) -> str | None:
        """Return why a metric seldom has a value: a setting chooses between many classes, and it is of very few."""
        is_of_places = metric.source == "catalog" and not metric.is_of_trace
        paths = {p.path for p in metric.places} if is_of_places else set()
        for choice in self._choices if paths else ():
            owners = {choice.owner_of(path) for path in paths}
            if None not in owners and len(owners) * LEAST <= len(choice.paths):
                chosen = choice.symbol.rpartition(".")[2]
                return f"of {len(choice.paths)} ways of which {chosen} chooses one, it is of {len(owners)}"
        return None

    @functools.cached_property
    def _choices(self) -> list[ClassChoice]:
        functions = (self.code.subject(f.symbol) for f in self.code.material.program.functions)
        return find_choices(s for s in functions if s is not None and s.symbol not in self._tests)

    def _why_not(self, metric: MetricDesign, place: CodePlace) -> str | None:
        field = metric.claim.get("field")
        if is_beside_the_pipeline(place.path):
            return "of a client beside the pipeline"
        if field in _FAILURES and _SEEN.search(place.path):
            return "who types the command reads the error"
        if field == "output" and metric.claim.get("present") is True:
            return "that a model said nothing is told where it is asked, and that a step raised by the run that it ends"
        symbol = self.code.function_at(place)
        subject = self.code.subject(symbol) if symbol is not None else None
        if subject is None:
            return None
        if field == _ANSWERS:
            return self._why_no_answer(subject, place)
        if field == _SWALLOWED:
            return self._why_swallowed(subject, place)
        if field == _STATUS and metric.pattern in ("calls_external_api", "has_db_write"):
            is_write = metric.pattern == "has_db_write"
            why = self._exceptions.why_not(subject, is_write)
            return why or why_no_service_error(self.code, subject, place, is_write)
        if field == _STATUS and metric.pattern == "has_try_except":
            return None if self.is_on_path(subject.symbol) else _OFF_PATH
        if field == "attributes.fallback_depth":
            return None if self.is_on_path(subject.symbol) else _OFF_PATH
        if field == "attributes.parsed_text":
            return self._why_no_parse(metric, subject)
        if field in _STREAMS:
            return self._why_no_stream(subject)
        if field == "attributes.retry_outcome":
            return None if self.is_on_path(subject.symbol) else _OFF_PATH
        if metric.pattern == "returns_failure" and field == "attributes.retrieved_count":
            return self._why_no_answer(subject, place) or self._found.why_unseen(subject)
        if field == "attributes.retrieved_count":
            return _GROWS if _of_memory(subject) else self._found.why_not(subject.symbol, place)
        return None

    def _why_no_answer(self, subject: Subject, place: CodePlace) -> str | None:
        if _is_page(subject):
            return "a person sees it on the page"
        if _is_no_failure(subject, place.line):
            return "the request asks for what is not there, or a value is handed back as it came"
        if any(line == place.line for _, line in apologies(subject)):
            return None  # Whoever is sorry for a missing answer was to give one, wherever it was to come from.
        if _gives_nothing(subject, place.line):
            return "the function gives nothing where it succeeds, too"
        if _goes_on(subject, place.line):
            return "the function goes on without one part, and gives its answer"
        if not self.is_on_path(subject.symbol):
            return _OFF_PATH
        if _of_memory(subject) and subject.symbol not in self.code.reaching(_MODELS):
            return _GROWS
        if (why := self._why_aside(subject)) is not None:
            return why
        around = [
            s for s in subject.statements if s[0] == "try" and any(h[0] <= place.line <= h[-1] for h in _lines(s))
        ]
        if around and not self._asks_outside(subject, max(around, key=line_of)):
            return _NOTHING_OUTSIDE
        return None

    def _why_swallowed(self, subject: Subject, place: CodePlace) -> str | None:
        if _is_page(subject):
            return "a person sees the error on the page"
        tried = [
            s
            for s in subject.statements
            if s[0] == "try" and place.line in {line_of(s), *(h[0] for h in handlers_of(s))}
        ]
        calls = [c for c in subject.calls if not tried or any(in_body(s, call_line(c)) for s in tried)]
        if any(reads_answer(self.code, subject, body_of(s)) for s in tried):
            return None if self.is_on_path(subject.symbol) else _OFF_PATH
        if tried and all(_hands_on(h) for s in tried for h in handlers_of(s)):
            return "the handler hands the error itself on"
        asking = [c for c in calls if self.code.brings(subject, c, None) or self.errors.checks_outcome(subject, c)]
        if not asking:
            return _NOTHING_OUTSIDE
        if tried and not any(self._failures.raised_in(subject, s) for s in tried):
            return "what it protects takes each error itself, so that none comes here"
        if all(_ASIDE.search(last_name(c)) for c in asking):
            return f"{last_name(asking[0])} gives what stands beside the answer"
        # What was to be kept is lost, whoever asked for it.
        keeps = any(self.code.brings(subject, c, _WRITES) for c in calls)
        if not keeps and not self.is_on_path(subject.symbol):
            return _OFF_PATH
        return self._why_aside(subject)

    def _why_no_parse(self, metric: MetricDesign, subject: Subject) -> str | None:
        if not metric.is_of_model:
            return "no model wrote the text"
        return None if self.is_on_path(subject.symbol) else _OFF_PATH

    def _why_no_stream(self, subject: Subject) -> str | None:
        if subject.symbol not in self.code.reaching(_MODELS) and self.is_on_path(subject.symbol):
            return "the pieces of the stream are no model's"
        return None

    def _why_aside(self, subject: Subject) -> str | None:
        name = subject.ir.name
        asks = subject.symbol in self.code.reaching(_MODELS)
        if not asks and any(_CACHE.search(one) for one in subject.symbol.split(".")[-2:]):
            return "what a cache does not give is made again"
        is_beside = is_beside_the_answer(name) and not asks
        return f"{name} gives what stands beside the answer" if is_beside or _ASIDE.search(name) else None

    def _asks_outside(self, subject: Subject, s: Stmt) -> bool:
        """Return whether what a `try` protects asks something outside the process, or reads a text of a model."""
        if reads_answer(self.code, subject, body_of(s)):
            return True
        hits = self.code.material.hits_of(subject.symbol)
        if any(h.pattern in ("parses_json", "runs_code") and in_body(s, h.line) for h in hits):
            return True
        calls = [c for c in subject.calls if in_body(s, call_line(c))]
        if any(self.errors.may_leave(subject, c) or self.errors.checks_outcome(subject, c) for c in calls):
            return True
        # What a model or a service gave may lack what is read of it.
        brought = self.code.names_brought(subject, None)
        return any(names_in(e) & brought for x in statements(body_of(s)) for e in own_expressions(x))

    # -- the way from a request to an answer ---------------------------------------------------------------------

    def is_on_path(self, symbol: str) -> bool:
        """Return whether a function asks a model, embeds or searches, or is called where that is done.

        What a library calls is taken for such a function where its component is one.
        """
        if symbol not in self._on_path:
            self._on_path[symbol] = self._leads_to_answer(symbol)
        return self._on_path[symbol]

    def _leads_to_answer(self, symbol: str) -> bool:
        asking = self.code.reaching(_PIPELINE)
        seen, frontier = {symbol}, [symbol]
        while frontier:
            one = frontier.pop()
            if one in asking:
                return True
            above = {e.src for e in self.code.material.sites.callers.get(one, ()) if self._is_call(e)}
            outer = one.rpartition(".")[0]
            if (inside := self.code.subject(outer)) is not None and inside.ir.kind != "module":
                above.add(outer)
            frontier += above - seen
            seen |= above
        return False

    def _is_call(self, edge: CallEdge) -> bool:
        """Return whether an edge is a call of production code, and no function that is handed to a server."""
        if edge.src in self._tests:
            return False
        if edge.kind not in ("callback", "decorated"):
            return True
        subject = self.code.subject(edge.src)
        lines = {line for _, line in edge.sites}
        calls = [c for c in subject.calls if call_line(c) in lines] if subject is not None else []
        return not any(is_of_server(name) for c in calls for name in subject.sites.named_at(edge.src, c))  # type: ignore[union-attr]

    @functools.cached_property
    def _tests(self) -> set[str]:
        return {s.id for s in self.code.material.graph.symbols if s.tags}


def _right_seldom(metric: MetricDesign) -> str | None:
    """Return why a metric of a kind that was seldom right comes in by name alone."""
    kind = next((k for k in READINGS_OF_KINDS if without_number(metric.family).endswith(k)), "")
    # Who answers with a worse model is told; that is what a fallback is watched for.
    if not kind or (kind == "fallback_rate" and metric.is_of_model):
        return None
    right, read = READINGS_OF_KINDS[kind]
    return f"of {read} of its kind that persons read beside the code, {right} were right"


def is_beside_the_pipeline(path: str) -> bool:
    """Return whether a file is of a client: no request of a user runs it."""
    return _BESIDE_THE_PIPELINE.search(path) is not None


def _lines(s: Stmt) -> Iterable[tuple[int, int]]:
    return [(first, last) for first, *_, last in handlers_of(s)]


def _of_memory(subject: Subject) -> bool:
    return any(_MEMORY.search(name) for name in subject.symbol.split(".")[-4:])


def _hands_on(handler: Stmt) -> bool:
    """Return whether a handler keeps the exception itself for whoever waits: `results.append(error)`."""
    caught = ("n", handler[2]) if handler[2] else None
    for s in statements(handler_body(handler)):
        if caught is not None and s[0] == "assign" and value_of(s) == caught:
            return True
        for call in (c for e in own_expressions(s) for c in calls_of(e) if last_name(c) in _KEEPS):
            given = [one for a in arguments_of(call) for one in (members_in(a) if a[0] == "t" else (a,))]
            if caught is not None and caught in (given if last_name(call) != "append" else arguments_of(call)):
                return True
    return False


def _gives_nothing(subject: Subject, line: int) -> bool:
    """Return whether a line leaves a function that gives nothing back in any case."""
    is_left = any(s[0] == "return" and line_of(s) == line for s in subject.statements)
    return is_left and not subject.ir.is_generator and all(e == ("k", None) for e in subject.returned)


def _goes_on(subject: Subject, line: int) -> bool:
    """Return whether a line sets a name to an empty list, text or table, and the function gives something else."""
    there = [s for s in subject.statements if s[0] == "assign" and line_of(s) == line and _is_empty(value_of(s))]
    set_here = {name_of(t) for s in there for t in targets_of(s) if is_name(t)}
    return bool(there) and not any(is_name(e) and name_of(e) in set_here for e in subject.returned)


def _is_empty(value: Expr | None) -> bool:
    return value is not None and (value == ("k", "") or (value[0] in ("l", "t", "d") and not value[1]))


def _is_page(subject: Subject) -> bool:
    owner = subject.program.classes[subject.info.owner] if subject.info.owner >= 0 else None
    if owner is not None and any(base.startswith(_PAGES) for base in owner.outside):
        return True
    return any(
        name.startswith(_PAGES) for call in subject.calls for name in subject.sites.named_at(subject.symbol, call)
    )


def _is_no_failure(subject: Subject, line: int) -> bool:
    """Return whether the answer at a line tells a fault of the request, or is an argument as it came."""
    given = [e for s in subject.statements if line_of(s) == line for e in own_expressions(s)]
    if any(e[0] == "k" and constant_of(e) in _FAULTS_OF_REQUESTS for one in given for e in walk(one)):
        return True
    names = {p.name for p in subject.ir.params}
    return any(is_name(e) and name_of(e) in names for e in given)
