"""A direction is verified by a line that says which side is bad, not by the line of the call that is measured."""

from __future__ import annotations

import logging
import time

import httpx
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
logger = logging.getLogger(__name__)
MAX_WORDS = 120
SYSTEM = "Cite a source in every answer; an answer without a source is useless."
known: dict[str, str] = {}


class TooLongError(Exception):
    pass


def write(question: str) -> str:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    text = client.chat.completions.create(model="large", messages=messages).choices[0].message.content or ""
    if len(text.split()) > MAX_WORDS:
        raise TooLongError(f"more than {MAX_WORDS} words")
    return text


def look_up(question: str) -> str | None:
    return known.get(question)


def fetch(url: str) -> str:
    for attempt in range(3):
        answer = httpx.get(url)
        if answer.is_success:
            return answer.text
        time.sleep(2**attempt)
    logger.error("gave up after 3 attempts: %s", url)
    raise RuntimeError(f"no answer from {url}")


@app.post("/ask")
def ask(question: str, url: str) -> str:
    text = look_up(question) or write(f"{question}\n{fetch(url)}")
    known[question] = text
    return text
