"""Loops of agents: where a step begins, and how a run ends; shapes that are agents, and similar ones that are none."""

# ruff: noqa: E501 - one case a line reads as a table

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.agents.agent_loop import AgentLoop
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import read_code
from tests.design.source_tree import write_tree

_HEAD = "from openai import OpenAI\nclient = OpenAI()\n\n\ndef ask(messages):\n    return client.chat.completions.create(model='m', messages=messages).choices[0].message\n\n\n"

RANGE = (
    _HEAD
    + """
MAX_STEPS = 12


def work(messages, tools):
    for step in range(MAX_STEPS):
        answer = ask(messages)
        if not answer.tool_calls:
            return answer.content
        for call in answer.tool_calls:
            messages.append({"role": "tool", "content": tools[call.function.name](call.function.arguments)})
    return "I could not finish."
"""
)

COUNTER = (
    _HEAD
    + """
class Worker:
    def __init__(self, config, env):
        self.config, self.env, self.steps = config, env, 0

    def run(self, task):
        messages = [task]
        while True:
            if self.steps >= self.config.step_limit:
                raise StepsExceeded(task)
            self.steps += 1
            action = ask(messages)
            if "DONE" in action.content:
                break
            messages.append(self.env.execute(action))
        return messages
"""
)

STATUS = (
    _HEAD
    + """
class Flow(Exception):
    def __init__(self, message):
        self.message = message


class Submitted(Flow):
    pass


class LimitsExceeded(Flow):
    pass


class FormatError(Flow):
    pass


class Worker:
    def run(self, task):
        self.messages = [task]
        while True:
            try:
                self.step()
            except FormatError as e:
                self.messages.append(e.message)
            except Flow as e:
                self.messages.append(e.message)
            if self.messages[-1].get("role") == "exit":
                break
        return self.messages[-1]

    def step(self):
        if self.n_calls >= self.step_limit:
            raise LimitsExceeded({"role": "exit", "exit_status": "LimitsExceeded"})
        answer = ask(self.messages)
        self.execute_actions(answer)

    def execute_actions(self, answer):
        if "```" not in answer.content:
            raise FormatError({"role": "user", "content": "no action"})
        if answer.content.startswith("submit"):
            raise Submitted({"role": "exit", "exit_status": "Submitted"})
"""
)

GRAPH = """
from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

model = init_chat_model("gpt-4o")


async def lead(state, config):
    answer = await model.bind_tools([Search, Complete]).ainvoke(state["messages"])
    return Command(goto="lead_tools", update={"messages": [answer], "rounds": state["rounds"] + 1})


async def lead_tools(state, config):
    exceeded = state["rounds"] > config.max_rounds
    silent = not state["messages"][-1].tool_calls
    complete = any(call["name"] == "Complete" for call in state["messages"][-1].tool_calls)
    if exceeded or silent or complete:
        return Command(goto=END, update={})
    found = []
    for call in state["messages"][-1].tool_calls[config.most:]:
        found.append(ToolMessage(content=f"Error: more than {config.most} searches at once", tool_call_id=call["id"]))
    return Command(goto="lead", update={"messages": found})


builder = StateGraph(dict)
builder.add_node("lead", lead)
builder.add_node("lead_tools", lead_tools)
builder.add_edge(START, "lead")
graph = builder.compile()
"""

TOOL_NODE = """
from langchain_openai import ChatOpenAI
from langgraph.graph import END, StateGraph
from langgraph.prebuilt import ToolNode

model = ChatOpenAI(model="gpt-4o")


async def think(state, config):
    answer = await model.ainvoke(state["messages"])
    if state["remaining_steps"] < 2 and answer.tool_calls:
        return {"messages": [AIMessage(content="Sorry, this needs more steps.")]}
    return {"messages": [answer]}


def pending(state):
    if state["messages"][-1].tool_calls:
        return "tools"
    return "done"


builder = StateGraph(dict)
builder.add_node("think", think)
builder.add_node("tools", ToolNode([]))
builder.set_entry_point("think")
builder.add_edge("tools", "think")
builder.add_conditional_edges("think", pending, {"tools": "tools", "done": END})
graph = builder.compile()
"""

BELOW_ITS_LIMIT = (
    TOOL_NODE.replace(
        """    if state["messages"][-1].tool_calls:
        return "tools"
    return "done"
""",
        """    if state["loop_step"] < config.max_loops:
        if state["messages"][-1].tool_calls:
            return "tools"
        return "done"
    return "done"
""",
    )
    .replace("def pending(state)", "def pending(state, config)")
    .replace(
        """    if state["remaining_steps"] < 2 and answer.tool_calls:
        return {"messages": [AIMessage(content="Sorry, this needs more steps.")]}
""",
        "",
    )
)

CHOOSES_NOTHING = """
from langchain_openai import ChatOpenAI
from langgraph.graph import END, StateGraph

model = ChatOpenAI(model="gpt-4o")


def think(state):
    return {"messages": [model.invoke(state["messages"])]}


def polish(state):
    return {"messages": [model.invoke(f"Write it in a friendly tone: {state['messages'][-1].content}")]}


def send(state):
    call = state["messages"][-1].tool_calls[0]
    return {"messages": [execute_tool(call)]}


def pending(state):
    if state["messages"][-1].tool_calls:
        return "polish"
    return END


builder = StateGraph(dict)
builder.add_node("think", think)
builder.add_node("polish", polish)
builder.add_node("send", send)
builder.set_entry_point("think")
builder.add_conditional_edges("think", pending, {"polish": "polish", END: END})
builder.add_edge("polish", "send")
builder.add_edge("send", "think")
graph = builder.compile()
"""

UNTIL_ONE_CALL = (
    _HEAD
    + """
def draft(messages, tools):
    i = 0
    while i < 5:
        answer = ask([*messages, *tools])
        if len(answer.tool_calls) != 1:
            i += 1
            messages.append({"role": "user", "content": "Call one tool."})
        else:
            break
    return answer
"""
)

USED_UP = (
    _HEAD
    + """
class Worker:
    def run(self, messages, tools):
        while self.step < self.max_steps and not self.is_done:
            self.step += 1
            answer = ask([*messages, *tools])
            self.is_done = not answer.tool_calls
            messages.append(tools[0].execute(answer))
        if self.step >= self.max_steps:
            messages.append("Gave up.")
        return messages
"""
)

ASKED_BEHIND = (
    _HEAD
    + """
def work(messages, tools, config):
    rounds = 0
    while rounds < config.max_rounds:
        answer = ask(messages)
        if not answer.tool_calls:
            break
        rounds += 1
        messages.append(tools[0].execute(answer))
    if rounds >= config.max_rounds:
        messages.append("Gave up.")
    return messages
"""
)

MIXED = (
    _HEAD
    + """
def work(messages, tools, most_steps):
    steps = 0
    while True:
        steps += 1
        answer = ask(messages)
        completed = not answer.tool_calls or steps > most_steps
        messages.append(tools[0].execute(answer))
        if completed:
            break
    return messages
"""
)

EITHER = (
    _HEAD
    + """
def work(messages, tools, max_steps):
    steps, is_done = 0, False
    while True:
        steps += 1
        answer = ask(messages)
        is_done = tools[0].execute(answer)
        if is_done or steps >= max_steps:
            break
    return messages
"""
)

EXECUTES = (
    _HEAD
    + """
class Planner:
    def run(self, message):
        for _ in range(self.max_turn):
            answer = ask([message])
            if "add_answer" in answer.content:
                return answer
            message = self.action.run(answer.content)
"""
)

BY_NAME = EXECUTES.replace(
    "message = self.action.run(answer.content)",
    'executor = getattr(self, f"{answer.kind}_executor")\n            message = executor(answer)',
)

#: Name: source, kind, function that holds it, how a run ends where no line says it, {(how, line)}.
LOOPS: dict[str, tuple[str, str, str, str, set[tuple[str, int]]]] = {
    "a range of steps": (RANGE, "loop", "work", "limit", {("done", 17)}),
    "a counter against a configured limit": (COUNTER, "loop", "run", "done", {("limit", 18), ("done", 22)}),
    "statuses by name": (
        STATUS,
        "loop",
        "run",
        "Submitted",
        {("LimitsExceeded", 43), ("Submitted", 51)},
    ),
    "a cycle of a graph with gotos": (
        GRAPH,
        "graph",
        "lead",
        "",
        {("limit", 19), ("no_tool_call", 19), ("done", 19)},
    ),
    "a cycle of a graph with a tool node": (TOOL_NODE, "graph", "think", "", {("done", 19)}),
    "a cycle with a node that chooses nothing": (CHOOSES_NOTHING, "graph", "think", "", {("done", 24)}),
    "a cycle of a graph that goes on below its limit": (
        BELOW_ITS_LIMIT,
        "graph",
        "think",
        "",
        {("done", 18)},
    ),
    "two ends of which the line behind the loop tells one": (USED_UP, "loop", "run", "done", set()),
    "a counter that is asked behind the loop": (ASKED_BEHIND, "loop", "work", "done", {("done", 15), ("limit", 19)}),
    "a name that holds for more than its limit": (MIXED, "loop", "work", "done", {("done", 18)}),
    "a line with two ends": (EITHER, "loop", "work", "done", {("done", 17), ("limit", 17)}),
    "turns that end in silence, with an action": (EXECUTES, "loop", "run", "limit", {("done", 15)}),
    "turns that end in silence, with an executor": (BY_NAME, "loop", "run", "limit", {("done", 15)}),
    "a counter of steps without a name": (UNTIL_ONE_CALL, "loop", "draft", "done", {("done", 18)}),
}

NONE: dict[str, str] = {
    "a model asked once for each document": _HEAD
    + "def label(documents, tools):\n    out = []\n    for document in documents:\n        out.append(ask([document, tools]))\n    return out\n",
    "a second attempt": _HEAD
    + "def label(text):\n    for attempt in range(3):\n        answer = ask([text])\n        if answer.content:\n            return answer\n    return None\n",
    "a loop over the user's words": _HEAD
    + "def talk(tools):\n    messages = []\n    while True:\n        messages.append(input('> '))\n        answer = ask(messages)\n        print(answer.content, answer.tool_calls)\n",
    "a pool of threads": _HEAD
    + "async def texts(loop, pool, most):\n    out = []\n    for i in range(most):\n        out.append(await loop.run_in_executor(pool, ask, [i]))\n    return out\n",
    "pages of a list": _HEAD
    + "def pages(client, tool):\n    page = 0\n    while page < 10:\n        tool.execute(page)\n        page += 1\n",
    "chunks of a stream": _HEAD
    + "def stream(messages):\n    for chunk in ask(messages):\n        if chunk.tool_calls:\n            yield chunk\n",
}


def loops(root: Path, source: str) -> tuple[AgentLoop, ...]:
    """Return the loops of agents of one file."""
    scan = scan_repository(write_tree(root, {"m.py": source}))
    return read_code(scan, (), default_catalog(), lambda *_: None).material.loops


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_loop_of_an_agent_is_found_with_the_ways_in_which_it_ends(name: str, tmp_path: Path) -> None:
    source, kind, function, default, exits = LOOPS[name]

    (loop,) = loops(tmp_path, source)

    assert (loop.kind, loop.symbol.rpartition(".")[2], loop.default) == (kind, function, default)
    assert {(e.how, e.line) for e in loop.exits} == exits


@pytest.mark.parametrize("name", sorted(NONE))
def test_other_loops_are_no_agents(name: str, tmp_path: Path) -> None:
    assert loops(tmp_path, NONE[name]) == ()


def test_the_bad_ends_of_a_run_are_those_by_its_limit(
    tmp_path: Path,
) -> None:
    (graph,) = loops(tmp_path / "graph", GRAPH)
    (plain,) = loops(tmp_path / "plain", RANGE)

    assert graph.good == plain.good == ("done",)
    assert graph.bad == plain.bad == ("limit",)


def test_the_format_errors_and_tool_errors_that_the_model_is_told_are_found_at_their_lines(tmp_path: Path) -> None:
    (status,) = loops(tmp_path / "status", STATUS)
    (graph,) = loops(tmp_path / "graph", GRAPH)

    assert [(h.kind, h.line) for h in status.told] == [("format error", 34)]
    assert [(h.kind, h.line) for h in graph.told] == [("tool error", 22)]
