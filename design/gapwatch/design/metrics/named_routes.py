"""Names of a component's routes in metrics and questions."""

from __future__ import annotations

from gapwatch.design.architecture.component_names import snake, unique
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.routes.route import Route


def named_routes(component: ComponentDraft) -> list[tuple[Route, str, str]]:
    """Return each route of a component with the prefix of its metrics and the id of its question.

    The only route of a component needs no prefix; others are called by their functions.
    """
    if len(component.routes) == 1:
        return [(component.routes[0], "", f"q-{component.id}-cascade")]
    taken: set[str] = set()
    out = []
    for route in component.routes:
        name = unique(snake(route.symbol.rpartition(".")[2]) or "route", taken)
        out.append((route, f"{name}_", f"q-{component.id}-{name}-cascade"))
    return out
