"""Links judges to metrics that monitor them between judgements, and sets alert severities and targets."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.metrics.metric_design import FAILED_RUNS, MetricDesign, without_number


@dataclass(frozen=True)
class Gap:
    """Something that is not monitored, and how to close the gap.

    Attributes:
        metric: Name of a judge without a monitoring metric, or id of a component with functions without a span.
        missing: What is missing.
        fix: What to do.
    """

    metric: str
    missing: str
    fix: str


#: Families that move with the quality of answers, the closest first.
_MONITORS_OF = {
    "groundedness": ("passages_found", "answer_present", "finish_reason"),
    "quality": ("answer_present", "output_parses", "finish_reason"),
    "safety": ("finish_reason", "guardrail_errors", "answer_present"),
}


def link(metrics: list[MetricDesign], architecture: Architecture) -> list[Gap]:
    """Set for each judge the metrics that monitor it between judgements; return a gap for each judge without one."""
    gaps: list[Gap] = []
    near: dict[str, set[str]] = {c.id: {c.id} for c in architecture.components}
    for edge in architecture.edges:
        near[edge.src].add(edge.dst)
        near[edge.dst].add(edge.src)
    for metric in metrics:
        if metric.source not in ("judge", "composite"):
            continue
        wanted = _MONITORS_OF.get(metric.concern, ("answer_present",))
        mine = [m for m in metrics if m.source == "catalog" and m.component == metric.component]
        others = [m for m in metrics if m.source == "catalog" and m.component in near[metric.component]]
        found: list[str] = []
        for family in wanted:
            for pool in (mine, others):
                match = next(
                    (m for m in pool if m.family == family or (m.family.endswith(family) and m.tier == metric.tier)),
                    None,
                )
                if match is not None:
                    found.append(match.name)
                    break
        metric.monitors = list(dict.fromkeys(found))[:2]
        if not found:
            gaps.append(
                Gap(
                    metric.name,
                    f"no {' or '.join(wanted)} on {metric.component}",
                    "sample the judge more often, or emit the span that those metrics need",
                )
            )
    return gaps


def blast_radius(architecture: Architecture) -> dict[str, int]:
    """Return for each component the number of other components that call it, directly or indirectly."""
    callers: dict[str, set[str]] = {c.id: set() for c in architecture.components}
    for edge in architecture.edges:
        callers[edge.dst].add(edge.src)
    out: dict[str, int] = {}
    for component in architecture.components:
        seen: set[str] = set()
        frontier = [component.id]
        while frontier:
            frontier = sorted({c for f in frontier for c in callers[f]} - seen - {component.id})
            seen.update(frontier)
        out[component.id] = len(seen)
    return out


def set_alerts(
    metrics: list[MetricDesign], architecture: Architecture, goal_concerns: set[str], most: int | None = None
) -> None:
    """Set severities and targets of all metrics.

    A metric pages if its component is primary and its direction is verified; at most `MAX_PAGES_OF_COMPONENT` of a
    component do.

    Args:
        metrics: Changed in place.
        architecture: Components and edges.
        goal_concerns: Concerns that the goal mentions; they are raised by one severity.
        most: Most pages of all components together; None for no bound.
    """
    radius = blast_radius(architecture)
    components = {c.id: c for c in architecture.components}
    for metric in metrics:
        component = components[metric.component]
        if not metric.severity:
            metric.targets = metric.targets or ["in_process", "dashboard"]
            continue
        metric.severity = _severity(metric, component, radius[component.id], metric.concern in goal_concerns)
        metric.targets = ["in_process", "dashboard", "alert"]
    for component in architecture.components:
        pages = [m for m in metrics if m.component == component.id and m.severity == "page"]
        # One fault of a component shows in several metrics at once; one page is enough.
        for metric in sorted(pages, key=lambda m: (m.fact is None, m.concern not in goal_concerns, _urgency(m)))[
            MAX_PAGES_OF_COMPONENT:
        ]:
            metric.severity = "ticket"
    if most is None:
        return
    # The components that others depend on most come first, each with one page before any has two.
    paging = [m for m in metrics if m.severity == "page"]
    rank = {m.name: [o for o in paging if o.component == m.component].index(m) for m in paging}
    paging.sort(
        key=lambda m: (
            m.fact is None,
            m.concern not in goal_concerns,
            not components[m.component].goal_words,
            rank[m.name],
            _urgency(m),
            -radius[m.component],
            m.name,
        )
    )
    for metric in paging[most:]:
        metric.severity = "ticket"


#: Most metrics of one component that page.
MAX_PAGES_OF_COMPONENT = 2
#: Most metrics of a portfolio that page; one fault shows in several metrics at once.
MAX_PAGES = 3
#: Families that may page, the most urgent first: a request or a run that fails, no answer, nothing found.
_URGENT = (*FAILED_RUNS, "answer_present", "passages_found")
#: Families that do where the function itself asks a model.
_URGENT_OF_MODELS = ("error_rate",)


def _urgency(metric: MetricDesign) -> int:
    families = (*_URGENT, *_URGENT_OF_MODELS)
    return next((i for i, f in enumerate(families) if without_number(metric.family).endswith(f)), len(families))


def _may_page(metric: MetricDesign) -> bool:
    """Return whether a person is woken for a metric: a single client, parse or write is a ticket."""
    family = without_number(metric.family)
    return family.endswith(_URGENT) or (metric.is_of_model and family.endswith(_URGENT_OF_MODELS))


def _severity(metric: MetricDesign, component: ComponentDraft, radius: int, is_goal: bool) -> str:
    is_of_runs = metric.family in (*FAILED_RUNS, "tool_errors")
    if component.priority == "tertiary" and radius == 0 and not is_of_runs:
        return "note"
    if metric.severity == "note":
        return "note"
    if metric.severity == "page" and metric.is_cascade and metric.fact is not None:
        # The practitioner has said that it is worse.
        return "page"
    # Who sends a request feels that it fails, whichever component answers it.
    user_facing = component.priority == "primary" or metric.family in FAILED_RUNS
    wants_page = (metric.severity == "page" and _may_page(metric)) or (is_goal and user_facing)
    if wants_page and user_facing and metric.direction_verdict == "verified" and not metric.is_cascade:
        return "page"
    return "ticket"


def ci_targets(metrics: list[MetricDesign]) -> None:
    """Add the target `ci_gate` to metrics that need only an answer, and `langfuse` to judges and costs."""
    for metric in metrics:
        if (
            metric.source == "judge"
            or metric.family in ("output_parses",)
            or metric.family.endswith(("answer_present", "output_present"))
        ):
            metric.targets = list(dict.fromkeys([*metric.targets, "ci_gate"]))
        if metric.source in ("judge", "cost"):
            metric.targets = list(dict.fromkeys([*metric.targets, "langfuse"]))
