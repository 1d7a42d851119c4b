"""Graph of a pipeline's components: which lies downstream of which, and which have no way between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from gapwatch.scorers.portfolio.portfolio import Portfolio


class ComponentGraph:
    """Flow between the components of one pipeline.

    Args:
        edges: Pairs of component ids: from, to.
    """

    def __init__(self, edges: Iterable[tuple[str, str]] = ()) -> None:
        self._next: dict[str, set[str]] = {}
        self._beside: dict[str, set[str]] = {}
        for begin, end in edges:
            self._next.setdefault(begin, set()).add(end)
            self._beside.setdefault(begin, set()).add(end)
            self._beside.setdefault(end, set()).add(begin)

    @classmethod
    def of(cls, portfolio: Portfolio | None) -> ComponentGraph:
        """Return the graph of a portfolio; one without edges where the portfolio is not known."""
        return cls(() if portfolio is None else ((edge.from_, edge.to) for edge in portfolio.edges))

    def downstream(self, component: str) -> Set[str]:
        """Return the components that a component feeds, directly or through others; in a circle also itself."""
        return _reached(self._next, component)

    def are_apart(self, one: str, other: str) -> bool:
        """Return True where both components have edges and no path of edges, in any direction, joins them."""
        if one == other or one not in self._beside or other not in self._beside:
            return False
        return other not in _reached(self._beside, one)

    def moved_along(self, components: Iterable[str]) -> bool:
        """Return True where one of the components lies downstream of another one."""
        several = set(components)
        return any(self.downstream(one) & (several - {one}) for one in several)


def _reached(following: Mapping[str, Set[str]], begin: str) -> Set[str]:
    seen: set[str] = set()
    waiting = [begin]
    while waiting:
        new = following.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += sorted(new)
    return seen
