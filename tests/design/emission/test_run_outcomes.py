"""What became of runs of graphs, streams, commands and programs, watched and patched; and whose fault a failure is."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gapwatch.design.emission.interpreter.model_replies import member
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.recorded_replies import request_outcome
from gapwatch.design.emission.recorded_values import held
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    python_with_events,
    run_patched,
    run_watched,
    write_plan,
)
from tests.design.source_tree import write_tree

PYTHON = python_with_events()
_ASK = """
from openai import OpenAI

client = OpenAI(api_key="k")


def ask(question):
    return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content
"""
_GRAPH = """
from langgraph.graph import StateGraph

from asking import ask


class GraphBubbleUp(Exception):
    __module__ = "langgraph.errors"


def think(state):
    if state["question"] == "a person":
        raise GraphBubbleUp
    return {"answer": ask(state["question"])}


def build():
    builder = StateGraph(dict)
    builder.add_node("think", think)
    builder.add_edge("__start__", "think")
    return builder.compile()
"""
_DESK = """
from chatkit.server import ChatKitServer

from asking import ask


class Desk(ChatKitServer):
    async def respond(self, thread, question, context):
        yield "wait"
        yield ask(question)
"""
_COMMAND = """
import typer

from asking import ask

app = typer.Typer()


@app.command()
def work(question: str):
    try:
        print(ask(question))
    except Exception as error:
        print(f"Error: {error}")
        raise typer.Exit(code=1 if question == "fail" else 0)
"""
_TALK = """
from asking import ask


def main():
    try:
        print(ask(sys.argv[-1]))
    except Exception:
        print("It does not work.")


if __name__ == "__main__":
    main()
"""
FILES = {
    "asking.py": _ASK,
    "graph.py": _GRAPH,
    "desk.py": _DESK,
    "commands.py": _COMMAND,
    "talk.py": "import sys\n" + _TALK,
    "langgraph.json": '{"graphs": {"graph": "./graph.py:build"}}',
}
_CALLS: dict[str, tuple[str, str, list[str | None]]] = {
    "a node": (
        "graph.py",
        "import graph\nruns = [lambda q=q: graph.think({'question': q}) for q in ('why', 'fail', 'a person')]",
        ["answered", "failed", "answered"],
    ),
    "a stream": (
        "desk.py",
        "import asyncio, desk\n\n\nasync def take(question, most):\n"
        "    pieces, n = desk.Desk().respond(None, question, None), 0\n    async for _ in pieces:\n        n += 1\n"
        "        if n == most:\n            await pieces.aclose()\n            return\n\n\n"
        "runs = [lambda q=q, m=m: asyncio.run(take(q, m)) for q, m in (('why', 9), ('fail', 9), ('why', 1))]",
        ["answered", "failed", "answered"],
    ),
    "a command": (
        "commands.py",
        "import commands\nruns = [lambda q=q: commands.work(q) for q in ('why', 'fail')]",
        ["answered", "failed"],
    ),
    "a program": (
        "talk.py",
        "import sys\nimport talk\n\n\ndef run(question):\n    sys.argv = ['talk', question]\n    talk.main()\n\n\n"
        "runs = [lambda q=q: run(q) for q in ('why', 'fail')]",
        ["answered", "failed"],
    ),
}
_SHOP = """
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from asking import ask

app = FastAPI()


class OrderMissing(Exception):
    pass


class OrderLost(Exception):
    pass


@app.exception_handler(OrderMissing)
def missing(request: Request, error: OrderMissing):
    return JSONResponse(status_code=404, content={"detail": str(error)})


def lost(request: Request, error: OrderLost):
    return JSONResponse(status_code=500, content={"detail": str(error)})


app.add_exception_handler(OrderLost, lost)


@app.post("/orders")
def order(question: str):
    if question == "unknown":
        raise OrderMissing(question)
    if question == "lost":
        raise OrderLost(question)
    return ask(question)
"""
FILES["shop.py"] = _SHOP
_CALLS["a request whose exception the program answers with a status"] = (
    "shop.py",
    "import shop\nruns = [lambda q=q: shop.order(q) for q in ('why', 'unknown', 'lost', 'fail')]",
    ["answered", "refused", "failed", "failed"],
)
_FASTAPI = """
class Request:
    pass


class FastAPI:
    def add_exception_handler(self, kind, handler):
        pass

    def exception_handler(self, kind):
        return lambda function: function

    def post(self, path):
        return lambda function: function
"""
_PROGRAM = """
for one in runs:
    try:
        one()
    except BaseException:
        pass
"""
_OPENAI = """
from types import SimpleNamespace as N


class OpenAI:
    def __init__(self, api_key):
        self.chat = N(completions=self)

    def create(self, model, messages):
        if messages[0] == "fail":
            raise OSError("down")
        return N(choices=[N(message=N(content="because", tool_calls=None), finish_reason="stop")])
"""
_TYPER = """
class Exit(RuntimeError):
    __module__ = "click.exceptions"

    def __init__(self, code=0):
        self.exit_code = code


class Typer:
    def command(self):
        return lambda function: function
"""
_LIBRARIES = {
    "openai.py": _OPENAI,
    "typer.py": _TYPER,
    "fastapi/__init__.py": _FASTAPI,
    "fastapi/responses.py": "class JSONResponse:\n    pass\n",
    "langgraph/graph.py": "class StateGraph:\n    pass\n",
    "langgraph/__init__.py": "",
    "chatkit/server.py": "class ChatKitServer:\n    pass\n",
    "chatkit/__init__.py": "",
}


def _made(folder: Path, path: str) -> Design:
    files = {name: text for name, text in FILES.items() if name in (path, "asking.py")}
    files |= {"langgraph.json": FILES["langgraph.json"]} if path == "graph.py" else {}
    return run_design(scan_repository(write_tree(folder, files)))


def _outcomes(found: Collector) -> list[str | None]:
    return [s.attributes.get("request_outcome") for s in found.spans if "request_outcome" in s.attributes]


@pytest.mark.parametrize("what", _CALLS)
def test_a_patched_program_says_what_became_of_its_runs(what: str, tmp_path: Path) -> None:
    path, calls, outcomes = _CALLS[what]
    made = _made(tmp_path, path)
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, made.planned, [*FILES]).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)
    write_tree(tmp_path, _LIBRARIES)

    assert _outcomes(run_patched(f"{calls}\n{_PROGRAM}", tmp_path)) == outcomes


@pytest.mark.parametrize("what", _CALLS)
@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_a_watched_program_says_what_became_of_its_runs(what: str, tmp_path: Path) -> None:
    assert PYTHON is not None
    path, calls, outcomes = _CALLS[what]
    _made(tmp_path / "app", path)
    plan = write_plan(tmp_path / "design", repository=tmp_path / "app")
    write_tree(tmp_path / "app", _LIBRARIES)
    (tmp_path / "app/start.py").write_text(f"{calls}\n{_PROGRAM}")
    with collector() as found:
        ran = run_watched(plan, [PYTHON, str(tmp_path / "app/start.py")], found.url)
        assert ran.returncode == 0, ran.stderr

    assert _outcomes(found) == outcomes


# -- whose fault it is ----------------------------------------------------------------------------------------------


def _kind(library: str, name: str, *bases: type, **members: Any) -> Any:
    return type(name, bases or (Exception,), {"__module__": library, **members})


_HTTP = _kind(
    "starlette.exceptions", "HTTPException", __init__=lambda self, code: self.__dict__.update(status_code=code)
)
_OF_CLIENT = _kind("openai", "RateLimitError", __init__=lambda self: self.__dict__.update(status_code=429, response=""))
_OWN = type("Refused", (Exception,), {"status_code": 404, "__module__": __name__})


def _raised(error: Exception, within: Exception | None = None) -> Exception:
    try:
        if within is None:
            raise error
        try:
            raise within
        except Exception:
            raise error  # noqa: B904
    except Exception as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (_HTTP(404), "refused"),
        (_HTTP(503), "failed"),
        (_OWN(), "refused"),
        (ValueError(), "failed"),
        (_OF_CLIENT(), "failed"),
        (_raised(_HTTP(429)), "refused"),
        (_raised(_HTTP(429), _OF_CLIENT()), "failed"),
        (_raised(_HTTP(400), _OF_CLIENT()), "failed"),
        (_raised(_HTTP(404), KeyError("id")), "refused"),
        (_kind("werkzeug.exceptions", "NotFound", code=404)(), "refused"),
        (_kind("werkzeug.exceptions", "InternalServerError", code=500)(), "failed"),
        (_kind("langgraph.errors", "GraphInterrupt", _kind("langgraph.errors", "GraphBubbleUp"))(), "answered"),
        (_kind("langgraph.errors", "GraphRecursionError", RecursionError)(), "failed"),
        (_kind("click.exceptions", "Exit", exit_code=0)(), "answered"),
        (_kind("click.exceptions", "UsageError")(), "refused"),
        (_kind("click.exceptions", "Abort")(), None),
        (_kind("starlette.websockets", "WebSocketDisconnect")(), None),
        (
            _kind("streamlit.runtime", "RerunException", _kind("streamlit", "ScriptControlException", BaseException))(),
            "answered",
        ),
        (asyncio.CancelledError(), None),
        (SystemExit(0), "answered"),
        (SystemExit(1), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_a_run_fails_by_what_it_needs_and_not_by_its_request_or_its_user(
    error: BaseException, outcome: str | None
) -> None:
    assert {request_outcome(None, error, False, read) for read in (held, member)} == {outcome}
