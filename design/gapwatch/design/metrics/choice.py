"""Chooses the metrics of a pipeline: proposes and reviews them, corrects rejected ones by rule and drops the rest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import Architecture
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.reply_flow import is_exchange_seen
from gapwatch.design.metrics.catalog import Catalog
from gapwatch.design.metrics.critic import Case, Critique, fact_for, redesign, review_metrics
from gapwatch.design.metrics.judge_drafts import cost_per_quality, design_judges, set_doubts
from gapwatch.design.metrics.left_out_code import LeftOutCode, left_out_code
from gapwatch.design.metrics.metric_design import WHOLE_RUNS, MetricDesign, MetricReview
from gapwatch.design.metrics.passage_judges import passage_judge
from gapwatch.design.metrics.refine import Refiner
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.metrics.rules.served_code import served_functions
from gapwatch.design.metrics.rules.set_up_code import set_up_functions
from gapwatch.design.metrics.selection import added_metrics
from gapwatch.design.metrics.shared_metrics import run_seconds
from gapwatch.design.metrics.spans import OF_EXCHANGE, IntegrationPoint
from gapwatch.design.metrics.trace_judges import TraceJudges
from gapwatch.design.metrics.traceability import Gap, link
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.scorers.portfolio.fact import Fact

#: Rounds of review and correction; a metric that the last round rejects is dropped.
MAX_ROUNDS = 3

_GOAL_CONCERNS = (
    ("groundedness", re.compile(r"ground|hallucinat|invent|cite|citation|evidence|faithful|support|source", re.I)),
    ("quality", re.compile(r"right|correct|quality|accura|complete|helpful|answer", re.I)),
    ("safety", re.compile(r"safe|pii|leak|policy|toxic|harm|privacy|secret", re.I)),
    ("latency", re.compile(r"fast|slow|latency|quick|second|wait|time", re.I)),
    ("cost_per_quality", re.compile(r"cost|cheap|budget|price|expens|money|spend", re.I)),
    ("reliability", re.compile(r"reliab|fail|error|robust|available|up\b|down\b|outage|retry|fall", re.I)),
    ("tool_use", re.compile(r"tool|agent|action", re.I)),
)


@dataclass(frozen=True)
class Wishes:
    """Goal and answers of the practitioner.

    Attributes:
        goal: In the practitioner's words; empty for none.
        facts: Answers so far.
        judge_model: `vendor/name` of the model that may judge; None keeps judges out of the portfolio.
    """

    goal: str
    facts: tuple[Fact, ...]
    judge_model: str | None

    @property
    def concerns(self) -> set[str]:
        """Concerns of metrics that the goal mentions."""
        return {name for name, pattern in _GOAL_CONCERNS if pattern.search(self.goal)}


@dataclass(frozen=True)
class PipelineView:
    """The pipeline as found in the code.

    Attributes:
        architecture: Components and edges.
        prompts: Prompts by the id of their component.
        points: Spans that the pipeline can emit.
        refused_operations: One line for each refused proposal of a refiner.
    """

    architecture: Architecture
    prompts: dict[str, list[Prompt]]
    points: list[IntegrationPoint]
    refused_operations: list[str]

    def points_of(self, component: str) -> list[IntegrationPoint]:
        """Return the spans of a component."""
        return [p for p in self.points if p.component == component]


@dataclass(frozen=True)
class MetricChoice:
    """The metrics that passed the critic, and the others.

    Attributes:
        metrics: Metrics that passed or were flagged.
        dropped: Rejected metrics, each with its last review.
        critique: Reviews of `metrics`.
        gaps: Judges that no other metric monitors between judgements.
        code: The code that they claim something about.
        left_out: Code that no request runs.
    """

    metrics: list[MetricDesign]
    dropped: list[tuple[MetricDesign, MetricReview]]
    critique: Critique
    gaps: list[Gap]
    code: ClaimedCode
    left_out: list[LeftOutCode]


def choose_metrics(view: PipelineView, material: Material, wishes: Wishes, refiner: Refiner | None) -> MetricChoice:
    """Propose metrics for every component and return those that pass the critic.

    Args:
        view: The pipeline.
        material: The analysed code.
        wishes: Goal and answers of the practitioner.
        refiner: Proposes further metrics; None for none.
    """
    code = ClaimedCode(material)
    metrics = _proposed(view, code, refiner)
    concerns = wishes.concerns
    for metric in metrics:
        _apply_fact(metric, wishes.facts)
        metric.goal_words = [metric.concern] if metric.concern in concerns else []
        if metric.source == "judge" and wishes.judge_model is not None:
            metric.claim["judges"] = [{"model": wishes.judge_model, "params": {"temperature": 0}}]
            metric.is_exported = True
    # Nothing is exported without evidence.
    metrics = [m for m in metrics if m.evidence and m.places]
    gaps = link(metrics, view.architecture)
    return _review_until_settled(view, metrics, gaps, wishes.facts, code)


def _proposed(view: PipelineView, code: ClaimedCode, refiner: Refiner | None) -> list[MetricDesign]:
    metrics: list[MetricDesign] = []
    reached, ids = view.architecture.reached(), {c.id for c in view.architecture.components}
    of_traces = TraceJudges(view.architecture, view.prompts, view.points, code)
    for component in view.architecture.components:
        points, prompts = view.points_of(component.id), view.prompts[component.id]
        mine = Catalog(component, points, prompts, code.material, component.id in reached).metrics()
        mine = [m for m in mine if m.family != "citations_given" or is_exchange_seen(code, m.symbols[0])]
        for metric in mine:
            metric.name = _without_repeat(metric, ids)
        traced = of_traces.of(component)
        # What an agent's tools gave stands in the trace, beside what its prompt was filled with.
        grounded = {m.symbols[0] for m in traced if m.concern == "groundedness"}
        judges = design_judges(component, points, prompts, code)
        mine += [*traced, *(m for m in judges if m.concern != "groundedness" or m.symbols[0] not in grounded)]
        cost = cost_per_quality(component, mine)
        metrics += [*mine, *([cost] if cost is not None else [])]
    # A run is known by the spans of a component that ask a model, and not by look-ups beside them. Where no span stands
    # around a whole run, each call is a trace of its own, and there are no seconds of a run.
    asking = {c for c in ids if _mostly(p.symbol in code.material.distances for p in view.points_of(c))}
    if any(s in code.material.distances for m in metrics if m.family in WHOLE_RUNS for s in m.symbols):
        metrics += run_seconds([m for m in metrics if m.component in asking], code.material.graph)
    has_sql = any(m.source == "judge" and m.family.endswith("sql_answers_the_question") for m in metrics)
    # What is found to write SQL from is judged by the SQL.
    of_search = None if has_sql else passage_judge(view.architecture, view.points, code)
    if of_search is not None:
        metrics.append(of_search)
    if refiner is not None:
        known = {m.name for m in metrics}
        metrics += [m for m in refiner.propose_metrics(view.architecture, metrics) if m.name not in known]
    return metrics


def _mostly(found: Iterable[bool]) -> bool:
    told = list(found)
    return 2 * sum(told) >= len(told) > 0


def _without_repeat(metric: MetricDesign, ids: set[str]) -> str:
    """Return the name of a metric in which no word follows itself: `sql_agent_steps` of `sql_agent`.

    The shorter name of a component is not taken where another component has it.
    """
    start, _, last = metric.component.rpartition("_")
    if metric.name != f"{metric.component}_{metric.family}" or metric.family.partition("_")[0] != last or start in ids:
        return metric.name
    return f"{start}_{metric.family}".lstrip("_")


def _without_outer_judges(metrics: list[MetricDesign], code: ClaimedCode) -> list[MetricDesign]:
    """Leave out judges of what a model is sent and says below a function that another function sends for it."""
    of_exchange = [m for m in metrics if m.source == "judge" and OF_EXCHANGE[1] in m.fields and m.prompts]
    by_prompt: dict[tuple[CodePlace, str], list[MetricDesign]] = defaultdict(list)
    for metric in of_exchange:
        by_prompt[metric.prompts[0], metric.concern].append(metric)
    outer: set[int] = set()
    for same in by_prompt.values():
        for metric in same if len(same) > 1 else ():
            below = code.below(metric.symbols[0])
            outer |= {id(metric) for other in same if other.symbols[0] in below}
    return [m for m in metrics if id(m) not in outer]


def _apply_fact(metric: MetricDesign, facts: tuple[Fact, ...]) -> None:
    for said in facts:
        # An acceptable default lowers the alert to a note.
        if said.question in metric.questions and said.kind == "semantics" and said.value == "acceptable":
            metric.severity, metric.fact = "note", None
    fact = fact_for(metric, facts)
    if fact is None or fact.better is None:
        return
    metric.fact = fact.id
    metric.better = fact.better
    if fact.value == "degraded" and metric.family.endswith("fallback_rate"):
        # The rate of the first step; each later step is part of it.
        metric.severity = "page"
    if fact.better != "unknown":
        metric.direction_verdict = "verified"
        metric.direction_evidence, metric.direction_place = f"{fact.by}, {fact.at}: {fact.value}", None


def _review_until_settled(
    view: PipelineView, metrics: list[MetricDesign], gaps: list[Gap], facts: tuple[Fact, ...], code: ClaimedCode
) -> MetricChoice:
    by_component = {p.component: view.points_of(p.component) for p in view.points}
    dropped: list[tuple[MetricDesign, MetricReview]] = []
    critique = Critique([])
    served = served_functions(code)
    claimed = CodeView(code, view.prompts, metrics, by_component, served, set_up_functions(code, served))
    claimed = replace(claimed, added=frozenset(added_metrics(facts)))
    for rounds_left in reversed(range(MAX_ROUNDS)):
        claimed = replace(claimed, metrics=metrics)
        critique = review_metrics(Case(view.architecture, metrics, by_component, facts, claimed))
        rejected = {r.metric: r for r in critique.reviews if r.status == "reject" and r.rules != ["missing_judge"]}
        if not rejected:
            break
        kept: list[MetricDesign] = []
        for metric in metrics:
            review = rejected.get(metric.name)
            if review is None:
                kept.append(metric)
            elif rounds_left and (mended := redesign(metric, review, facts, claimed)) is not None:
                kept.append(mended)
            else:
                dropped.append((metric, review))
        metrics = _without_broken(kept)
    metrics = _without_outer_judges(metrics, code)
    set_doubts(metrics, code)
    names = {m.name for m in metrics}
    reviews = [r for r in critique.reviews if r.metric in names]
    # What the critic refuses to measure is not missing.
    refused = {(m.component, f"missing_deterministic_coverage: {m.pattern}") for m, _ in dropped}
    issues = [i for i in critique.cross_component_issues if (i.component, i.issue) not in refused]
    settled = replace(critique, reviews=reviews, cross_component_issues=issues)
    return MetricChoice(metrics, dropped, settled, gaps, code, left_out_code(claimed, dropped))


def _without_broken(metrics: list[MetricDesign]) -> list[MetricDesign]:
    """Leave out ratios whose numerator or denominator was dropped."""
    names = {m.name for m in metrics}
    return [m for m in metrics if m.claim["form"] != "ratio" or {m.claim["numerator"], m.claim["denominator"]} <= names]
