"""Texts that no model wrote, or that a provider's protocol forms, beside the answer of a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import redis
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
known = redis.Redis()


def extra_headers() -> dict[str, Any]:
    return json.loads(os.environ["EXTRA_HEADERS"])


def pieces(question: str) -> Iterator[str]:
    with httpx.stream("POST", "https://api.openai.com/v1/chat/completions", json={"q": question}) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                piece = json.loads(line[6:])
                yield piece["choices"][0]["delta"]["content"]


def completed(question: str) -> str:
    reply = httpx.post("https://api.openai.com/v1/chat/completions", json={"q": question})
    body = json.loads(reply.text)
    return body["choices"][0]["message"]["content"]


def remembered(question: str) -> dict[str, Any]:
    return json.loads(known.get(question) or "{}")


def requested(request: str) -> dict[str, Any]:
    return json.loads(request)


def kept(question: str) -> dict[str, Any]:
    return requested(json.dumps({"question": question}))


def route(question: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Answer as JSON between fences."}, {"role": "user", "content": question}]
    text = client.chat.completions.create(model="small", messages=messages).choices[0].message.content or ""
    try:
        return json.loads(text)
    except ValueError:
        pass
    fenced = text.split("```")[1]
    return json.loads(fenced.strip())


def rank(question: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Answer as JSON between fences."}, {"role": "user", "content": question}]
    text = client.chat.completions.create(model="small", messages=messages).choices[0].message.content or ""
    try:
        return json.loads(text.strip().removeprefix("```json").removesuffix("```"))
    except ValueError as error:
        raise RuntimeError("no order of passages") from error


def plan(question: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Answer as JSON with steps."}, {"role": "user", "content": question}]
    chosen = client.chat.completions.create(model="large", messages=messages)
    return json.loads(chosen.choices[0].message.content)


def options_of(options: str) -> dict[str, Any]:
    return json.loads(options)


def settings_of(form: dict[str, str]) -> dict[str, Any]:
    return options_of(form["options"])


def sent_again(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for message in messages:
        calls = message.get("tool_calls") or []
        out.append({"role": message["role"], "input": [json.loads(c["function"]["arguments"]) for c in calls]})
    return out


def called(question: str) -> dict[str, Any]:
    chosen = client.chat.completions.create(model="large", messages=[{"role": "user", "content": question}])
    return json.loads(chosen.choices[0].message.tool_calls[0].function.arguments)


async def told_again(question: str) -> dict[str, Any]:
    told = await ask(question)
    return json.loads(told)


def steps_of(text: str) -> dict[str, Any]:
    return json.loads(text)


def steps(question: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Answer as JSON with steps."}, {"role": "user", "content": question}]
    chosen = client.chat.completions.create(model="large", messages=messages)
    return steps_of(chosen.choices[0].message.content)


@app.post("/again")
async def again(question: str, form: dict[str, str]) -> dict[str, object]:
    return {
        "settings": settings_of(form),
        "sent": sent_again([{"role": "user", "content": question}]),
        "called": called(question),
        "told": await told_again(question),
        "steps": steps(question),
    }


@app.post("/ask")
def ask(question: str) -> dict[str, object]:
    return {
        "plan": [plan(question), route(question), rank(question)],
        "pieces": list(pieces(question)),
        "completed": completed(question),
        "known": [remembered(question), kept(question), extra_headers()],
    }
