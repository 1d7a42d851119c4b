"""Component graph as plain values: components, tiers, edges, missing files."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapwatch.design.agents.agent_loop import AgentLoop
from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.library_uses import CodePlace, LibraryUse
from gapwatch.design.routes.route import Route


@dataclass(frozen=True, slots=True)
class TierDraft:
    """A function that gives answers inside a component, or an arm of a route.

    Attributes:
        id: Unique inside the component.
        by: `llm` or `rule`.
        symbol: Dotted name of the function; of an arm that calls none of the repository, the one that holds the route.
        place: Lines of the function.
        is_ordered: Whether it is an arm of a route.
    """

    id: str
    by: str
    symbol: str
    place: CodePlace
    is_ordered: bool = False


@dataclass
class ComponentDraft:
    """A component of the pipeline.

    Attributes:
        id: Identifier in the portfolio.
        name: Title.
        files: Paths, sorted.
        symbols: Dotted names, sorted.
        entry: Function that other components call most.
        uses: Calls that leave the repository, with their capabilities.
        hits: Patterns.
        routes: Ways to one answer, in order.
        loops: Loops of agents.
        tiers: Functions that give answers, arms of routes first.
        description: First line of a docstring, or names of its parts.
        role: ai_core, supporting or operational.
        kind: llm, agent, chain, retrieval, ...
        priority: primary, secondary or tertiary.
        stage: Stage of the pipeline; None if no stage fits.
        pattern: Pattern of LLM pipelines, or `none`.
        strategies: All patterns that match.
        semantics: AI behaviours.
        silent_failure: Risk of failing without an error: high, medium or low.
        silent_because: Reason of that risk.
        is_offline_evaluable: Whether recorded inputs are enough to measure it.
        is_runtime_observable: Whether its spans can be emitted.
        measured: `directly`, `by judge` or `by proxy only`.
        user_facing_failure: Effect of a wrong result on the user.
        alignment: Fit to its stage: strong, partial or adjacent.
        confidence: In [0, 1]; below 0.3 the component is pruned.
        classification_confidence: In [0, 1].
        reasoning: Reason of the pattern.
        issues: Objections of the critic.
        suggestions: Corrections that the critic proposes.
        distance: Calls to the nearest model; None if too far.
        goal_words: Words of the goal that it matches.
    """

    id: str
    name: str
    files: list[str]
    symbols: list[str]
    entry: str
    uses: list[LibraryUse] = field(default_factory=list)
    hits: list[PatternHit] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    loops: list[AgentLoop] = field(default_factory=list)
    tiers: list[TierDraft] = field(default_factory=list)
    description: str = ""
    role: str = "operational"
    kind: str = "other"
    priority: str = "tertiary"
    stage: str | None = None
    pattern: str = "none"
    strategies: list[str] = field(default_factory=list)
    semantics: list[str] = field(default_factory=list)
    silent_failure: str = "low"
    silent_because: str = ""
    is_offline_evaluable: bool = False
    is_runtime_observable: bool = True
    measured: str = "by proxy only"
    user_facing_failure: str = ""
    alignment: str = "adjacent"
    confidence: float = 1.0
    classification_confidence: float = 1.0
    reasoning: str = ""
    issues: list[str] = field(default_factory=list)
    suggestions: list[str] = field(default_factory=list)
    distance: int | None = None
    goal_words: list[str] = field(default_factory=list)

    @property
    def capabilities(self) -> list[str]:
        """Capabilities of its library uses, sorted."""
        return sorted({use.capability for use in self.uses})

    @property
    def patterns(self) -> list[str]:
        """Names of its patterns, sorted."""
        return sorted({hit.pattern for hit in self.hits})


@dataclass(frozen=True)
class EdgeDraft:
    """An edge between two components.

    Attributes:
        src: Id of the calling component.
        dst: Id of the called component.
        label: Relation in words, such as `asks the model`.
        verification: verified, inferred or unsupported.
        because: Reason in words.
        calls: Call edges that support it.
    """

    src: str
    dst: str
    label: str
    verification: str
    because: str
    calls: tuple[CallEdge, ...] = ()

    @property
    def evidence(self) -> list[str]:
        """At most five calls as text (`caller -> callee (path:line)`), or the reason."""
        out = []
        for call in self.calls[:5]:
            path, line = call.sites[0]
            out.append(f"{call.src} -> {call.dst} ({path}:{line})")
        return out or [self.because]


@dataclass(frozen=True)
class MissingNode:
    """File with patterns that no component holds.

    Attributes:
        path: The file.
        salience: Its score.
        why: Reason in words.
    """

    path: str
    salience: float
    why: str


@dataclass
class Architecture:
    """The component graph with the critic's results.

    Attributes:
        components: Components that passed.
        edges: Edges between them.
        pruned: Components of low confidence.
        missing: Files with patterns that no component holds, with the reason.
        overall_confidence: Mean confidence of the components x share of important files that they cover.
    """

    components: list[ComponentDraft]
    edges: list[EdgeDraft]
    pruned: list[ComponentDraft] = field(default_factory=list)
    missing: list[MissingNode] = field(default_factory=list)
    overall_confidence: float = 1.0

    def reached(self) -> set[str]:
        """Return the ids of the components that a run reaches: what leads to a model, and what such a one calls."""
        callees: dict[str, set[str]] = {}
        for edge in self.edges:
            callees.setdefault(edge.src, set()).add(edge.dst)
        out: set[str] = set()
        todo = [c.id for c in self.components if c.distance is not None]
        while todo:
            if (one := todo.pop()) not in out:
                out.add(one)
                todo += callees.get(one, ())
        return out

    def component(self, identifier: str) -> ComponentDraft:
        """Return a component by its id."""
        return next(c for c in self.components if c.id == identifier)
