"""Where runs begin: what servers, graphs, commands and users run, and what of it makes a metric of failed runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_ASK = """
from openai import OpenAI

client = OpenAI()


def ask(question):
    return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content
"""
_GRAPH = """
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy
from asking import ask

def look_up(words):
    return ask(words)

def search(state):
    return {"found": open("found.txt").read()}

def think(state):
    return {"answer": ask(state["found"])}

def try_often(state):
    return {"answer": ask(state["found"])}

builder = StateGraph(dict)
builder.add_node(search)
builder.add_node("think", think)
builder.add_node("again", try_often, retry=RetryPolicy(max_attempts=3))
builder.add_node("tools", ToolNode([look_up]))
builder.add_edge("__start__", "search")
builder.add_edge("search", "think")
builder.add_conditional_edges("think", lambda state: "tools")
builder.add_edge("think", "again")
graph = builder.compile()
"""
_RUNS = {
    "nodes of a graph": (_GRAPH, {"think"}),
    "a step of a workflow": (
        "from llama_index.core.workflow import Workflow, step\nfrom asking import ask\n\n"
        "class Flow(Workflow):\n    @step\n    async def think(self, event):\n        return ask(event.text)\n",
        {"think"},
    ),
    "a command": (
        "import typer\nfrom asking import ask\n\napp = typer.Typer()\n\n"
        "@app.command()\ndef work(question: str):\n    print(ask(question))\n",
        {"work"},
    ),
    "a program": (
        "from asking import ask\n\ndef main():\n    print(ask(input()))\n\n\nif __name__ == '__main__':\n    main()\n",
        {"main"},
    ),
    "a program that tells its error": (
        "from asking import ask\n\ndef main():\n    try:\n        print(ask(input()))\n    except Exception as error:\n"
        "        print(f'Error: {error}')\n\n\nif __name__ == '__main__':\n    main()\n",
        {"main"},
    ),
    "a library": (
        "from asking import ask\n\nclass Writer:\n    def write(self, topic):\n        return self._draft(topic)\n\n"
        "    def _draft(self, topic):\n        return ask('Write of ' + topic)\n",
        {"write"},
    ),
}
_REQUESTS = {
    "a route that is added": (
        "from fastapi import FastAPI\nfrom asking import ask\n\nclass Server:\n    def __init__(self):\n"
        "        self.app = FastAPI()\n        self.app.add_api_route('/ask', self.answer, methods=['POST'])\n\n"
        "    def answer(self, question: str):\n        return ask(question)\n",
        {"answer"},
    ),
    "a resource": (
        "from flask_restx import Resource\nfrom asking import ask\n\nclass Answers(Resource):\n    def post(self):\n"
        "        return ask(self.question())\n\n    def question(self):\n        return 'why'\n",
        {"post"},
    ),
    "a handler of a cloud": (
        "from asking import ask\n\ndef lambda_handler(event, context):\n    return {'body': ask(event['body'])}\n",
        {"lambda_handler"},
    ),
    "a bot": (
        "from botbuilder.core import ActivityHandler\nfrom asking import ask\n\nclass Bot(ActivityHandler):\n"
        "    async def on_message_activity(self, turn):\n        await turn.send_activity(ask(turn.activity.text))\n",
        {"on_message_activity"},
    ),
    "a stream": (
        "from fastapi import FastAPI\nfrom fastapi.responses import StreamingResponse\nfrom asking import ask\n\n"
        "app = FastAPI()\n\n@app.post('/ask')\ndef answer(question: str):\n"
        "    def pieces():\n        yield 'wait'\n        yield ask(question)\n"
        "    return StreamingResponse(pieces())\n",
        {"pieces"},
    ),
    "an object that is not known": (
        "from typing import Protocol\nfrom fastapi import Depends, FastAPI\nfrom asking import ask\n\n"
        "app = FastAPI()\n\n"
        "class Service(Protocol):\n    def start_work(self, goal):\n        pass\n\n"
        "class OpenService:\n    def start_work(self, goal):\n        return ask(goal)\n\n"
        "@app.post('/start')\ndef start(goal: str, service: Service = Depends()):\n"
        "    return service.start_work(goal)\n",
        {"start"},
    ),
}


def _failed(folder: Path, family: str, **files: str) -> tuple[MetricDesign | None, set[str]]:
    """Return the one metric of failed requests or runs, and the names of the functions in which they begin."""
    sources = {f"{name}.py": text for name, text in ({"asking": _ASK} | files).items()}
    made = run_design(scan_repository(write_tree(folder, sources)))
    found = [m for m in made.metrics if m.family in ("failed_requests", "failed_runs")]
    assert all(m.family == family for m in found) and len(found) < 2
    return (found[0], {s.rpartition(".")[2] for s in found[0].symbols}) if found else (None, set())


@pytest.mark.parametrize("what", _RUNS)
def test_a_run_begins_where_nothing_of_the_program_calls_it(what: str, tmp_path: Path) -> None:
    source, begins = _RUNS[what]
    found, names = _failed(tmp_path, "failed_runs", app=source)

    assert found is not None and "runs" in found.purpose
    assert names & {"ask", "look_up", "try_often", "_draft"} == set(), (
        "tools and tries are told to the model or repeated"
    )
    assert begins <= names


@pytest.mark.parametrize("what", _REQUESTS)
def test_a_request_begins_in_each_kind_of_handler(what: str, tmp_path: Path) -> None:
    source, begins = _REQUESTS[what]
    found, names = _failed(tmp_path, "failed_requests", app=source)

    assert found is not None and "requests" in found.purpose
    assert names == begins


_SERVER = """
from fastapi import FastAPI, HTTPException, WebSocket
from fastapi.responses import JSONResponse
from asking import ask
import openai

app = FastAPI()

@app.post("/checked")
def checked(body: dict):
    if not body.get("question"):
        return JSONResponse({"error": "no question"})
    try:
        return {"answer": ask(body["question"])}
    except Exception as error:
        return JSONResponse({"error": str(error)})

@app.post("/refused")
def refused(question: str):
    try:
        return {"answer": ask(question)}
    except Exception as error:
        raise HTTPException(status_code=400, detail=str(error))

@app.post("/busy")
def busy(question: str):
    try:
        return {"answer": ask(question)}
    except openai.RateLimitError:
        return JSONResponse({"error": "busy"}, 429)

@app.websocket("/talk")
async def talk(socket: WebSocket):
    try:
        while True:
            await socket.send_text(ask(await socket.receive_text()))
    except Exception as error:
        await socket.send_json({"error": str(error)})
"""


def test_what_a_handler_makes_of_any_error_is_a_failure_and_what_it_refuses_before_is_none(tmp_path: Path) -> None:
    found, names = _failed(tmp_path, "failed_requests", server=_SERVER)
    lines = _SERVER.splitlines()

    assert found is not None and names == {"checked", "refused", "busy"}, "who talks may leave"
    said = {lines[p.line - 1].strip() for p in found.places}
    assert said == {
        'return JSONResponse({"error": str(error)})',
        "raise HTTPException(status_code=400, detail=str(error))",
        'return JSONResponse({"error": "busy"}, 429)',
    }


_TOLD = """

def told(question):
    try:
        return ask(question)
    except OSError as error:
        raise RuntimeError() from error
"""


def test_what_ends_a_run_is_told_once(tmp_path: Path) -> None:
    source = _RUNS["a program"][0].replace("ask(", "told(").replace("import ask", "import told")
    made = run_design(scan_repository(write_tree(tmp_path, {"asking.py": _ASK + _TOLD, "app.py": source})))

    assert {m.family for m in made.metrics} & {"failed_runs", "error_rate"} == {"failed_runs"}


_TASK = """
import asyncio

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from asking import ask

app = FastAPI()

async def work(question):
    return ask(question)

@app.post("/ask")
async def answer(question: str):
    async def pieces():
        task = asyncio.create_task(work(question))
        yield "wait"
        try:
            yield await task
        except Exception:
            yield "It did not work."
    return StreamingResponse(pieces())
"""


def test_a_task_fails_where_it_is_waited_for(tmp_path: Path) -> None:
    found, names = _failed(tmp_path, "failed_requests", server=_TASK)

    assert found is not None and names == {"pieces"}
    assert {_TASK.splitlines()[p.line - 1].strip() for p in found.places} == {'yield "It did not work."'}


_KEYS = """
from fastapi import FastAPI, HTTPException
from asking import ask, client

app = FastAPI()

def complete(question):
    try:
        return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content
    except Exception as error:
        return {"error": str(error)}

@app.post("/ask")
def answer(question: str):
    return {"answer": ask(question)}

@app.post("/summary")
def summary(text: str):
    return complete(text)

@app.get("/validate-key/{key}")
def root(key: str):
    try:
        ask("Hey!")
    except Exception:
        raise HTTPException(status_code=401)
"""


def test_a_trial_of_a_key_is_no_request(tmp_path: Path) -> None:
    found, names = _failed(tmp_path, "failed_requests", server=_KEYS)

    assert found is not None and names == {"answer", "complete"}


_STEPS = """

class Step:
    def run(self, question):
        return complete(question)
"""


def test_what_a_client_of_several_gives_back_is_no_answer_of_a_request(tmp_path: Path) -> None:
    found, names = _failed(tmp_path, "failed_requests", server=_KEYS + _STEPS)

    assert found is not None and names == {"answer"}


_QUEUED = """
import asyncio

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from asking import ask

app = FastAPI()


class Stream:
    def __init__(self, question):
        self.question, self.queue = question, asyncio.Queue()

    async def events(self):
        async def work():
            try:
                await self.queue.put(ask(self.question))
            except Exception as error:
                await self.queue.put({"type": "error", "message": str(error)})
            finally:
                await self.queue.put(None)

        task = asyncio.create_task(work())
        while (event := await self.queue.get()) is not None:
            yield event
        await task

    async def lines(self):
        async for event in self.events():
            yield f"data: {event}"


@app.post("/ask")
async def answer(question: str):
    return StreamingResponse(Stream(question).lines())
"""


def test_a_stream_fails_where_the_task_that_fills_its_queue_takes_each_error(tmp_path: Path) -> None:
    found, names = _failed(tmp_path, "failed_requests", server=_QUEUED)

    assert found is not None and names == {"work"}
    said = {_QUEUED.splitlines()[p.line - 1].strip() for p in found.places}
    assert said == {'await self.queue.put({"type": "error", "message": str(error)})'}


_BEGUN = """
import asyncio

from fastapi import FastAPI
from langgraph.graph import StateGraph
from asking import ask

app = FastAPI()
jobs = {}


class Pipeline:
    def __init__(self):
        self.workflow = StateGraph(dict)
        self.workflow.add_node("think", self.think)

    def think(self, state):
        return {"answer": ask(state["question"])}

    async def run(self, question):
        graph = self.workflow.compile()
        async for state in graph.astream({"question": question}):
            yield state


async def work(job, question):
    try:
        async for state in Pipeline().run(question):
            jobs[job] = state
    except Exception as error:
        jobs[job] = {"status": "failed", "error": str(error)}


@app.post("/begin")
async def begin(question: str):
    job = str(len(jobs))
    LEFT
    return {"status": "accepted", "job": job}
"""


@pytest.mark.parametrize(
    "left", ["asyncio.create_task(work(job, question))", "task = asyncio.create_task(work(job, question))"]
)
def test_a_request_that_begins_a_task_fails_where_the_task_does(left: str, tmp_path: Path) -> None:
    found, names = _failed(tmp_path, "failed_requests", server=_BEGUN.replace("LEFT", left))

    assert found is not None and names == {"work"}
    assert 'jobs[job] = {"status": "failed", "error": str(error)}' in {
        _BEGUN.splitlines()[p.line - 1].strip() for p in found.places
    }
