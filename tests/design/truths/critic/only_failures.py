"""Functions that only put an error into words, beside those that give the words back as an answer."""

from __future__ import annotations

import json

from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def as_event(detail: str) -> str:
    return json.dumps({"type": "error", "message": detail})


def as_apology(detail: str) -> dict[str, str]:
    return {"error": detail, "message": "Sorry, that did not work."}


def answer(question: str) -> str:
    try:
        chosen = client.chat.completions.create(model="large", messages=[{"role": "user", "content": question}])
        return chosen.choices[0].message.content
    except Exception as error:
        return as_event(str(error))


def answered(question: str) -> dict[str, str]:
    try:
        chosen = client.chat.completions.create(model="small", messages=[{"role": "user", "content": question}])
        return {"message": chosen.choices[0].message.content}
    except Exception as error:
        return as_apology(str(error))


@app.post("/ask")
def ask(question: str) -> list[object]:
    return [answer(question), answered(question)]
