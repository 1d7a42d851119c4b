"""Retries that are never exhausted where they stand, beside a loop that gives up."""

from __future__ import annotations

import datetime

import httpx
from fastapi import FastAPI
from langchain_openai import ChatOpenAI

app = FastAPI()


def model_for(size: str) -> ChatOpenAI:
    if not size:
        raise ValueError("a size is needed")
    return ChatOpenAI(model=size, max_retries=3)


def birthday(messages: list[str]) -> datetime.date:
    reply = model_for("small").invoke("When is the birthday? Answer as YYYY-MM-DD.\n" + "\n".join(messages)).content
    try:
        return datetime.date.fromisoformat(str(reply))
    except ValueError:
        messages.append("That is no date.")
        return birthday(messages)


def weather(town: str) -> str:
    for attempt in range(3):
        try:
            return httpx.get("https://weather.example", params={"town": town, "attempt": attempt}).text
        except httpx.HTTPError:
            continue
    raise RuntimeError("gave up after three attempts")


def forecast(town: str) -> str:
    while True:
        try:
            return httpx.get("https://forecast.example", params={"town": town}).text
        except httpx.HTTPError:
            continue


def best_of(town: str, least: int) -> str:
    tries = 0
    best = ""
    while True:
        try:
            best = max(best, httpx.get("https://forecast.example", params={"town": town}).text)
        except httpx.HTTPError:
            continue
        if tries >= least and best != "":
            break
        tries += 1
    return best


def counted(town: str) -> str:
    tries = 0
    while True:
        try:
            return httpx.get("https://forecast.example", params={"town": town}).text
        except httpx.HTTPError:
            tries += 1
            if tries > 3:
                return "nobody knows"


@app.post("/ask")
def ask(town: str, messages: list[str]) -> str:
    return f"{weather(town)} {forecast(town)} {birthday(messages)} {best_of(town, 3)} {counted(town)}"
