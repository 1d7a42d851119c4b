"""Streams: one that its reader alone can break off, one whose first piece waits for nothing, and one that is a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SERVICE = """
import json
import logging

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def pieces(question):
    for piece in client.chat.completions.create(model="m", messages=[question], stream=True):
        yield piece.choices[0].delta.content


def headed(question):
    yield {"question": question}
    for piece in client.chat.completions.create(model="m", messages=[question], stream=True):
        yield {"delta": piece.choices[0].delta.content}


def as_lines(stream):
    try:
        for event in stream:
            yield json.dumps(event) + "\\\\n"
    except Exception:
        logging.exception("the answer failed")
        yield json.dumps({"error": "the answer failed"})


@app.post("/lines")
def lines(question: str):
    try:
        found = headed(question)
        return StreamingResponse(as_lines(found))
    except Exception as error:
        return StreamingResponse(content=json.dumps({"error": str(error)}) + "\\\\n")


@app.post("/plain")
def plain(question: str):
    return StreamingResponse(pieces(question))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    text = _SERVICE.replace("\\\\n", "\\n")
    return run_design(scan_repository(write_tree(tmp_path_factory.mktemp("s"), {"s.py": text})), is_bounded=False)


def _functions(made: Design, family: str) -> set[str]:
    return {s.removeprefix("s.") for m in made.metrics if m.family == family for s in m.symbols}


def test_a_stream_whose_errors_another_one_tells_does_not_break_off(made: Design) -> None:
    assert _functions(made, "stream_completed") == {"pieces", "plain"}


def test_the_first_piece_counts_where_it_waits_for_the_model(made: Design) -> None:
    found = _functions(made, "first_chunk_seconds")

    assert "headed" not in found
    assert {"pieces", "plain"} <= found


def test_a_response_of_one_text_is_no_stream(made: Design) -> None:
    text = next(i for i, line in enumerate(_SERVICE.splitlines(), 1) if "content=json.dumps" in line)
    places = {(m.family, p.line) for m in made.metrics for p in m.places}

    assert not {(family, text) for family in ("first_chunk_seconds", "stream_completed")} & places


def test_a_handler_that_gives_a_constant_where_it_fails_always_answers(tmp_path: Path) -> None:
    handler = _SERVICE.replace("\\\\n", "\\n") + (
        "\n\nclass Reply:\n    def __init__(self, text):\n        self.text = text\n\n\n"
        'FAILED = {"error": "try later"}\n\n\ndef reply(question):\n'
        "    found = client.chat.completions.create(model='m', messages=[question])\n"
        "    return Reply(found.choices[0].message.content)\n\n\n"
        '@app.post("/reply")\ndef reply_endpoint(question: str):\n    try:\n        made = reply(question)\n'
        "        return made\n    except Exception:\n        return FAILED\n"
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"s.py": handler})), is_bounded=False)

    assert "s.reply_endpoint" not in {s for m in made.metrics if m.family.endswith("answer_present") for s in m.symbols}


def test_a_generator_inside_of_an_endpoint_that_ends_in_order_is_followed(tmp_path: Path) -> None:
    service = """
import json

from flask import Flask, Response, jsonify, request
from openai import OpenAI

app = Flask(__name__)
client = OpenAI()


def told(question):
    yield {"status": "working"}
    for piece in client.chat.completions.create(model="m", messages=[question], stream=True):
        yield {"delta": piece.choices[0].delta.content}


@app.route("/ask", methods=["POST"])
def ask():
    data = request.get_json()
    if not data:
        return jsonify({"error": "JSON body required"}), 400

    def generate():
        try:
            for event in told(data["question"]):
                yield json.dumps(event)
            yield "[DONE]"
        except Exception as error:
            yield json.dumps({"type": "error", "message": str(error)})

    return Response(
        generate(),
        mimetype="text/event-stream",
    )
"""
    made = run_design(scan_repository(write_tree(tmp_path, {"s.py": service})), is_bounded=False)

    assert not [m for m in made.metrics if m.family in ("stream_completed", "first_chunk_seconds")]
    lines = service.splitlines()
    failed = {lines[p.line - 1].strip() for m in made.metrics if m.family == "failed_requests" for p in m.places}
    assert failed == {'yield json.dumps({"type": "error", "message": str(error)})'}


def test_a_text_that_is_sent_in_pieces_is_no_stream(tmp_path: Path) -> None:
    mock = _SERVICE.replace("\\\\n", "\\n") + (
        "\n\nasync def words(text: str):\n    for word in text.split():\n        yield word\n\n\n"
        "def said(text: str):\n    return StreamingResponse(words(text))\n\n\n"
        '@app.post("/none")\ndef none(question: str):\n    return said("nothing was found for " + question)\n'
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"s.py": mock})), is_bounded=False)

    watched = {s for m in made.metrics if m.family in ("stream_completed", "first_chunk_seconds") for s in m.symbols}
    assert not {"s.said", "s.none", "s.words"} & watched
    assert "s.plain" in watched


_EVENTS = """
from fastapi import FastAPI
from langchain_openai import ChatOpenAI
from sse_starlette import EventSourceResponse

app = FastAPI()
chain = ChatOpenAI()


async def events(question):
    async for event in chain.astream_events(question, version="v2"):
        {start}if event["event"] == "on_chat_model_stream":
            yield event["data"]["chunk"].content


async def as_lines(stream):
    async for piece in stream:
        yield {{"data": piece}}


@app.post("/ask")
async def ask(question: str):
    return EventSourceResponse(as_lines(events(question)))
"""
_START = 'if event["event"] == "on_chain_start":\n            yield event["run_id"]\n        el'


@pytest.mark.parametrize("sends_start", [True, False])
def test_a_piece_at_the_start_of_a_run_waits_for_no_model(tmp_path: Path, sends_start: bool) -> None:
    source = _EVENTS.format(start=_START if sends_start else "")
    made = run_design(scan_repository(write_tree(tmp_path, {"server.py": source})))

    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    waits = [m for m in every if m.family.endswith("first_chunk_seconds")]
    assert bool(waits) is not sends_start


_COLLECTED = """
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def pieces(question):
    for piece in client.chat.completions.create(model="m", messages=[question], stream=True):
        yield piece.choices[0].delta.content


@app.post("/ask")
def ask(question: str):
    {answer}
"""


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ("text = ''\n    for piece in pieces(question):\n        text += piece\n    return {'answer': text}", False),
        ("return StreamingResponse(pieces(question))", True),
    ],
)
def test_a_stream_that_is_collected_has_no_first_piece(tmp_path: Path, answer: str, counts: bool) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"server.py": _COLLECTED.format(answer=answer)})))

    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    assert any(m.family.endswith("first_chunk_seconds") for m in every) is counts


@pytest.mark.parametrize("ends", [True, False])
def test_a_stream_without_an_end_is_not_broken_off(tmp_path: Path, ends: bool) -> None:
    text = f"""
import asyncio
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import OpenAI

app = FastAPI()
client = OpenAI()


@app.get("/chat/answers")
async def chat_answers(question: str):
    asked = asyncio.Queue()
    asked.put_nowait(question)

    async def answers():
        while True:
            told = await asked.get()
            {"if told is None: break" if ends else "print(told)"}
            yield client.chat.completions.create(model="m", messages=[told]).choices[0].message.content

    return StreamingResponse(answers())
"""
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": text})), is_bounded=False)

    assert any(m.family == "stream_completed" for m in made.metrics) == ends
