"""Constructors and factories do no work that a request could fail at; the methods beside them do."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
PROMPT = "Answer in one sentence from these passages: {passages}"


class PassageIndex:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.client = OpenAI(timeout=20)

    def search(self, question: str) -> list[float]:
        found = self.client.embeddings.create(model="small", input=question)
        return found.data[0].embedding


@dataclass
class Answerer:
    model: str
    client: OpenAI = field(init=False)

    def __post_init__(self) -> None:
        self.client = make_client("https://models.example")

    def answer(self, question: str, passages: str) -> str | None:
        prompt = PROMPT.format(passages=passages)
        messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
        return self.client.chat.completions.create(model=self.model, messages=messages).choices[0].message.content


def make_client(base_url: str) -> OpenAI:
    return OpenAI(base_url=base_url, max_retries=0)


@app.post("/ask")
def ask(question: str) -> str | None:
    passages = PassageIndex("passages").search(question)
    return Answerer("large").answer(question, str(passages))
