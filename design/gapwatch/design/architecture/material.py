"""Input of the component graph: the analysed code, and its units with their jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from gapwatch.design.agents.agent_loop import AgentLoop
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.library_uses import LibraryUse
from gapwatch.design.routes.route import Route
from gapwatch.design.source.program import Program

#: Capabilities by job, most important first; the first job that a unit has is its job.
JOBS: tuple[tuple[str, frozenset[str]], ...] = (
    ("llm", frozenset({"llm_chat"})),
    ("guardrail", frozenset({"guardrail"})),
    ("rerank", frozenset({"rerank"})),
    ("retrieval", frozenset({"retrieval"})),
    ("index", frozenset({"vector_write"})),
    ("embedding", frozenset({"embedding"})),
    ("store", frozenset({"db_write", "db_read", "db_execute"})),
    ("service", frozenset({"http", "web_search", "saas", "tool"})),
    ("queue", frozenset({"queue", "local_queue"})),
    ("cache", frozenset({"cache"})),
    ("stream", frozenset({"stream"})),
    ("ingest", frozenset({"ingest"})),
    ("evaluation", frozenset({"evaluation"})),
)


@dataclass
class Unit:
    """A class or function with all that is inside it, or the code of a module; components are groups of units.

    Attributes:
        key: Symbol of the class, function or module.
        name: Last part of the symbol.
        path: File of the first symbol.
        symbols: Dotted names.
        uses: Library uses of its functions.
        hits: Patterns of its functions.
        jobs: Number of uses and patterns by job.
        weight: Salience and number of uses and patterns; heavy units name their component.
        distance: Calls to the nearest model; 99 for none.
        paths: All files of its symbols.
        is_class: Whether it is a class.
        is_module: Whether it is the code of a module outside functions and classes.
        is_data: Whether it is a class that only holds values, an interface or an exception.
        has_client: Whether it calls a class that calls a model.
        agent: Variable of the agent whose tool, prompt or validator it is, or its own name where it is an agent beside
            others of its class; empty for none.
    """

    key: str
    name: str
    path: str
    symbols: list[str] = field(default_factory=list)
    uses: list[LibraryUse] = field(default_factory=list)
    hits: list[PatternHit] = field(default_factory=list)
    jobs: Counter[str] = field(default_factory=Counter)
    weight: float = 0.0
    distance: int = 99
    paths: set[str] = field(default_factory=set)
    is_class: bool = False
    is_module: bool = False
    is_data: bool = False
    has_client: bool = False
    agent: str = ""

    @property
    def asking(self) -> set[str]:
        """Its functions that call a model themselves."""
        return {hit.symbol for hit in self.hits if hit.pattern == "calls_llm" and hit.kind == "direct"}

    @property
    def is_asking(self) -> bool:
        """True if it calls a model, itself or through a thin client."""
        return self.has_client or any(h.pattern == "calls_llm" and h.kind in ("direct", "wrapped:1") for h in self.hits)

    @property
    def is_tool(self) -> bool:
        """True if a model calls it, or a function of it, as a tool."""
        return any(h.pattern == "tells_model_error" and h.kind == "tool" for h in self.hits)

    @property
    def job(self) -> str:
        """First job that it has, in the order of `JOBS`; then parse or flow; else an empty text."""
        for job, _ in JOBS:
            if self.jobs[job]:
                return job
        return next((job for job in ("parse", "flow") if self.jobs[job]), "")


@dataclass(frozen=True)
class Material:
    """The analysed production code (without tests and examples).

    Attributes:
        program: All files in intermediate form.
        graph: The call graph.
        sites: Library and repository targets of every call site.
        hits: Patterns, without those of tests and examples.
        routes: Ways to one answer, in order, without those of tests and examples.
        loops: Loops of agents, without those of tests and examples.
        distances: Calls to the nearest model by symbol; symbols that are too far away are missing.
        salience: Score by path.
    """

    program: Program
    graph: CallGraph
    sites: CallSites
    hits: tuple[PatternHit, ...]
    routes: tuple[Route, ...]
    loops: tuple[AgentLoop, ...]
    distances: dict[str, int]
    salience: dict[str, float]

    def hits_of(self, symbol: str) -> list[PatternHit]:
        """Return the patterns of a function."""
        return self._hits.get(symbol, [])

    @cached_property
    def _hits(self) -> dict[str, list[PatternHit]]:
        out: dict[str, list[PatternHit]] = {}
        for hit in self.hits:
            out.setdefault(hit.symbol, []).append(hit)
        return out
