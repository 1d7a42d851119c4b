"""`gapwatch design REPO --instrument DIR`: the replies that a patched program reads, wherever its code has them."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from gapwatch.design.commands.design import design as design_group
from gapwatch.design.emission.reply_places import reader_of, reply_call, with_calls
from tests.design.emission.watched_programs import run_patched
from tests.design.source_tree import write_tree

_PROGRAM = {
    "shop/__init__.py": "",
    "shop/service.py": """\
from openai import OpenAI

client = OpenAI(api_key="k")


def inline(question):
    return client.chat.completions.create(
        model="m", messages=["é", question]
    ).choices[0].message.content


def raw(question):
    answer = client.chat.completions.with_raw_response.create(model="m", messages=[question])
    return answer.parse().choices[0].message.content


def entered(question):
    with client.chat.completions.with_streaming_response.create(model="m", messages=[question]) as answer:
        return answer.parse().choices[0].message.content


def helper(question):
    with client.chat.completions.stream(model="m", messages=[question]) as stream:
        return stream.text


def joined(question):
    return "".join(c.choices[0].delta.content for c in client.chat.completions.create(model="m", stream=True))


def responded(question):
    return client.responses.create(model="m", input=question).output_text


def responded_in_pieces(question):
    for event in client.responses.create(model="m", input=question, stream=True):
        if event.type == "response.output_text.delta":
            yield event.delta
""",
}

_LIBRARY = """\
import json, sys
from contextlib import contextmanager
from types import SimpleNamespace as N

REPLY = {"model": "m", "choices": [{"message": {"content": "yes"}, "finish_reason": "length"}],
         "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
USAGE = N(input_tokens=7, output_tokens=2)
PART = N(type="output_text", text="yes")
RESPONSE = N(model="m", output=[N(type="message", content=[PART])], output_text="yes", status="incomplete", usage=USAGE)

def objects(value):
    return json.loads(json.dumps(value), object_hook=lambda d: N(**d))

class Raw:
    def __init__(self): self.http_response = N()
    def parse(self):
        self.http_response._content = json.dumps(REPLY).encode()
        return objects(REPLY)
    @property
    def content(self): raise RuntimeError("not read yet")
    choices = usage = content

class Stream:
    text = "yes"
    current_completion_snapshot = objects(REPLY)

class Completions:
    with_raw_response = N(create=lambda **given: Raw())
    def create(self, stream=False, **given):
        return chunks() if stream else objects(REPLY)
    @contextmanager
    def stream(self, **given): yield Stream()

class StreamingResponse:
    @contextmanager
    def create(self, **given): yield Raw()

Completions.with_streaming_response = StreamingResponse()

def chunks():
    yield N(model="m", choices=[N(delta=N(content="ye"), finish_reason=None)])
    yield N(model="m", choices=[N(delta=N(content="s"), finish_reason="length")], usage=objects(REPLY["usage"]))

def events():
    yield N(type="response.reasoning_text.delta", delta="hm")
    yield N(type="response.output_text.delta", delta="yes")
    yield N(type="response.incomplete", response=RESPONSE)

responses = N(create=lambda stream=False, **given: events() if stream else RESPONSE)
sys.modules["openai"] = N(OpenAI=lambda api_key: N(chat=N(completions=Completions()), responses=responses))
from shop import service
for name in ("inline", "raw", "entered", "helper", "joined", "responded"):
    assert getattr(service, name)("q") == "yes", name
assert list(service.responded_in_pieces("q")) == ["yes"]
"""


def test_a_patched_program_reads_replies_wherever_they_are(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", _PROGRAM)
    arguments = [str(copy), "--out", str(tmp_path / "d"), "--instrument", str(tmp_path / "p"), "--quiet", "--all"]
    result = CliRunner().invoke(design_group, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    subprocess.run(["git", "apply", str(tmp_path / "p/instrument.patch")], cwd=copy, check=True, timeout=20)

    found = run_patched(_LIBRARY, copy)

    assert len(found.spans) == 7
    for span in found.spans:
        said = [span.attributes.get(f"gen_ai.{n}") for n in ("usage.input_tokens", "usage.output_tokens")]
        reason = span.attributes.get("gen_ai.response.finish_reasons")
        assert (span.name, said, reason) == (span.name, [7, 2], ["length"])
        assert (span.name, span.attributes["output.value"]) == (span.name, "yes")
    report = (tmp_path / "d/report.md").read_text()
    assert "around this call: `span_recording.reply(client.chat.completions.create(...))`" in report


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("x = ask(1).text", "x = r.reply(ask(1)).text"),
        ("é = f(ask(1), ask)", "é = f(r.reply(ask(1)), ask)"),
        (
            "async def f():\n    return (await c.ask(\n        1\n    )).text",
            "(r.reply(await c.ask(\n        1\n    ))).text",
        ),
        ("x = [p for p in c.ask(1)]", "x = [p for p in r.noted_chunks(c.ask(1))]"),
        ("async def f():\n    return [p async for p in c.ask(1)]", "[p async for p in r.reply(c.ask(1))]"),
    ],
)
def test_a_function_stands_around_the_call_alone(source: str, after: str) -> None:
    statement = ast.parse(source).body[0]
    if isinstance(statement, ast.AsyncFunctionDef):
        statement = statement.body[0]
    call = reply_call(statement, statement.lineno, "ask")

    assert call is not None
    made = "".join(with_calls(source.splitlines(keepends=True), [(call, f"r.{reader_of(statement, call)}")]))
    assert made.endswith(after)
    ast.parse(made)


_STREAMS = """\
from anthropic import Anthropic

client = Anthropic(api_key="k")


def helped(question):
    with client.messages.stream(model="m", max_tokens=9, messages=[question]) as stream:
        for event in stream:
            if event.type == "content_block_delta":
                yield event.delta.text


def raw(question):
    for event in client.messages.create(model="m", max_tokens=9, messages=[question], stream=True):
        if event.type == "content_block_delta":
            yield event.delta.text


def both(question):
    first = client.messages.create(model="m", max_tokens=9, messages=[question])
    yield from raw(first.content[0].text)
    for event in client.messages.create(model="m", max_tokens=9, messages=[question], stream=True):
        if event.type == "content_block_delta":
            yield event.delta.text
"""

_ANTHROPIC = """\
import sys
from contextlib import contextmanager
from types import SimpleNamespace as N

WHOLE = N(role="assistant", model="m", content=[N(type="text", text="yes")], stop_reason="end_turn",
          usage=N(input_tokens=7, output_tokens=2))

def events():
    begun = N(role="assistant", model="m", content=[], stop_reason=None, usage=N(input_tokens=7, output_tokens=1))
    yield N(type="message_start", message=begun)
    yield N(type="content_block_delta", delta=N(type="text_delta", text="yes"))
    yield N(type="message_delta", delta=N(stop_reason="end_turn"), usage=N(output_tokens=2))
    yield N(type="message_stop")

class Stream:
    current_message_snapshot = WHOLE
    def __iter__(self): return events()

class Messages:
    def create(self, stream=False, **given): return events() if stream else WHOLE
    @contextmanager
    def stream(self, **given): yield Stream()

sys.modules["anthropic"] = N(Anthropic=lambda api_key: N(messages=Messages()))
from shop import service
for name in ("helped", "both"):
    assert set(getattr(service, name)("q")) == {"yes"}, name
"""


def test_tokens_of_a_stream_count_once(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", {"shop/__init__.py": "", "shop/service.py": _STREAMS})
    arguments = [str(copy), "--out", str(tmp_path / "d"), "--instrument", str(tmp_path / "p"), "--quiet", "--all"]
    result = CliRunner().invoke(design_group, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    subprocess.run(["git", "apply", str(tmp_path / "p/instrument.patch")], cwd=copy, check=True, timeout=20)

    said = {
        span.name.rpartition(".")[2]: [span.attributes[f"gen_ai.usage.{way}_tokens"] for way in ("input", "output")]
        for span in run_patched(_ANTHROPIC, copy).spans
    }

    assert said == {"helped": [7, 2], "raw": [7, 2], "both": [14, 4]}


def test_a_call_of_another_name_is_not_the_models() -> None:
    assert reply_call(ast.parse("x = read(open(1))").body[0], 1, "create") is None
