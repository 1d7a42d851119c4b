"""A status says nothing where a handler inside the span takes the error; it does where the error leaves the span."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator

import httpx
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def optional_context(question: str) -> list[str]:
    try:
        return httpx.get("https://search.example", params={"q": question}).raise_for_status().json()
    except httpx.HTTPError:
        return []


def required_context(question: str) -> list[str]:
    try:
        return httpx.get("https://laws.example", params={"q": question}).raise_for_status().json()
    except httpx.HTTPError as error:
        raise HTTPException(502, "the index of laws does not answer") from error


def settings_of(reply: str) -> dict[str, object]:
    try:
        return json.loads(reply)
    except ValueError:
        return {}


def weather(town: str) -> str | None:
    try:
        return httpx.get("https://weather.example", params={"q": town}).raise_for_status().text
    except Exception as error:
        if "timeout" in str(error).lower():
            raise TimeoutError("the weather takes too long") from error
    return None


def traffic(town: str) -> str | None:
    try:
        return httpx.get("https://traffic.example", params={"q": town}).raise_for_status().text
    except Exception as error:
        if "404" not in str(error):
            raise
    return None


def answer_events(question: str) -> Iterator[str]:
    try:
        yield complete(question)
    except Exception as error:
        yield f"event: error\ndata: {error}\n\n"


def complete(question: str) -> str:
    chosen = client.chat.completions.create(model="large", messages=[{"role": "user", "content": question}])
    return chosen.choices[0].message.content or ""


def remember(question: str) -> None:
    with contextlib.suppress(httpx.HTTPError):
        httpx.post("https://history.example", json={"question": question}).raise_for_status()


def book(question: str) -> None:
    httpx.post("https://billing.example", json={"question": question}).raise_for_status()


async def all_pages(urls: list[str]) -> list[httpx.Response | BaseException]:
    async with httpx.AsyncClient() as session:
        return await asyncio.gather(*(session.get(url) for url in urls), return_exceptions=True)


async def every_page(urls: list[str]) -> list[httpx.Response]:
    async with httpx.AsyncClient() as session:
        return await asyncio.gather(*(session.get(url) for url in urls))


@app.post("/ask")
async def ask(question: str, urls: list[str]) -> StreamingResponse:
    found = [*optional_context(question), *required_context(question)]
    pages = [*await all_pages(urls), *await every_page(urls)]
    remember(question)
    settings_of(question)
    weather(question)
    traffic(question)
    book(question)
    return StreamingResponse(answer_events(f"{question}\n{found}\n{pages}"))
