"""A stream that ends in order whatever fails, beside one that an error breaks off."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def pieces(question: str) -> Iterator[str]:
    messages = [{"role": "user", "content": question}]
    for piece in client.chat.completions.create(model="large", messages=messages, stream=True):
        yield piece.choices[0].delta.content or ""


def told_pieces(question: str) -> Iterator[str]:
    state = "done"
    try:
        for piece in pieces(question):
            yield piece.strip()
    except Exception:
        logging.exception("the answer failed")
        state = "failed"
    yield state


def plain_pieces(question: str) -> Iterator[str]:
    for piece in pieces(question):
        yield piece.replace("\n", " ")


@app.post("/told")
def told(question: str) -> StreamingResponse:
    return StreamingResponse(told_pieces(question))


@app.post("/plain")
def plain(question: str) -> StreamingResponse:
    return StreamingResponse(plain_pieces(question))
