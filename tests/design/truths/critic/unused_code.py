"""Command lines for debugging, offline scripts and code that nothing calls, beside what requests run."""

from __future__ import annotations

import argparse

import chromadb
import click
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
passages = chromadb.PersistentClient("passages").get_collection("handbook")
PROMPT = "Answer from these passages: {passages}"


def search(question: str) -> list[str]:
    return passages.query(query_texts=[question], n_results=4)["documents"][0]


def answer(question: str, found: list[str]) -> str | None:
    prompt = PROMPT.format(passages=found)
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="large", messages=messages).choices[0].message.content


def answer_as_before(question: str, found: list[str]) -> str | None:
    messages = [{"role": "user", "content": f"{found}\n{question}"}]
    return client.chat.completions.create(model="old", messages=messages).choices[0].message.content


def check(text: str) -> bool:
    flagged = client.moderations.create(input=text).results[0].flagged
    return not flagged


@app.post("/ask")
def ask(question: str) -> str | None:
    if not check(question):
        return "This question is refused."
    return answer(question, search(question))


@click.command(hidden=True)
@click.argument("question")
def show_prompt(question: str) -> None:
    messages = [{"role": "user", "content": question}]
    click.echo(client.chat.completions.create(model="large", messages=messages).choices[0].message.content)


def fill_index(folder: str) -> None:
    passages.add(documents=[folder], ids=[folder])


def trial() -> str | None:
    messages = [{"role": "user", "content": "Who are you?"}]
    return client.chat.completions.create(model="large", messages=messages).choices[0].message.content


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fill the index again, then try one question.")
    parser.add_argument("folder")
    fill_index(parser.parse_args().folder)
    print(trial())
