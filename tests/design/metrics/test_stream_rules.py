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
