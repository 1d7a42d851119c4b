"""Limits hold for the function that keeps them, not for its neighbour."""

from __future__ import annotations

import httpx
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
MAX_PASSAGES = 5
MAX_ATTEMPTS = 3
MAX_TITLE = 60


def embed(text: str) -> list[float]:
    return client.embeddings.create(model="small", input=text, timeout=20).data[0].embedding


def write(question: str) -> str:
    messages = [{"role": "system", "content": "Write a report."}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="large", messages=messages).choices[0].message.content or ""


def search(vector: list[float]) -> list[str]:
    answer = httpx.post("https://index.example/search", json={"vector": vector, "limit": MAX_PASSAGES})
    return answer.json()["passages"]


def all_documents() -> list[str]:
    return httpx.get("https://index.example/documents").json()["documents"]


def fetch(url: str) -> str:
    for attempt in range(MAX_ATTEMPTS):
        try:
            return httpx.get(url).raise_for_status().text
        except httpx.HTTPError:
            if attempt == MAX_ATTEMPTS - 1:
                raise
    return ""


def pages(urls: list[str]) -> list[str]:
    return [fetch(url) for url in urls]


def shorten(report: str) -> str:
    return report[:MAX_TITLE]


def title(report: str) -> str:
    prompt = f"Give a title of at most {MAX_TITLE} characters."
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": report}]
    return client.chat.completions.create(model="small", messages=messages).choices[0].message.content or ""


@app.post("/report")
def report(question: str, urls: list[str]) -> dict[str, object]:
    passages = search(embed(question))
    text = write("\n".join([question, *passages, *pages(urls)]))
    return {"title": title(text), "start": shorten(text), "text": text, "documents": all_documents()}
