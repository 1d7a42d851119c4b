"""Replies that a program takes from a model's server over HTTP, whole or in lines: recorded in both ways."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from gapwatch.design.commands.design import design as design_group
from gapwatch.design.emission.client_calls import client_calls
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

PYTHON = python_with_events()
USAGE = {"prompt_tokens": 7, "completion_tokens": 2}
CHAT = {"model": "m", "choices": [{"message": {"content": "yes"}, "finish_reason": "length"}], "usage": USAGE}
PIECES = [
    {"model": "m", "choices": [{"delta": {"content": "ye"}, "finish_reason": None}]},
    {"model": "m", "choices": [{"delta": {"content": "s"}, "finish_reason": "length"}]},
    {"model": "m", "choices": [], "usage": USAGE},
]
#: What a server of Anthropic's form sends: the tokens so far come twice.
EVENTS = [
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "yes"}},
    {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
#: Lines of Ollama's form.
LINES = [
    {"model": "m", "message": {"content": "ye"}, "done": False},
    {"model": "m", "message": {"content": "s"}, "done": False},
    {"model": "m", "message": {"content": ""}, "done": True}
    | {"done_reason": "length", "prompt_eval_count": 7, "eval_count": 2},
]
GOOGLE = {
    "candidates": [{"content": {"parts": [{"text": "yes"}]}, "finishReason": "MAX_TOKENS"}],
    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2},
}

SERVICE = """\
import json

import httpx
import requests

BASE = "http://host"


def body(question, **more):
    return {"model": "m", "messages": [{"role": "user", "content": question}], **more}


def whole(question):
    reply = requests.post(f"{BASE}/v1/chat/completions", json=body(question), timeout=5)
    reply.raise_for_status()
    return reply.json()["choices"][0]["message"]["content"]


def inline(question):
    return httpx.post(f"{BASE}/v1/chat/completions", json=body(question)).json()["choices"][0]["message"]["content"]


def google(question):
    told = {"contents": [{"parts": [{"text": question}]}]}
    reply = requests.post(f"{BASE}/v1beta/models/m:generateContent", json=told, timeout=5).json()
    return reply["candidates"][0]["content"]["parts"][0]["text"]


def in_lines(question):
    said = []
    reply = requests.post(f"{BASE}/v1/chat/completions", json=body(question, stream=True), stream=True, timeout=5)
    for line in reply.iter_lines():
        if line == b"data: [DONE]":
            break
        if line:
            choices = json.loads(line[6:])["choices"]
            said.append(choices[0]["delta"]["content"] if choices else "")
    return "".join(said)


def in_events(question):
    said = ""
    with httpx.stream("POST", f"{BASE}/v1/messages", json=body(question, stream=True)) as reply:
        for line in reply.iter_lines():
            if line:
                said += json.loads(line[6:]).get("delta", {}).get("text", "")
    return said


async def waited(question):
    said = ""
    async with httpx.AsyncClient() as client:
        async with client.stream("POST", f"{BASE}/v1/chat/completions", json=body(question, stream=True)) as reply:
            async for line in reply.aiter_lines():
                if line == "data: [DONE]":
                    break
                if line and (choices := json.loads(line[6:])["choices"]):
                    said += choices[0]["delta"]["content"]
    return said


def in_pieces(question):
    sent, rest = [], b""
    reply = requests.post(f"{BASE}/v1/chat/completions", json=body(question, stream=True), stream=True, timeout=5)
    for piece in reply.iter_content(chunk_size=7):
        rest += piece
    for line in rest.split(b"\\n\\n"):
        if line.startswith(b"data: {"):
            sent += json.loads(line[6:])["choices"]
    return "".join(choice["delta"]["content"] for choice in sent)


def passed_on(question):
    return "".join(c["choices"][0]["delta"]["content"] for c in handed(question) if c["choices"])


def handed(question):
    reply = requests.post(f"{BASE}/v1/chat/completions", json=body(question, stream=True), stream=True, timeout=5)
    for line in lines_of(reply):
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def lines_of(reply):
    yield from reply.iter_lines()


def search(question):
    return requests.post(f"{BASE}/search", json={"q": question}, timeout=5).json()["choices"]
"""
OTHERS = """\
import json
import urllib.request

import aiohttp

from service import body

BASE = "http://host"


async def of_aiohttp(question):
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{BASE}/v1/chat/completions", json=body(question)) as reply:
            return (await reply.json())["choices"][0]["message"]["content"]


async def lines_of_aiohttp(question):
    said = ""
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{BASE}/api/chat", json=body(question, stream=True)) as reply:
            async for line in reply.content:
                said += json.loads(line)["message"]["content"]
    return said


def opened(question):
    told = json.dumps(body(question)).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{BASE}/v1/chat/completions", told), timeout=5) as reply:
        return json.loads(reply.read())["choices"][0]["message"]["content"]
"""
NAMES = ("whole", "inline", "google", "in_lines", "in_events", "waited", "in_pieces")
OTHER_NAMES = ("of_aiohttp", "lines_of_aiohttp", "opened")
RUN = """
import asyncio, inspect, sys
import service
service.BASE = "{base}"
modules = [service]
if {has_others}:
    import others
    others.BASE = service.BASE
    modules.append(others)
for module in modules:
    for name in (*{names}, "passed_on"):
        if hasattr(module, name):
            said = getattr(module, name)("why")
            said = asyncio.run(said) if inspect.iscoroutine(said) else said
            assert said == "yes", (name, said)
assert service.search("why") == []
"""


class _Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts: list[Any] = [CHAT]
        if self.path == "/search":
            parts = [{"choices": [], "usage": 3}]
        elif "generateContent" in self.path:
            parts = [GOOGLE]
        elif sent.get("stream"):
            parts = {"/v1/messages": EVENTS, "/api/chat": LINES}.get(self.path, PIECES)
        is_events = bool(sent.get("stream")) and self.path != "/api/chat"
        lines = [f"data: {json.dumps(p)}\n\n" if is_events else f"{json.dumps(p)}\n" for p in parts]
        text = "".join([*lines, "data: [DONE]\n\n" if is_events and parts is PIECES else ""]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """Yield the address of a server of models."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def patched(base: str, tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """Return the spans of the patched program."""
    folder = tmp_path_factory.mktemp("patched")
    copy = write_tree(folder / "app", {"service.py": SERVICE})
    arguments = [str(copy), "--out", str(folder / "d"), "--instrument", str(folder / "p"), "--quiet", "--all"]
    result = CliRunner().invoke(design_group, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    subprocess.run(["git", "apply", str(folder / "p/instrument.patch")], cwd=copy, check=True, timeout=20)
    return run_patched(RUN.format(base=base, names=NAMES, has_others=False), copy)


@pytest.fixture(scope="module")
def watched(base: str, tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """Return the spans of the watched program."""
    if PYTHON is None:
        pytest.skip("no Python of 3.12 or newer on this machine")
    folder = tmp_path_factory.mktemp("watched")
    names = (*NAMES, *OTHER_NAMES)
    run = RUN.format(base=base, names=names, has_others=True)
    write_tree(folder, {"service.py": SERVICE, "others.py": OTHERS, "app.py": run})
    start = {"model_prompt": None, "model_reply": None}
    spans = [
        planned(n, reads_reply=True, start=start, path="service.py" if f"def {n}(" in SERVICE else "others.py")
        for n in (*names, "handed", "search")
    ]
    plan = write_plan(folder / "design", spans)
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    with collector() as found:
        ran = run_watched(plan, [PYTHON, str(folder / "app.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")
    return found


def _reply(sent: Collector, name: str) -> tuple[object, ...]:
    (span,) = [s for s in sent.spans if s.name.rpartition(".")[2] == name]
    usage = (span.attributes.get(f"gen_ai.usage.{n}_tokens") for n in ("input", "output"))
    return (*usage, span.attributes.get("gen_ai.response.finish_reasons"), span.attributes.get("output.value"))


@pytest.mark.parametrize("name", NAMES)
def test_a_patched_program_reads_replies_of_http(patched: Collector, name: str) -> None:
    reasons = {"google": ["max_tokens"], "in_events": ["max_tokens"]}
    assert _reply(patched, name) == (7, 2, reasons.get(name, ["length"]), "yes")


def test_a_patched_generator_that_passes_chunks_on_has_their_reply(patched: Collector) -> None:
    assert _reply(patched, "handed") == (7, 2, ["length"], "yes")


@pytest.mark.parametrize("name", [*NAMES, *OTHER_NAMES, "handed"])
def test_a_watched_program_reads_replies_of_http(watched: Collector, name: str) -> None:
    reasons = {"google": ["max_tokens"], "in_events": ["max_tokens"]}
    assert _reply(watched, name) == (7, 2, reasons.get(name, ["length"]), "yes")


@pytest.mark.parametrize("name", NAMES)
def test_what_was_sent_stands_beside_the_reply(watched: Collector, name: str) -> None:
    (span,) = watched.named(name)
    assert "why" in str(span.attributes["model_prompt"])
    assert span.attributes["model_reply"] == "yes"


def test_an_answer_of_another_service_is_no_reply(watched: Collector) -> None:
    (span,) = watched.named("search")
    assert _reply(watched, "search") == (None, None, None, "[]")
    assert "model_reply" not in span.attributes
