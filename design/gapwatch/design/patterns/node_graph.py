"""A graph of nodes that a framework runs, as it is built."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapwatch.design.patterns.code_walk import keyword, walk
from gapwatch.design.source.ir import Expr
from gapwatch.design.source.program import last_name


@dataclass
class NodeGraph:
    """A graph under construction.

    Attributes:
        nodes: Functions by node.
        edges: Edges between nodes, with their lines.
        first: First nodes.
        tools: Nodes that run the tools of a model.
        links: All edges, those from nodes of tools and those that a node's `goto` names included.
        routers: Functions that choose the next node, each with the node by what they return.
        ending: Nodes that are functions of their own and are not tried again: what leaves one ends the run.
        choosing: Nodes after which a function, or what they return themselves, chooses the next one.
    """

    nodes: dict[str, list[str]] = field(default_factory=dict)
    edges: list[tuple[str, str, int]] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    links: set[tuple[str, str]] = field(default_factory=set)
    routers: dict[str, dict[str, str]] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set)
    choosing: set[str] = field(default_factory=set)

    def take(self, name: str, action: Expr, call: Expr) -> None:
        """Note a node as ending its run by an error: it is a function, or made by one, and is not tried again."""
        parts = {part for symbol in self.nodes[name][:1] for part in symbol.split(".")[-2:]}
        is_own = any(last_name(e) in parts for e in walk(action) if e[0] in "na")
        if is_own and not any(keyword(call, k) is not None for k in ("retry", "retry_policy", "error_handler")):
            self.ending.add(name)

    def cycle_of(self, node: str) -> set[str]:
        """Return the nodes that lie on a cycle with one; empty where it lies on none."""
        after = self._reached(node, {a: {d for s, d in self.links if s == a} for a, _ in self.links})
        before = self._reached(node, {b: {s for s, d in self.links if d == b} for _, b in self.links})
        return after & before

    @staticmethod
    def _reached(node: str, next_to: dict[str, set[str]]) -> set[str]:
        seen: set[str] = set()
        frontier = [node]
        while frontier:
            for other in next_to.get(frontier.pop(), set()) - seen:
                seen.add(other)
                frontier.append(other)
        return seen
