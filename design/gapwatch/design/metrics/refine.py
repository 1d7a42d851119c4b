"""Interface through which a model may refine a design; nothing implements it yet.

Each method takes the deterministic result and returns operations on it. Every operation is checked by itself; one
that names something unknown is refused and reported. Without a refiner every stage is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from gapwatch.design.architecture.model import Architecture
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.questions import QuestionDraft


@dataclass(frozen=True)
class ComponentOperation:
    """One change of the component graph.

    Attributes:
        action: rename, describe, relabel or merge.
        component: Id of the component to change.
        value: New name, description or label; for merge the id of the component that is merged in.
        edge_to: For relabel: id of the component at the end of the edge.
    """

    action: str
    component: str
    value: str
    edge_to: str = ""


class Refiner(Protocol):
    """Methods of a model-backed refiner; each may return nothing."""

    def refine_components(self, architecture: Architecture) -> list[ComponentOperation]:
        """Propose changes of the component graph."""

    def refine_questions(self, questions: list[QuestionDraft]) -> dict[str, str]:
        """Propose other wordings of questions, by id; the metrics that they affect stay."""

    def propose_metrics(self, architecture: Architecture, metrics: list[MetricDesign]) -> list[MetricDesign]:
        """Propose further metrics; the critic reviews them like all others."""


def apply_operations(architecture: Architecture, operations: list[ComponentOperation]) -> list[str]:
    """Apply valid operations and return one line for each refused one."""
    refused: list[str] = []
    for operation in operations:
        problem = _apply(architecture, operation)
        if problem is not None:
            refused.append(f"{operation.action} {operation.component}: {problem}")
    return refused


def _apply(architecture: Architecture, operation: ComponentOperation) -> str | None:
    by_id = {c.id: c for c in architecture.components}
    component = by_id.get(operation.component)
    if component is None:
        return "no such component"
    if operation.action == "rename":
        component.name = operation.value.strip()[:80] or component.name
    elif operation.action == "describe":
        component.description = operation.value.strip()[:400]
    elif operation.action == "relabel":
        return _relabel(architecture, operation)
    elif operation.action == "merge":
        other = by_id.get(operation.value)
        if other is None or other is component:
            return f"no other component {operation.value!r}"
        return _merge(architecture, operation.component, operation.value)
    else:
        return "no such operation"
    return None


def _relabel(architecture: Architecture, operation: ComponentOperation) -> str | None:
    for position, edge in enumerate(architecture.edges):
        if (edge.src, edge.dst) == (operation.component, operation.edge_to):
            architecture.edges[position] = replace(edge, label=operation.value[:60])
            return None
    return f"no edge to {operation.edge_to!r}"


def _merge(architecture: Architecture, into: str, taken: str) -> str | None:
    left, right = architecture.component(into), architecture.component(taken)
    for name in ("files", "symbols"):
        setattr(left, name, sorted({*getattr(left, name), *getattr(right, name)}))
    left.uses = sorted([*left.uses, *right.uses], key=lambda u: (u.place.path, u.place.line, u.dotted))
    left.hits = sorted({*left.hits, *right.hits})
    left.tiers += [t for t in right.tiers if t.id not in {mine.id for mine in left.tiers}]
    architecture.components.remove(right)
    moved = [
        replace(e, src=into if e.src == taken else e.src, dst=into if e.dst == taken else e.dst)
        for e in architecture.edges
    ]
    unique: dict[tuple[str, str], object] = {}
    for edge in moved:
        if edge.src != edge.dst:
            unique.setdefault((edge.src, edge.dst), edge)
    architecture.edges = list(unique.values())  # type: ignore[arg-type]
    return None
