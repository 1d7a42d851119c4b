"""Functions that a model calls as tools: what they give back of their failures is one metric; others are none."""

# ruff: noqa: E501 - one case a line reads as a table

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import read_code, run_design
from tests.design.source_tree import write_tree

_BODY = '    try:\n        return requests.get(query, timeout=9).text\n    except Exception as e:\n        return f"Error: {e}"\n'
_HEAD = "import requests\nfrom langchain_core.tools import BaseTool, tool\n\n\n"
_METHOD = _BODY.replace("    ", "        ", 1).replace("\n    ", "\n        ")

TOOLS = {
    "a decorator": _HEAD + f"@tool\ndef look(query):\n{_BODY}",
    "a text for an exception": _HEAD + "@tool\n" + "def look(query):\n" + _BODY.replace('f"Error: {e}"', '"The page is away, go on without it."'),
    "a decorator of an agent": _HEAD + f"@agent.tool\nasync def look(ctx, query):\n{_BODY}",
    "a class of a library": _HEAD + f"class Look(BaseTool):\n    def _run(self, query):\n{_METHOD}",
    "a class of the program": _HEAD
    + f"class Tool:\n    pass\n\n\nclass Look(Tool):\n    async def execute(self, query):\n{_METHOD}",
    "a list that an agent gets": _HEAD + f"def look(query):\n{_BODY}\n\ntools = [look]\n",
    "a table by name": _HEAD + f'def look(query):\n{_BODY}\n\nTOOL_MAP = {{"look": look}}\n',
    "an argument": _HEAD + f"def look(query):\n{_BODY}\n\nlooks = StructuredTool.from_function(func=look)\n",
    "what a tool hands on": _HEAD + f"def asks(query):\n{_BODY}\n\n@tool\ndef look(query):\n    found = asks(query)\n    return found\n",
    "a decorator that takes its errors": _HEAD
    + "def guarded(f):\n    def wrapper(*args):\n        try:\n            return f(*args)\n        except Exception as e:\n"
    + '            return f"Error: {e}"\n    return wrapper\n\n\n@tool\n@guarded\ndef look(query):\n'
    + "    return requests.get(query, timeout=9).text\n",
}  # fmt: skip

OTHERS = {
    "a function": _HEAD + f"def look(query):\n{_BODY}",
    "another method of a class of tools": _HEAD + f"class Look(BaseTool):\n    def refresh(self, query):\n{_METHOD}",
    "a class of agents": _HEAD + f"class Worker(ToolAgent):\n    def run(self, query):\n{_METHOD}",
    "a list of other things": _HEAD + f"def look(query):\n{_BODY}\n\nsteps = [look]\n",
    "a text where nothing failed": _HEAD
    + "@tool\ndef look(query):\n    found = requests.get(query, timeout=9).json()\n    if not found:\n        return 'Nothing was found there.'\n    return found\n",
    "an answer that is none": _HEAD + "@tool\ndef look(query):\n    return requests.get(query, timeout=9).text\n",
}


LOOP = """
from openai import OpenAI

client = OpenAI()


class Agent:
    def run(self, message):
        for _ in range(9):
            answer = client.chat.completions.create(model="m", messages=[message]).choices[0].message
            if not answer.tool_calls:
                return answer
            self.step(answer)

    def step(self, answer):
"""


def told(root: Path, source: str, kind: str = "tool error") -> list[tuple[str, str]]:
    """Return (function, kind) of what a model is told of its failures; of kind `tool` the tools themselves."""
    scan = scan_repository(write_tree(root, {"m.py": source}))
    hits = read_code(scan, (), default_catalog(), lambda *_: None).hits
    found = [h for h in hits if h.pattern == "tells_model_error" and h.kind == kind]
    return [(h.symbol.rpartition(".")[2], h.kind) for h in found]


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_model_is_told_of_the_errors_of_its_tools(name: str, tmp_path: Path) -> None:
    ((_, kind),) = told(tmp_path, TOOLS[name])

    assert kind == "tool error"


@pytest.mark.parametrize(
    "line",
    [
        'found = f"Tool {name} was not found in the list"',
        'return {"output": f"Unknown tool: {name}"}',
        'self.add_tool_result(name, f"Error: {name} takes no text")',
    ],
)
def test_a_model_is_told_of_a_tool_that_there_is_not(line: str, tmp_path: Path) -> None:
    source = _HEAD + f"def act(self, name, steps):\n    if name not in self.known:\n        {line}\n    return None\n"
    loop = f"{LOOP}        self.act(answer, 1)\n\n    def act(self, name, steps):\n        if name not in self.known:\n            {line}\n"

    assert told(tmp_path / "alone", source) == ([] if "add_" in line else [("act", "tool error")])
    assert told(tmp_path / "loop", loop) == [("act", "tool error")]


@pytest.mark.parametrize(
    "line", ['raise ValueError(f"Unknown tool {name}")', 'log.error("Tool not found")', 'x = "A tool"']
)
def test_who_raises_or_logs_it_tells_no_model(line: str, tmp_path: Path) -> None:
    assert told(tmp_path, _HEAD + f"def act(self, name):\n    {line}\n") == []


LOOKS = "    return requests.get(query, timeout=9).text\n"
#: Functions whose exceptions are those of a tool, whatever they give back.
REGISTERED = {
    "a decorator": f"@tool\ndef look(query):\n{LOOKS}",
    "a decorator of a server": f"@mcp.tool()\nasync def look(query):\n{LOOKS}",
    "a decorator of a kernel": f"@kernel_function(name='look')\ndef look(query):\n{LOOKS}",
    "a class of a library": f"class Look(BaseTool):\n    def look(self):\n        pass\n\n    def _run(self, query):\n    {LOOKS}",
    "a list of an agent": f"def look(query):\n{LOOKS}\nagent = Agent(name='a', tools=[look])\n",
    "a list of a model": f"def look(query):\n{LOOKS}\nmodel = llm.bind_tools([look])\n",
    "a list to which it is added": f"def look(query):\n{LOOKS}\ntools.append(look)\n",
    "a method in a list": f"class Desk:\n    def look(self, query):\n    {LOOKS}\n    def agent(self):\n        return Agent(tools=[self.look])\n",
    "an argument of a description": f"def look(query):\n{LOOKS}\nlooks = ToolSpec(name='look', execute=look)\n",
    "an argument by its place": f"def look(query):\n{LOOKS}\nlooks = FunctionTool.from_defaults(look)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_a_function_that_is_handed_to_a_model_is_a_tool(name: str, tmp_path: Path) -> None:
    (found,) = told(tmp_path, _HEAD + REGISTERED[name], "tool")

    assert found in (("look", "tool"), ("_run", "tool"))


@pytest.mark.parametrize("name", sorted(set(OTHERS) - {"a text where nothing failed", "an answer that is none"}))
def test_what_no_model_calls_is_no_tool(name: str, tmp_path: Path) -> None:
    assert told(tmp_path, OTHERS[name], "tool") == []


def test_a_tool_that_only_a_subclass_defines_and_a_tool_of_a_test_are_none(tmp_path: Path) -> None:
    stub = "class Look(BaseTool):\n    def _run(self, query):\n        raise NotImplementedError\n"
    write_tree(tmp_path / "tests", {"test_m.py": _HEAD + REGISTERED["a decorator"]})

    assert told(tmp_path, _HEAD + stub, "tool") == []


def test_the_only_text_of_a_tool_is_no_error(tmp_path: Path) -> None:
    assert told(tmp_path, "@tool\ndef show_map():\n    return 'SHOW_MAP'\n") == []


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_functions_are_no_tools(name: str, tmp_path: Path) -> None:
    assert told(tmp_path, OTHERS[name]) == []


def test_a_tool_that_runs_code_is_left_to_the_metric_of_what_the_model_wrote(tmp_path: Path) -> None:
    run = '    try:\n        return subprocess.run(command, check=True)\n    except Exception as e:\n        return f"Error: {e}"\n'

    assert told(tmp_path, f"import subprocess\n\n\n@tool\ndef shell(command):\n{run}") == []


AGENT = """
import json

import requests
from openai import OpenAI

client = OpenAI()


class Registry:
    async def execute(self, call):
        if call.name not in self.tools:
            msg = f"Error: unknown tool {call.name}"
            return {"success": False, "error": msg}
        try:
            return await self._run_tool(call)
        except Exception as e:
            msg = f"Execution failed: {e}"
            return {"success": False, "error": msg}

    async def _run_tool(self, call):
        return requests.get(call.arguments["url"], timeout=9).text


class Agent:
    def __init__(self):
        self.tool_registry = Registry()

    async def run(self, message, most=10):
        if not message:
            return ""
        for _ in range(most):
            answer = client.chat.completions.create(model="m", messages=[message]).choices[0].message
            if not answer.tool_calls:
                return answer.content
            for call in answer.tool_calls:
                message += json.dumps(await self.tool_registry.execute(call))


async def main(message):
    return await Agent().run(message)
"""


def metrics(root: Path, source: str) -> dict[str, MetricDesign]:
    """Return the metrics of one file by name."""
    return {m.name: m for m in run_design(scan_repository(write_tree(root, {"agent.py": source}))).metrics}


def test_each_error_of_a_registry_of_tools_is_counted_once_where_it_is_given_back(tmp_path: Path) -> None:
    made = metrics(tmp_path, AGENT)

    (errors,) = [m for m in made.values() if m.family == "tool_errors"]
    assert [p.line for p in errors.places] == [14, 19]  # What its handler takes leaves no tool.
    assert not [m for m in made.values() if m.family == "failure_answers"]


def test_a_name_repeats_no_word(tmp_path: Path) -> None:
    made = metrics(tmp_path, AGENT)

    assert {"agent_exits", "agent_steps"} <= made.keys()


def test_a_tool_that_finds_nothing_did_what_it_was_asked(tmp_path: Path) -> None:
    looks = '@tool\ndef look(name):\n    try:\n        return load_desk().text_of(name)\n    except KeyError:\n        return "The name is not in the list of guests."\n'
    other = looks.replace("KeyError", "OSError")

    assert told(tmp_path / "missing", _HEAD + looks) == []
    assert told(tmp_path / "broken", _HEAD + other) == [("look", "tool error")]


def test_a_function_that_makes_a_tool_is_none(tmp_path: Path) -> None:
    source = 'def get_look():\n    return create_retriever_tool(index, "look")\n\nTOOLS = {"look": get_look}\n'

    other = source.replace('create_retriever_tool(index, "look")', "_Look(index)")
    assert told(tmp_path / "function", _HEAD + source, "tool") == told(tmp_path / "class", _HEAD + other, "tool") == []
