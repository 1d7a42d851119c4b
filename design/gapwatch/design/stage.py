"""The design stage from end to end: repository, goal and facts in; a design with all its evidence out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from gapwatch.design.analysis import FileReading, Progress, _silent, build, own_import_rate, readings
from gapwatch.design.architecture.classify import apply_goal, classify
from gapwatch.design.architecture.components import build_components
from gapwatch.design.architecture.critic import criticise_architecture
from gapwatch.design.architecture.edges import build_edges
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import Architecture
from gapwatch.design.architecture.prompts import Prompt, find_prompts
from gapwatch.design.architecture.salience import FileSalience, file_salience, model_distances
from gapwatch.design.architecture.tiers import prompted_tiers
from gapwatch.design.architecture.verify import find_symbol
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.metrics.catalog import Catalog
from gapwatch.design.metrics.critic import Case, Critique, criticise_metrics, fact_for, redesign
from gapwatch.design.metrics.judge_drafts import cost_per_quality, design_judges
from gapwatch.design.metrics.metric_design import MetricDesign, Verdict
from gapwatch.design.metrics.questions import MODEL_QUESTION, QuestionDraft, draft_questions
from gapwatch.design.metrics.spans import IntegrationPoint, functions_without_span, integration_points
from gapwatch.design.metrics.traceability import Gap, ci_targets, link, set_alerts
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.libraries import LibraryCatalog, default_catalog
from gapwatch.design.patterns.patterns import find_patterns
from gapwatch.design.patterns.sites import Sites
from gapwatch.design.patterns.uses import uses_of
from gapwatch.design.refine import Refiner, apply_operations
from gapwatch.design.source.scan import Scan, Skipped
from gapwatch.scorers.portfolio.fact import Fact

#: Rounds of criticism and mending before what still fails is dropped.
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


@dataclass
class Design:
    """Everything that one run found.

    Attributes:
        metrics: What passed; `dropped` holds what did not, with its last verdict.
        version: 12 hexadecimal digits over code, goal and facts.
    """

    root: Path
    name: str
    goal: str
    version: str
    scan_sha: str
    readings: tuple[FileReading, ...]
    skipped: tuple[Skipped, ...]
    graph: CallGraph
    hits: tuple[PatternHit, ...]
    salience: list[FileSalience]
    architecture: Architecture
    prompts: dict[str, list[Prompt]]
    points: list[IntegrationPoint]
    metrics: list[MetricDesign]
    dropped: list[tuple[MetricDesign, Verdict]]
    critique: Critique
    gaps: list[Gap]
    questions: list[QuestionDraft]
    facts: tuple[Fact, ...]
    has_model: bool
    import_rate: float
    goal_concerns: set[str] = field(default_factory=set)
    stale_facts: list[Fact] = field(default_factory=list)
    refused_operations: list[str] = field(default_factory=list)
    judge_model: str | None = None

    @property
    def open_questions(self) -> list[QuestionDraft]:
        """Questions that no fact answers."""
        answered = {f.question for f in self.facts}
        return [q for q in self.questions if q.id not in answered]


def run_design(
    scan: Scan,
    goal: str = "",
    facts: tuple[Fact, ...] = (),
    judge_model: str | None = None,
    catalog: LibraryCatalog | None = None,
    refiner: Refiner | None = None,
    progress: Progress = _silent,
) -> Design:
    """Design the portfolio of a repository.

    Args:
        catalog: Of libraries; the shipped one where None.
        progress: Told how far a stage is.
        scan: What was found under the root.
        goal: The practitioner's, in their words; steers priority and choice.
        facts: Answers given so far; those to questions that are no more are listed as stale.
        judge_model: `vendor/name` of the model that may judge; None keeps judges out of the portfolio.
        refiner: A model's door; None for none.
    """
    program, graph = build(scan, progress)
    sites = Sites(graph, catalog or default_catalog())
    progress("patterns", 0, 1)
    hits = _with_named_calls(find_patterns(program, sites), graph, facts)
    progress("patterns", 1, 1)
    tags = {s.path: s.tags for s in graph.symbols}
    kept = tuple(h for h in hits if not tags.get(h.path))
    uses = [
        u
        for u in uses_of(graph, sites, kept)
        if not tags.get(u.place.path) and u.capability not in ("retry", "breaker", "web", "tracing", "json")
    ]
    sinks: dict[str, set[str]] = {}
    for use in uses:
        sinks.setdefault(use.symbol, set()).add(use.capability)
    distances = model_distances(graph, sinks)
    salience = file_salience(graph, kept, distances)
    material = Material(program, graph, sites, kept, distances, {f.path: f.salience for f in salience})
    components, _ = build_components(material, uses)
    architecture = Architecture(components, build_edges(components, graph))
    refused = apply_operations(architecture, refiner.refine_components(architecture)) if refiner is not None else []
    prompts = {c.id: find_prompts(c, material) for c in architecture.components}
    for c in architecture.components:
        c.tiers += prompted_tiers(c, prompts[c.id], graph)
    classify(architecture, material, prompts)
    if goal:
        apply_goal(architecture, goal)
    criticise_architecture(architecture, set(tags), salience)
    design = Design(
        scan.root,
        scan.root.resolve().name,
        goal,
        "",
        scan.sha,
        readings(program),
        scan.skipped,
        graph,
        hits,
        salience,
        architecture,
        prompts,
        integration_points(architecture, graph),
        [],
        [],
        Critique([]),
        [],
        [],
        facts,
        any("llm_chat" in found for found in sinks.values()),
        own_import_rate(program),
        {name for name, pattern in _GOAL_CONCERNS if goal and pattern.search(goal)},
        refused_operations=refused,
        judge_model=judge_model,
    )
    _design_metrics(design, material, refiner)
    _finish(design, refiner)
    design.version = _version(design)
    return design


def _with_named_calls(
    hits: tuple[PatternHit, ...], graph: CallGraph, facts: tuple[Fact, ...]
) -> tuple[PatternHit, ...]:
    """Add the functions that the practitioner named as those that reach the model."""
    symbols = {s.id: s for s in graph.symbols}
    named: list[PatternHit] = []
    for fact in facts:
        symbol = find_symbol(graph, str(fact.value)) if fact.question == MODEL_QUESTION else None
        if symbol is not None and symbols[symbol].kind == "function":
            s = symbols[symbol]
            evidence = f"{symbol} reaches the model, says {fact.by}"
            named.append(PatternHit(s.path, s.line, "calls_llm", s.id, s.line, "direct", evidence, 1.0))
    return tuple(sorted({*hits, *named}))


def _design_metrics(design: Design, material: Material, refiner: Refiner | None) -> None:
    metrics: list[MetricDesign] = []
    for component in design.architecture.components:
        points = [p for p in design.points if p.component == component.id]
        mine = Catalog(component, points, design.prompts[component.id], material).metrics()
        mine += design_judges(component, points, design.prompts[component.id])
        cost = cost_per_quality(component, mine)
        metrics += [*mine, *([cost] if cost is not None else [])]
    if refiner is not None:
        known = {m.name for m in metrics}
        metrics += [m for m in refiner.propose_metrics(design.architecture, metrics) if m.name not in known]
    for metric in metrics:
        _apply_fact(metric, design.facts)
        metric.goal_words = [metric.concern] if metric.concern in design.goal_concerns else []
        if metric.source == "judge" and design.judge_model is not None:
            metric.claim["judges"] = [{"model": design.judge_model, "params": {"temperature": 0}}]
            metric.is_exported = True
    # Nothing is exported without evidence.
    metrics = [m for m in metrics if m.evidence and m.places]
    design.gaps = link(metrics, design.architecture)
    _criticise_until_settled(design, metrics)


def _apply_fact(metric: MetricDesign, facts: tuple[Fact, ...]) -> None:
    for said in facts:
        # A default that is good enough for the user wakes nobody.
        if said.question in metric.questions and said.kind == "semantics" and said.value == "acceptable":
            metric.severity, metric.fact = "note", None
    fact = fact_for(metric, facts)
    if fact is None or fact.better is None:
        return
    metric.fact = fact.id
    metric.better = fact.better
    if fact.better != "unknown":
        metric.direction_verdict = "verified"
        metric.direction_evidence = f"{fact.by}, {fact.at}: {fact.value}"


def _criticise_until_settled(design: Design, metrics: list[MetricDesign]) -> None:
    by_component: dict[str, list[IntegrationPoint]] = {}
    for point in design.points:
        by_component.setdefault(point.component, []).append(point)
    for round_number in range(MAX_ROUNDS):
        critique = criticise_metrics(Case(design.architecture, metrics, by_component, design.facts))
        rejected = {v.metric: v for v in critique.verdicts if v.verdict == "reject" and v.rules != ["missing_judge"]}
        design.critique = critique
        if not rejected:
            break
        kept: list[MetricDesign] = []
        for metric in metrics:
            verdict = rejected.get(metric.name)
            mended = (
                metric
                if verdict is None
                else redesign(metric, verdict, design.facts)
                if round_number < MAX_ROUNDS - 1
                else None
            )
            if mended is not None:
                kept.append(mended)
            elif verdict is not None:
                design.dropped.append((metric, verdict))
        metrics = _without_broken(kept)
    names = {m.name for m in metrics}
    design.critique.verdicts = [v for v in design.critique.verdicts if v.metric in names]
    design.metrics = metrics


def _without_broken(metrics: list[MetricDesign]) -> list[MetricDesign]:
    """Leave out what refers to a metric that was dropped."""
    names = {m.name for m in metrics}
    return [m for m in metrics if m.claim["form"] != "ratio" or {m.claim["numerator"], m.claim["denominator"]} <= names]


def _finish(design: Design, refiner: Refiner | None) -> None:
    set_alerts(design.metrics, design.architecture, design.goal_concerns)
    ci_targets(design.metrics)
    for point in design.points:
        point.blind = sorted(m.name for m in design.metrics if m.component == point.component and point.name in m.spans)
    design.points = [p for p in design.points if p.blind]
    for component, left in functions_without_span(design.architecture, design.points).items():
        more = ", ".join(f"{count} with {pattern}" for pattern, count in left.items())
        fix = "emit the same span there, too, if one of them matters more than those that are asked for"
        design.gaps.append(Gap(component, f"functions that are asked for no span: {more}", fix))
    design.questions = draft_questions(design.architecture, design.metrics, design.prompts, design.has_model)
    known = {m.name for m in design.metrics}
    for question in design.questions:
        question.decides = [name for name in question.decides if name in known]
    if refiner is not None:
        for question in design.questions:
            question.text = refiner.refine_questions([question]).get(question.id, question.text)
    ids = {q.id for q in design.questions} | {MODEL_QUESTION}
    design.stale_facts = [f for f in design.facts if f.question and f.question not in ids]
    order = {c.id: i for i, c in enumerate(_ordered(design))}
    design.architecture.components.sort(key=lambda c: order[c.id])
    design.metrics.sort(key=lambda m: (order[m.component], not m.goal_words))


def _ordered(design: Design) -> list:  # type: ignore[type-arg]
    rank = {"primary": 0, "secondary": 1, "tertiary": 2}
    components = design.architecture.components
    return sorted(components, key=lambda c: (-len(c.goal_words), rank[c.priority], c.id))


def _version(design: Design) -> str:
    import hashlib

    import orjson

    parts = [
        design.scan_sha,
        design.name,
        design.goal,
        design.judge_model or "",
        [f.model_dump(mode="json") for f in design.facts],
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:12]
