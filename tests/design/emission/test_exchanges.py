"""What a model was last sent below a function, and what it said to that: fields of the function's span."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gapwatch.design.emission.client_calls import client_calls
from gapwatch.design.emission.interpreter.plain_values import MOST_CHARACTERS, MOST_OF_PROMPT, text_of_value
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan, SpanMark
from gapwatch.design.emission.recorded_values import MOST, written
from gapwatch.scorers.judges.fence import SHOWN_CHARACTERS
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    planned,
    python_with_events,
    run_patched,
    run_watched,
    write_plan,
)
from tests.design.source_tree import write_tree

_LIBRARIES = {
    "openai/resources/chat/completions/completions.py": """\
from types import SimpleNamespace as N


class Completions:
    def create(self, messages=(), stream=False, **more):
        said = f"to {messages[-1]['content']}"
        if stream:
            from openai._streaming import Stream
            return Stream(said)
        return N(model="m", choices=[N(message=N(content=said), finish_reason="stop")], usage=N(prompt_tokens=7))
""",
    "openai/_streaming.py": """\
from types import SimpleNamespace as N


class Stream:
    def __init__(self, said):
        self.said = said
    def __iter__(self):
        return self.__stream__()
    def __stream__(self):
        for text in self.said.split(" "):
            yield N(model="m", choices=[N(delta=N(content=text), finish_reason=None)], usage=None)
""",
    "starlette/responses.py": """\
import asyncio


class StreamingResponse:
    def __init__(self, give):
        self.give = give
    async def __call__(self, scope, receive, send):
        await asyncio.create_task(self.stream_response(send))
    async def stream_response(self, send):
        send(self.give())
""",
    "anthropic/resources/messages/messages.py": """\
from types import SimpleNamespace as N


class Messages:
    def create(self, messages, system, model):
        return N(model=model, content=[N(type="text", text="well")], stop_reason="end_turn", usage=N(input_tokens=7))
""",
}

_PROGRAM = """\
import asyncio

from anthropic.resources.messages.messages import Messages
from openai.resources.chat.completions.completions import Completions
from starlette.responses import StreamingResponse


def ask(text):
    messages = [{"role": "system", "content": "Use these: one, two."}, {"role": "user", "content": text}]
    return Completions().create(messages=messages).choices[0].message.content


def answer(question):
    query = ask(f"search for {question}")
    return {"passages": ["one"], "said": ask(f"answer {question} from {query}")}


def told():
    return Messages().create([{"role": "user", "content": "how?"}], "Be short.", "m").content[0].text


def streamed():
    for chunk in Completions().create(messages=[{"role": "user", "content": "tell me"}], stream=True):
        yield chunk.choices[0].delta.content


def held():
    said = ask("tell me")
    return said, ask("name it")


def silent():
    return 1


def chat(question):
    return Completions().create(messages=[{"role": "user", "content": ask(f"search for {question}")}], stream=True)


def chat_and_name(question):
    stream = chat(question)
    name = ask("name it")
    return name, [c.choices[0].delta.content for c in stream]


def later():
    return StreamingResponse(lambda: ask("tell me later"))


chat("that"), chat_and_name("this"), answer("it"), told(), list(streamed()), silent(), later(), held()
asyncio.run(later()(None, None, print))
"""

PYTHON = python_with_events()
_FIELDS = {"model_prompt": None, "model_reply": None}


def _sent(folder: Path, *options: str) -> Collector:
    if PYTHON is None:
        pytest.skip("no Python of 3.12 or newer on this machine")
    (folder / "app.py").write_text(_PROGRAM)
    for name, text in _LIBRARIES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for above in path.relative_to(folder).parents:
            (folder / above / "__init__.py").touch()
        path.write_text(text)
    emit = [
        planned("ask"),
        *(
            planned(n, start=dict(_FIELDS))
            for n in ("chat", "chat_and_name", "answer", "told", "streamed", "silent", "later")
        ),
    ]
    first = 1 + _PROGRAM.splitlines().index('    said = ask("tell me")')
    marks = [[first, "set", "model_held", 0], [first + 1, "set", "model_held", 1]]
    emit.append(planned("held", start={**_FIELDS, "model_held": 0}, marks=marks))
    plan = write_plan(folder / "design", emit)
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    with collector() as found:
        ran = run_watched(plan, [PYTHON, str(folder / "app.py")], found.url, *options)
        assert (ran.returncode, ran.stderr) == (0, "")
    return found


def _exchange(found: Collector, name: str) -> tuple[object, object]:
    return tuple(found.named(name)[-1].attributes.get(field) for field in _FIELDS)  # type: ignore[return-value]


def test_a_span_has_what_a_model_was_last_sent_below_it_and_what_it_said(tmp_path: Path) -> None:
    found = _sent(tmp_path)

    prompt, reply = _exchange(found, "answer")
    assert json.loads(str(prompt)) == [
        {"role": "system", "content": "Use these: one, two."},
        {"role": "user", "content": "answer it from to search for it"},
    ]
    assert reply == "to answer it from to search for it"
    assert _exchange(found, "ask") == (None, None)  # its plan does not ask for them
    prompt, reply = _exchange(found, "told")
    assert json.loads(str(prompt)) == {"system": "Be short.", "messages": [{"role": "user", "content": "how?"}]}
    assert reply == "well"
    prompt, reply = _exchange(found, "streamed")
    assert (json.loads(str(prompt))[0]["content"], reply) == ("tell me", "totellme")
    assert _exchange(found, "silent") == (None, None)
    # What is asked after the answer is another exchange.
    (span,) = found.named("held")
    assert (span.attributes["model_reply"], "model_held" in span.attributes) == ("to tell me", False)
    # The span of who makes a response ends when that is sent; one is never sent.
    (sent,) = found.named("later")
    assert sent.attributes["model_reply"] == "to tell me later"


def test_a_reply_stands_beside_the_prompt_that_it_answers_alone(tmp_path: Path) -> None:
    found = _sent(tmp_path)

    for span in found.named("chat"):  # Who reads the stream is another function.
        assert "to search for" in span.attributes["model_prompt"]
        assert "model_reply" not in span.attributes
    prompt, reply = _exchange(found, "chat_and_name")
    assert (json.loads(str(prompt))[0]["content"], reply) == ("to search for this", "totosearchforthis")


def test_neither_is_written_where_content_is_left_out(tmp_path: Path) -> None:
    assert _exchange(_sent(tmp_path, "--no-content"), "answer") == (None, None)


def test_a_long_prompt_keeps_its_begin_and_its_end() -> None:
    text = text_of_value("a" * 100_000 + "the question", MOST_OF_PROMPT)

    assert len(text) < MOST_OF_PROMPT + 10
    assert text.startswith("aaa")
    assert text.endswith("the question")
    assert "\n[... 40" in text and " characters left out ...]\n" in text, "a judge is told what it is not shown"
    assert MOST_CHARACTERS - 2 < len(text_of_value("a" * 100_000)) <= MOST_CHARACTERS
    assert text_of_value(["a"], MOST_OF_PROMPT) == '["a"]'


def test_a_judge_is_shown_all_that_is_recorded_and_told_what_is_not() -> None:
    assert MOST_OF_PROMPT <= SHOWN_CHARACTERS and 3 * MOST <= SHOWN_CHARACTERS
    told = written(["a" * 100_000, "the question"], 3 * MOST)
    assert len(told) <= 3 * MOST and told.endswith('"the question"]') and " characters left out ...]\n" in told
    assert '"[... 80 members left out ...]"' in text_of_value([{"content": "b"}] * 180, MOST_OF_PROMPT)


_PATCHED = {
    "shop/__init__.py": "",
    "shop/service.py": """\
def ask(client, text):
    made = client.create(model="m", messages=[{"role": "user", "content": text}])
    return made.choices[0].message.content


def answer(client, question):
    return {"said": ask(client, f"answer {question}")}
""",
}

_CLIENT = """\
from types import SimpleNamespace as N
from shop import service
def create(model, messages):
    said = "to " + messages[0]["content"]
    return N(model="m", choices=[N(message=N(content=said), finish_reason="stop")], usage=N(prompt_tokens=7))
assert service.answer(N(create=create), "it") == {"said": "to answer it"}
"""


@pytest.mark.parametrize("is_told", [True, False])
def test_a_patched_program_writes_them_too(is_told: bool, tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", _PATCHED)
    reply = SpanMark(2, "reply", "reply", "create")
    ask = PlannedSpan("c", "ask", "llm", "shop/service.py", "shop.service.ask", MarkedFunction("ask", 1, [reply]))
    answer = MarkedFunction("answer", 6)
    outer = PlannedSpan("c", "answer", "chain", "shop/service.py", "shop.service.answer", answer)
    outer.start = dict(_FIELDS) if is_told else {}
    patch = make_patch(copy, [ask, outer], ["shop/service.py"])
    (tmp_path / "made.patch").write_text(patch.text)
    subprocess.run(["git", "apply", str(tmp_path / "made.patch")], cwd=copy, check=True, timeout=20)

    exchange = _exchange(run_patched(_CLIENT, copy), "answer")

    sent = json.dumps([[{"role": "user", "content": "answer it"}]])
    assert exchange == ((sent, "to answer it") if is_told else (None, None))
    assert ("span_recording.asked(client.create)" in patch.text) == is_told


_CHAT = """\
async def answer(llm, tools, messages):
    said = ""
    stream = await llm.astream_chat_with_tools(tools, chat_history=messages)
    async for part in stream:
        said += part.delta
    return said
"""
_ENGINE = """\
import asyncio
from types import SimpleNamespace as N
from chat import answer
async def parts():
    for text in ("I", " see"):
        yield N(delta=text, message=N(content=text, additional_kwargs={}), raw=None)
    raw = N(choices=[N(finish_reason="stop")], usage=None)
    yield N(delta="", message=N(content="I see", additional_kwargs={}), raw=raw)
async def ask(tools, chat_history):
    return parts()
assert asyncio.run(answer(N(astream_chat_with_tools=ask), ["search"], ["found: one"])) == "I see"
"""


def test_a_patched_chat_with_tools_has_its_messages_and_the_text_of_its_stream(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", {"chat.py": _CHAT})
    reply = SpanMark(3, "reply", "reply", "astream_chat_with_tools")
    span = PlannedSpan("c", "answer", "llm", "chat.py", "chat.answer", MarkedFunction("answer", 1, [reply]))
    span.is_async, span.start = True, dict(_FIELDS)
    patch = make_patch(copy, [span], ["chat.py"])
    (tmp_path / "made.patch").write_text(patch.text)
    subprocess.run(["git", "apply", str(tmp_path / "made.patch")], cwd=copy, check=True, timeout=20)

    prompt, said = _exchange(run_patched(_ENGINE, copy), "answer")

    assert "found: one" in str(prompt)
    assert said == "I see"


_HANDING_ON = """\
def ask(client, text):
    made = client.create(model="m", messages=[{"role": "user", "content": text}])
    return made.choices[0].message.content


def answer(client, text):
    return client.create(model="m", messages=[{"role": "user", "content": text}], stream=True)


def both(client, question):
    query = client.create(model="m", messages=[{"role": "user", "content": f"search {question}"}])
    found = query.choices[0].message.content
    return client.create(model="m", messages=[{"role": "user", "content": found}], stream=True)


def read(client, text):
    stream = client.create(model="m", messages=[{"role": "user", "content": text}], stream=True)
    for chunk in stream:
        yield chunk.choices[0].delta.content


def chat(client, question):
    return answer(client, f"answer {ask(client, question)}")


def overlap(client):
    stream = read(client, "first")
    begun = next(stream)
    ask(client, "second")
    return begun + "".join(stream)
"""
_OVERLAP = """\
from types import SimpleNamespace as N
import app
def create(model, messages, stream=False):
    said = "to " + messages[0]["content"]
    if stream:
        return iter([N(choices=[N(delta=N(content=t), finish_reason=None)], usage=None) for t in (said[:4], said[4:])])
    return N(model="m", choices=[N(message=N(content=said), finish_reason="stop")], usage=N(prompt_tokens=7))
client = N(create=create)
app.chat(client, "it"), app.both(client, "it")
assert app.overlap(client) == "to first"
"""


def test_a_patched_reply_stands_beside_the_prompt_that_it_answers_alone(tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "app", {"app.py": _HANDING_ON})
    lines = _HANDING_ON.splitlines()
    planned_spans = []
    for name in ("ask", "answer", "both", "read", "chat", "overlap"):
        first = next(n for n, line in enumerate(lines, 1) if line.startswith(f"def {name}("))
        last = next((n for n, line in enumerate(lines, 1) if n > first and line.startswith("def ")), len(lines) + 1)
        asks = [n for n in range(first, last) if "client.create(" in lines[n - 1]]
        marks = [SpanMark(n, "reply", "reply", "create") for n in asks]
        span = PlannedSpan(
            "c", name, "llm" if asks else "chain", "app.py", f"app.{name}", MarkedFunction(name, first, marks)
        )
        span.is_generator, span.start = name == "read", dict(_FIELDS)
        planned_spans.append(span)
    (tmp_path / "made.patch").write_text(make_patch(copy, planned_spans, ["app.py"]).text)
    subprocess.run(["git", "apply", str(tmp_path / "made.patch")], cwd=copy, check=True, timeout=20)

    found = run_patched(_OVERLAP, copy)

    for name in ("chat", "both"):
        prompt, reply = _exchange(found, name)
        assert ("to " in str(prompt), reply) == (True, None), name
    prompt, reply = _exchange(found, "overlap")
    assert ("first" in str(prompt), reply) == (True, "to first")
