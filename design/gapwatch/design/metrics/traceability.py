"""What each metric rests on and what stands for it in production; who is woken, and why."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.metrics.metric_design import MetricDesign


@dataclass(frozen=True)
class Gap:
    """What is not watched, and what would close it: a judge without a metric beside it, functions without a span.

    Attributes:
        metric: The judge's name, or the component's.
    """

    metric: str
    missing: str
    fix: str


#: Families that move when the quality of answers does, nearest first.
_STANDS_FOR = {
    "groundedness": ("passages_found", "answer_present", "finish_reason"),
    "quality": ("answer_present", "output_parses", "finish_reason"),
    "safety": ("finish_reason", "guardrail_errors", "answer_present"),
}


def link(metrics: list[MetricDesign], architecture: Architecture) -> list[Gap]:
    """Say for each judge which monitoring metrics stand for it between judgements; return those that have none."""
    gaps: list[Gap] = []
    near: dict[str, set[str]] = {c.id: {c.id} for c in architecture.components}
    for edge in architecture.edges:
        near[edge.src].add(edge.dst)
        near[edge.dst].add(edge.src)
    for metric in metrics:
        if metric.source not in ("judge", "composite"):
            continue
        wanted = _STANDS_FOR.get(metric.concern, ("answer_present",))
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
                    "sample it more often, or emit the span that those need",
                )
            )
    return gaps


def blast_radius(architecture: Architecture) -> dict[str, int]:
    """Return for each component how many others see its failures: those that call it, and those that call them."""
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


def set_alerts(metrics: list[MetricDesign], architecture: Architecture, goal_concerns: set[str]) -> None:
    """Set severities from who is hit: users (critical), other components (warning), nobody yet (info)."""
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
        # One fault of a component shows in several metrics at once; who is called out once has seen them all.
        for metric in sorted(pages, key=lambda m: (m.concern not in goal_concerns, _urgency(m)))[MAX_PAGES:]:
            metric.severity = "ticket"


#: Metrics of one component that may page.
MAX_PAGES = 2
#: What the user feels first.
_URGENT = ("answer_present", "output_parses", "passages_found", "retries_exhausted", "error_rate", "service_errors")


def _urgency(metric: MetricDesign) -> int:
    return next((i for i, family in enumerate(_URGENT) if metric.family.endswith(family)), len(_URGENT))


def _severity(metric: MetricDesign, component: ComponentDraft, radius: int, is_goal: bool) -> str:
    if component.priority == "tertiary" and radius == 0:
        return "note"
    if metric.severity == "note":
        return "note"
    user_facing = component.priority == "primary"
    wants_page = metric.severity == "page" or (is_goal and user_facing)
    if wants_page and user_facing and metric.direction_verdict == "verified" and not metric.is_cascade:
        return "page"
    return "ticket"


def ci_targets(metrics: list[MetricDesign]) -> None:
    """Metrics that need nothing but an answer can gate a release, too."""
    for metric in metrics:
        if metric.source == "judge" or metric.family in ("output_parses",) or metric.family.endswith("answer_present"):
            metric.targets = list(dict.fromkeys([*metric.targets, "ci_gate"]))
        if metric.source in ("judge", "cost"):
            metric.targets = list(dict.fromkeys([*metric.targets, "langfuse"]))
