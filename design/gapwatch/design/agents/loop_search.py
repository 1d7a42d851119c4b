"""Finds all loops of agents: those of functions, cycles of graphs, and runs of libraries."""

from __future__ import annotations

from collections.abc import Iterable

from gapwatch.design.agents.agent_loop import AgentLoop
from gapwatch.design.agents.code_loops import code_loops
from gapwatch.design.agents.graph_loops import graph_loops
from gapwatch.design.agents.library_runs import library_runs
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.node_graph import NodeGraph
from gapwatch.design.source.program import Program


def find_loops(
    program: Program, sites: CallSites, graphs: Iterable[NodeGraph], distances: dict[str, int]
) -> tuple[AgentLoop, ...]:
    """Return the loops of agents, sorted by file and line.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        graphs: Graphs of nodes.
        distances: Calls to the nearest model by symbol.
    """
    subjects = [Subject(program, sites, i) for i in program.functions if i.ir.body and not i.is_overload]
    if not subjects:
        return ()
    loops = {*code_loops(program, subjects, distances), *graph_loops(graphs, subjects[0], distances)}
    known = {loop.symbol for loop in loops}
    return tuple(sorted({*loops, *(run for run in library_runs(subjects) if run.symbol not in known)}))
