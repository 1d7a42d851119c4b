"""Input of the component graph: the analysed code, and its units with their jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
    """A class, or the functions of one file that have the same job; components are groups of units.

    Attributes:
        key: Symbol of the class, or `path#job`.
        name: Name of the class, or the job.
        path: File of the first symbol.
        symbols: Dotted names.
        uses: Library uses of its functions.
        hits: Patterns of its functions.
        jobs: Number of uses and patterns by job.
        weight: Salience and number of uses and patterns; heavy units name their component.
        distance: Calls to the nearest model; 99 for none.
        paths: All files of its symbols.
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
        distances: Calls to the nearest model by symbol; symbols that are too far away are missing.
        salience: Score by path.
    """

    program: Program
    graph: CallGraph
    sites: CallSites
    hits: tuple[PatternHit, ...]
    routes: tuple[Route, ...]
    distances: dict[str, int]
    salience: dict[str, float]
