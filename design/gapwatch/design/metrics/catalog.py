"""Catalogue of deterministic metrics: one method for each code pattern and each kind of component."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from gapwatch.design.architecture.answer_keys import keys_read, timeout_of
from gapwatch.design.architecture.component_names import snake, unique
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.reply_flow import is_reply_recorded
from gapwatch.design.architecture.tiers import arm_tiers, is_inside_route, named_routes
from gapwatch.design.metrics.agent_metrics import agent_metrics
from gapwatch.design.metrics.citations import citation_pattern
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.spans import OF_EXCHANGE, IntegrationPoint
from gapwatch.design.patterns.batches import batch_handlers
from gapwatch.design.patterns.hit import FAILS_WHOLE, PatternHit
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import Body, handlers_of, line_of
from gapwatch.design.source.program import statements
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM

#: Units in the window of a threshold before it is decided. `traceability` sets severities by the blast radius.
_MIN_UNITS = 200
#: Parsers of one component whose fields are also monitored; parsers of model answers come first.
MAX_FORMS = 3


#: Most lines between `try` and the end of its handler for the parse in it to be all that it does.
_AROUND_A_PARSE = 5

#: Prompts by which a model may rightly say nothing.
MAY_SAY_NOTHING = re.compile(
    r"\b(return|respond|reply|answer|output|give|provide|say)\w*\b[^.\n]{0,30}\b(empty|blank) "
    r"(strings?|texts?|responses?|answers?|repl(y|ies)|outputs?|messages?)\b"
    r"|\b(return|respond with|output|say|reply with|answer with) (nothing\b|\"\"|'')",
    re.I,
)
#: Functions that look after what is stored.
_LOOKS_AFTER = re.compile(
    r"^_*(exists?|has|is|count|delete|remove|clear|reset|list|verify|check|add|save|set|update)(_|$)"
)

#: Operations that a family of errors or durations is about.
_OPERATIONS = {
    "model_latency": "the model calls",
    "service_latency": "the requests to services",
    "retrieval_latency": "the searches",
    "error_rate": "the functions that raise or pass on errors",
    "service_errors": "the requests to services",
    "write_errors": "the writes",
    "embedding_errors": "the embedding calls",
    "guardrail_errors": "the checks",
}


class Catalog:
    """Makes the catalogue's metrics of one component.

    Args:
        component: The component.
        points: Spans that the component can emit.
        prompts: Prompts of the component.
        material: The analysed code.
        is_reached: Whether a run reaches the component.
    """

    def __init__(
        self,
        component: ComponentDraft,
        points: list[IntegrationPoint],
        prompts: list[Prompt],
        material: Material,
        is_reached: bool = True,
    ) -> None:
        self.component = component
        self.is_reached = is_reached
        self.points = {p.symbol: p for p in points}
        self.prompts = prompts
        self.material = material
        self._symbols = {s.id: s for s in material.graph.symbols}

    def metrics(self) -> list[MetricDesign]:
        """Return the metrics in the order of the catalogue; at least one if the component can emit a span."""
        out: list[MetricDesign] = []
        for make in (
            self._model_calls,
            self._parsing,
            self._routes,
            self._retries,
            self._requests,
            self._handlers,
            self._failure_answers,
            self._context_cuts,
            self._services,
            self._caches,
            self._writes,
            self._streams,
            self._queues,
            self._breakers,
            self._retrieval,
            self._embedding,
            self._guardrail,
            self._agents,
        ):
            out += make()
        return out or list(self._entry())

    # -- helpers -----------------------------------------------------------------------------------------------

    def _hits(self, pattern: str, *kinds: str) -> list[PatternHit]:
        return [
            h
            for h in self.component.hits
            if h.pattern == pattern and (not kinds or h.kind in kinds) and self._point(h.symbol) is not None
        ]

    def _point(self, symbol: str) -> IntegrationPoint | None:
        current = symbol
        while current:
            if current in self.points:
                return self.points[current]
            found = self._symbols.get(current)
            current = found.parent if found is not None else ""
        return None

    def _make(self, family: str, hits: list[PatternHit], claim: dict[str, Any], **rest: Any) -> MetricDesign:
        points = sorted({p.name for h in hits if (p := self._point(h.symbol)) is not None})
        pattern = hits[0].pattern if hits else ""
        places = [CodePlace(h.path, h.line, h.end) for h in hits]
        evidence = [f"{place} {h.pattern}: {h.evidence}" for place, h in zip(places, hits, strict=True)]
        when = rest.pop("when", None)
        named = {"field": "name", "one_of": points}
        made = MetricDesign(
            name=f"{self.component.id}_{family}",
            component=self.component.id,
            source="catalog",
            family=family,
            claim=claim,
            evidence=evidence[:8],
            symbols=sorted({h.symbol for h in hits}),
            places=places,
            pattern=rest.pop("pattern", pattern),
            spans=points,
            when={"all_of": [named, when]} if when else named,
            **rest,
        )
        if made.direction_verdict == "verified":
            # The line of a call says no direction. The claim does where it says which traces fail.
            made.direction_verdict = "verified" if made.says_by_itself else "unverified"
            made.direction_evidence = BY_THE_CLAIM if made.says_by_itself else ""
        return made

    def _title(self) -> str:
        return self.component.name.lower()

    # -- patterns ----------------------------------------------------------------------------------------------

    def _model_calls(self) -> Iterator[MetricDesign]:
        yield from self._answers()
        yield from self._citations()
        hits = self._hits("calls_llm", "direct")
        if not hits:
            return
        yield self._make(
            "finish_reason",
            hits,
            {
                "form": "label",
                "field": "attributes.finish_reason",
                "bad": [
                    *("length", "max_tokens", "content_filter", "content_filtered", "guardrail_intervened", "refusal"),
                ],
            },
            purpose="answers are not cut off or filtered",
            concern="quality",
            fields=["attributes.finish_reason"],
            severity="ticket",
            action="raise the token limit, or look at what the filter stopped",
        )
        yield self._make(
            "unanswered",
            hits,
            {
                "form": "measure",
                "field": "attributes.model_errors",
                "unit": "errors",
                "limit": {"max": 0},
                "optional": True,
            },
            purpose="calls of models that get no reply, whatever the program makes of it",
            concern="reliability",
            per_trace="sum",
            fields=["attributes.model_errors"],
            severity="ticket",
            action="count by error_type and model; look at the provider's status, its limits and the timeout",
            valid_when="a model was called",
        )
        yield self._latency("model_latency", hits, timeout_of(hits, self.material))
        yield self._make(
            "tokens_per_call",
            hits,
            {"form": "measure", "field": "usage.total_tokens", "unit": "tokens", "optional": True},
            purpose="number of tokens of prompts and answers of a run, summed over its trace",
            concern="drift",
            per_trace="sum",
            of="mean",
            fields=["usage.input_tokens", "usage.output_tokens"],
            better="unknown",
            direction_verdict="unverified",
            valid_when="the provider reports usage, which streamed answers often lack",
        )
        yield self._make(
            "model_cost",
            hits,
            {"form": "measure", "field": "usage.cost_usd", "unit": "USD", "optional": True},
            purpose="cost of the model calls of a run, summed over its trace",
            concern="cost_per_quality",
            per_trace="sum",
            of="mean",
            fields=["usage.cost_usd"],
        )

    def _answers(self) -> Iterator[MetricDesign]:
        """Yield a check that the model says something where it replies, and for each tier that its function gives it.

        A call that raises, a step that had nothing to ask and a run that was left have no reply, and so no value.
        """
        silent = {p.symbol for p in self.prompts if MAY_SAY_NOTHING.search(p.text)}
        hits = [h for h in self._hits("calls_llm", "direct") if is_reply_recorded(h) and h.symbol not in silent]
        if hits:
            yield self._make(
                "answer_present",
                hits,
                {"form": "check", "field": OF_EXCHANGE[1], "matches": r"\S", "optional": True},
                purpose=f"models say something where they reply; otherwise {self.component.user_facing_failure}",
                concern="quality",
                fields=[OF_EXCHANGE[1]],
                better="lower",
                severity="page",
                action="read prompt and finish_reason of the failing traces; an empty answer is a lost answer",
                valid_when="the model replied; a call of a tool is a reply, and a call that raised has none",
            )
        inner = self._hits("calls_llm")
        for tier in self.component.tiers:
            inside = [h for h in inner if h.symbol == tier.symbol or h.symbol.startswith(f"{tier.symbol}.")]
            if inside and tier.by == "llm" and not is_inside_route(tier, self.component):
                yield self._make(
                    f"{tier.id}_output_present",
                    [h for h in inside if h.kind == "direct"] or inside,
                    {"form": "check", "field": "output", "present": True},
                    purpose=f"{tier.id} returns a non-empty answer; otherwise {self.component.user_facing_failure}",
                    concern="quality",
                    tier=tier.id,
                    fields=["output"],
                    severity="ticket",
                    action="read input and finish_reason of the failing traces; an empty answer is a lost answer",
                    valid_when="the call was made; refused calls have no span",
                )

    def _citations(self) -> Iterator[MetricDesign]:
        """Yield a check that answers cite, for each function whose prompt shows how."""
        for prompt in self.prompts:
            pattern = citation_pattern(prompt.text)
            hits = [h for h in self._hits("calls_llm") if h.symbol == prompt.symbol]
            # Of several replies of a function only the last is recorded; what a program kept is no prompt of its code.
            is_kept = prompt.place.path.endswith(".json")
            if pattern is not None and len({h.line for h in hits}) == 1 and not is_kept:
                metric = self._make(
                    "citations_given",
                    hits,
                    {"form": "check", "field": OF_EXCHANGE[1], "matches": pattern, "optional": True},
                    purpose="answers cite sources in the form that their prompt asks for",
                    concern="quality",
                    fields=[OF_EXCHANGE[1]],
                    better="lower",
                    severity="ticket",
                    action="read answers without a citation: found nothing to cite, or a model that no longer does?",
                    valid_when="the reply has a text; one that rightly says that nothing was found cites nothing",
                )
                metric.evidence.append(f"{prompt.place} the prompt asks for citations")
                metric.places.append(prompt.place)
                yield metric
                return

    def _latency(self, family: str, hits: list[PatternHit], limit: tuple[float, str] | None) -> MetricDesign:
        claim: dict[str, Any] = {"form": "measure", "field": "latency", "unit": "s"}
        threshold, source, place = None, "none", None
        if limit is not None:
            claim["limit"] = {"max": limit[0]}
            threshold = {
                "of": "failure_rate",
                "operator": "<=",
                "value": 0.01,
                "window": "1h",
                "min_units": _MIN_UNITS,
                "justification": f"{limit[1]} sets a timeout of {limit[0]:g} s",
            }
            source = "code"
            path, _, line = limit[1].rpartition(":")
            place = CodePlace(path, int(line))
        return self._make(
            family,
            hits,
            claim,
            purpose=f"duration of {_OPERATIONS[family]} in {self._title()}",
            concern="latency",
            per_trace="max",
            of="failure_rate" if limit else "mean",
            fields=["started_at", "ended_at"],
            threshold=threshold,
            threshold_source=source,
            limit_place=place,
            severity="ticket" if limit else "",
            action="compare by model and release; look at the provider's status",
            valid_when="the span has a start and an end time",
        )

    def _parsing(self) -> Iterator[MetricDesign]:
        hits = self._hits("parses_json", "llm", "text", "http", "queue")
        if not hits:
            return
        keys = {h.symbol: keys_read(h.symbol, hits, self.material) for h in hits}
        is_one_form = len(keys) == 1
        asked = sorted({k for p in self.prompts for k in p.output_fields})
        shared = (next(iter(keys.values())) or asked) if is_one_form else []
        yield self._form("output_parses", hits, shared, f"the text that {self._title()} parses")
        # Each parser is held to the keys that it reads itself: the texts of the others need not hold them.
        taken: set[str] = set()
        of_model = {h.symbol for h in hits if h.kind == "llm"}
        first = [] if is_one_form else sorted((s for s in keys if keys[s]), key=lambda s: (s not in of_model, s))
        for symbol in first[:MAX_FORMS]:
            mine = [h for h in hits if h.symbol == symbol]
            name = unique(snake(symbol.rpartition(".")[2]) or "parser", taken)
            yield self._form(f"{name}_output_fields", mine, keys[symbol], f"the text that {name} parses")

    def _form(self, family: str, hits: list[PatternHit], keys: list[str], what: str) -> MetricDesign:
        pointers = ["/" + k.replace("~", "~0").replace("/", "~1") for k in keys]
        claim: dict[str, Any] = {"form": "check", "field": "attributes.parsed_text", "optional": True}
        claim |= {"json": {"required": pointers}} if pointers else {"format": "json"}
        wanted = f" with {', '.join(pointers)}" if pointers else ""
        is_of_model = any(h.kind == "llm" for h in hits) or bool(self.component.tiers)
        return self._make(
            family,
            hits,
            claim,
            purpose=f"{what} is JSON{wanted}",
            concern="reliability",
            fields=["attributes.parsed_text"],
            severity="page" if is_of_model else "ticket",
            is_of_model=is_of_model,
            action="look at the failing texts: a new model or prompt often changes the form first",
            valid_when="the text reaches the parser; lenient parsers accept more than strict JSON",
        )

    def _routes(self) -> Iterator[MetricDesign]:
        """Yield for each route one rate for each of its steps, and the share of each arm."""
        for route, family, question in named_routes(self.component):
            hits = [route.hit()] if self._point(route.symbol) is not None and route.asks_outside else []
            if not hits:
                continue
            shared = "every arm reports its tier; answers of other functions are left out"
            failed = self._hits("returns_failure")
            by_model = {tier.id for tier in self.component.tiers if tier.by == "llm"}
            for step, (first, second) in enumerate(itertools.pairwise(route.answers)):
                if first.goes_on == "on NotImplementedError" or first.what.endswith(".head"):
                    continue  # A model or a server has the way or has it not.
                told = next((h for h in failed if h.path == route.path and h.line <= second.line <= h.end), None)
                yield self._make(
                    f"{family}fallback_rate" if not step else f"{family}fallback_rate_{step + 1}",
                    hits,
                    {"form": "measure", "field": "attributes.fallback_depth", "unit": "tiers", "limit": {"max": step}},
                    purpose=f"share of answers for which {first.tier} does not suffice and {second.tier} is tried",
                    per_trace="max",
                    fields=["attributes.fallback_depth"],
                    severity="ticket",
                    action=f"look at why {first.what} fails ({first.goes_on}); decide whether {second.what} is worse",
                    concern="reliability",
                    better="lower",
                    direction_verdict="unverified",
                    questions=[question],
                    valid_when=shared,
                    is_of_cache=route.kind == "cache" and not step,
                    is_of_model=not by_model.isdisjoint((first.tier, second.tier)),
                    told_at=CodePlace(told.path, told.line, told.end) if told is not None else None,
                )
            ordered = arm_tiers(route, self.component)
            yield self._make(
                f"{family}tier_mix",
                hits,
                {"form": "label", "field": "tier", **({"labels": ordered} if len(ordered) > 1 else {})},
                purpose="share of answers by arm",
                concern="drift",
                fields=["tier"],
                better="unknown",
                direction_verdict="unverified",
                questions=[question],
                valid_when=shared,
            )

    def _retries(self) -> Iterator[MetricDesign]:
        hits = self._hits("has_retry_loop", "loop", "decorator", "recursion", "client")
        if hits:
            yield self._retry_count(hits)
        if bounded := [*hits, *self._hits("has_retry_loop", "limit")]:
            yield self._make(
                "retries_exhausted",
                bounded,
                {"form": "check", "field": "attributes.retry_outcome", "not": {"one_of": ["exhausted"]}},
                purpose="calls succeed, and loops get what they ask for, before the tries are used up",
                concern="reliability",
                fields=["attributes.retry_outcome"],
                severity="ticket",
                action="the dependency is down or the request can never succeed",
            )

    def _retry_count(self, hits: list[PatternHit]) -> MetricDesign:
        return self._make(
            "retry_count",
            hits,
            {"form": "measure", "field": "attributes.retry_count", "unit": "retries"},
            purpose="number of retries",
            concern="reliability",
            per_trace="sum",
            of="mean",
            fields=["attributes.retry_count"],
            better="lower",
            direction_verdict="unverified",
            questions=[f"q-{self.component.id}-retry"],
            severity="ticket",
            action="find the error that is retried; retries hide it and cost time",
            valid_when="the call was made; answers from a cache need no retry",
        )

    def _handlers(self) -> Iterator[MetricDesign]:
        # The metric of a retry loop or a route already counts its handlers.
        routes = self._hits("has_cascade")
        other = [*self._hits("has_retry_loop"), *routes]
        swallowing = [
            h
            for h in self._hits("has_try_except", "swallows")
            if not any(o.path == h.path and o.line <= h.line and h.end <= max(o.end, o.line) for o in other)
            # A route begins with its first call, within the handler of that call.
            and not any(r.path == h.path and h.line < r.line <= h.end <= r.end for r in routes)
        ]
        # What a loop raises to end or go on is no error; the metrics of its agent tell how it ends.
        flow = {(loop.path, line) for loop in self.component.loops for line in loop.flow}
        swallowing = [h for h in swallowing if (h.path, h.line) not in flow]
        # The same holds of a handler that ends a run, tells the model, or answers a request.
        ends = {(e.path, e.line) for one in self.component.loops for e in one.exits if e.is_good or e.how in one.bad}
        told = (*self._hits("tells_model_error", "tool error"), *self._failing("answer"))
        ends |= {(h.path, h.line) for h in told}
        swallowing = [h for h in swallowing if not any(path == h.path and self._handles(h, at) for path, at in ends)]
        # A handler around one parse counts what the text of the parse shows already.
        parses = self._hits("parses_json", "llm", "text", "http", "queue")
        swallowing = [
            h
            for h in swallowing
            if h.end - h.line > _AROUND_A_PARSE
            or not any(p.path == h.path and h.line <= p.line <= h.end for p in parses)
        ]
        # A handler that gives the failure back is counted by the answers that it makes.
        given = self._failed()
        others = [h for h in swallowing if not any(g.path == h.path and h.line <= g.line <= h.end for g in given)]
        swallowing = others if given else swallowing
        items = self._of_batches(swallowing) if self.is_reached else []
        for family, hits, purpose, action in (
            (
                "failed_items",
                items,
                "number of items of batches, such as files, pages or tables, that fail while the others go on",
                "count by error_type and do the failed items again; what is missing is not found later",
            ),
            (
                "swallowed_errors",
                [h for h in swallowing if h not in items],
                "number of errors that a handler swallows or replaces by a default",
                "count by error_type; a handler that runs often means that a feature does not work",
            ),
        ):
            if hits:
                yield self._make(
                    family,
                    hits,
                    {"form": "measure", "field": "attributes.swallowed_errors", "unit": "errors", "limit": {"max": 0}},
                    purpose=purpose,
                    concern="reliability",
                    per_trace="sum",
                    fields=["attributes.swallowed_errors"],
                    severity="page" if self.component.silent_failure == "high" else "ticket",
                    questions=[f"q-{self.component.id}-default"] if family == "swallowed_errors" else [],
                    action=action,
                )
        status = {(h.path, h.line) for h in self._failing("status")}
        passing = self._hits("has_try_except", "translates", "reraises")
        if hits := [h for h in passing if (h.path, h.line) not in status]:
            yield self._errors("error_rate", hits)

    def _handles(self, hit: PatternHit, line: int) -> bool:
        """Return whether a line lies in a handler of the `try` of a hit."""
        tries = (s for s in statements(self._body(hit)) if s[0] == "try" and line_of(s) == hit.line)
        return any(first <= line <= last for s in tries for first, _, _, _, last in handlers_of(s))

    def _of_batches(self, hits: list[PatternHit]) -> list[PatternHit]:
        """Return those by which a batch goes on without an item, in its loop or in what the loop calls for it."""
        loops = [h for h in hits if h.line in batch_handlers(self._body(h))]
        inside = self.material.sites.inside
        called = {e.dst for h in loops for at in range(h.line, h.end + 1) for e in inside.get((h.symbol, at), ())}
        return [h for h in hits if h in loops or h.symbol in called]

    def _body(self, hit: PatternHit) -> Body:
        number = self.material.sites.numbers(self.material.program).get(hit.symbol)
        return self.material.program.functions[number].ir.body if number is not None else ()

    def _agents(self) -> Iterator[MetricDesign]:
        yield from agent_metrics(
            self.component, [*self._hits("runs_agent"), *self._hits("tells_model_error")], self._make
        )

    def _requests(self) -> Iterator[MetricDesign]:
        for family, pattern, purpose in (
            ("failed_requests", "fails_request", "requests that users send are answered, and not with an error"),
            ("failed_runs", "fails_run", "runs come to their end, and no error leaves them or ends them"),
        ):
            if not (hits := self._hits(pattern)):
                continue
            yield self._make(
                family,
                hits,
                {"form": "check", "field": "attributes.request_outcome", "not": {"one_of": ["failed"]}},
                purpose=f"{purpose}, whatever their status says",
                concern="reliability",
                fields=["attributes.request_outcome"],
                better="lower",
                severity="page",
                action="group by error_type and span; what layers below raise and wrap ends here",
                valid_when="a request with a fault of its own (status 400 to 499) is refused, and did not fail",
            )

    def _failing(self, kind: str) -> list[PatternHit]:
        """Return where requests and runs fail in one way."""
        return [h for pattern in FAILS_WHOLE for h in self._hits(pattern, kind)]

    def _failed(self) -> list[PatternHit]:
        """Return the failures given back as answers that are counted as such, and by no other metric."""
        if not self.is_reached:
            return []
        # What a model is told of its tools, and what a user gets, are counted by metrics of their own.
        told = {(h.path, h.line) for h in (*self._hits("tells_model_error"), *self._failing("answer"))}
        hits = [h for h in self._hits("returns_failure") if (h.path, h.line) not in told]
        # What follows the last attempt is counted by the retries that are exhausted.
        loops = self._hits("has_retry_loop", "loop", "limit")
        given_up = {
            min((h for h in hits if h.symbol == loop.symbol and h.line > loop.end), default=None, key=lambda h: h.line)
            for loop in loops
        }
        return [h for h in hits if h not in given_up]

    def _raised_by_code(self) -> list[PatternHit]:
        """Return where code that failed raises, unless who calls it gives the failure back."""
        material, told = self.material, ("returns_failure", "tells_model_error")
        out: list[PatternHit] = []
        for hit in self._hits("runs_code", "raises") if self.is_reached else ():
            callers = {edge.src for edge in material.sites.callers[hit.symbol]} | {hit.symbol}
            if not any(h.pattern in told for symbol in callers for h in material.hits_of(symbol)):
                out.append(hit)
        return out

    def _failure_answers(self) -> Iterator[MetricDesign]:
        # A program has commands of its own; those that its model wrote are not told apart.
        running, commands = ({h.symbol for h in self._hits("runs_code", *k)} for k in ((), ("command",)))
        written = running - (commands - {h.symbol for h in self._hits("runs_code", "code")})
        failed = self._failed()
        for family, hits, purpose, action in (
            (
                "code_failures",
                [
                    *(h for h in failed if h.symbol in written and h.outcome == "failed"),
                    *(h for h in self._raised_by_code() if h.symbol in written),
                ],
                "code that the model wrote runs, and ends in time and without an error",
                "read the failing code with its error; a new model or prompt often changes it first",
            ),
            (
                "failure_answers",
                [h for h in failed if h.symbol not in running and h.outcome == "failed"],
                "share of answers that stand for a failure: error text, nothing, a default, an apology",
                "read the failing answers; the status of their requests says nothing",
            ),
            (
                "results_found",
                [h for h in failed if h.outcome == "nothing"],
                "searches find something, and do not say that there are no results",
                "read what was searched for; look at the index, the service, and the queries that the model writes",
            ),
        ):
            if hits:
                yield self._make(
                    family,
                    hits,
                    {"form": "check", "field": "attributes.answer_outcome", "not": {"one_of": [hits[0].outcome]}},
                    purpose=purpose,
                    concern="reliability",
                    fields=["attributes.answer_outcome"],
                    better="lower",
                    severity="ticket",
                    questions=[f"q-{self.component.id}-default"] if family == "failure_answers" else [],
                    action=action,
                    valid_when="the outcome is set where the value is made",
                )
        if nothing := [h for h in failed if h.outcome == "nothing"]:
            yield self._make(
                "results_found",
                nothing,
                {"form": "measure", "field": "attributes.retrieved_count", "unit": "passages", "limit": {"min": 1}},
                purpose="of the searches of a run at least one finds something, and does not say that it found nothing",
                concern="reliability",
                per_trace="max",
                fields=["attributes.retrieved_count"],
                better="lower",
                severity="ticket",
                action="read what was searched for; look at the index, the service, and the queries of the model",
                valid_when="0 where a search says that it found nothing, 1 where it gives what it found as a text",
            )

    def _context_cuts(self) -> Iterator[MetricDesign]:
        if hits := self._hits("cuts_context"):
            yield self._make(
                "context_cuts",
                hits,
                {"form": "check", "field": "attributes.context_outcome", "not": {"one_of": ["cut"]}},
                purpose="what the model is sent fits: no message, document or row is left out",
                concern="quality",
                fields=["attributes.context_outcome"],
                better="lower",
                severity="ticket",
                action="read what was left out; raise the budget, find less, or use a model that takes more",
                valid_when="the outcome is set where something is left out",
            )

    def _errors(self, family: str, hits: list[PatternHit]) -> MetricDesign:
        return self._make(
            family,
            hits,
            {"form": "check", "field": "status", "not": {"one_of": ["error"]}},
            purpose=f"{_OPERATIONS[family]} in {self._title()} do not fail",
            concern="reliability",
            fields=["status", "error_type"],
            severity="page" if self.component.role == "ai_core" else "ticket",
            action="group the failing spans by error_type and release",
        )

    def _services(self) -> Iterator[MetricDesign]:
        hits = [h for h in self._hits("calls_external_api") if h.kind != "wrapped"] or self._hits("calls_external_api")
        if hits:
            yield self._errors("service_errors", hits)
            yield self._latency("service_latency", hits, timeout_of(hits, self.material))

    def _caches(self) -> Iterator[MetricDesign]:
        hits = self._hits("has_cache")
        if hits:
            yield self._make(
                "cache_hit_rate",
                hits,
                {"form": "check", "field": "attributes.cache", "one_of": ["hit"]},
                purpose="share of look-ups that the cache serves",
                concern="drift",
                fields=["attributes.cache"],
                better="higher",
                direction_verdict="unverified",
                questions=[f"q-{self.component.id}-cache"],
                severity="ticket",
                action="a fall may mean new traffic or a changed key; a rise may mean stale answers",
                valid_when="the key is not empty; a cold start counts as misses",
            )

    def _writes(self) -> Iterator[MetricDesign]:
        hits = self._hits("has_db_write")
        if hits:
            yield self._errors("write_errors", hits)
            yield self._make(
                "rows_written",
                hits,
                {"form": "measure", "field": "attributes.rows_written", "unit": "rows", "limit": {"min": 1}},
                purpose="successful writes store at least one row",
                concern="reliability",
                per_trace="sum",
                fields=["attributes.rows_written"],
                severity="ticket",
                action="a write without rows often comes from a filter that no longer matches",
                valid_when="the operation should write; deleting a missing row writes nothing",
            )

    def _streams(self) -> Iterator[MetricDesign]:
        hits = self._hits("streams_response")
        if hits:
            yield self._make(
                "first_chunk_seconds",
                hits,
                {"form": "measure", "field": "attributes.first_chunk_seconds", "unit": "s"},
                purpose="time until the user gets the first chunk",
                concern="latency",
                per_trace="max",
                of="mean",
                fields=["attributes.first_chunk_seconds"],
                action="compare with the model's latency",
            )
            yield self._make(
                "stream_completed",
                hits,
                {"form": "check", "field": "attributes.stream_outcome", "not": {"one_of": ["aborted", "empty"]}},
                purpose="streams complete",
                concern="reliability",
                fields=["attributes.stream_outcome"],
                severity="ticket",
                action="an aborted stream is a user who left or a broken connection",
                valid_when="the outcome is written when either side closes the stream",
            )

    def _queues(self) -> Iterator[MetricDesign]:
        hits = self._hits("has_queue")
        if hits:
            yield self._make(
                "queue_wait_seconds",
                hits,
                {"form": "measure", "field": "attributes.queue_wait_seconds", "unit": "s"},
                purpose="time that work waits in the queue",
                concern="latency",
                per_trace="max",
                of="mean",
                fields=["attributes.queue_wait_seconds"],
                action="add workers or reduce requests",
                valid_when="the work carries the time at which it was queued",
            )

    def _breakers(self) -> Iterator[MetricDesign]:
        hits = self._hits("has_circuit_breaker")
        if hits:
            yield self._make(
                "breaker_open_rate",
                hits,
                {"form": "check", "field": "attributes.breaker", "not": {"one_of": ["open"]}},
                purpose="share of calls that the open circuit breaker refuses",
                concern="reliability",
                fields=["attributes.breaker"],
                better="lower",
                direction_verdict="unverified",
                questions=[f"q-{self.component.id}-breaker"],
                severity="ticket",
                action="look at the service behind it first",
            )

    # -- kinds -------------------------------------------------------------------------------------------------

    def _uses(self, *capabilities: str) -> list[PatternHit]:
        """Return library uses as hits."""
        return [
            PatternHit(u.place.path, u.place.line, u.capability, u.symbol, u.place.line, "", u.dotted, 1.0)
            for u in self.component.uses
            if u.capability in capabilities and self._point(u.symbol) is not None
        ]

    def _retrieval(self) -> Iterator[MetricDesign]:
        # To look whether something is there may rightly find nothing.
        hits = [h for h in self._uses("retrieval") if not _LOOKS_AFTER.search(h.symbol.rpartition(".")[2])]
        if hits:
            yield self._make(
                "passages_found",
                hits,
                {"form": "measure", "field": "attributes.retrieved_count", "unit": "passages", "limit": {"min": 1}},
                purpose="of the searches of a run at least one finds something",
                concern="groundedness",
                per_trace="max",
                pattern="",
                fields=["attributes.retrieved_count"],
                severity="page",
                action="check the index: a release with another embedding model finds nothing",
                valid_when="the query is not empty",
            )
            asked = {(h.path, h.line) for h in self._hits("calls_llm", "direct")}
            if alone := [h for h in hits if (h.path, h.line) not in asked]:
                yield self._latency("retrieval_latency", alone, None)

    def _embedding(self) -> Iterator[MetricDesign]:
        hits = self._uses("embedding")
        if hits:
            metric = self._errors("embedding_errors", hits)
            metric.pattern = ""
            yield metric

    def _guardrail(self) -> Iterator[MetricDesign]:
        hits = self._uses("guardrail")
        if hits:
            metric = self._errors("guardrail_errors", hits)
            metric.pattern, metric.concern = "", "safety"
            yield metric

    def _entry(self) -> Iterator[MetricDesign]:
        """Yield the error rate of the entry function, for a component without any other metric."""
        point = self.points.get(self.component.entry) or next(iter(self.points.values()), None)
        if point is not None:
            hit = PatternHit(
                point.place.path, point.place.line, "entry", point.symbol, point.place.end, "", f"def {point.name}", 1.0
            )
            metric = self._errors("error_rate", [hit])
            metric.pattern = ""
            yield metric


def metric_name(text: str) -> str:
    """Return a valid metric name: lower snake case, at most 100 characters."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return (name if name[:1].isalpha() else f"m_{name}")[:100]
