"""A function that only makes objects of what it is given, beside one that asks a service."""

from __future__ import annotations

import httpx
from fastapi import FastAPI
from langchain_core.messages import AIMessage, HumanMessage

app = FastAPI()


def history_of(said: list[dict[str, str]]) -> list[HumanMessage | AIMessage]:
    history: list[HumanMessage | AIMessage] = []
    for one in sorted(said, key=lambda entry: entry["at"]):
        made = HumanMessage(content=one["text"]) if one["by"] == "user" else AIMessage(content=one["text"])
        history.append(made)
    return history


def passages_of(question: str) -> str:
    return httpx.get("https://index.example", params={"q": question}).raise_for_status().text


@app.post("/ask")
def ask(question: str, said: list[dict[str, str]]) -> str:
    return f"{passages_of(question)} {history_of(said)}"
