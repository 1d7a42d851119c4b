"""A search counts where the recorders count what it finds, and a model reads it in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_APP = """
from fastapi import FastAPI
from openai import OpenAI
from qdrant_client import QdrantClient, AsyncQdrantClient
from azure.search.documents import SearchClient

app = FastAPI()
store = QdrantClient()
other = AsyncQdrantClient()
pages = SearchClient()


{search}


@app.post("/ask")
def ask(question: str):
    {use}
    told = [{{"role": "user", "content": f"Answer in one sentence: {{question}} {sent}"}}]
    return OpenAI().chat.completions.create(model="m", messages=told).choices[0].message.content
"""
_USE, _SENT = "found = search_pages(question)", "{found}"
_FINDS = """
def search_pages(question):
    return store.search("pages", question)
"""
_OF_LIST = """
async def search_pages(question):
    found = await other.search("pages", question)
    return [hit.payload["text"] for hit in found]
"""
_OF_PAGER = """
def search_pages(question):
    return pages.search(search_text=question)
"""
_READ_PAGER = """
def search_pages(question):
    found = []
    for page in pages.search(search_text=question):
        found.append(page["text"])
    return found
"""
_OF_PAIR = """
def looked_up(question):
    found = [hit for hit in pages.search(search_text=question)]
    return found, len(found)


def search_pages(question):
    found, number = looked_up(question)
    return found, number
"""
_OF_MAILS = """
def search_emails(question):
    return [hit for hit in pages.search(search_text=question)]


def search_pages(question):
    return search_emails(question)
"""
_CHANGES = """
def create_page(question):
    return [hit for hit in pages.search(search_text=question)]


def search_pages(question):
    return create_page(question)
"""
_DROPS = """
def search_pages(question):
    return [hit for hit in store.search("pages", question, score_threshold=0.7)]
"""
_OF_OBJECT = """
class Answer:
    def __init__(self, text):
        self.text = text


async def search_pages(question) -> Answer:
    return Answer(await other.search("pages", question))
"""
_LOOKS_UP = """
def get_pages(question):
    return [hit for hit in pages.search(search_text="*")]


def search_pages(question):
    return get_pages(question)
"""


def _made(root: Path, search: str, use: str = _USE, sent: str = _SENT, further: str = "") -> Design:
    text = _APP.format(search=search, use=use, sent=sent) + further
    return run_design(scan_repository(write_tree(root, {"app.py": text})))


@pytest.mark.parametrize(
    ("search", "is_counted"),
    [
        (_FINDS, True),
        (_OF_LIST, True),
        (_READ_PAGER, True),
        (_OF_PAIR, True),
        (_OF_PAGER, False),
        (_OF_OBJECT, False),
        (_DROPS, False),
        (_LOOKS_UP, False),
        (_OF_MAILS, False),
        (_CHANGES, False),
    ],
    ids=[
        "a watched client",
        "a list",
        "a pager that is read",
        "a list and its length",
        "a pager",
        "an object",
        "a threshold",
        "a look-up",
        "mails",
        "a change",
    ],
)
def test_what_can_be_counted_and_must_be_found_is_counted(search: str, is_counted: bool, tmp_path: Path) -> None:
    made = _made(tmp_path, search)

    found = [m for m in made.metrics if m.family == "passages_found"]
    assert bool(found) == is_counted
    assert all((m.per_trace, m.claim["limit"]) == ("max", {"min": 1}) for m in found)


def test_what_no_model_reads_is_not_counted(tmp_path: Path) -> None:
    page = """

@app.get("/pages")
def browse(word: str):
    return search_pages(word)
"""
    for number, (use, is_counted) in enumerate(((_USE, True), ("found = question", False))):
        made = _made(tmp_path / str(number), _FINDS, use, further=page)
        assert bool([m for m in made.metrics if m.family == "passages_found"]) == is_counted


_TOOL = """
import requests
from langchain_core.tools import tool


@tool
def search_web(question: str):
    \"\"\"Search the web.\"\"\"
    rows = requests.get("https://search.example", params={"q": question}, timeout=9).json()
    if not rows:
        return "No results found for this question."
    return "\\n".join(row["text"] for row in rows)
"""


def test_searches_that_are_counted_and_those_that_say_it_are_one_metric(tmp_path: Path) -> None:
    tree = {"app/main.py": _APP.format(search=_FINDS, use=_USE, sent=_SENT), "app/tools/web.py": _TOOL}
    tree["app/agent.py"] = """
from langchain.chat_models import init_chat_model
from langgraph.prebuilt import create_react_agent

from app.main import app
from app.tools.web import search_web

agent = create_react_agent(init_chat_model("openai:gpt-4.1"), [search_web])


@app.post("/talk")
def talk(question: str):
    return agent.invoke({"messages": [("user", question)]})
"""
    made = run_design(scan_repository(write_tree(tmp_path, tree)))

    (metric,) = [m for m in made.metrics if m.claim.get("field") == "attributes.retrieved_count"]
    assert (metric.spans, metric.per_trace) == (["search_pages", "search_web"], "max")
    plans = {p.span: p for p in made.planned}
    assert plans["search_pages"].start["retrieved_count"] == "of_result"
    assert plans["search_web"].start["retrieved_count"] == 1
    assert [m.value for m in plans["search_web"].function.marks if m.field == "retrieved_count"] == [0]


_SERVICE = """
import chromadb
from fastapi import FastAPI

app = FastAPI()
chunks = chromadb.Client().get_or_create_collection("chunks")


@app.post("/query")
def query(question: str):
    found = search(question)
    return found


def search(question: str) -> list:
    return chunks.query(query_texts=[question], n_results=3)["documents"][0]
"""
_CHAT = """

import openai


@app.post("/chat")
def chat(question: str):
    return openai.OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
"""


def test_a_service_that_only_searches_shows_its_users_what_it_finds(tmp_path: Path) -> None:
    alone = run_design(scan_repository(write_tree(tmp_path / "a", {"app.py": _SERVICE})))
    beside = run_design(scan_repository(write_tree(tmp_path / "b", {"app.py": _SERVICE + _CHAT})))

    assert [m.symbols for m in alone.metrics if m.family.endswith("passages_found")] == [["app.search"]]
    assert not [m for m in beside.metrics if m.family.endswith("passages_found")], "a person reads what it finds"
