"""Calls that frameworks make: from node to node, to the tools of an agent, from who runs it, to jobs by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import build
from gapwatch.design.architecture.framework_calls import with_framework_calls
from gapwatch.design.source.scan import scan_repository
from tests.design.source_tree import write_tree

_NODES = "\n\n".join(f"def {name}(state):\n    return state" for name in ("plan", "search", "write"))
_GRAPH = (
    f"from langgraph.graph import END, START, StateGraph\nfrom langgraph.types import Command, Send\n\n\n{_NODES}\n\n\n"
)

#: By name: files, edges that must be there, and edges that must not.
FORMS: dict[str, tuple[dict[str, str], set[str], set[str]]] = {
    "a graph from node to node, and from who runs it to the first": (
        {
            "m.py": _GRAPH + "g = StateGraph(dict)\ng.add_node('p', plan)\ng.add_node(search)\ng.add_node('w', write)\n"
            "g.add_edge(START, 'p')\ng.add_edge('p', 'search')\ng.add_edge('search', 'w')\ng.add_edge('w', END)\n"
            "app = g.compile()\n",
            "api.py": "from m import app as flow\n\n\ndef ask(q):\n    return flow.invoke({'q': q})\n\n\n"
            "def state(id):\n    return flow.get_state(id)\n",
        },
        {"m.plan -> m.search", "m.search -> m.write", "api.ask -> m.plan"},
        {"api.ask -> m.search", "m.plan -> m.write", "api.state -> m.plan"},
    ),
    "the method of a tool, from who makes the tool": (
        {
            "t.py": "from langchain_core.tools import BaseTool\n\n\nclass Base(BaseTool):\n    pass\n\n\n"
            "class Search(Base):\n    def _run(self, q):\n        return q\n\n"
            "    def other(self):\n        return 1\n\n\n"
            "class Job:\n    def _run(self, q):\n        return q\n",
            "m.py": "from t import Job, Search\n\n\ndef tool():\n    return Search()\n\n\n"
            "def job():\n    return Job()\n",
        },
        {"m.tool -> t.Search._run"},
        {"m.tool -> t.Search.other", "m.job -> t.Job._run"},
    ),
    "a graph that two functions build, and a module keeps": (
        {
            "m.py": _GRAPH
            + "def base():\n    g = StateGraph(dict)\n    g.add_node('p', plan)\n    g.add_edge(START, 'p')\n"
            "    return g\n\n\ndef build():\n    g = base()\n    return g.compile(checkpointer=None)\n",
            "api.py": "from m import build\n\nflow = build()\n\n\ndef ask(q):\n    return events(flow, q)\n\n\n"
            "def events(graph, q):\n    yield from graph.stream({'q': q})\n\n\ndef status():\n    return 'well'\n",
        },
        {"api.ask -> m.plan"},
        {"api.status -> m.plan"},
    ),
    "a graph that a function builds in one chain": (
        {
            "m.py": _GRAPH + "def build():\n    return (\n        StateGraph(dict)"
            ".add_node('p', plan).add_node('w', write)\n        "
            ".add_edge(START, 'p').add_edge('p', 'w').compile()\n    )\n\n\n"
            "def ask(q):\n    return build().invoke({'q': q})\n",
        },
        {"m.plan -> m.write", "m.ask -> m.plan"},
        {"m.ask -> m.write"},
    ),
    "a router that returns names, a table, and a command": (
        {
            "m.py": _GRAPH + "def route(state):\n    return 's' if state else [Send('w', {})]\n\n\n"
            "def review(state):\n    return Command(goto='p')\n\n\n"
            "g = StateGraph(dict)\ng.add_node('p', plan)\ng.add_node('s', search)\ng.add_node('w', write)\n"
            "g.add_node('r', review)\ng.add_conditional_edges('p', route)\n"
            "g.add_conditional_edges('w', lambda s: 'x', {'x': 'r', 'y': END})\n",
        },
        {"m.plan -> m.search", "m.plan -> m.write", "m.write -> m.review", "m.review -> m.plan"},
        {"m.search -> m.write"},
    ),
    "the tools and hand-offs of agents": (
        {
            "m.py": "from agents import Agent, Runner, function_tool\n\n\n"
            "@function_tool\ndef find(q):\n    return q\n\n\n"
            "@function_tool\ndef book(q):\n    return q\n\n\nbooking = Agent(name='b', tools=[book])\n"
            "desk = Agent(name='d', tools=[find], handoffs=[booking])\n\n\n"
            "async def ask(q):\n    return await Runner.run(desk, q)\n",
        },
        {"m.ask -> m.find", "m.ask -> m.book"},
        set(),
    ),
    "the middleware of an agent, through a list and a variable of another file": (
        {
            "guards.py": "from langchain.agents.middleware import AgentMiddleware\n\n\n"
            "class Guard(AgentMiddleware):\n    async def abefore_agent(self, state, runtime):\n        pass\n\n\n"
            "class Again(AgentMiddleware):\n    async def awrap_tool_call(self, request, handler):\n"
            "        return await handler(request)\n\n    def describe(self):\n        return ''\n\n\n"
            "again = Again()\n",
            "m.py": "from langchain.agents import create_agent\nfrom guards import Guard, again\n\n"
            "around = [Guard(), again]\ndesk = create_agent('m', tools=[], middleware=around)\n",
        },
        {"m -> guards.Guard.abefore_agent", "m -> guards.Again.awrap_tool_call"},
        {"m -> guards.Again.describe"},
    ),
    "tools that an agent's variable decorates": (
        {
            "m.py": "from pydantic_ai import Agent\n\ndesk = Agent('m')\n\n\n@desk.tool\n"
            "async def find(ctx, q):\n    return q\n",
            "api.py": "from m import desk\n\n\nasync def ask(q):\n    return await desk.run(q)\n",
        },
        {"api.ask -> m.find"},
        set(),
    ),
    "a table of agents": (
        {
            "m.py": "from langgraph.prebuilt import create_react_agent\n\n\ndef find(q):\n    return q\n\n\n"
            "desk = create_react_agent('m', tools=[find])\n",
            "table.py": "from m import desk\n\nAGENTS = {'desk': desk}\n\n\ndef get(name):\n    return AGENTS[name]\n",
        },
        {"table.get -> m.find"},
        set(),
    ),
    "a job that is queued by its name": (
        {
            "jobs.py": "from queue_library import command\n\n\n@command('embed_note', app='a')\n"
            "async def embed(data):\n    ...\n",
            "m.py": "from queue_library import submit_command\n\n\ndef save(note):\n"
            "    submit_command('a', 'embed_note', {'id': note})\n    print('embed_note')\n",
        },
        {"m.save -> jobs.embed"},
        set(),
    ),
    "modules of DSPy that are called, and streamed": (
        {
            "m.py": "import asyncio, dspy\n\n\nclass Answer(dspy.Module):\n"
            "    def forward(self, q):\n        return q\n\n\n"
            "ANSWER = Answer()\n\n\ndef ask(q):\n    return ANSWER(q=q)\n\n\n"
            "async def later(q):\n    return await asyncio.to_thread(ANSWER, q=q)\n\n\n"
            "async def stream(q):\n    return dspy.streamify(ANSWER)(q=q)\n",
        },
        {"m.ask -> m.Answer.forward", "m.later -> m.Answer.forward", "m.stream -> m.Answer.forward"},
        set(),
    ),
}


@pytest.mark.parametrize("name", sorted(FORMS))
def test_what_a_framework_runs_is_an_edge(name: str, tmp_path: Path) -> None:
    files, wanted, unwanted = FORMS[name]
    graph, _ = with_framework_calls(*build(scan_repository(write_tree(tmp_path, files))))

    found = {f"{e.src} -> {e.dst}" for e in graph.edges}

    assert wanted - found == set()
    assert unwanted & found == set()
