"""Plans the spans of a design: for each function its span, and the lines at which fields of the span change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.architecture.tiers import arm_tiers
from gapwatch.design.emission.agent_ends import agent_ends
from gapwatch.design.emission.needed_marks import NeededOfSpan, one_of_each_function
from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan, SpanMark
from gapwatch.design.metrics.present_spans import PointSpans, PresentSpans
from gapwatch.design.metrics.spans import OF_EXCHANGE, IntegrationPoint
from gapwatch.design.patterns.attempt_ends import breaks, given_up
from gapwatch.design.patterns.code_walk import leaves
from gapwatch.design.patterns.failures import retried_from
from gapwatch.design.patterns.hit import FAILS_WHOLE, PatternHit, Subject
from gapwatch.design.routes.error_takers import refused_exceptions
from gapwatch.design.source.ir import (
    Body,
    Stmt,
    body_of,
    branches_of,
    end_of,
    handler_body,
    handlers_of,
    line_of,
)
from gapwatch.design.source.program import statements

#: Fields that are read from the reply of a model.
_OF_REPLY = ("model", "usage.input_tokens", "usage.output_tokens", "usage.cost_usd", "attributes.finish_reason")
_OF_RESULT = {"attributes.retrieved_count": "of_result", "attributes.rows_written": "of_cursor"}
#: Fields that every planned span has.
_OF_CALL = ("status", "error_type", "started_at", "ended_at", "input", "output")


def plan_spans(
    points: list[IntegrationPoint],
    needed: dict[tuple[str, str], NeededOfSpan],
    architecture: Architecture,
    present: PresentSpans,
    material: Material,
) -> list[PlannedSpan]:
    """Return the plan of each span to emit.

    Args:
        points: Spans to emit.
        needed: Fields and lines that metrics need, by component and name of the span.
        architecture: Components.
        present: Spans that there are.
        material: The analysed code.
    """
    numbers = material.sites.numbers(material.program)
    subjects = [Subject(material.program, material.sites, f) for f in material.program.functions]
    refusals = " ".join(sorted(refused_exceptions(subjects)))
    out = []
    for point in points:
        number = numbers.get(point.symbol)
        if number is None:
            continue
        component = architecture.component(point.component)
        made = _Planner(point, component, subjects[number], present, needed[point.component, point.name]).plan()
        if refusals and "request_outcome" in made.start:
            made.start["request_refusals"] = refusals
        out.append(made)
    return one_of_each_function(out)


class _Planner:
    def __init__(
        self,
        point: IntegrationPoint,
        component: ComponentDraft,
        subject: Subject,
        present: PresentSpans,
        needed: NeededOfSpan,
    ) -> None:
        self.point, self.component, self.subject, self.needed = point, component, subject, needed
        spans = present.points.get(point.symbol, PointSpans())
        there = next((s for s in spans.own if s.is_current), None)
        ir = subject.ir
        self.made = PlannedSpan(
            point.component,
            there.names[0] if there is not None else point.name,
            point.kind,
            point.place.path,
            point.symbol,
            MarkedFunction("<module>" if ir.kind == "module" else ir.qual, ir.line),
            is_async=ir.is_async,
            is_generator=ir.is_generator,
            is_there=there is not None,
        )
        self._has = set(there.fields) if there is not None else set()

    def plan(self) -> PlannedSpan:
        """Return the plan."""
        made = self.made
        makers: dict[str, Callable[[], str | None]] = {
            "attributes.swallowed_errors": self._swallowed,
            "attributes.retry_count": self._retries,
            "attributes.retry_outcome": self._retry_outcome,
            "attributes.fallback_depth": self._arms,
            "tier": self._arms,
            "attributes.parsed_text": self._parsed,
            "attributes.cache": self._cache,
            "attributes.answer_outcome": self._failures,
            "attributes.breaker": self._breaker,
            "attributes.request_outcome": self._requests,
            "attributes.agent_exit": self._agent_exit,
            "attributes.agent_steps": self._agent_steps,
            "attributes.tool_errors": self._tool_errors,
            "attributes.format_errors": self._format_errors,
            "attributes.context_outcome": self._context,
            "attributes.model_errors": self._unanswered,
        }
        if self.subject.ir.kind == "module":
            # A page runs for each action of its user; most ask no model and have no span.
            made.start["asked"] = None
            for hit in self._hits("calls_llm"):
                self._mark(hit.symbol, hit.line, "set", "asked", 1)
        for name in sorted(self.needed.fields):
            reason: str | None = ""
            if name in self._has:
                continue
            if name in makers:
                reason = makers[name]()
            elif name in (*_OF_REPLY, *OF_EXCHANGE) or (name == "output" and self._hits("calls_llm", "direct")):
                if name in OF_EXCHANGE:
                    made.start[name.removeprefix("attributes.")] = None
                    if all(h.kind == "direct" for h in self._hits("calls_llm")):
                        made.start["model_own"] = 1
                    for line, is_held in self.point.held_at.items():
                        made.start["model_held"] = 0
                        self._mark(self.point.symbol, line, "set", "model_held", is_held)
                made.reads_reply = made.reads_reply or name not in OF_EXCHANGE
                for hit in self._hits("calls_llm", "direct"):
                    self._mark(hit.symbol, hit.line, "reply", "reply", hit.evidence.rpartition(".")[2])
            elif name == "attributes.retrieved_count" and self._says_nothing():
                made.start["retrieved_count"] = 1
                named = self.needed.named(name, self._hits("returns_failure")) or []
                for hit in self._hits("returns_failure"):
                    found = 0 if hit in named and hit.outcome == "nothing" else None
                    self._mark(hit.symbol, hit.line, "set", "retrieved_count", found)
            elif name in _OF_RESULT:
                made.start[name.removeprefix("attributes.")] = _OF_RESULT[name]
            elif name in ("attributes.first_chunk_seconds", "attributes.stream_outcome"):
                if made.is_generator:
                    made.start[name.removeprefix("attributes.")] = "of_stream"
                elif self._hits("streams_response", "response"):
                    made.start[name.removeprefix("attributes.")] = "of_response"
                else:
                    reason = "the stream is sent by another function"
            elif name not in _OF_CALL:
                reason = "only the code knows it"
            if reason is None:
                continue
            if reason:
                made.by_hand[name] = reason
            else:
                made.fields.append(name)
        for function in (made.function, *made.inner):
            function.marks = sorted(set(function.marks), key=lambda m: (m.line, m.action, m.field, str(m.value)))
        return made

    # -- fields --------------------------------------------------------------------------------------------------

    def _hits(self, pattern: str, *kinds: str) -> list[PatternHit]:
        inside = f"{self.point.symbol}."
        return [
            h
            for h in self.component.hits
            if h.pattern == pattern
            and (h.symbol == self.point.symbol or h.symbol.startswith(inside))
            and (not kinds or h.kind in kinds)
        ]

    def _mark(
        self,
        symbol: str,
        line: int,
        action: str,
        name: str,
        value: str | int | tuple[tuple[str, str], ...] | None = None,
    ) -> None:
        function = self.made.function
        if symbol != self.point.symbol and (inner := self.subject.other(symbol)) is not None:
            found = next((f for f in self.made.inner if f.name == inner.ir.qual), None)
            if found is None:
                found = MarkedFunction(inner.ir.qual, inner.ir.line)
                self.made.inner.append(found)
            function = found
        function.marks.append(SpanMark(line, action, name, value))

    def _statements(self, hit: PatternHit, *tags: str) -> Iterator[Stmt]:
        subject = self.subject if hit.symbol == self.point.symbol else self.subject.other(hit.symbol)
        for s in subject.statements if subject is not None else ():
            if s[0] in tags and line_of(s) == hit.line:
                yield s

    def _swallowed(self) -> str | None:
        hits = self.needed.named("attributes.swallowed_errors", self._hits("has_try_except", "swallows"))
        if hits is None:
            return None
        self.made.start["swallowed_errors"] = 0
        marked = False
        for hit in hits:
            for s in self._statements(hit, "try"):
                for handler in handlers_of(s):
                    body = handler_body(handler)
                    if body and body[-1][0] == "raise":
                        continue
                    # A handler of nothing but `pass` has no statement; it ends with it.
                    line = line_of(body[0]) if body else handler[-1]
                    self._mark(hit.symbol, line, "add", "swallowed_errors")
                    marked = True
        return "" if marked else "the errors are swallowed without a line of their own"

    def _attempts(self) -> Iterator[tuple[PatternHit, Stmt]]:
        """Yield the loops whose turns are attempts."""
        for hit in self._hits("has_retry_loop", "loop", "limit"):
            yield from ((hit, s) for s in self._statements(hit, "for", "while") if body_of(s))

    def _retries(self) -> str:
        for hit, s in self._attempts():
            self._mark(hit.symbol, line_of(body_of(s)[0]), "add", "attempts")
            self.made.start["attempts"] = 0
        if "attempts" not in self.made.start:
            if not self._hits("has_retry_loop", "decorator", "client", "recursion"):
                return "no attempt can be seen"
            around = any(h.symbol == self.point.symbol for h in self._hits("has_retry_loop", "decorator"))
            self.made.start["unseen_attempts"] = "of_decorator" if around else "of_library"
            self.made.above = retried_from(self.subject) if around and not self.made.is_generator else 0
        return ""

    def _retry_outcome(self) -> str:
        for hit, s in self._attempts():
            for line in (over := given_up(s)):
                self._mark(hit.symbol, line, "set", "retry_outcome", "exhausted")
            after, body = self._line_after(hit, end_of(s)), body_of(s)
            if not after:
                continue
            ends = [line for line in breaks(body) if line not in over]
            lines = [line_of(inner) for inner in statements(body)]
            # `while tries < 3 and not done`, and `if done: break` on one line.
            if (s[0] == "while" and s[2][0] in ("b", "!")) or any(lines.count(line) > 1 for line in ends):
                return "where the loop ends, the code does not say whether it succeeded"
            if ends:
                self._mark(hit.symbol, line_of(body[0]), "set", "loop_left", 0)
            for line in ends:
                self._mark(hit.symbol, line, "set", "loop_left", 1)
            self._mark(hit.symbol, after, "set", "retry_outcome", "exhausted")
        return self._retries()

    def _line_after(self, hit: PatternHit, end: int) -> int:
        subject = self.subject if hit.symbol == self.point.symbol else self.subject.other(hit.symbol)
        lines = [line_of(s) for s in subject.statements if line_of(s) > end] if subject is not None else []
        return min(lines, default=0)

    def _arms(self) -> str:
        routes = [r for r in self.component.routes if r.symbol == self.point.symbol]
        for route in routes:
            if route.kind == "option":
                return "a library tries the ways itself, inside of one call"
            arms, tiers = route.answers, arm_tiers(route, self.component)
            if len({arm.line for arm in arms}) != len(arms) or len(tiers) != len(arms):
                continue
            self.made.start |= {"fallback_depth": 0, "tier": tiers[0]}
            for depth, (arm, tier) in enumerate(zip(arms, tiers, strict=True)):
                if depth:
                    self._mark(route.symbol, arm.line, "set", "fallback_depth", depth)
                    self._mark(route.symbol, arm.line, "set", "tier", tier)
            return ""
        own = [t.id for t in self.component.tiers if t.symbol == self.point.symbol]
        if own and not routes:
            self.made.start["tier"] = own[0]
            return ""
        return "the arms cannot be told apart by their lines" if routes else "no arm has a line of its own"

    def _parsed(self) -> str:
        hits = self._hits("parses_json", "llm", "text", "http", "queue")
        for hit in hits:
            self._mark(hit.symbol, hit.line, "text", "parsed_text")
        return "" if hits else "no call parses a text here"

    def _cache(self) -> str:
        marked = False
        for hit in self._hits("has_cache"):
            if hit.kind != "decorator" and (line := self._line_of_miss(hit)):
                self._mark(hit.symbol, line, "set", "cache", "miss")
                marked = True
        if marked:
            self.made.start["cache"] = "hit"
        return "" if marked else "the answer of the cache has no line of its own"

    def _line_of_miss(self, hit: PatternHit) -> int:
        """Return the first line that runs only where the cache has no answer; 0 where there is none."""
        subject = self.subject if hit.symbol == self.point.symbol else self.subject.other(hit.symbol)
        for s in subject.statements if subject is not None else ():
            if not hit.line <= line_of(s) <= hit.end:
                continue
            if s[0] == "if":
                body = branches_of(s)[0][1]
                if leaves(body):
                    return self._line_after(hit, end_of(s))
                if line_of(s) < hit.end <= end_of(s) and body:
                    return line_of(body[0])
            elif s[0] == "try" and handlers_of(s):
                handled = handler_body(handlers_of(s)[0])
                return line_of(handled[0]) if handled else 0
        return 0

    def _failures(self) -> str | None:
        given = [*self._hits("returns_failure"), *self._hits("runs_code", "raises")]
        hits = self.needed.named("attributes.answer_outcome", given)
        if hits is None:
            return None
        if hits:
            self.made.start["answer_outcome"] = "answered"
        for hit in hits:
            self._mark(hit.symbol, hit.line, "set", "answer_outcome", hit.outcome)
        return "" if hits else "no line gives a failure back here"

    def _says_nothing(self) -> bool:
        """Return whether a search says in words that it found nothing."""
        return any(hit.outcome == "nothing" for hit in self._hits("returns_failure"))

    def _requests(self) -> str:
        self.made.start["request_outcome"] = "answered"
        hits = [h for pattern in FAILS_WHOLE for h in self._hits(pattern, "answer")]
        for hit in self.needed.named("attributes.request_outcome", hits) or ():
            self._mark(hit.symbol, hit.line, "set", "request_outcome", "failed")
        return ""

    def _agent_exit(self) -> str:
        start, marks, reason = agent_ends(self.component.loops, self.point.symbol, self.point.place.path)
        self.made.start |= start
        for symbol, mark in marks:
            self._mark(symbol, mark.line, mark.action, mark.field, mark.value)
        return reason

    def _agent_steps(self) -> str:
        for loop in self.component.loops:
            if loop.symbol == self.point.symbol and loop.kind == "loop":
                self.made.start["agent_steps"] = 0
                self._mark(loop.symbol, loop.step, "add", "agent_steps")
            elif loop.symbol == self.point.symbol:
                self.made.start["agent_steps"] = 1
        return "" if "agent_steps" in self.made.start else "no step begins in this function"

    def _tool_errors(self) -> str | None:
        if any(h.symbol == self.point.symbol for h in self._hits("tells_model_error", "tool")):
            self.made.start |= {"tool_errors": 0, "is_tool": 1}
            self._told("tool error", "tool_errors")
            return ""
        return self._told("tool error", "tool_errors")

    def _unanswered(self) -> str:
        hits = self._hits("calls_llm", "direct")
        if hits:
            self.made.start["model_errors"] = None
        for hit in hits:
            self._mark(hit.symbol, hit.line, "reply", "reply", hit.evidence.rpartition(".")[2])
        return "" if hits else "it asks no model itself"

    def _format_errors(self) -> str | None:
        return self._told("format error", "format_errors")

    def _told(self, kind: str, name: str) -> str | None:
        hits = self.needed.named(f"attributes.{name}", self._hits("tells_model_error", kind))
        if hits is None:
            return None
        if hits:
            self.made.start[name] = 0
        for hit in hits:
            self._mark(hit.symbol, hit.line, "add", name)
        return "" if hits else "no line tells the model here"

    def _context(self) -> str:
        self.made.start["context_outcome"] = "whole"
        for hit in self.needed.named("attributes.context_outcome", self._hits("cuts_context")) or ():
            self._mark(hit.symbol, hit.line, "set", "context_outcome", "cut")
        return ""

    def _breaker(self) -> str:
        marked = False
        for hit in self._hits("has_circuit_breaker"):
            for s in self._statements(hit, "if"):
                body: Body = branches_of(s)[0][1]
                if body:
                    self._mark(hit.symbol, line_of(body[0]), "set", "breaker", "open")
                    marked = True
        if marked:
            self.made.start["breaker"] = "closed"
        return "" if marked else "a library holds the state of the breaker"
