"""Reviews metrics by rule: reasons to reject, by the design and by the code, and to flag; issues across components."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.metrics.judge_drafts import MAX_DESIGNED
from gapwatch.design.metrics.metric_design import MetricDesign, MetricReview
from gapwatch.design.metrics.rules.code_rules import CODE_RULES, without_bad_places
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.metrics.rules.place_rules import PLACE_RULES
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.scorers.portfolio.fact import Fact

#: Names of the rules that reject.
REJECT_RULES = (
    "pipeline_fit",
    "validity_conditions",
    "data_assumptions",
    "implementation_not_outcome",
    "arbitrary_threshold",
    "missing_judge",
    "judge_without_rubric",
    "five_metric_rule",
    "too_generic",
    "not_measurable",
    "doesnt_match_code",
    "orthogonal_composite",
    "unverified_cascade_direction",
    "vague_umbrella_judge",
    "retrieval_by_judge",
    "judge_on_rule_tier",
    "incomplete_cost_triple",
)

_GENERIC = re.compile(
    r"^(the_)?(overall_)?(response|output|answer|result|model|llm|text|semantic|general)?_?(quality|accuracy|correctness|performance|score|goodness)(_score)?$"
)
_UMBRELLA = re.compile(r"(semantic_correctness|output_quality|overall|grounding|quality|correctness)$")
_RETRIEVAL = re.compile(
    r"(context|chunk|passage|retriev\w*|document)_?(relevan\w+|precision|recall)|(recall|precision)_at|(^|_)(mrr|ndcg)(_|$)|retrieval_(quality|relevance)"
)
_IMPLEMENTATION = re.compile(r"function_call|call_count|lines_of|loop_count|invocation_count|method_calls")
_CONCERN_NEEDS = {
    "groundedness": frozenset({"llm_chat", "retrieval", "rerank"}),
    "tool_use": frozenset({"tool", "framework", "llm_chat", "http", "saas", "web_search"}),
    "judge_alignment": frozenset({"llm_chat"}),
}
_QUALITIES = {
    "quality": "answer",
    "groundedness": "answer",
    "safety": "safety",
    "latency": "time",
    "cost_per_quality": "cost",
}


@dataclass(frozen=True)
class CrossIssue:
    """An issue that no single metric shows.

    Attributes:
        component: Id of the component.
        issue: Code and subject, such as `missing_tier_coverage: ask_small`.
        suggestion: What to do.
    """

    component: str
    issue: str
    suggestion: str


@dataclass
class Critique:
    """All reviews of a design.

    Attributes:
        reviews: One for each metric.
        cross_component_issues: Issues that no single metric shows.
        overall_assessment: The counts in one sentence.
    """

    reviews: list[MetricReview]
    cross_component_issues: list[CrossIssue] = field(default_factory=list)
    overall_assessment: str = ""


@dataclass(frozen=True)
class Case:
    """Input of the critic's rules.

    Attributes:
        architecture: Components and edges.
        metrics: All metrics under review.
        points: Spans by component.
        facts: Answers of the practitioner.
        view: The code that the metrics claim something about; None leaves out the rules that read it.
    """

    architecture: Architecture
    metrics: list[MetricDesign]
    points: dict[str, list[IntegrationPoint]]
    facts: tuple[Fact, ...]
    view: CodeView | None = None

    def component(self, metric: MetricDesign) -> ComponentDraft:
        """Return the component of a metric."""
        return self.architecture.component(metric.component)

    def of(self, component: str) -> list[MetricDesign]:
        """Return the metrics of a component."""
        return [m for m in self.metrics if m.component == component]


Rule = Callable[[MetricDesign, Case], str | None]


def review_metrics(case: Case) -> Critique:
    """Review every metric by itself, then look for issues across components."""
    reviews = [_review(metric, case) for metric in case.metrics]
    critique = Critique(reviews, _cross_issues(case))
    counts: dict[str, int] = defaultdict(int)
    for review in reviews:
        counts[review.status] += 1
    critique.overall_assessment = (
        f"{counts['pass']} pass, {counts['flag']} flagged, {counts['reject']} rejected of {len(reviews)} metrics; "
        f"{len(critique.cross_component_issues)} issues across components"
    )
    return critique


def _review(metric: MetricDesign, case: Case) -> MetricReview:
    rejected = [(name, why) for name, rule in _REJECT.items() if (why := rule(metric, case)) is not None]
    if case.view is not None:
        view = case.view
        rejected += [(name, why) for name, read in CODE_RULES.items() if (why := read(metric, view)) is not None]
    flagged = [(name, why) for name, rule in _FLAG.items() if (why := rule(metric, case)) is not None]
    found = rejected or flagged
    direction = {
        "claim": f"{metric.of} of {metric.name}: {metric.better} is better",
        "evidence": metric.fact or metric.direction_evidence if metric.direction_verdict == "verified" else None,
        "verdict": metric.direction_verdict,
    }
    if not found:
        return MetricReview(
            metric=metric.name,
            component=metric.component,
            status="pass",
            rules=[],
            reasoning="no rule objects",
            findings=None,
            suggested_fix=None,
            direction=direction,
        )
    findings = {
        "pipelineFit": next((w for n, w in found if n in ("pipeline_fit", "doesnt_match_code", "too_generic")), "fits"),
        "validityConditions": [metric.valid_when] if metric.valid_when else [],
        "dataAssumptions": [f"the span {s} carries {', '.join(metric.fields)}" for s in metric.spans[:3]],
        "concerns": [why for _, why in found],
    }
    names = [name for name, _ in found]
    return MetricReview(
        metric=metric.name,
        component=metric.component,
        status="reject" if rejected else "flag",
        rules=names,
        reasoning="; ".join(w for _, w in found[:3]),
        findings=findings,
        suggested_fix=_FIXES.get(names[0], "drop it"),
        direction=direction,
    )


_FIXES = {
    "pipeline_fit": "move it to the component that has the capability, or drop it",
    "validity_conditions": "restrict it with `when` to the spans that carry its fields",
    "data_assumptions": "emit the field in its span, or drop it",
    "implementation_not_outcome": "measure the result, not how often a function runs",
    "arbitrary_threshold": "take the number from a constant in the code or from a fact, or leave the threshold out",
    "missing_judge": "design one judge for each tier that a model answers",
    "judge_without_rubric": "add a criterion, five bands and reasoning steps",
    "five_metric_rule": "keep the five metrics that find the worst failures",
    "too_generic": "name the tier, field or prompt that it measures",
    "not_measurable": "emit the field in its span, or drop it",
    "doesnt_match_code": "drop it: the code does not do this",
    "orthogonal_composite": "keep its parts as separate metrics",
    "unverified_cascade_direction": "monitor both directions (better: unknown) until its question is answered",
    "vague_umbrella_judge": "keep the judges of the tiers",
    "retrieval_by_judge": "compute it from the passages",
    "judge_on_rule_tier": "replace it by a deterministic check of the rule",
    "incomplete_cost_triple": "pair it with a quality metric of the same component and add the formula",
    "contradicts_fact": "take the direction that the fact confirms",
    "cross_component_duplicate": "keep it in the component where the signal arises",
    "composite_weights": "make the weights sum to 1",
    "no_counterpart": "name a metric that monitors it between judgements",
    "unverifiable_assumption": "confirm the model call where its span is emitted",
    "unverified_direction": "cite a line of code or answer the question",
    "constructor": "measure the method that does the work",
    "unused_code": "drop it, or name the way by which a request gets there",
    "swallowed_status": "count the errors that the handler swallows",
    "never_or_rightly_empty": "measure where the value comes from",
    "always_raises": "check the status of the span: the error leaves it",
    "normal_course": "count what is no normal course, or leave it out",
    "set_up": "look at the program's log when it starts",
    "trial": "leave it out: a person tries a setting",
    "never_exhausted": "count the errors of the call that is tried again",
    "beside_the_answer": "leave it out",
    "no_work": "leave it out: a fault of the code shows in the function that calls it",
    "no_queue": "leave it out",
    "foreign_text": "check the text that the model wrote",
    "ends_in_order": "count the streams that end with an error",
    "asked_later": "look at the stream that the response sends",
    "sent_before": "take the time until the model's first piece",
    "read_in_several_ways": "count the texts that none of the ways reads",
    "no_search": "count what a search for the question returns",
    "always_a_row": "check the status of the write",
    "says_text_alone": "ask the provider's account for what its calls cost",
    "only_failures": "count it where the function gives the words back",
    "nested_calls": "count the tokens where the model is called",
    "unchecked_status": "check the status of the reply, or count the replies without what is asked for",
    "goes_on": "leave it out: the request is answered",
    "borrowed_limit": "take the limit from the function that keeps it, or leave it out",
    "wrong_denominator": "count it over the spans that can have it",
    "twins": "keep the first of both",
    "judge_without_prompt": "name the prompt that the model is sent, and evidence from outside the model",
    "direction_by_the_call": "cite a line that says which side is bad, or leave the direction open",
}


# -- reject --------------------------------------------------------------------------------------------------------


def _pipeline_fit(metric: MetricDesign, case: Case) -> str | None:
    component = case.component(metric)
    needs = _CONCERN_NEEDS.get(metric.concern)
    near = set(component.capabilities)
    if any(tier.by == "llm" for tier in component.tiers):
        # It asks a model through a client of another component.
        near.add("llm_chat")
    for edge in case.architecture.edges:
        # The passages and answers of a neighbour pass through this component.
        for one, other in ((edge.src, edge.dst), (edge.dst, edge.src)):
            if one == component.id:
                near |= set(case.architecture.component(other).capabilities) & {"retrieval", "llm_chat"}
    if needs and not needs & near and not metric.is_of_trace and not metric.reads_search:
        return f"{component.id} cannot affect {metric.concern}: it lacks each of {', '.join(sorted(needs))}"
    return None


def _validity(metric: MetricDesign, case: Case) -> str | None:
    if (
        metric.when is None
        and not metric.is_of_trace
        and len(case.points.get(metric.component, [])) > 1
        and metric.source != "cost"
    ):
        return "it applies to every span of the component, but only some carry its fields"
    return None


def _data(metric: MetricDesign, case: Case) -> str | None:
    text = " ".join([*metric.fields, str(metric.claim.get("rubric", {}).get("inputs", ""))])
    if re.search(r"ground_truth|gold|reference_answer|expected_output", text):
        return "it needs reference answers, which a running pipeline lacks"
    return None


def _implementation(metric: MetricDesign, case: Case) -> str | None:
    del case
    # A judge reads results, whatever the function is called.
    is_counted = metric.source != "judge" and _IMPLEMENTATION.search(metric.name)
    return "it counts calls, not results" if is_counted else None


def _threshold(metric: MetricDesign, case: Case) -> str | None:
    del case
    if metric.threshold is None:
        return None
    if not metric.threshold.get("justification") or metric.threshold_source not in ("code", "fact"):
        return f"no constant or fact justifies {metric.threshold.get('operator')} {metric.threshold.get('value')}"
    return None


def _missing_judge(metric: MetricDesign, case: Case) -> str | None:
    """Reject the first metric of the component, so that the report names the missing judge once."""
    component = case.component(metric)
    mine = case.of(component.id)
    is_model = "llm_chat" in component.capabilities and any(t.by == "llm" for t in component.tiers)
    # A shared client has no prompt of its own; the components that call it have.
    asking = {component.id, *(e.src for e in case.architecture.edges if e.dst == component.id)}
    if is_model and mine and mine[0] is metric and not any(m.source == "judge" for one in asking for m in case.of(one)):
        return f"{component.id} calls a model, and neither it nor a component that calls it has a judge"
    return None


def _rubric(metric: MetricDesign, case: Case) -> str | None:
    del case
    if metric.source != "judge":
        return None
    if metric.rubric is None or len(metric.rubric.scale) < 3 or len(metric.rubric.steps) < 2:
        return "the judge has no rubric or no reasoning steps"
    return None


def _five(metric: MetricDesign, case: Case) -> str | None:
    designed = [m for m in case.of(metric.component) if m.is_designed and not m.reads_search]
    if metric.is_designed and metric in designed[MAX_DESIGNED:]:
        return f"{metric.component} has {len(designed)} designed metrics, more than {MAX_DESIGNED}"
    return None


def _generic(metric: MetricDesign, case: Case) -> str | None:
    if metric.source == "catalog":
        return None
    bare = metric.name.removeprefix(f"{metric.component}_")
    component = case.component(metric)
    named = any(t.id in metric.name for t in component.tiers) or component.id in metric.name
    if _GENERIC.match(bare) or not named:
        return "the name would fit any component of this kind"
    return None


def _measurable(metric: MetricDesign, case: Case) -> str | None:
    points = [p for p in case.points.get(metric.component, []) if p.name in metric.spans]
    if not points and metric.source != "cost" and not metric.is_of_trace:
        return "the spans that it reads are not emitted"
    known = {f for p in points for f in p.fields} | {
        "input",
        "output",
        "name",
        "kind",
        "status",
        "attributes.model_prompt",
        "attributes.model_reply",
        "tier",
    }
    missing = [f for f in metric.fields if f not in known and f not in ("started_at", "ended_at", "latency")]
    return f"no span carries {', '.join(missing)}" if missing and metric.source == "catalog" else None


def _matches_code(metric: MetricDesign, case: Case) -> str | None:
    if metric.source == "catalog":
        return None
    component = case.component(metric)
    is_of_model = metric.source == "judge" and not metric.is_of_trace and not metric.reads_search
    if is_of_model and not any(t.by == "llm" for t in component.tiers):
        return f"{component.id} calls no model"
    if not metric.evidence:
        return "no line of code supports it"
    return None


def _orthogonal(metric: MetricDesign, case: Case) -> str | None:
    if metric.source != "composite":
        return None
    by_name = {m.name: m for m in case.metrics}
    qualities = {_QUALITIES.get(by_name[p].concern, by_name[p].concern) for p in metric.parts if p in by_name}
    return f"it mixes {', '.join(sorted(qualities))}" if len(qualities) > 1 else None


def _cascade_direction(metric: MetricDesign, case: Case) -> str | None:
    del case
    if metric.is_cascade and metric.direction_verdict != "verified" and metric.severity and metric.better != "unknown":
        return "only a practitioner can say which direction is better; a wrong guess inverts the alert"
    return None


def _umbrella(metric: MetricDesign, case: Case) -> str | None:
    if metric.source != "judge" or metric.tier or metric.is_of_trace:
        return None
    precise = [m for m in case.of(metric.component) if m.source == "judge" and m.tier]
    if precise and _UMBRELLA.search(metric.name):
        return f"it covers the whole component, but {precise[0].name} judges a tier"
    return None


def _retrieval_judge(metric: MetricDesign, case: Case) -> str | None:
    del case
    if metric.source == "judge" and _RETRIEVAL.search(metric.name):
        return "retrieval is computed, not judged"
    return None


def _rule_tier(metric: MetricDesign, case: Case) -> str | None:
    if metric.source != "judge" or not metric.tier:
        return None
    tier = next((t for t in case.component(metric).tiers if t.id == metric.tier), None)
    return (
        f"a rule, not a model, gives the answers of tier {metric.tier}"
        if tier is not None and tier.by == "rule"
        else None
    )


def _cost_triple(metric: MetricDesign, case: Case) -> str | None:
    if metric.source != "cost":
        return None
    bundle = metric.cost_bundle or {}
    paired = (bundle.get("qualityScorer") or {}).get("pairedMetricName")
    by_name = {m.name: m for m in case.of(metric.component)}
    if not all(bundle.get(key) for key in ("costScorer", "qualityScorer", "derivedMetric")) or paired not in by_name:
        return "cost scorer, quality scorer and formula must all exist on one component"
    if by_name[paired].concern not in ("quality", "groundedness", "safety"):
        return f"{paired} does not measure quality"
    return None


def _contradicts(metric: MetricDesign, case: Case) -> str | None:
    fact = fact_for(metric, case.facts)
    if fact is not None and fact.better and metric.better not in (fact.better, "unknown"):
        return f"its direction is {metric.better}, but {fact.by} said {fact.better} ({fact.id})"
    return None


def fact_for(metric: MetricDesign, facts: tuple[Fact, ...]) -> Fact | None:
    """Return the latest fact about the direction of a metric, or None."""
    mine = [f for f in facts if f.kind == "direction" and f.metric == metric.name]
    return max(mine, key=lambda f: f.moment, default=None)


_REJECT: dict[str, Rule] = {
    "pipeline_fit": _pipeline_fit,
    "validity_conditions": _validity,
    "data_assumptions": _data,
    "implementation_not_outcome": _implementation,
    "arbitrary_threshold": _threshold,
    "missing_judge": _missing_judge,
    "judge_without_rubric": _rubric,
    "five_metric_rule": _five,
    "too_generic": _generic,
    "not_measurable": _measurable,
    "doesnt_match_code": _matches_code,
    "orthogonal_composite": _orthogonal,
    "unverified_cascade_direction": _cascade_direction,
    "vague_umbrella_judge": _umbrella,
    "retrieval_by_judge": _retrieval_judge,
    "judge_on_rule_tier": _rule_tier,
    "incomplete_cost_triple": _cost_triple,
    "contradicts_fact": _contradicts,
}


# -- flag ----------------------------------------------------------------------------------------------------------


def _duplicate(metric: MetricDesign, case: Case) -> str | None:
    for other in case.metrics:
        if other is metric:
            return None
        same = other.component != metric.component and set(other.symbols) & set(metric.symbols)
        if same and other.family == metric.family and other.fields == metric.fields:
            return f"{other.name} measures the same in {other.component}"
    return None


def _weights(metric: MetricDesign, case: Case) -> str | None:
    del case
    if metric.source == "composite" and abs(sum(metric.parts.values()) - 1.0) > 1e-9:
        return f"the weights sum to {sum(metric.parts.values()):g}"
    return None


def _counterpart(metric: MetricDesign, case: Case) -> str | None:
    del case
    if metric.source in ("judge", "composite") and not metric.monitors:
        return "no metric monitors it between judgements"
    return None


def _assumption(metric: MetricDesign, case: Case) -> str | None:
    component = case.component(metric)
    by_shape = [
        u
        for u in component.uses
        if u.capability == "llm_chat"
        and any(u.place == p or u.symbol in metric.symbols for p in metric.places)
        and "." not in u.dotted.replace("self.", "")
    ]
    return (
        "the model call is recognised by its form only, not by a library"
        if by_shape and metric.source == "judge"
        else None
    )


def _direction(metric: MetricDesign, case: Case) -> str | None:
    del case
    if not metric.is_cascade and metric.direction_verdict != "verified" and metric.better != "unknown":
        return "no code and no fact shows which direction is better"
    return None


_FLAG: dict[str, Rule] = {
    "cross_component_duplicate": _duplicate,
    "composite_weights": _weights,
    "no_counterpart": _counterpart,
    "unverifiable_assumption": _assumption,
    "unverified_direction": _direction,
}


# -- across --------------------------------------------------------------------------------------------------------


def _cross_issues(case: Case) -> list[CrossIssue]:
    out: list[CrossIssue] = []
    for component in case.architecture.components:
        mine = case.of(component.id)
        covered = {m.pattern for m in mine}
        for pattern in component.patterns:
            if pattern not in covered and not _only_wrapped(component, pattern):
                out.append(
                    CrossIssue(
                        component.id, f"missing_deterministic_coverage: {pattern}", "add the catalogue's metric for it"
                    )
                )
        targeted = {m.tier for m in mine}
        for tier in component.tiers:
            if tier.by == "llm" and tier.id not in targeted and _has_own_call(component, tier.symbol):
                out.append(
                    CrossIssue(
                        component.id,
                        f"missing_tier_coverage: {tier.id}",
                        f"add a judge for {tier.symbol}",
                    )
                )
    return out


def _only_wrapped(component: ComponentDraft, pattern: str) -> bool:
    """Return whether another metric covers a pattern: a call through another component, or the reading of a file."""
    kinds = {h.kind for h in component.hits if h.pattern == pattern}
    if pattern == "calls_llm":
        return "direct" not in kinds
    if pattern == "parses_json":
        return kinds <= {"file", "cache"}
    # What a handler swallows shows in the parse that it protects, or in the answer that it gives.
    return pattern == "has_try_except" and kinds <= {"swallows"}


def _has_own_call(component: ComponentDraft, symbol: str) -> bool:
    return any(
        h.symbol == symbol or h.symbol.startswith(f"{symbol}.")
        for h in component.hits
        if h.pattern == "calls_llm" and h.kind == "direct"
    )


# -- redesign ------------------------------------------------------------------------------------------------------


def redesign(
    metric: MetricDesign, review: MetricReview, facts: tuple[Fact, ...], view: CodeView | None = None
) -> MetricDesign | None:
    """Correct a rejected metric by rule.

    Args:
        metric: Changed in place.
        review: Its review.
        facts: Answers of the practitioner.
        view: The code that it claims something about.

    Returns:
        The metric, or None to drop it.
    """
    if view is not None and without_bad_places(metric, view) is None:
        return None
    for rule in review.rules:
        if rule == "unverified_cascade_direction":
            metric.better, metric.direction_verdict = "unknown", "unverified"
            metric.severity = "ticket" if metric.severity == "page" else metric.severity
        elif rule == "contradicts_fact":
            fact = fact_for(metric, facts)
            if fact is None or fact.better is None:
                return None
            metric.better, metric.fact, metric.direction_verdict = fact.better, fact.id, "verified"
        elif rule == "arbitrary_threshold":
            metric.threshold, metric.threshold_source = None, "none"
        elif rule == "validity_conditions" and metric.spans:
            metric.when = {"field": "name", "one_of": metric.spans}
        elif rule == "missing_judge":
            # The component lacks the judge, not this metric; `_cross_issues` reports it.
            continue
        elif rule == "direction_by_the_call":
            metric.direction_verdict, metric.direction_evidence, metric.direction_place = "unverified", "", None
        elif rule == "borrowed_limit" and metric.claim["form"] == "measure" and metric.claim["field"] == "latency":
            metric.claim = {k: v for k, v in metric.claim.items() if k != "limit"}
            metric.threshold, metric.threshold_source, metric.limit_place = None, "none", None
            metric.of, metric.severity, metric.direction_verdict = "mean", "", "unverified"
            metric.direction_evidence = ""
        elif rule in PLACE_RULES:
            # Its bad places are left out above.
            continue
        elif rule in REJECT_RULES or rule in CODE_RULES:
            return None
    return metric
