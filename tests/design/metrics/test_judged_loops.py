"""Judges of agents with a loop of their own, and of clients of models over HTTP: which function they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_TOOLS = """\
from abc import ABC, abstractmethod

import chromadb
import requests


class BaseTool(ABC):
    name = ""

    @abstractmethod
    def execute(self, arguments):
        ...


class PageSearch(BaseTool):
    name = "page_search"

    def execute(self, arguments):
        pages = chromadb.PersistentClient("pages").get_collection("pages")
        found = pages.query(query_texts=[arguments["question"]])["documents"][0]
        return "\\n".join(found) or "Error: no pages found"


class SendMail(BaseTool):
    name = "send_mail"

    def execute(self, arguments):
        return requests.post("https://mail", json=arguments).text
"""
_LOOP = """\
import json

from fastapi import FastAPI
from openai import OpenAI

from tools import PageSearch, SendMail

app = FastAPI()
client = OpenAI()


class Desk:
    def __init__(self, tools, instructions):
        self.tools = {tool.name: tool for tool in tools}
        self.instructions = instructions
        self.messages = []

    def run(self, question):
        self.messages.append({"role": "user", "content": question})
        turn = 0
        while turn < 8:
            turn += 1
            text, calls = self._ask()
            if not calls:
                if not text:
                    text, calls = self._ask()
                return text
            for call in calls:
                self.messages.append({"role": "tool", "content": self._use(call)})
        return "I have to stop here."

    def _use(self, call):
        tool = self.tools.get(call.function.name)
        if not tool:
            return f"Error: there is no tool {call.function.name}"
        return tool.execute(json.loads(call.function.arguments))

    def _ask(self):
        messages = [{"role": "system", "content": self.instructions}, *self.messages]
        said = client.chat.completions.create(model="m", messages=messages).choices[0].message
        return said.content, said.tool_calls


@app.post("/ask")
def ask(question: str, instructions: str):
    return Desk([PageSearch(), SendMail()], instructions).run(question)
"""
_STREAM = """\
import json

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import OpenAI

from tools import PageSearch, SendMail

app = FastAPI()
client = OpenAI()


class Desk:
    def __init__(self, tools):
        self.tools = {tool.name: tool for tool in tools}

    def answer(self, messages):
        yield from self._go_on(messages, 0)

    def _stream(self, messages):
        for chunk in client.chat.completions.create(model="m", messages=messages, stream=True):
            yield chunk.choices[0].delta

    def _go_on(self, messages, turn):
        while turn < 8:
            turn += 1
            calls = []
            for delta in self._stream(messages):
                calls += delta.tool_calls or []
                if delta.content:
                    yield delta.content
            if not calls:
                return
            for call in calls:
                messages.append({"role": "tool", "content": self._use(call)})
            if len(messages) > 40:
                yield from self._go_on(messages[:1] + messages[-20:], turn)
                return
        for delta in self._stream(messages):
            yield delta.content

    def _use(self, call):
        tool = self.tools.get(call.function.name)
        if not tool:
            return f"Error: there is no tool {call.function.name}"
        return tool.execute(json.loads(call.function.arguments))


@app.post("/ask")
def ask(question: str):
    desk = Desk([PageSearch(), SendMail()])
    return StreamingResponse(desk.answer([{"role": "user", "content": question}]))
"""
_HTTP = """\
import json

import httpx
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


class Writer:
    def __init__(self):
        self.description = "Using models to generate answers to queries"
        self.task = (
            "You answer questions about our pages. Please answer only with the provided context, "
            "and say so where it does not provide enough information. Do not invent prices."
        )

    async def stream(self, question: str, context: str):
        asked = f"Answer this query: {question} with this provided context: {context}"
        data = {"model": "m", "stream": True, "messages": [
            {"role": "system", "content": self.task}, {"role": "user", "content": asked}]}
        async with httpx.AsyncClient() as http:
            async with http.stream("POST", "https://models/v1/chat/completions", json=data) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        yield json.loads(line[6:])["choices"][0]["delta"]["content"]


@app.post("/ask")
async def ask(question: str, context: str):
    return StreamingResponse(Writer().stream(question, context))
"""


def _support(made: Design) -> list[MetricDesign]:
    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    return [m for m in every if m.source == "judge" and m.concern == "groundedness" and not m.reads_search]


def _designed(root: Path, code: str) -> Design:
    return run_design(scan_repository(write_tree(root, {"tools.py": _TOOLS, "app.py": code})))


def test_an_agent_is_judged_by_the_function_through_which_it_asks_at_each_line(tmp_path: Path) -> None:
    (judge,) = _support(_designed(tmp_path, _LOOP))

    # Its instructions come from a request, and its tools from a table.
    assert judge.symbols == ["app.Desk._ask"] and judge.prompts == []
    assert [str(p) for p in judge.evidence_from if p.path == "tools.py"]
    assert not any("SendMail" in line for line in judge.evidence)


def test_an_agent_that_asks_in_two_ways_is_not_judged(tmp_path: Path) -> None:
    other = _LOOP.replace("                    text, calls = self._ask()\n                return", "")
    both = _LOOP.replace(
        "text, calls = self._ask()\n                return", "text = self._sum_up()\n                return"
    )
    both = both.replace(
        "    def _use(",
        "    def _sum_up(self):\n        sent = self.messages[-1:]\n"
        "        said = client.chat.completions.create(model='m', messages=sent)\n"
        "        return said.choices[0].message.content\n\n    def _use(",
    )

    assert other != _LOOP and both.count("_sum_up") == 2
    assert _support(_designed(tmp_path, both)) == []


def test_a_stream_that_goes_on_by_itself_is_judged_once_where_it_is_run(tmp_path: Path) -> None:
    made = _designed(tmp_path, _STREAM)
    (judge,) = _support(made)

    assert judge.symbols == ["app.Desk.answer"] and judge.spans == ["Desk.answer"]
    assert any(p.symbol == "app.Desk.answer" for p in made.points)


@pytest.mark.parametrize(("library", "is_judged"), [("httpx", True), ("aiohttp", False)])
def test_answers_over_http_are_judged_where_the_recorders_read_them(
    library: str, is_judged: bool, tmp_path: Path
) -> None:
    code = _HTTP
    if library == "aiohttp":
        code = code.replace("import httpx", "import aiohttp").replace("httpx.AsyncClient", "aiohttp.ClientSession")
        code = code.replace('http.stream("POST", ', "http.post(").replace("response.aiter_lines()", "response.content")
    found = _support(_designed(tmp_path, code))

    assert [m.symbols for m in found] == ([["app.Writer.stream"]] if is_judged else [])
