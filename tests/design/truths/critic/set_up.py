"""What a server runs once when it starts, beside what requests run."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache

import httpx
from fastapi import FastAPI
from openai import OpenAI

client = OpenAI()


def load_handbook() -> str:
    return httpx.get("https://handbook.example/all").raise_for_status().text


def wait_for_index() -> None:
    for attempt in range(5):
        try:
            httpx.get("https://index.example/ready").raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(attempt)
    raise RuntimeError("gave up after five attempts")


def warm_up() -> None:
    wait_for_index()
    load_handbook()


@lru_cache(maxsize=4)
def version_of(prompt: str) -> str:
    return httpx.get("https://prompts.example", params={"name": prompt}).raise_for_status().text


def labels_of(app: str) -> dict[str, str]:
    return {"app": app, "prompt": version_of(f"{app}-system")}


LABELS = labels_of("handbook")


@lru_cache(maxsize=4)
def rules_of(country: str) -> str:
    return httpx.get("https://rules.example", params={"country": country}).raise_for_status().text


RULES = {country: rules_of(country) for country in ("de", "fr")}


def search(question: str) -> str:
    for attempt in range(3):
        try:
            return httpx.get("https://index.example", params={"q": question}).raise_for_status().text
        except httpx.HTTPError:
            time.sleep(attempt)
    raise RuntimeError("gave up after three attempts")


def answer(question: str, passages: str) -> str | None:
    prompt = f"Answer from these passages only:\n{passages}"
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="large", messages=messages).choices[0].message.content


@asynccontextmanager
async def app_lifespan(app: FastAPI) -> AsyncIterator[None]:
    warm_up()
    yield


app = FastAPI(lifespan=app_lifespan)


@app.on_event("startup")
def app_greeting() -> None:
    httpx.post("https://status.example", json={"app": "started"}).raise_for_status()


@app.post("/ask")
def ask(question: str) -> str | None:
    return answer(question, search(question) + rules_of(question[:2]) + RULES["de"])
