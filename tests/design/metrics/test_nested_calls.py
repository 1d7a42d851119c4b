"""The same call is counted once: tokens in the innermost client, tries where they end, texts where they are written."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_CLIENT = """
import {module}

class Client({module}.{base}):
    def invoke(self, messages):
        return super().invoke(messages)

def make():
    return Client(model="m")
"""
_NODES = """
from app.client import make
{more}

def write_report(state):
    tools = [print]
    llm = {made}
    answer = llm.bind_tools(tools).invoke("Write a report of the question: " + state["question"])
    return {{"report": answer.content}}

def review_report(state):
    llm = make()
    return {{"review": llm.invoke("Review this report in one sentence: " + state["report"]).content}}

def answer(question):
    state = write_report({{"question": question}})
    return review_report(state)
"""
_MIXED = """
import openai

class Completions:
    def create(self, **params):
        return openai.OpenAI().chat.completions.create(**params)

class Chat:
    def __init__(self):
        self.completions = Completions()

class OwnClient:
    def __init__(self):
        self.chat = Chat()

class Model:
    def __init__(self, kind):
        if kind == "own":
            self.client = OwnClient()
        else:
            self.client = openai.AzureOpenAI()

    def ask(self, question):
        return self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])

def answer(question):
    return Model("own").ask("Answer in one sentence: " + question).choices[0].message.content
"""
_TRIED = """
import functools
import openai
from tenacity import retry, stop_after_attempt

def conditional_retry(func):
    @functools.wraps(func)
    def wrapper(*args):
        @retry(stop=stop_after_attempt(3))
        def attempt():
            return func(*args)
        return attempt()
    return wrapper

@conditional_retry
def ask(question):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Answer in one sentence: " + question}]
    ).choices[0].message.content

def answer(question):
    return ask(question)
"""
_HARMLESS = """
import json
import logging

import httpx
import openai
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import _handle_openai_bad_request

def plan(question):
    found = ChatOpenAI(model="m").bind_tools([print]).invoke("Plan how to answer: " + question)
    topic = question
    try:
        for tool_call in found.tool_calls:
            topic = tool_call.get("args", {}).get("topic", topic)
    except Exception:
        logging.exception("no topic")
    return topic

def ask(question):
    try:
        return openai.OpenAI().chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Answer in one sentence: " + question}]
        ).choices[0].message.content
    except openai.BadRequestError as error:
        _handle_openai_bad_request(error)

def pieces(question):
    for word in ask(question).split():
        yield json.dumps({"delta": word})
    yield {"data": "done"}

def remember(question):
    try:
        httpx.post("https://memory.example", json={"q": question}).raise_for_status()
    except Exception:
        logging.exception("not remembered")

def answer(question):
    remember(question)
    text = ""
    for piece in pieces(plan(question)):
        read = json.loads(piece)
        text += read["delta"]
    return text
"""


def _metrics(root: Path, **files: str) -> list[MetricDesign]:
    tree = {f"app/{name}.py": text for name, text in files.items()}
    made = run_design(scan_repository(write_tree(root, {"app/__init__.py": "", **tree})), is_bounded=False)
    return made.metrics


def _functions(metrics: list[MetricDesign], field: str) -> set[str]:
    return {s.removeprefix("app.") for m in metrics if m.claim.get("field") == field for s in m.symbols}


def test_tokens_are_counted_in_the_client_that_extends_the_model_of_the_library(tmp_path: Path) -> None:
    client = _CLIENT.format(module="langchain_openai", base="ChatOpenAI")
    found = _metrics(tmp_path, client=client, nodes=_NODES.format(more="", made="make()"))

    assert _functions(found, "usage.cost_usd") == {"client.Client.invoke"}
    assert "nodes.write_report" in _functions(found, "attributes.finish_reason")


def test_tokens_are_counted_where_any_model_of_the_library_is_asked(tmp_path: Path) -> None:
    client = _CLIENT.format(module="langchain_openai", base="ChatOpenAI")
    nodes = _NODES.format(more="from langchain_core.language_models import BaseChatModel", made="make()")
    nodes = nodes.replace(
        "def review_report(state):\n    llm = make()", "def review_report(state, llm: BaseChatModel):"
    )
    found = _metrics(
        tmp_path, client=client, nodes=nodes.replace("review_report(state)", "review_report(state, make())")
    )

    assert "client.Client.invoke" not in _functions(found, "usage.cost_usd")
    assert "nodes.review_report" in _functions(found, "usage.cost_usd")


def test_a_model_of_the_library_that_is_used_by_itself_is_counted_where_it_is_called(tmp_path: Path) -> None:
    client = _CLIENT.format(module="langchain_openai", base="ChatOpenAI")
    made = "ChatOpenAI(model='m')"
    found = _metrics(
        tmp_path, client=client, nodes=_NODES.format(more="from langchain_openai import ChatOpenAI", made=made)
    )

    assert "nodes.write_report" in _functions(found, "usage.cost_usd")


def test_clients_of_a_library_and_of_the_repository_are_counted_where_both_are_called(tmp_path: Path) -> None:
    assert _functions(_metrics(tmp_path, model=_MIXED), "usage.cost_usd") == {"model.Model.ask"}


def test_the_function_that_a_decorator_tries_again_does_not_count_the_tries_itself(tmp_path: Path) -> None:
    found = _functions(_metrics(tmp_path, model=_TRIED), "attributes.retry_outcome")

    assert found == {"model.conditional_retry.wrapper.attempt"}


def test_what_cannot_fail_and_what_always_raises_is_no_swallowed_error(tmp_path: Path) -> None:
    found = _metrics(tmp_path, model=_HARMLESS)

    assert _functions(found, "attributes.swallowed_errors") == {"model.remember"}
    assert not _functions(found, "attributes.parsed_text")


_NORMAL = """
import logging

import httpx
import openai
import sqlglot
from fastapi import FastAPI

app = FastAPI()

class StopLoopException(Exception):
    pass

def watch(address):
    try:
        return [httpx.get(address).raise_for_status() for _ in range(9)]
    except (ConnectionResetError, StopLoopException):
        pass

def names(text):
    try:
        return sqlglot.parse_one(text)
    except Exception:
        logging.exception("not parsed")

def recall(question):
    try:
        from memories import Store
        Store().save(question)
    except Exception:
        from app.files import save
        save(question)

def remember(question):
    try:
        httpx.post("https://memory.example", json={"q": question}).raise_for_status()
    except Exception:
        logging.exception("not remembered")

def add_message(question):
    return httpx.post("https://messages.example", json={"q": question}).raise_for_status().json()["id"]

def ask(question):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Answer in one sentence: " + question}]
    ).choices[0].message.content

def relation(question):
    if len(question) < 3:
        return None
    return {"type": "FOREIGN_KEY", "constraint": f"FOREIGN KEY ({question})", "tables": [question]}

@app.post("/ask")
def answer(question: str):
    try:
        message_id = add_message(question)
    except Exception as error:
        logging.warning("not stored: %s", error)
        message_id = None
    watch(question)
    names(question)
    recall(question)
    remember(question)
    return {"answer": ask(question + str(relation(question))), "id": message_id}

@app.post("/again")
def answer_again(question: str):
    try:
        text = ask(question)
    except Exception:
        logging.exception("no answer")
        text = None
    return text
"""
_CALLERS = """
from app.client import make

def write_report(question):
    return make().invoke("Write a report of the question: " + question).content

def answer(question):
    return write_report(question)
"""


def test_the_normal_course_is_no_failure_and_its_bad_twin_is(tmp_path: Path) -> None:
    found = _metrics(tmp_path, model=_NORMAL, files="def save(text):\n    print(text)\n")

    assert _functions(found, "attributes.swallowed_errors") == {"model.remember"}
    assert _functions(found, "attributes.request_outcome") == {"model.answer_again"}
    assert "model.relation" not in _functions(found, "attributes.answer_outcome")


def test_who_hands_on_the_answer_of_one_of_several_clients_has_no_check_of_its_own(tmp_path: Path) -> None:
    first = _CLIENT.format(module="langchain_openai", base="ChatOpenAI")
    second = _CLIENT.format(module="langchain_anthropic", base="ChatAnthropic").replace("class Client", "class Other")
    made = "import os\nfrom app.second import Client as Second\n" + first.replace(
        'return Client(model="m")', 'return Client(model="m") if os.environ.get("KIND") else Second(model="m")'
    )
    second = second.replace("class Other", "class Client")
    found = _metrics(tmp_path, client=made, second=second, nodes=_CALLERS)

    present = [m for m in found if m.claim.get("present") is True]
    assert {s for m in present for s in m.symbols} == {"app.client.Client.invoke", "app.second.Client.invoke"}


_REQUESTS = """
import openai
import requests
import streamlit as st
from fastapi import FastAPI

app = FastAPI()

def read_page(address):
    reply = requests.post("https://reader.example", json={"url": address})
    return reply.text

def read_checked(address):
    reply = requests.post("https://checked.example", json={"url": address})
    reply.raise_for_status()
    return reply.text

def ask(question):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Answer in one sentence: " + question}]
    ).choices[0].message.content

@app.post("/ask")
def answer(question: str):
    return ask(question + read_page(question) + read_checked(question))

def page(host):
    client = openai.OpenAI(base_url=f"{host}/ask")
    st.write(client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": st.text_input("Question")}]
    ).choices[0].message.content)
"""


def test_a_reply_whose_status_nobody_reads_and_a_page_of_the_server_are_not_counted(tmp_path: Path) -> None:
    found = _metrics(tmp_path, model=_REQUESTS)

    assert _functions(found, "usage.cost_usd") == {"model.ask"}
    raising = {s for m in found if m.family == "service_errors" for s in m.symbols}
    assert "app.model.read_checked" in raising and "app.model.read_page" not in raising
