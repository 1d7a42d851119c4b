"""A share is of the units that could have had it: requests of the same tier, calls of the same function."""

from __future__ import annotations

import json

import httpx
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
known: dict[str, str] = {}


def look_up(question: str) -> str | None:
    return known.get(question)


def ask_large(question: str) -> str:
    messages = [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="large", messages=messages).choices[0].message.content or ""


def ask_small(question: str) -> str:
    messages = [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="small", messages=messages).choices[0].message.content or ""


def ask_models(question: str) -> str:
    try:
        return ask_large(question)
    except httpx.HTTPError:
        return ask_small(question)


def parse_plan(text: str) -> list[str]:
    return json.loads(text)["steps"]


def parse_settings(text: str) -> dict[str, str]:
    return json.loads(text)


def plan(question: str) -> list[str]:
    messages = [{"role": "system", "content": 'Answer as {"steps": []}.'}, {"role": "user", "content": question}]
    chosen = client.chat.completions.create(model="large", messages=messages)
    return parse_plan(chosen.choices[0].message.content or "")


def search(question: str) -> list[str]:
    for _ in range(3):
        answer = httpx.get("https://index.example", params={"q": question})
        if answer.is_success:
            return answer.json()
    raise RuntimeError("the index does not answer")


@app.post("/ask")
def ask(question: str, settings: str) -> dict[str, object]:
    parse_settings(settings)
    answer = look_up(question) or ask_models(question)
    known[question] = answer
    return {"answer": answer, "steps": plan(question), "passages": search(question)}
