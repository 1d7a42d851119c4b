"""Calls of models that get no reply, by the patch and by events of the interpreter: each attempt counts once."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gapwatch.design.emission.patch import make_patch
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

#: A client in the form of OpenAI's: the name of the model says what becomes of the call.
CLIENT = {
    "openai/__init__.py": """\
from types import SimpleNamespace as N
from openai.resources.chat.completions.completions import AsyncCompletions, Completions
class OpenAI:
    chat = N(completions=Completions())
class AsyncOpenAI:
    chat = N(completions=AsyncCompletions())
""",
    "openai/resources/chat/completions/completions.py": """\
import asyncio
from types import SimpleNamespace as N
from openai._streaming import AsyncStream, Stream
turns = {}
class Completions:
    def create(self, model, messages, stream=False):
        turns[model] = turns.get(model, 0) + 1
        if model.startswith("down") or (model.startswith("busy") and turns[model] == 1):
            raise ConnectionError("no reply")
        if model.startswith("refuses"):
            return N(choices=None, error={"message": "no credit"})
        if stream:
            return Stream(model)
        return N(model=model, choices=[N(message=N(content="hi"), finish_reason="stop")], usage=None)
class AsyncCompletions:
    async def create(self, model, messages, stream=False):
        await asyncio.sleep(9 if model.startswith("slow") else 0)
        made = Completions().create(model, messages, stream)
        return AsyncStream(model) if stream else made
""",
    "openai/_streaming.py": """\
from types import SimpleNamespace as N
def pieces(model):
    yield N(model="m", choices=[N(delta=N(content="hi"), finish_reason=None)], usage=None)
    if model.startswith("broken"):
        raise ConnectionError("the stream broke")
    yield N(model="m", choices=[N(delta=N(content=None), finish_reason="stop")], usage=None)
class Stream:
    def __init__(self, model):
        self.pieces = self.__stream__(model)
    def __iter__(self):
        return self.pieces
    def __next__(self):
        return next(self.pieces)
    def __stream__(self, model):
        yield from pieces(model)
class AsyncStream:
    def __init__(self, model):
        self.pieces = self.__stream__(model)
    def __aiter__(self):
        return self.pieces
    async def __anext__(self):
        return await anext(self.pieces)
    async def __stream__(self, model):
        for one in pieces(model):
            yield one
""",
}

ASKING = """
import asyncio
import os

import openai
import requests

BASE = os.environ.get("MODEL_URL", "https://api.openai.com")
client = openai.OpenAI()
aclient = openai.AsyncOpenAI()


def retried(model, q):
    for attempt in range(3):
        try:
            reply = client.chat.completions.create(model=model, messages=[q])
            return reply.choices[0].message.content
        except Exception:
            pass
    return "sorry"


def swallowed(model, q):
    try:
        return client.chat.completions.create(model=model, messages=[q]).choices[0].message.content
    except Exception as error:
        return f"Error: {error}"


async def waited(model, q):
    try:
        reply = await aclient.chat.completions.create(model=model, messages=[q])
    except ConnectionError:
        return ""
    return reply.choices[0].message.content


async def gathered(model, q):
    return await asyncio.gather(
        *[aclient.chat.completions.create(model=model, messages=[q]) for _ in range(3)], return_exceptions=True
    )


async def left(model, q):
    reply = await aclient.chat.completions.create(model=model, messages=[q])
    return reply.choices[0].message.content


def streamed(model, q):
    text = ""
    try:
        stream = client.chat.completions.create(model=model, messages=[q], stream=True)
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""
    except ConnectionError:
        text += "..."
    return text


async def streamed_async(model, q):
    text = ""
    try:
        async for chunk in await aclient.chat.completions.create(model=model, messages=[q], stream=True):
            text += chunk.choices[0].delta.content or ""
    except ConnectionError:
        text += "..."
    return text


def handed_on(model, q):
    return client.chat.completions.create(model=model, messages=[q], stream=True)


def thin(model, q):
    try:
        response = requests.post(f"{BASE}/v1/chat/completions", json={"model": model, "messages": [q]}, timeout=1)
        response.raise_for_status()
        return response.json()["choices"][0]["message"]["content"]
    except requests.RequestException:
        return None


def unchecked(model, q):
    response = requests.post(f"{BASE}/v1/chat/completions", json={"model": model, "messages": [q]}, timeout=1)
    return response.text


def thin_stream(model, q):
    asked = {"model": model, "messages": [q], "stream": True}
    try:
        with requests.post(f"{BASE}/v1/chat/completions", json=asked, stream=True, timeout=1) as response:
            for line in response.iter_lines():
                print(line)
    except requests.RequestException:
        return None
    return "done"


def looked_up(model, q):
    if not q:
        return None
    reply = client.chat.completions.create(model=model, messages=[q])
    return reply.choices[0].message.content
"""

PROGRAM = """
import asyncio, os, sys
os.environ["MODEL_URL"] = "{url}"
import asking

async def leave(call):
    task = asyncio.create_task(call)
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.wait([task])

def call(name, kind, q="q"):
    try:
        made = getattr(asking, name)(f"{{kind}}-{{name}}", q)
        if asyncio.iscoroutine(made):
            asyncio.run(leave(made) if kind == "slow" else made)
        elif name == "handed_on":
            list(made)
    except Exception:
        pass

for name, kinds in {runs}.items():
    for kind in kinds.split():
        call(name, kind, q="" if kind == "nothing" else "q")
"""

RUNS = {
    "retried": "ok down busy busy",
    "swallowed": "ok down refuses",
    "waited": "ok down busy busy",
    "gathered": "ok down busy",
    "left": "ok down slow",
    "streamed": "ok down broken",
    "streamed_async": "ok down broken",
    "handed_on": "ok down broken",
    "thin": "ok down busy busy slow",
    "unchecked": "ok down",
    "thin_stream": "ok down broken",
    "looked_up": "nothing ok",
}
EXPECTED = {
    "retried": [0, 3, 1, 0],
    "swallowed": [0, 1, 1],
    "waited": [0, 1, 1, 0],
    "gathered": [0, 3, 1],
    "left": [0, 1, 0],
    "streamed": [0, 1, 1],
    "streamed_async": [0, 1, 1],
    "handed_on": [None, 1, None],
    "thin": [0, 1, 1, 0, 1],
    "unchecked": [0, 1],
    "thin_stream": [0, 1, 1],
    "looked_up": [None, 0],
}


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    turns: ClassVar[dict[str, int]] = {}

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = asked["model"]
        self.turns[model] = self.turns.get(model, 0) + 1
        if model.startswith("down") or (model.startswith("busy") and self.turns[model] == 1):
            self._send(500 if model.startswith("down") else 429, b"{}")
        elif asked.get("stream"):
            # Of a stream that breaks fewer bytes come than were promised.
            self._send(200, b"data: hi\n\n", missing=model.startswith("broken"))
        else:
            time.sleep(1.5 if model.startswith("slow") else 0)
            self._send(200, json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode())

    def _send(self, status: int, body: bytes, missing: bool = False) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) + 9 * missing))
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        with suppress(OSError):  # Who asked has left.
            super().handle()

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@contextmanager
def _model_server() -> Iterator[str]:
    _Model.turns = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _counts(found: Collector) -> dict[str, list[int | None]]:
    return {name: [s.attributes.get("model_errors") for s in found.named(name)] for name in RUNS}


def _patched(folder: Path, files: dict[str, str]) -> tuple[Design, list[tuple[str, str]], str]:
    made = run_design(scan_repository(write_tree(folder, files)), is_bounded=False)
    patch = make_patch(folder, made.planned, [])
    (folder / "p.patch").write_text(patch.text)
    subprocess.run(["git", "apply", "p.patch"], cwd=folder, check=True, timeout=20)
    return made, patch.left_out, patch.text


def test_a_patched_program_counts_each_call_of_a_model_that_gets_no_reply(tmp_path: Path) -> None:
    made, left_out, _ = _patched(tmp_path, {"asking.py": ASKING})
    assert {m.claim["field"] for m in made.metrics if m.family == "unanswered"} == {"attributes.model_errors"}
    assert not [why for _, why in left_out if "model_errors" in why]
    write_tree(tmp_path, CLIENT)

    with _model_server() as url:
        found = run_patched(PROGRAM.format(url=url, runs=RUNS), tmp_path)

    assert _counts(found) == EXPECTED


@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_a_watched_program_counts_each_call_of_a_model_that_gets_no_reply(tmp_path: Path) -> None:
    assert PYTHON is not None
    app = write_tree(tmp_path / "app", {"asking.py": ASKING})
    plan = write_plan(tmp_path / "design", repository=app)
    write_tree(app, CLIENT)

    with _model_server() as url, collector() as found:
        (app / "program.py").write_text(PROGRAM.format(url=url, runs=RUNS))
        ran = run_watched(plan, [PYTHON, str(app / "program.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")

    assert _counts(found) == EXPECTED


INNER = """
import openai
from langchain_core.language_models.llms import BaseLLM

client = openai.OpenAI()


class OwnModel(BaseLLM):
    def ask_own(self, model, q):
        try:
            return client.chat.completions.create(model=model, messages=[q]).choices[0].message.content
        except ConnectionError:
            return "sorry"


llm = OwnModel()


def ask_outer(model, q):
    answer = llm.generate([model, q])
    return answer
"""
_BASE = """
class BaseLLM:
    def generate(self, prompts):
        return self.ask_own(*prompts)
"""
_ASKS_BOTH = """
import inner
inner.ask_outer("down-inner", "q")
inner.ask_outer("ok-inner", "q")
"""


def _innermost(found: Collector) -> tuple[int, int]:
    sums = [sum(s.attributes.get("model_errors", 0) for s in found.named(n)) for n in ("OwnModel.ask_own", "ask_outer")]
    return sums[0], sums[1]


def test_of_calls_in_each_other_the_innermost_that_fails_counts(tmp_path: Path) -> None:
    _patched(tmp_path, {"inner.py": INNER})
    library = {**CLIENT, "langchain_core/language_models/llms.py": _BASE}
    write_tree(tmp_path, library)
    assert _innermost(run_patched(_ASKS_BOTH, tmp_path)) == (1, 0)
    if PYTHON is not None:
        app = write_tree(tmp_path / "app", {"inner.py": INNER})
        plan = write_plan(tmp_path / "design", repository=app)
        write_tree(app, library)
        (app / "program.py").write_text(_ASKS_BOTH)
        with collector() as found:
            ran = run_watched(plan, [PYTHON, str(app / "program.py")], found.url)
            assert (ran.returncode, ran.stderr) == (0, "")
        assert _innermost(found) == (1, 0)


OBJECT = """
import adalflow as adal


class Answerer(adal.Component):
    def __init__(self):
        self.ask = adal.Generator(model_client=None)

    def answer(self, q):
        output = self.ask(prompt_kwargs={"q": str(q)})
        return output.data or "sorry"
"""
#: AdalFlow gives an error in place of a reply, and raises nothing.
_ADALFLOW = {
    "adalflow/__init__.py": "from adalflow.core.generator import Generator\nclass Component: pass\n",
    "adalflow/core/generator.py": """\
from types import SimpleNamespace as N
class Generator:
    def __init__(self, model_client): pass
    def __call__(self, **given): return self.call(**given)
    def call(self, prompt_kwargs):
        is_down = prompt_kwargs["q"] == "down"
        return N(data=None if is_down else "hi", error="no reply" if is_down else None)
""",
}
_ASKS_OBJECT = "import answering\nfor q in ('ok', 'down'): answering.Answerer().answer(q)\n"


def test_an_error_that_an_object_gives_in_place_of_a_reply_counts(tmp_path: Path) -> None:
    _patched(tmp_path, {"answering.py": OBJECT})
    write_tree(tmp_path, _ADALFLOW)
    found = run_patched(_ASKS_OBJECT, tmp_path)
    assert [s.attributes.get("model_errors") for s in found.named("Answerer.answer")] == [0, 1]
    if PYTHON is not None:
        app = write_tree(tmp_path / "app", {"answering.py": OBJECT})
        plan = write_plan(tmp_path / "design", repository=app)
        write_tree(app, _ADALFLOW)
        (app / "program.py").write_text(_ASKS_OBJECT)
        with collector() as watched:
            ran = run_watched(plan, [PYTHON, str(app / "program.py")], watched.url)
            assert (ran.returncode, ran.stderr) == (0, "")
        assert [s.attributes.get("model_errors") for s in watched.named("Answerer.answer")] == [0, 1]


UNSEEN = """
import openai

client = openai.OpenAI()


def spoken(model, q):
    stream = client.chat.completions.create(model=model, messages=[q], stream=True)
    try:
        return say(stream)
    except ConnectionError:
        return ""


def say(stream):
    return "".join(c.choices[0].delta.content or "" for c in stream)
"""


def test_a_stream_that_a_patch_cannot_follow_is_told_and_has_no_zero(tmp_path: Path) -> None:
    _, left_out, _ = _patched(tmp_path, {"unseen.py": UNSEEN})
    assert ("unseen.py:8", "a stream that breaks is not seen, for model_errors") in left_out
    write_tree(tmp_path, CLIENT)
    asks = "import unseen\nfor kind in ('ok', 'broken'): unseen.spoken(kind, 'q')\n"
    asks += "try: unseen.spoken('down', 'q')\nexcept ConnectionError: pass\n"

    found = run_patched(asks, tmp_path)

    assert [s.attributes.get("model_errors") for s in found.named("spoken")] == [None, None, 1]


JUDGED = """
import openai

client = openai.OpenAI()


def answer(model, question):
    messages = [{"role": "system", "content": "Answer in one short sentence and cite the source."}, question]
    return client.chat.completions.create(model=model, messages=messages).choices[0].message.content.strip()
"""


def test_a_call_inside_of_an_expression_is_told_its_prompt_and_read_in_this_order(tmp_path: Path) -> None:
    _, _, text = _patched(tmp_path, {"judged.py": JUDGED})
    assert "span_recording.reply(span_recording.asked(client.chat.completions.create)(" in text
    write_tree(tmp_path, CLIENT)

    found = run_patched("import judged\nassert judged.answer('ok', 'q') == 'hi'\n", tmp_path)

    (span,) = found.named("answer")
    assert (span.attributes["model_reply"], span.attributes["model_errors"]) == ("hi", 0)


def test_an_expression_that_does_not_stand_where_it_says_is_left_out(tmp_path: Path) -> None:
    source = "import openai\n\nclient = openai.OpenAI()\n\n\ndef ask(model, q):\n"
    source += '    return f"""said\n    {client.chat.completions.create(model=model, messages=[q]).choices}"""\n'
    _patched(tmp_path, {"texts.py": source})
    write_tree(tmp_path, CLIENT)

    found = run_patched("import texts\nassert texts.ask('ok', 'q').startswith('said\\n    [n')\n", tmp_path)

    assert len(found.named("ask")) == 1
