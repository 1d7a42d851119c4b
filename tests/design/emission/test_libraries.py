"""`gapwatch instrument`: what libraries of models, retries, graphs and servers say, by modules of their form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gapwatch.design.emission.client_calls import client_calls
from gapwatch.design.emission.interpreter.model_replies import chunk_reply, client_reply, reply_text
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    planned,
    python_with_events,
    run_watched,
    write_plan,
)

PYTHON = python_with_events()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")

#: Modules under the names and with the functions of libraries, as small as they can be.
LIBRARIES = {
    "tenacity/__init__.py": """\
class RetryCallState:
    def set_exception(self, error): pass
    def set_result(self, result): pass

class BaseRetrying:
    def wraps(self, f):
        def wrapped_f(*args, **kw):
            state = RetryCallState()
            for attempt in range(3):
                try:
                    result = f(*args, **kw)
                except ValueError as error:
                    state.set_exception(error)
                else:
                    state.set_result(result)
                    return result
            raise ValueError("exhausted")
        return wrapped_f
""",
    "openai/_base_client.py": """\
class SyncAPIClient:
    def _sleep_for_retry(self): pass
    def request(self, fail):
        for attempt in range(3):
            if attempt >= fail:
                return "text"
            if attempt < 2:
                self._sleep_for_retry()
        raise ValueError("down")
""",
    "openai/_streaming.py": """\
from types import SimpleNamespace as N

class Stream:
    def __iter__(self):
        return self.__stream__()
    def __stream__(self):
        for text in ("one ", "two"):
            yield N(model="m", choices=[N(delta=N(content=text), finish_reason=None)], usage=None)
        yield N(model="m", choices=[N(delta=N(content=None), finish_reason="length")], usage=None)
        yield N(model="m", choices=[], usage=N(prompt_tokens=7, completion_tokens=2))
""",
    "langgraph/errors.py": "class GraphBubbleUp(Exception): pass\nclass GraphInterrupt(GraphBubbleUp): pass\n",
    "langgraph/pregel/main.py": """\
class Pregel:
    name = "graph"
    def __init__(self, *nodes): self.nodes = nodes
    async def astream(self):
        for node in self.nodes:
            yield await node()
    async def ainvoke(self):
        return [x async for x in self.astream()]
""",
    "starlette/applications.py": """\
class Starlette:
    async def __call__(self, scope, receive, send): return await receive()
""",
    "uvicorn/server.py": "class Server:\n    async def _serve(self): pass\n",
}

PROGRAM = """\
import asyncio
import os
import signal
import sys
from types import SimpleNamespace as N

from langgraph.errors import GraphInterrupt
from langgraph.pregel.main import Pregel
from openai._base_client import SyncAPIClient
from openai._streaming import Stream
from starlette.applications import Starlette
from tenacity import BaseRetrying
from uvicorn.server import Server

turns = []


def asks(fail):
    return SyncAPIClient().request(fail)


def flaky(fail):
    turns.append(1)
    if len(turns) <= fail:
        raise ValueError("again")
    return len(turns)


def given_up():
    try:
        return BaseRetrying().wraps(lambda: int("x"))()
    except ValueError:
        return None


def again(n):
    return n if n == 0 else again(n - 1)


def reads():
    texts = [c.choices[0].delta.content or "" for c in Stream() if c.choices]
    return {"text": "".join(texts)}


async def chunks():
    yield "a"
    yield b"b"


def responds(source):
    return N(body_iterator=source)


async def node():
    await asyncio.sleep(0)
    return 1


async def waits():
    raise GraphInterrupt


async def main():
    await Pregel(node, node).ainvoke()
    try:
        await Pregel(waits).ainvoke()
    except GraphInterrupt:
        pass
    await Starlette()({"type": "http"}, node, None)
    await Starlette()({"type": "http"}, quiet, None)
    response = responds(chunks())
    assert [x async for x in response.body_iterator] == ["a", b"b"]
    left = responds(chunks()).body_iterator
    await anext(left)
    await left.aclose()
    responds(None)
    await Server()._serve()


async def quiet():
    return None


asks(0), asks(1)
try:
    asks(3)
except ValueError:
    pass
for fail in (0, 2, 9):
    turns.clear()
    try:
        BaseRetrying().wraps(flaky)(fail)
    except ValueError:
        pass
given_up()
again(2)
reads()
asyncio.run(main())
os.kill(os.getpid(), signal.SIGKILL)
"""

_TRIED: dict[str, Any] = {"start": {"unseen_attempts": "of_library"}}
EMIT = [
    *(planned(name, **_TRIED) for name in ("asks", "flaky", "given_up", "again")),
    planned("reads", reads_reply=True),
    planned("responds", start={"stream_outcome": "of_response", "first_chunk_seconds": "of_response"}),
    planned("node"),
    planned("waits"),
]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """Return the spans of a program that kills itself after its server has ended."""
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "app.py").write_text(PROGRAM)
    for name, text in LIBRARIES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    plan = write_plan(folder / "design", EMIT)
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(plan, [PYTHON, str(folder / "app.py")], found.url)
        assert (ran.returncode, ran.stderr) == (-9, "")
    return found


def _retries(sent: Collector, name: str) -> list[tuple[int, str]]:
    return [(s.attributes["retry_count"], s.attributes["retry_outcome"]) for s in sent.named(name)]


def test_retries_of_a_client_are_counted(sent: Collector) -> None:
    assert _retries(sent, "asks") == [(0, "first_try"), (1, "recovered"), (2, "exhausted")]


def test_a_decorated_function_is_one_span_with_all_its_attempts(sent: Collector) -> None:
    assert _retries(sent, "flaky") == [(0, "first_try"), (2, "recovered"), (2, "exhausted")]
    assert [s.is_error for s in sent.named("flaky")] == [False, False, True]


def test_retries_that_end_in_a_handler_are_exhausted_and_calls_of_itself_are_retries(sent: Collector) -> None:
    assert _retries(sent, "given_up") == [(2, "exhausted")]
    assert sorted(_retries(sent, "again"))[-1] == (1, "recovered")


def test_a_streamed_reply_gives_tokens_reason_and_text(sent: Collector) -> None:
    (span,) = sent.named("reads")

    assert span.attributes["gen_ai.usage.input_tokens"] == 7
    assert span.attributes["gen_ai.usage.output_tokens"] == 2
    assert span.attributes["gen_ai.response.finish_reasons"] == ["length"]
    assert span.attributes["output.value"] == "one two"


def test_the_span_of_a_function_ends_with_the_stream_that_it_hands_on(sent: Collector) -> None:
    whole, left, none = sent.named("responds")

    assert (whole.attributes["stream_outcome"], whole.attributes["output.value"]) == ("completed", "ab")
    assert left.attributes["stream_outcome"] == "aborted"
    assert "stream_outcome" not in none.attributes, "no stream was sent"
    assert whole.attributes["first_chunk_seconds"] < 5


def test_a_run_of_a_graph_and_a_request_are_one_trace_and_no_trace_without_a_watched_call(sent: Collector) -> None:
    graphs, (request,) = sent.named("graph"), sent.named("request")
    nodes = sent.named("node")

    assert [n.parent for n in nodes] == [graphs[0].id, graphs[0].id, request.id]
    assert len({n.trace for n in nodes}) == 2


def test_a_graph_that_waits_for_a_person_has_not_failed(sent: Collector) -> None:
    assert [s.is_error for s in sent.named("waits")] == [False]


def test_spans_of_a_program_that_names_its_own_service_come_under_the_pipeline_in_whole_traces(tmp_path: Path) -> None:
    (tmp_path / "langgraph/pregel").mkdir(parents=True)
    for name in ("langgraph/__init__.py", "langgraph/pregel/__init__.py"):
        (tmp_path / name).touch()
    (tmp_path / "langgraph/pregel/main.py").write_text(LIBRARIES["langgraph/pregel/main.py"])
    (tmp_path / "app.py").write_text(
        "import asyncio\n"
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.resources import Resource\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from langgraph.pregel.main import Pregel\n"
        "provider = TracerProvider(resource=Resource.create({'service.name': 'its own'}))\n"
        "trace.set_tracer_provider(provider)\n"
        "tracer = trace.get_tracer('own')\n"
        "async def idle():\n    return 0\n"
        "async def step():\n    return 1\n"
        "async def node():\n    with tracer.start_as_current_span('own'):\n        return await step()\n"
        "asyncio.run(Pregel(idle).ainvoke())\n"
        "asyncio.run(Pregel(node).ainvoke())\n"
        "assert provider.resource.attributes['service.name'] == 'its own'\n"
    )
    plan = write_plan(tmp_path / "design", [planned("step")])
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(plan, [PYTHON, str(tmp_path / "app.py")], found.url)

    assert (ran.returncode, ran.stderr) == (0, "")
    (graph,), (own,), (step,) = (found.named(name) for name in ("graph", "own", "step"))
    assert (own.parent, step.parent) == (graph.id, own.id), "a run in which nothing has a span has none either"
    assert {span.service for span in found.spans} == {"watched"}


def test_texts_of_replies_are_read_by_their_form() -> None:
    call = {"function": {"name": "f", "arguments": '{"a": 1}'}}
    called = '[{"name": "f", "arguments": {"a": 1}}]'
    replies: list[tuple[Any, str | None]] = [
        ({"choices": [{"message": {"content": "x"}}]}, "x"),
        ({"choices": [{"message": {"content": None, "tool_calls": [call]}}]}, called),
        ({"choices": [{"message": {"content": ""}}]}, ""),
        ({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}, "x"),
        ({"content": [{"type": "tool_use", "name": "f", "input": {"a": 1}}], "stop_reason": "tool_use"}, called),
        ({"generations": [[{"message": {"content": "x", "response_metadata": {}}}]]}, "x"),
        ({"generations": [[{"text": "x", "message": {"content": "x"}}]]}, "x"),
        ({"output": [{"type": "message", "content": [{"text": "x"}]}]}, "x"),
        ({"output": [{"type": "function_call", "name": "f", "arguments": '{"a": 1}'}]}, called),
        ({"candidates": [{"content": {"parts": [{"text": "x"}]}}]}, "x"),
        ({"message": {"content": "x"}}, "x"),
        ({"a": 1}, None),
        ("x", None),
    ]

    assert [reply_text(reply) for reply, _ in replies] == [text for _, text in replies]


def test_why_a_response_ended_is_in_the_words_of_chats_and_chunks_say_their_part() -> None:
    cut = {"output": [], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}

    assert client_reply(cut)["finish_reason"] == "length"
    assert client_reply({"output": [{"type": "function_call"}], "status": "completed"})["finish_reason"] == "tool_calls"
    started = {"type": "message_start", "message": {"model": "c", "usage": {"input_tokens": 3, "output_tokens": 1}}}
    ended = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}}
    assert chunk_reply(started) | chunk_reply(ended) == {
        "model": "c",
        "input_tokens": 3,
        "output_tokens": 9,
        "finish_reason": "max_tokens",
    }


def test_replies_of_langchain_before_its_core_have_model_tokens_and_reason() -> None:
    reply = {
        "generations": [[{"message": {"content": "x"}, "generation_info": {"finish_reason": "length"}}]],
        "llm_output": {"model_name": "g", "token_usage": {"prompt_tokens": 5, "completion_tokens": 6}},
    }

    assert client_reply(reply) == {"model": "g", "finish_reason": "length", "input_tokens": 5, "output_tokens": 6}
    assert client_reply({"generations": [[{"text": "x"}]], "llm_output": None}) == {}
