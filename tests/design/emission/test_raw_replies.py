"""Replies that a program reads from bodies of responses, chunks, or a shared function: seen as whole ones are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapwatch.design.emission.client_calls import client_calls
from gapwatch.design.emission.interpreter.model_replies import client_reply, parsed_body, reply_text
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    planned,
    python_with_events,
    run_watched,
    write_plan,
)

PYTHON = python_with_events()

#: Modules under the names and with the functions of libraries, as small as they can be.
LIBRARIES = {
    "openai/_response.py": """\
import json


class Http:
    def __init__(self, value):
        self.sent = json.dumps(value).encode()
    def read(self):
        self._content = self.sent
        return self._content


class APIResponse:
    def __init__(self, value):
        self.http_response = Http(value)
    def read(self):
        return self.http_response.read()
    def json(self):
        return json.loads(self.read())
""",
    "openai/resources/chat/completions/completions.py": """\
from openai._response import APIResponse

REPLY = {
    "model": "m",
    "choices": [{"message": {"content": "yes"}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


class Completions:
    def create(self, is_read):
        made = APIResponse(REPLY)
        if is_read:
            made.read()
        return made


class Embeddings:
    def create(self):
        return APIResponse({"data": [{"embedding": [1]}], "model": "e", "usage": {"prompt_tokens": 7}})
""",
    "litellm/litellm_core_utils/streaming_handler.py": """\
from types import SimpleNamespace as N


class CustomStreamWrapper:
    def __init__(self, *texts):
        self.texts = [*texts, None]
    def __iter__(self):
        return self
    def __next__(self):
        if not self.texts:
            raise StopIteration
        text = self.texts.pop(0)
        if text is not None:
            return N(model="m", choices=[N(delta=N(content=text), finish_reason=None)])
        usage = N(prompt_tokens=7, completion_tokens=2)
        return N(model="m", choices=[N(delta=N(content=None), finish_reason="stop")], usage=usage)
""",
    "litellm/utils.py": """\
from types import SimpleNamespace as N


def client(function):
    def wrapper(*args):
        made = function(*args)
        made._hidden_params = {"response_cost": 0.5}
        return made
    return wrapper


@client
def completion():
    choices = [N(message=N(content="yes"), finish_reason="stop")]
    return N(model="m", choices=choices, usage=N(prompt_tokens=7, completion_tokens=2))


@client
def embedding():
    return N(data=[1], model="e", usage=N(prompt_tokens=7))
""",
}

PROGRAM = """\
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.utils import completion, embedding
from openai.resources.chat.completions.completions import Completions, Embeddings


def raw():
    return Completions().create(True).json()["choices"][0]["finish_reason"]


def later():
    made = Completions().create(False)
    made.json()
    return made.json()["model"]


def vectors():
    return len(Embeddings().create().json()["data"])


def streams():
    first = [c for c in CustomStreamWrapper("a", "b")]
    return {"second": len([c for c in CustomStreamWrapper("c", "d")])}


def through_wrapper():
    completion()
    embedding()


for run in (raw, later, vectors, streams, through_wrapper):
    run()
"""


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """Return the spans of the program."""
    if PYTHON is None:
        pytest.skip("no Python of 3.12 or newer on this machine")
    folder = tmp_path_factory.mktemp("raw")
    (folder / "app.py").write_text(PROGRAM)
    for name, text in LIBRARIES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for above in path.relative_to(folder).parents:
            (folder / above / "__init__.py").touch()
        path.write_text(text)
    names = ("raw", "later", "vectors", "streams", "through_wrapper")
    plan = write_plan(folder / "design", [planned(name, reads_reply=True) for name in names])
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    with collector() as found:
        ran = run_watched(plan, [PYTHON, str(folder / "app.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")
    return found


def _reply(sent: Collector, name: str) -> tuple[object, ...]:
    (span,) = sent.named(name)
    usage = (span.attributes.get(f"gen_ai.usage.{n}_tokens") for n in ("input", "output"))
    return (*usage, span.attributes.get("gen_ai.response.finish_reasons"), span.attributes.get("output.value"))


@pytest.mark.parametrize("name", ["raw", "later"])
def test_the_body_of_a_response_is_the_reply_and_counts_once(sent: Collector, name: str) -> None:
    assert _reply(sent, name)[:3] == (7, 2, ["length"])


def test_a_body_of_another_form_is_no_reply(sent: Collector) -> None:
    assert _reply(sent, "vectors") == (None, None, None, "1")


def test_chunks_of_one_stream_are_one_reply_and_those_of_the_next_another(sent: Collector) -> None:
    assert _reply(sent, "streams") == (14, 4, ["stop"], "cd")


def test_a_function_around_all_requests_gives_the_cost_and_the_tokens_of_replies_alone(sent: Collector) -> None:
    assert _reply(sent, "through_wrapper") == (7, 2, ["stop"], "yes")
    (span,) = sent.named("through_wrapper")
    assert span.attributes["gen_ai.usage.cost"] == 0.5


def test_bodies_are_json_and_all_else_stays_as_it_is(tmp_path: Path) -> None:
    reply = {"choices": [{"text": "yes", "finish_reason": "stop"}]}
    held = {"http_response": {"_content": json.dumps(reply).encode()}}

    assert client_reply(parsed_body(held))["finish_reason"] == "stop"
    assert reply_text(parsed_body(held)) == "yes"
    for value in (b"\xff", b"[" * 100_000, {"http_response": {}}, "text", None):
        assert parsed_body(value) is value
