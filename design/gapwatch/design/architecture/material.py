"""What components are made from: the analysed program, and its units of code with the jobs that they have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.library_uses import LibraryUse
from gapwatch.design.source.program import Program

#: Capabilities by what a component is for; the first that it has names its job.
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
    """A class, or the functions of a file that have one job; what components are made of."""

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
        """What it is for: the first job it has, by the order of `JOBS`."""
        for job, _ in JOBS:
            if self.jobs[job]:
                return job
        return next((job for job in ("parse", "flow") if self.jobs[job]), "")


@dataclass(frozen=True)
class Material:
    """What components are made from."""

    program: Program
    graph: CallGraph
    sites: CallSites
    hits: tuple[PatternHit, ...]
    distances: dict[str, int]
    salience: dict[str, float]
