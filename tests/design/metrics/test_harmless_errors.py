"""Errors that harm nobody, refusals of requests and numbers that say nothing have no metric; their good twins have."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_SERVER = """
import asyncio
import json
import logging
from queue import Queue
from threading import Thread

import httpx
import openai
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse, StreamingResponse

app = FastAPI()
jobs = Queue()

def ask(text):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": text}]
    ).choices[0].message.content

def add_to_dataset(question):
    try:
        httpx.post("https://samples.example", json={"q": question}).raise_for_status()
    except Exception:
        logging.exception("no sample")

def remember(question):
    try:
        httpx.post("https://memory.example", json={"q": question}).raise_for_status()
    except Exception:
        logging.exception("not remembered")

@app.post("/ask")
def answer(question: str):
    add_to_dataset(question)
    remember(question)
    return ask(question + find_articles(question) + str(find_pages(question)))

@app.post("/source")
def add_source(address: str):
    try:
        httpx.get(address).raise_for_status()
    except Exception as error:
        return JSONResponse({"error": f"Wrong address: {error}"}, status_code=400)
    return {"added": address}

@app.post("/check")
def check_source(address: str):
    try:
        httpx.get(address).raise_for_status()
    except Exception as error:
        return JSONResponse({"error": f"Not there: {error}"}, status_code=502)
    return {"added": address}

@app.post("/summary")
def summary(text: str):
    try:
        return ask(text)
    except Exception as error:
        raise HTTPException(status_code=400, detail=str(error)) from error

@app.post("/batch")
async def batch(text: str):
    try:
        await asyncio.to_thread(remember_all, text)
    except Exception:
        logging.exception("not remembered")
    return "done"

def remember_all(text):
    httpx.post("https://memory.example/all", json={"q": text}).raise_for_status()

def find_articles(question) -> str:
    \"\"\"Search the articles of the knowledge base for a question.\"\"\"
    found = httpx.get("https://articles.example", params={"q": question}).json()
    return json.dumps(found)

def find_pages(question):
    from qdrant_client import QdrantClient
    return QdrantClient("pages").query_points("pages", query=question).points

@app.post("/stream")
def stream(question: str):
    queue = Queue()
    Thread(target=write_pieces, args=(question, queue)).start()

    def pieces():
        while (piece := queue.get()) is not None:
            yield piece

    return StreamingResponse(pieces())

def write_pieces(question, queue):
    for word in ask(question).split():
        queue.put(word)
    queue.put(None)

@app.post("/job")
def job(text: str):
    jobs.put(text)
    return "queued"

def work():
    while True:
        ask(jobs.get())

Thread(target=work).start()
"""


@cache
def _measured() -> set[tuple[str, str]]:
    """Return (field, function) of all metrics of the server."""
    with TemporaryDirectory() as folder:
        made = run_design(scan_repository(write_tree(Path(folder), {"app/server.py": _SERVER})), is_bounded=False)
    return {(str(m.claim.get("field")), s.rpartition(".")[2]) for m in made.metrics for s in m.symbols}


@pytest.mark.parametrize(
    ("field", "function"),
    [
        ("attributes.swallowed_errors", "add_to_dataset"),
        ("attributes.swallowed_errors", "add_source"),
        ("attributes.retrieved_count", "find_articles"),
        ("attributes.queue_wait_seconds", "write_pieces"),
        ("attributes.queue_wait_seconds", "pieces"),
    ],
)
def test_what_harms_nobody_has_no_metric(field: str, function: str) -> None:
    assert (field, function) not in _measured()


@pytest.mark.parametrize(
    ("field", "function"),
    [
        ("attributes.swallowed_errors", "remember"),
        ("attributes.swallowed_errors", "batch"),
        ("attributes.swallowed_errors", "check_source"),
        ("attributes.retrieved_count", "find_pages"),
        ("attributes.queue_wait_seconds", "job"),
    ],
)
def test_what_harms_somebody_has_one(field: str, function: str) -> None:
    assert (field, function) in _measured()
