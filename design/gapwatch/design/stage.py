"""Runs the design stage: from repository, goal and facts to a design with its evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from gapwatch.design.agents.limit_loops import find_limit_loops
from gapwatch.design.agents.loop_search import find_loops
from gapwatch.design.agents.tool_functions import errors_of_functions
from gapwatch.design.analysis import FileReading, Progress, build, no_progress, readings, search
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.classify import apply_goal, classify
from gapwatch.design.architecture.component_names import take_names
from gapwatch.design.architecture.components import build_components
from gapwatch.design.architecture.critic import review_components
from gapwatch.design.architecture.edges import build_edges
from gapwatch.design.architecture.framework_calls import with_framework_calls
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import Architecture
from gapwatch.design.architecture.prompt_texts import PromptTexts
from gapwatch.design.architecture.prompts import Prompt, find_prompts
from gapwatch.design.architecture.salience import FileSalience, file_salience, model_distances
from gapwatch.design.architecture.tiers import prompted_tiers
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.emission.needed_marks import needed_of_spans
from gapwatch.design.emission.planned_span import PlannedSpan
from gapwatch.design.emission.span_plan import plan_spans
from gapwatch.design.instrumentation.instrumentation import Instrumentation, find_instrumentation
from gapwatch.design.metrics.answered_metrics import set_answered
from gapwatch.design.metrics.choice import MetricChoice, PipelineView, Wishes, choose_metrics
from gapwatch.design.metrics.critic import Critique
from gapwatch.design.metrics.left_out_code import LeftOutCode
from gapwatch.design.metrics.metric_design import MetricDesign, MetricReview
from gapwatch.design.metrics.model_prices import ModelPrice, ReadUsage, named_models, prices_of
from gapwatch.design.metrics.present_spans import PresentSpans, find_present_spans
from gapwatch.design.metrics.questions import (
    MODEL_QUESTION,
    QuestionDraft,
    draft_questions,
    most_telling,
    open_ones,
    with_named_calls,
)
from gapwatch.design.metrics.refine import Refiner, apply_operations
from gapwatch.design.metrics.rules.consequences import Consequences
from gapwatch.design.metrics.rules.failure_paths import FailurePaths
from gapwatch.design.metrics.selection import PortfolioSelection, select_metrics
from gapwatch.design.metrics.shared_metrics import shared_reviews
from gapwatch.design.metrics.spans import IntegrationPoint, functions_without_span, integration_points
from gapwatch.design.metrics.traceability import MAX_PAGES, Gap, ci_targets, set_alerts
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.libraries import LibraryCatalog, default_catalog
from gapwatch.design.patterns.library_uses import LibraryUse, find_library_uses
from gapwatch.design.patterns.pattern_search import PatternHit
from gapwatch.design.patterns.unknown_libraries import UnknownLibrary, unknown_libraries
from gapwatch.design.routes.request_failures import find_request_failures
from gapwatch.design.routes.route import Route
from gapwatch.design.source.own_imports import OwnImports, own_imports
from gapwatch.design.source.program import Program, paused_collector
from gapwatch.design.source.scan import Scan, Skipped
from gapwatch.scorers.portfolio.fact import Fact

#: Capabilities of plumbing, which give no component a job.
_PLUMBING = ("retry", "breaker", "web", "tracing", "json")


@dataclass(frozen=True)
class CodeReading:
    """Results of reading the code.

    Attributes:
        program: All files in intermediate form.
        material: The analysed production code.
        hits: Patterns of all files; `material` holds those outside tests and examples.
        uses: Library uses of production code, without retries, tracing and other plumbing.
        salience: Scores of all files, greatest first.
        paths: Paths of all files that hold symbols.
        has_model: Whether any call reaches a model.
        instrumentation: Spans that the program emits already.
    """

    program: Program
    material: Material
    hits: tuple[PatternHit, ...]
    uses: list[LibraryUse]
    salience: list[FileSalience]
    paths: set[str]
    has_model: bool
    instrumentation: Instrumentation


@dataclass(frozen=True)
class Design:
    """Results of one run of the design stage.

    Attributes:
        root: The repository.
        name: Name of its folder.
        goal: The practitioner's goal; empty for none.
        version: 12 hexadecimal digits over code, prompts in files, goal, judge model and facts.
        scan_sha: Digest of the files.
        readings: Files that were read.
        skipped: Files and folders that were not read.
        unread: Number of files in languages that are not read, by language.
        secrets: `path:line` of each key and password in the files; no text of the design holds one.
        graph: The call graph.
        hits: Patterns of all files.
        routes: Ways to one answer, in order, of production code.
        salience: Scores of all files, greatest first.
        architecture: Components and edges.
        prompts: Prompts by component.
        points: Spans to emit.
        planned: The same spans, with the lines at which their fields change.
        instrumentation: Spans that the program emits already.
        present: Those spans by component, with the rules of the portfolio for them.
        prices: Prices of the models that the code names.
        metrics: Metrics of the portfolio.
        selection: How they were selected, with the shelf of those that passed the critic and were not.
        dropped: Rejected metrics, each with its last review.
        left_out: Code without a metric because no request runs it.
        critique: Reviews of `metrics`.
        gaps: Judges and functions that are not monitored.
        questions: All questions; `open_questions` are those without an answer.
        facts: Answers of the practitioner.
        has_model: Whether any call reaches a model.
        own_imports: Imports of the repository's own files.
        unknown_libraries: Libraries that look like those of models or agents, and are not known.
        stale_facts: Facts whose question the code no longer raises.
        refused_operations: One line for each refused proposal of a refiner.
        judge_model: `vendor/name` of the model that may judge, or None.
    """

    root: Path
    name: str
    goal: str
    version: str
    scan_sha: str
    readings: tuple[FileReading, ...]
    skipped: tuple[Skipped, ...]
    unread: Mapping[str, int]
    secrets: tuple[str, ...]
    graph: CallGraph
    hits: tuple[PatternHit, ...]
    routes: tuple[Route, ...]
    salience: list[FileSalience]
    architecture: Architecture
    prompts: dict[str, list[Prompt]]
    points: list[IntegrationPoint]
    planned: list[PlannedSpan]
    instrumentation: Instrumentation
    present: PresentSpans
    prices: list[ModelPrice]
    metrics: list[MetricDesign]
    selection: PortfolioSelection
    dropped: list[tuple[MetricDesign, MetricReview]]
    left_out: list[LeftOutCode]
    critique: Critique
    gaps: list[Gap]
    questions: list[QuestionDraft]
    facts: tuple[Fact, ...]
    has_model: bool
    own_imports: OwnImports
    unknown_libraries: tuple[UnknownLibrary, ...]
    stale_facts: list[Fact]
    refused_operations: list[str]
    judge_model: str | None

    @property
    def open_questions(self) -> list[QuestionDraft]:
        """Questions that nobody has answered."""
        return open_ones(self.questions, self.facts, self.judge_model is not None)


@paused_collector()
def run_design(
    scan: Scan,
    goal: str = "",
    facts: tuple[Fact, ...] = (),
    judge_model: str | None = None,
    catalog: LibraryCatalog | None = None,
    refiner: Refiner | None = None,
    progress: Progress = no_progress,
    is_bounded: bool = True,
) -> Design:
    """Design the portfolio of a repository.

    Args:
        scan: Files of the repository.
        goal: The practitioner's goal in their words; raises priorities and severities.
        facts: Answers so far; a fact without a question in the code is listed as stale.
        judge_model: `vendor/name` of the model that may judge; None keeps judges out of the portfolio.
        catalog: Library catalogue; None for the shipped one.
        refiner: Model-backed refiner; None for none.
        progress: Called with stage, done and total.
        is_bounded: False keeps every metric that passed the critic, and asks every question.
    """
    wishes = Wishes(goal, facts, judge_model)
    code = read_code(scan, facts, catalog or default_catalog(), progress)
    view = understand(code, goal, refiner)
    choice = choose_metrics(view, code.material, wishes, refiner)
    named = named_models(scan) if any("usage.cost_usd" in m.fields for m in choice.metrics) else []
    prices, selection = prices_of(named), PortfolioSelection(choice.metrics)
    if is_bounded:
        points = {p.component: view.points_of(p.component) for p in view.points}
        failures = FailurePaths(choice.code, points)
        consequences = Consequences(choice.code, points, failures, wishes.concerns)
        usage = ReadUsage(choice.code, scan, choice.metrics, named, code.instrumentation)
        selection = select_metrics(
            choice.metrics,
            view.architecture,
            wishes.concerns,
            facts,
            failures.is_told,
            failures.untold,
            lambda metric: metric.doubt or usage.why_not(metric) or consequences.kept(metric),
            consequences.why_unlikely,
        )
    return _finish(scan, wishes, code, view, choice, selection, prices, refiner)


def read_code(scan: Scan, facts: tuple[Fact, ...], catalog: LibraryCatalog, progress: Progress) -> CodeReading:
    """Read the files of a scan: call graph, patterns, library uses and salience."""
    program, graph = build(scan, progress)
    graph, node_graphs = with_framework_calls(program, graph)
    sites = CallSites(graph, catalog)
    progress("patterns", 0, 1)
    found, routes = search(program, sites)
    hits = with_named_calls(found, graph, facts)
    progress("patterns", 1, 1)
    tags = {s.path: s.tags for s in graph.symbols}
    kept = tuple(h for h in hits if not tags.get(h.path))
    ways = tuple(r for r in routes if not tags.get(r.path))
    uses = [
        u for u in find_library_uses(graph, sites, kept) if not tags.get(u.place.path) and u.capability not in _PLUMBING
    ]
    sinks: dict[str, set[str]] = {}
    for use in uses:
        sinks.setdefault(use.symbol, set()).add(use.capability)
    distances = model_distances(graph, sinks)
    loops = tuple(one for one in find_loops(program, sites, node_graphs, distances) if not tags.get(one.path))
    known = {(one.path, one.line) for one in loops} | {(h.path, h.line) for h in hits if h.pattern == "has_retry_loop"}
    further = {h for one in loops for h in one.hits()}
    further |= find_request_failures(program, sites, graph, kept, distances, node_graphs, uses)
    further |= {h for h in find_limit_loops(program, sites, distances, known) if not tags.get(h.path)}
    further |= errors_of_functions(program, sites, (*kept, *further))
    hits, kept = tuple(sorted({*hits, *further})), tuple(sorted({*kept, *further}))
    salience = file_salience(graph, kept, distances)
    return CodeReading(
        program=program,
        material=Material(program, graph, sites, kept, ways, loops, distances, {f.path: f.salience for f in salience}),
        hits=hits,
        uses=uses,
        salience=salience,
        paths=set(tags),
        has_model=any("llm_chat" in found for found in sinks.values()),
        instrumentation=find_instrumentation(program, sites, scan.root),
    )


def understand(code: CodeReading, goal: str, refiner: Refiner | None) -> PipelineView:
    """Find components, edges, prompts and spans in what was read."""
    material, graph = code.material, code.material.graph
    components, _ = build_components(material, code.uses)
    take_names(components, code.instrumentation)
    architecture = Architecture(components, build_edges(components, graph))
    refused = apply_operations(architecture, refiner.refine_components(architecture)) if refiner is not None else []
    texts = PromptTexts(ClaimedCode(material))
    prompts = {c.id: find_prompts(c, texts) for c in architecture.components}
    for c in architecture.components:
        c.tiers += prompted_tiers(c, prompts[c.id], graph)
    classify(architecture, material, prompts)
    if goal:
        apply_goal(architecture, goal)
    review_components(architecture, code.paths, code.salience, material)
    return PipelineView(architecture, prompts, integration_points(architecture, graph, material.distances), refused)


def _finish(
    scan: Scan,
    wishes: Wishes,
    code: CodeReading,
    view: PipelineView,
    choice: MetricChoice,
    selection: PortfolioSelection,
    prices: list[ModelPrice],
    refiner: Refiner | None,
) -> Design:
    metrics, is_bounded = selection.metrics, bool(selection.shelf)
    set_alerts(metrics, view.architecture, wishes.concerns, MAX_PAGES if is_bounded else None)
    ci_targets([*metrics, *(s.metric for s in selection.shelf)])
    present = find_present_spans(
        view.points, view.architecture, code.material.graph, code.instrumentation, code.material.sites.catalog
    )
    prices = prices if any("usage.cost_usd" in m.fields for m in metrics) else []
    set_answered([*metrics, *(s.metric for s in selection.shelf)], view.points, present, bool(prices))
    points = _needed_points(view, metrics)
    gaps = [*choice.gaps, *_span_gaps(view.architecture, points)]
    questions = _questions(view, metrics, code.has_model, refiner)
    if is_bounded:
        questions = most_telling(questions, metrics)
    ids = {q.id for q in questions} | {MODEL_QUESTION}
    _sort(view.architecture, metrics)
    return Design(
        root=scan.root,
        name=scan.root.resolve().name,
        goal=wishes.goal,
        version=_version(scan, wishes, view),
        scan_sha=scan.sha,
        readings=readings(code.program),
        skipped=scan.skipped,
        unread=scan.unread,
        secrets=scan.secrets,
        graph=code.material.graph,
        hits=code.hits,
        routes=code.material.routes,
        salience=code.salience,
        architecture=view.architecture,
        prompts=view.prompts,
        points=points,
        planned=plan_spans(points, needed_of_spans(points, metrics), view.architecture, present, code.material),
        instrumentation=code.instrumentation,
        present=present,
        prices=prices,
        metrics=metrics,
        selection=selection,
        dropped=choice.dropped,
        left_out=choice.left_out,
        critique=replace(
            choice.critique,
            reviews=[*choice.critique.reviews, *shared_reviews(metrics, choice.critique.reviews)],
        ),
        gaps=gaps,
        questions=questions,
        facts=wishes.facts,
        has_model=code.has_model,
        own_imports=own_imports(code.program),
        unknown_libraries=unknown_libraries(code.program, code.material.graph, code.material.sites.catalog),
        stale_facts=[f for f in wishes.facts if f.question and f.question not in ids],
        refused_operations=view.refused_operations,
        judge_model=wishes.judge_model,
    )


def _needed_points(view: PipelineView, metrics: list[MetricDesign]) -> list[IntegrationPoint]:
    """Set for each span the metrics that need it; return the spans that some metric needs."""
    for point in view.points:
        point.blind = sorted(
            m.name
            for m in metrics
            if point.component in m.owners and point.name in m.spans and point.name not in m.answered
        )
    return [p for p in view.points if p.blind]


def _span_gaps(architecture: Architecture, points: list[IntegrationPoint]) -> list[Gap]:
    fix = "emit the same span there if one of them matters more than the requested functions"
    found = functions_without_span(architecture, points).items()
    told = ((c, ", ".join(f"{count} with {pattern}" for pattern, count in left.items())) for c, left in found)
    return [Gap(component, f"functions without a requested span: {more}", fix) for component, more in told]


def _questions(
    view: PipelineView, metrics: list[MetricDesign], has_model: bool, refiner: Refiner | None
) -> list[QuestionDraft]:
    questions = draft_questions(view.architecture, metrics, view.prompts, has_model)
    known = {m.name for m in metrics}
    for question in questions:
        question.decides = [name for name in question.decides if name in known]
        if refiner is not None:
            question.text = refiner.refine_questions([question]).get(question.id, question.text)
    return [q for q in questions if q.has_effect]


def _sort(architecture: Architecture, metrics: list[MetricDesign]) -> None:
    """Sort components and metrics: those that the goal mentions first, then by priority."""
    rank = {"primary": 0, "secondary": 1, "tertiary": 2}
    architecture.components.sort(key=lambda c: (-len(c.goal_words), rank[c.priority], c.id))
    order = {c.id: i for i, c in enumerate(architecture.components)}
    metrics.sort(key=lambda m: (order[m.component], not m.goal_words))


def _version(scan: Scan, wishes: Wishes, view: PipelineView) -> str:
    facts = [f.model_dump(mode="json") for f in wishes.facts]
    code = {file.path for file in scan.files}
    in_files = [[str(p.place), p.text] for some in view.prompts.values() for p in some if p.place.path not in code]
    parts: list[object] = [scan.sha, scan.root.resolve().name, wishes.goal, wishes.judge_model or "", facts]
    parts += [sorted(in_files)] if in_files else []
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:12]
