"""Outputs that are never empty, or empty by design, beside outputs whose emptiness is a loss."""

from __future__ import annotations

from dataclasses import dataclass

import chromadb
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
passages = chromadb.PersistentClient("passages").get_collection("handbook")
TOPICS = ("pay", "leave", "travel")


@dataclass
class Verdict:
    """What is said of an answer."""

    words: str
    is_sure: bool


def context_text(found: list[str]) -> str:
    if not found:
        return "No passage was found."
    return "\n".join(found)


def answer_text(question: str, context: str) -> str | None:
    prompt = f"Answer from these passages only:\n{context}"
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="large", messages=messages).choices[0].message.content


def warnings_of(answer: str) -> list[str]:
    """Return what the answer must not say; most answers have none."""
    return [word for word in ("guarantee", "legal advice") if word in answer]


def retrieve(question: str) -> list[str]:
    """Return passages; every question of the handbook has some."""
    found = passages.query(query_texts=[question], n_results=4)
    return found["documents"][0]


def topic_of(question: str) -> str:
    for topic in TOPICS:
        if topic in question:
            return topic
    return "general"


def title_of(question: str) -> str | None:
    messages = [{"role": "system", "content": "Give a title of three words."}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="small", messages=messages).choices[0].message.content


def keep(question: str, answer: str) -> None:
    passages.add(documents=[answer], ids=[question])


def translate(answer: str) -> str | None:
    messages = [{"role": "system", "content": "Translate into French."}, {"role": "user", "content": answer}]
    return client.chat.completions.create(model="small", messages=messages).choices[0].message.content


def verdict_from(reply: str | None) -> Verdict:
    return Verdict(reply or "", reply is not None)


def verdict_on(answer: str) -> Verdict:
    messages = [{"role": "system", "content": "Judge this answer."}, {"role": "user", "content": answer}]
    try:
        reply = client.chat.completions.create(model="small", messages=messages).choices[0].message.content
    except Exception:
        return verdict_from(None)
    return verdict_from(reply)


def pieces_of(question: str) -> object:
    messages = [{"role": "system", "content": "Answer piece by piece."}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="large", messages=messages, stream=True)


def marked(answer: str) -> tuple[str | None, bool]:
    try:
        messages = [{"role": "system", "content": "Give a mark from 1 to 5."}, {"role": "user", "content": answer}]
        reply = client.chat.completions.create(model="small", messages=messages)
    except TimeoutError:
        return None, False
    return reply.choices[0].message.content, True


def is_right(answer: str) -> bool:
    messages = [{"role": "system", "content": "Say yes where the text is right."}, {"role": "user", "content": answer}]
    reply = client.chat.completions.create(model="small", messages=messages)
    return reply.choices[0].message.content == "yes"


@app.post("/ask")
def ask(question: str) -> dict[str, object]:
    answer = answer_text(question, context_text(retrieve(question))) or ""
    keep(question, answer)
    return {
        "answer": translate(answer),
        "title": title_of(question),
        "topic": topic_of(question),
        "warnings": warnings_of(answer),
        "verdict": verdict_on(answer),
        "pieces": pieces_of(question),
        "mark": marked(answer),
        "right": is_right(answer),
    }
