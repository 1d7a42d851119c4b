"""Finds the lines below an agent that get what its answers can rest on: searches, and tools that read."""

from __future__ import annotations

import re
from functools import cached_property

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.component_names import snake
from gapwatch.design.architecture.model import Architecture
from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.metrics.searches.search_chains import FoundLine, library_searches
from gapwatch.design.patterns.library_uses import CodePlace, LibraryUse
from gapwatch.design.source.program import last_name

#: Capabilities that find what an answer can rest on, and those that do so where a framework runs them as a tool.
_FINDS = frozenset({"retrieval", "rerank", "web_search"})
_OF_TOOLS = _FINDS | {"http", "saas", "tool", "db_read", "db_execute"}
#: Most calls from an agent to what its tools ask.
_MAX_HOPS = 6
#: Names of tools that read, where a framework runs them.
_READS = re.compile(
    r"(^|_)(get|read|fetch|list|search|find|load|query|look|lookup|browse|crawl|scrape|open|check|retrieve|view|extract)(_|$)"
    r"|search|retriev|tool$"
)
#: Names of tools that write, and of what gets the right to read.
_WRITES = re.compile(
    r"^(mark|send|write|create|delete|update|post|set|add|save|remove|put|upload|insert|push)(_|$)"
    r"|(^|_)(tokens?|auth|login|credentials?|session)(_|$)"
)


class AgentEvidence:
    """Searches and tools of the agents of a pipeline, and what they find.

    Args:
        architecture: The components.
        code: The analysed code.
    """

    def __init__(self, architecture: Architecture, code: ClaimedCode) -> None:
        self._architecture = architecture
        self._code = code

    def of(self, symbol: str) -> list[FoundLine]:
        """Return the lines below a function that get what an answer can rest on."""
        callees = self._code.material.sites.callees
        seen: dict[str, bool] = {symbol: False}
        frontier = [symbol]
        subject = self._code.subject(symbol)
        # Tools of a library stand in the code of the module.
        module = subject.program.functions[subject.program.bodies[subject.info.module]].symbol if subject else symbol
        out = {found.place: found for found in self._finds(module, False)}
        for _ in range(_MAX_HOPS):
            below: dict[str, bool] = {}
            for src in frontier:
                for found in self._finds(src, seen[src]):
                    out.setdefault(found.place, found)
                for edge in callees.get(src, ()):
                    below[edge.dst] = below.get(edge.dst, False) or seen[src] or self._is_tool(edge)
            frontier = sorted(s for s, is_tool in below.items() if s not in seen or (is_tool and not seen[s]))
            seen |= {s: below[s] for s in frontier}
        return list(out.values())

    @cached_property
    def of_libraries(self) -> list[FoundLine]:
        """Lines of the tools that read, of agents that a run is handed by a value: `Runner.run(agents[name])`."""
        out = []
        program = self._code.material.program
        for info in program.functions:
            file = program.files[info.module]
            is_tool = any("tool" in last_name(d).lower() for d in info.ir.decorators)
            if is_tool and file is not None and not file.tags:
                out += self._finds(info.symbol, True)
        return out

    @cached_property
    def of_classes(self) -> list[FoundLine]:
        """A line of each tool that reads, of agents that find them in a table: `self.tools[name].execute(arguments)`.

        Those that search come first.
        """
        hits = [h for c in self._architecture.components for h in c.hits if h.pattern == "tells_model_error"]
        tools = sorted({h.symbol for h in hits if h.kind == "tool"})
        reading = [s for s in tools if _READS.search(_told(s)) and not _WRITES.search(_told(s))]
        searched = {s: self.of(s)[:1] for s in reading}
        lines = [f for s in reading for f in searched[s]]
        lines += [f for s in reading if not searched[s] for f in self._finds(s, True)[:1]]
        return list({found.place: found for found in lines}.values())

    def _is_tool(self, edge: CallEdge) -> bool:
        """Return whether a framework runs a function that another has: by its edge, or as it is decorated."""
        subject = self._code.subject(edge.dst)
        decorators = subject.ir.decorators if subject is not None else ()
        return edge.kind == "framework" or any("tool" in last_name(d).lower() for d in decorators)

    def _finds(self, symbol: str, is_tool: bool) -> list[FoundLine]:
        name = _told(symbol)
        wanted = _OF_TOOLS if is_tool and _READS.search(name) and not _WRITES.search(name) else _FINDS
        out = [FoundLine(symbol, u.place, u.capability) for u in self._uses.get(symbol, ()) if u.capability in wanted]
        subject = self._code.subject(symbol)
        file = subject.program.files[subject.info.module] if subject is not None else None
        is_own = file is not None and not file.tags
        if subject is not None and is_own and not out and is_tool and wanted is not _FINDS:
            # What a tool reads may stand in an object of the application.
            path = subject.program.path(subject.info)
            out = [FoundLine(symbol, CodePlace(path, subject.ir.line, subject.ir.end), "tool")]
        return out + (list(library_searches(subject)) if subject is not None else [])

    @cached_property
    def _uses(self) -> dict[str, list[LibraryUse]]:
        out: dict[str, list[LibraryUse]] = {}
        for component in self._architecture.components:
            for use in component.uses:
                out.setdefault(use.symbol, []).append(use)
        return out


#: Names of methods by which an object that is a tool is run, and what the name of its class ends with.
_PLAIN = re.compile(r"^_*a?(run|execute|call|invoke|forward)(_impl|_async|_tool|_action)?_*$")
_OF_CLASS = re.compile(r"_?tool$")


def _told(symbol: str) -> str:
    """Return the name that a model has of a tool: of its function, or of its class."""
    owner, _, name = symbol.rpartition(".")
    if _PLAIN.search(snake(name)):
        return _OF_CLASS.sub("", snake(owner.rpartition(".")[2]))
    return snake(name)
