"""A judge needs the prompt that the model was given, and evidence that comes from outside the model."""

from __future__ import annotations

import argparse

import chromadb
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()
passages = chromadb.PersistentClient("passages").get_collection("handbook")
SYSTEM = "Answer from the passages. Cite the passage of every sentence as [n]. Say so where the passages do not tell."
parser = argparse.ArgumentParser()
parser.add_argument("--style", help="How the answer is written: be brief and friendly, and cite every source")


def chat(messages: list[dict[str, str]]) -> str:
    return client.chat.completions.create(model="large", messages=messages).choices[0].message.content or ""


def converse(messages: list[dict[str, str]]) -> str:
    return chat(messages)


def retrieve(question: str) -> list[str]:
    return passages.query(query_texts=[question], n_results=4)["documents"][0]


def answer(question: str, found: list[str]) -> str:
    system = SYSTEM + "\n".join(f"[{n}] {text}" for n, text in enumerate(found, 1))
    return chat([{"role": "system", "content": system}, {"role": "user", "content": question}])


def rewrite(question: str, text: str) -> str:
    context = chat([{"role": "user", "content": f"What is known about {question}?"}])
    return chat(
        [{"role": "system", "content": f"Improve the text with this: {context}"}, {"role": "user", "content": text}]
    )


def styled(messages: list[dict[str, str]]) -> str:
    style = parser.parse_args([]).style
    return chat(messages) if style is None else chat(messages[-1:])


def checked(messages: list[dict[str, str]]) -> str:
    text = chat(messages)
    if not text:
        raise ValueError("The answer must be helpful and cite a source; ask again with more context")
    return text


def sum_up(messages: list[dict[str, str]]) -> bool:
    asked = {"role": "system", "content": "Sum the conversation up in one sentence that the next turn can begin with."}
    summary = chat([asked, *messages])
    if not summary:
        return False
    messages[:] = [{"role": "system", "content": summary}]
    return True


QUERY = "Write a search query for the question below, three to six words. Only respond with the query, nothing else."


def query_for(question: str) -> str:
    return chat([{"role": "system", "content": QUERY}, {"role": "user", "content": question}])


def explored(question: str) -> str:
    query = query_for(question)
    found = passages.query(query_texts=[query])["documents"][0]
    return answer(question, found)


DEFAULT = "Answer the question precisely from the pages of the handbook, and say so where they do not tell: {question}"


def templated(template: str, question: str) -> str:
    try:
        prompt = template.format(question=question)
    except KeyError:
        prompt = DEFAULT.format(question=question)
    return chat([{"role": "user", "content": prompt}])


@app.post("/ask")
def ask(question: str, messages: list[dict[str, str]], template: str) -> list[str]:
    text = answer(question, retrieve(question))
    text += explored(query_for(question)) + templated(template, question)
    sum_up(messages)
    return [text, rewrite(question, text), converse(messages), styled(messages), checked(messages)]
