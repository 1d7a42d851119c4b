"""Handlers that take the normal course of the work, beside one that swallows an error of a request."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
from anyio import ClosedResourceError, create_memory_object_stream
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
CACHE = Path("answers")
PRICES = {"large": 0.01}


class Submitted(Exception):  # noqa: N818
    """Ends the work: the answer is there."""


def step(task: str) -> str:
    chosen = client.chat.completions.create(model="large", messages=[{"role": "user", "content": task}])
    reply = chosen.choices[0].message.content or ""
    if reply.startswith("DONE"):
        raise Submitted(reply)
    return reply


def work(task: str) -> str:
    while True:
        try:
            task = step(task)
        except Submitted as done:
            return str(done)


def score_of(reply: str) -> int:
    try:
        return int(reply.strip())
    except ValueError:
        return 0


def loop_of_this_thread() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.new_event_loop()


def remembered(question: str) -> dict[str, Any] | None:
    try:
        return json.loads((CACHE / f"{len(question)}.json").read_text())
    except (OSError, json.JSONDecodeError):
        return None


def price_of(model: str) -> float:
    try:
        return PRICES[model]
    except KeyError:
        return 0.0


def shown(reply: Any) -> str:
    try:
        return json.dumps(reply.model_dump())
    except Exception:
        return repr(reply)


def pages_of(question: str) -> list[str]:
    stream = httpx.Client(base_url="https://pages.example")
    found = stream.get("/", params={"q": question}).text
    copy = CACHE / "copy.txt"
    copy.write_text(found)
    try:
        stream.close()
        copy.unlink()
    except Exception as err:
        print(err)
    return found.splitlines()


def work_until_stopped(task: str) -> str:
    try:
        return step(task)
    except KeyboardInterrupt:
        return "stopped"


def context_of(question: str) -> str:
    try:
        return httpx.get("https://search.example", params={"q": question}).raise_for_status().text
    except httpx.HTTPError:
        return ""


def shelf_of(name: str) -> str:
    try:
        return client.vector_stores.retrieve(name).id
    except Exception:
        return client.vector_stores.create(name=name).id


def rules_of(region: str) -> str:
    copy = CACHE / f"{region}.txt"
    try:
        return copy.read_text()
    except FileNotFoundError:
        text = httpx.get("https://rules.example", params={"q": region}).raise_for_status().text
        save_copy(copy, text)
        return text


def save_copy(copy: Path, text: str) -> None:
    copy.write_text(text)


async def send_piece(channel: MemoryObjectSendStream[str], piece: str) -> None:
    try:
        await channel.send(piece)
    except ClosedResourceError:
        print("nobody reads any more")


def prices_of(region: str) -> str:
    try:
        return httpx.get("https://prices.example", params={"q": region}).raise_for_status().text
    except httpx.HTTPError:
        return httpx.get("https://old-prices.example", params={"q": region}).raise_for_status().text


def notes_of(question: str) -> list[str]:
    try:
        found = httpx.get("https://notes.example", params={"q": question}).raise_for_status()
        return [line for line in found.text.splitlines() if line]
    except Exception:
        return []


def verdict_of(reply: str) -> dict[str, Any]:
    try:
        return json.loads(reply)
    except json.JSONDecodeError:
        clean = re.sub(r"[\x00-\x1f]", "", reply)
        return json.loads(clean)


@app.post("/piece")
async def piece_of(text: str) -> None:
    channel, _ = create_memory_object_stream[str](8)
    await send_piece(channel, text)


@app.post("/ask")
def ask(question: str) -> dict[str, object]:
    known = remembered(question)
    reply = work(f"{question}\n{context_of(question)}\n{notes_of(question)}")
    return {
        "known": known,
        "answer": reply,
        "score": score_of(reply),
        "price": price_of("large"),
        "shown": shown(known),
        "shelf": shelf_of("laws"),
        "rules": [rules_of("de"), prices_of("de")],
        "pages": pages_of(question),
        "stopped": work_until_stopped(question),
        "loop": str(loop_of_this_thread()),
        "verdict": verdict_of(reply),
    }
