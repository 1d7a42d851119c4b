"""Agents that a library runs: a limit that the code sets or catches is a way in which a run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.design.agents.test_agent_loops import loops

_PYDANTIC = (
    "from pydantic_ai import Agent\nfrom pydantic_ai.exceptions import UsageLimitExceeded\n"
    "from pydantic_ai.usage import UsageLimits\n\nagent = Agent('openai:gpt-4o')\n\n\n"
)
CAUGHT = (
    _PYDANTIC
    + """
async def handle(question):
    try:
        result = await agent.run(question, usage_limits=UsageLimits(request_limit=5))
    except UsageLimitExceeded:
        return "This took too long."
    return result.output
"""
)
GRAPH = """
from langgraph.prebuilt import create_react_agent

agent = create_react_agent("openai:gpt-4o", tools=[])


def handle(question):
    return agent.invoke({"messages": [question]}, {"recursion_limit": 12})
"""
RUNNER = """
from agents import Agent, Runner

agent = Agent(name="worker", instructions="Work.")


async def handle(question):
    return await Runner.run(agent, question, max_turns=7)
"""
MIDDLEWARE = """
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError

bounds = [ModelCallLimitMiddleware(run_limit=8, exit_behavior="error")]
agent = create_agent("openai:gpt-4o", tools=[], middleware=bounds)


def handle(question):
    try:
        return agent.invoke({"messages": [question]})
    except ModelCallLimitExceededError:
        return "This took too long."
"""
ATTRIBUTE = """
from langchain.agents import AgentExecutor


class Desk:
    def __init__(self, agent, tools):
        self.executor = AgentExecutor(agent=agent, tools=tools, max_iterations=4)

    def handle(self, question):
        return self.executor.invoke({"input": question})
"""
MAKER = """
from llama_index.agent.openai import OpenAIAgent


def make_agent(tools):
    return OpenAIAgent.from_tools(tools=tools, max_function_calls=3)


async def handle(question, tools):
    agent = make_agent(tools)
    return await agent.astream_chat(question)
"""
#: Agents whose runs give an answer at their limit, also where no code sets one.
STOPS = """
from langchain.agents import AgentExecutor

executor = AgentExecutor(agent=None, tools=[])


def handle(question):
    try:
        return executor.invoke({"input": question})["output"]
    except Exception:
        return None
"""
NEEDS_MORE_STEPS = GRAPH.replace(', {"recursion_limit": 12}', "")
#: The arguments of a run come from another object.
ELSEWHERE = """
from langgraph.graph import StateGraph


class Settings:
    def __init__(self, most):
        self.most = most

    def arguments(self):
        config = {"recursion_limit": self.most}
        return {"stream_mode": "values", "config": config}


class Desk:
    def __init__(self):
        self.settings = Settings(50)
        self.graph = StateGraph(dict).compile()

    def handle(self, question):
        given = self.settings.arguments()
        return self.graph.invoke(question, **given)
"""
#: Who runs the agent is handed it; its maker binds the limit.
BOUND = """
from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph


def make_agent():
    return StateGraph(dict).compile().with_config({"recursion_limit": 50})


async def handle(agent: Runnable, question):
    return await agent.ainvoke(question)
"""
PLAIN = _PYDANTIC + "\nasync def handle(question):\n    return (await agent.run(question)).output\n"

#: Name: source, limit, bad ends, {(how, line)}.
RUNS: dict[str, tuple[str, str, tuple[str, ...], set[tuple[str, int]]]] = {
    "a limit that is caught": (
        CAUGHT,
        "usage_limits=UsageLimits(request_limit=5)",
        ("limit",),
        {("limit", 13)},
    ),
    "a limit in a configuration": (GRAPH, "recursion_limit: 12", ("limit",), set()),
    "a limit at which an answer says so": (STOPS, "the limit of AgentExecutor", ("limit",), set()),
    "a limit that nothing sets": (NEEDS_MORE_STEPS, "the limit of create_react_agent", ("limit",), set()),
    "a limit that another object gives": (ELSEWHERE, "recursion_limit: self.most", ("limit",), set()),
    "a limit that the maker binds": (BOUND, "recursion_limit: 50", ("limit",), set()),
    "a limit of the agent's middleware": (MIDDLEWARE, "run_limit=8", ("limit",), {("limit", 14)}),
    "a limit where a class makes its agent": (ATTRIBUTE, "max_iterations=4", ("limit",), set()),
    "a limit where a function makes the agent": (MAKER, "max_function_calls=3", (), set()),
    "a limit as an argument": (RUNNER, "max_turns=7", ("limit",), set()),
}

HANDED_ON = STOPS.replace(
    '    return executor.invoke({"input": question})',
    """    try:
        return checked(executor.invoke({"input": question}))
    except StepLimitError:
        raise
    except Exception as e:
        return str(e)""",
)


def test_an_exception_of_a_limit_that_is_handed_on_says_that_a_run_ended_by_it(tmp_path: Path) -> None:
    assert HANDED_ON != STOPS
    (loop,) = loops(tmp_path / "limit", HANDED_ON)
    (other,) = loops(tmp_path / "other", HANDED_ON.replace("StepLimitError", "QueryError"))

    assert loop.bad == other.bad == ("limit",)
    assert "StepLimitError" in loop.is_told_by
    assert "QueryError" not in other.is_told_by


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_run_with_a_limit_has_its_ends(name: str, tmp_path: Path) -> None:
    source, limit, bad, exits = RUNS[name]

    (loop,) = loops(tmp_path, source)

    assert (loop.kind, loop.symbol.rpartition(".")[2], loop.limit) == ("library", "handle", limit)
    assert (loop.bad, {(e.how, e.line) for e in loop.exits}) == (bad, exits)


def test_a_run_without_a_limit_of_its_own_is_a_call_like_others(tmp_path: Path) -> None:
    assert loops(tmp_path, PLAIN) == ()
    graph = ELSEWHERE.replace('"recursion_limit"', '"tags"')
    assert loops(tmp_path / "graph", graph) == ()


def test_of_several_limits_that_makers_bind_none_is_that_of_an_agent_that_is_handed_on(tmp_path: Path) -> None:
    other = "\n\ndef make_other():\n    return StateGraph(dict).compile().with_config(recursion_limit=9)\n"

    assert loops(tmp_path, BOUND + other) == ()
