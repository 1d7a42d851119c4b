"""Two metrics are one where they fail on the same traces for the same reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

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


async def pieces(question: str) -> AsyncIterator[str]:
    messages = [{"role": "user", "content": question}]
    async for piece in await client.chat.completions.create(model="large", messages=messages, stream=True):
        yield piece.choices[0].delta.content or ""


async def sent_pieces(question: str) -> AsyncIterator[str]:
    async for piece in pieces(question):
        yield piece


async def headlines(question: str) -> AsyncIterator[str]:
    messages = [{"role": "user", "content": f"Headlines of {question}"}]
    async for piece in await client.chat.completions.create(model="small", messages=messages, stream=True):
        yield piece.choices[0].delta.content or ""


async def prices() -> str:
    async with httpx.AsyncClient() as session:
        return (await session.get("https://prices.example")).raise_for_status().text


async def prices_or_note() -> str:
    try:
        return await prices()
    except httpx.HTTPError:
        return "The prices cannot be read."


async def laws(question: str) -> str:
    async with httpx.AsyncClient() as session:
        return (await session.get("https://laws.example", params={"q": question})).raise_for_status().text


async def laws_and_comments(question: str) -> str:
    try:
        return await laws(question) + await search(question)
    except httpx.HTTPError:
        return ""


async def translated(text: str) -> str:
    words = f"Translate into English: {text}"
    return await complete("Translate.", words)


async def shortened(text: str) -> str:
    answer = await complete("Shorten.", text)
    return answer.partition("SHORT:")[2].strip()


@app.post("/report")
async def make_report(question: str) -> dict[str, object]:
    steps = await plan(question)
    steps += [await prices_or_note(), await laws_and_comments(question), await translated(question)]
    steps.append(await shortened(question))
    told = [piece async for piece in sent_pieces(question)] + [piece async for piece in headlines(question)]
    return {"steps": steps, "told": told, **await report(question, await search(question))}
