"""What the design stage knows of a pipeline: components, edges, confidences, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.library_uses import CodePlace, LibraryUse


@dataclass(frozen=True, slots=True)
class TierDraft:
    """A way to an answer inside a component.

    Attributes:
        by: `llm` or `rule`.
        symbol: The function that answers.
    """

    id: str
    by: str
    symbol: str
    place: CodePlace
    is_ordered: bool = False


@dataclass
class ComponentDraft:
    """A node of the pipeline.

    Attributes:
        uses: What it calls outside, by capability.
        confidence: In [0, 1]; under 0.3 the node is pruned.
        measured: `directly`, `by judge`, or `by proxy only`.
        alignment: To the framework of stages: strong, partial or adjacent.
    """

    id: str
    name: str
    files: list[str]
    symbols: list[str]
    entry: str
    uses: list[LibraryUse] = field(default_factory=list)
    hits: list[PatternHit] = field(default_factory=list)
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
        """What it does outside, sorted."""
        return sorted({use.capability for use in self.uses})

    @property
    def patterns(self) -> list[str]:
        """Names of the patterns found in it, sorted."""
        return sorted({hit.pattern for hit in self.hits})


@dataclass(frozen=True)
class EdgeDraft:
    """A way from one component to another.

    Attributes:
        verification: verified, inferred or unsupported.
        because: What was seen, in words.
        calls: The call edges it rests on.
    """

    src: str
    dst: str
    label: str
    verification: str
    because: str
    calls: tuple[CallEdge, ...] = ()

    @property
    def evidence(self) -> list[str]:
        """The calls as text: `caller -> callee (path:line)`."""
        out = []
        for call in self.calls[:5]:
            path, line = call.sites[0]
            out.append(f"{call.src} -> {call.dst} ({path}:{line})")
        return out or [self.because]


@dataclass(frozen=True)
class MissingNode:
    """A file that matters and that no component holds."""

    path: str
    salience: float
    why: str


@dataclass
class Architecture:
    """The component graph with what its critic says of it."""

    components: list[ComponentDraft]
    edges: list[EdgeDraft]
    pruned: list[ComponentDraft] = field(default_factory=list)
    missing: list[MissingNode] = field(default_factory=list)
    overall_confidence: float = 1.0

    def component(self, identifier: str) -> ComponentDraft:
        """Return a component by its id."""
        return next(c for c in self.components if c.id == identifier)
