"""Two metrics are one where they fail on the same traces for the same reason."""

from __future__ import annotations

import json

import httpx
from fastapi import FastAPI
from openai import AsyncOpenAI

app = FastAPI()
client = AsyncOpenAI()
PLAN = 'Plan the steps. Answer as {"steps": ["..."]}.'
REPORT = 'Write the report. Answer as {"title": "...", "text": "..."}.'


async def complete(system: str, user: str) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    chosen = await client.chat.completions.create(model="large", messages=messages)
    return chosen.choices[0].message.content or ""


async def complete_logged(system: str, user: str) -> str:
    return await complete(system, user)


async def plan(question: str) -> list[str]:
    text = await complete_logged(PLAN, question)
    return read_plan(text)


def read_plan(text: str) -> list[str]:
    return json.loads(text)["steps"]


def read_report(text: str) -> dict[str, str]:
    return json.loads(text)


async def report(question: str, passages: str) -> dict[str, str]:
    text = await complete_logged(REPORT, f"{question}\n{passages}")
    return read_report(text)


async def search(question: str) -> str:
    async with httpx.AsyncClient() as session:
        return (await session.get("https://index.example", params={"q": question})).raise_for_status().text


@app.post("/report")
async def make_report(question: str) -> dict[str, object]:
    steps = await plan(question)
    return {"steps": steps, **await report(question, await search(question))}
