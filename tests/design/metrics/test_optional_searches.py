"""Searches that may rightly find nothing, or that search nothing, have no count of passages."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_APP = """
import openai
from qdrant_client import QdrantClient


class Store:
    def __init__(self):
        self.client = QdrantClient()

    {methods}


def answer(question, vectors, ids, start):
    store = Store()
    told = f"Answer the question in one sentence. Items: {{{asked}}} Question: {{question}}"
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{{"role": "user", "content": told}}]
    ).choices[0].message.content
"""
_SEARCH = """def search(self, vectors):
        return self.client.search("items", vectors)
"""
_ADD = """
    def {name}(self, {given}):
        self.client.upsert("items", {given})
"""
_BY_KEY = """def search(self, vectors):
        return self.client.retrieve(collection_name="items", ids=vectors)
"""
_OF_PAGE = """def search(self, vectors, start=0):
        first = 10 * start
        return self.client.search("items", vectors, limit=10, offset={first})
"""


def _counts(root: Path, methods: str) -> bool:
    text = _APP.format(methods=methods, asked="store.search(vectors)")
    made = run_design(scan_repository(write_tree(root, {"app.py": text})), is_bounded=False)
    return any(m.family.endswith("passages_found") for m in made.metrics)


@pytest.mark.parametrize(
    ("name", "given", "is_counted"),
    [
        ("add", "documents", True),
        ("add", "golden_sqls", False),
        ("add_question_answers", "pairs", False),
        ("train_examples", "pairs", False),
        ("export_examples", "pairs", True),
        ("add_sample", "rows", True),
    ],
)
def test_a_store_of_examples_may_hold_none(name: str, given: str, is_counted: bool, tmp_path: Path) -> None:
    assert _counts(tmp_path, _SEARCH + _ADD.format(name=name, given=given)) == is_counted


@pytest.mark.parametrize(
    ("methods", "is_counted"),
    [
        (_SEARCH, True),
        (_BY_KEY, False),
        (_OF_PAGE.format(first="first"), False),
        (_OF_PAGE.format(first="0"), True),
    ],
)
def test_entries_of_known_keys_and_pages_of_a_list_are_no_passages(
    methods: str, is_counted: bool, tmp_path: Path
) -> None:
    assert _counts(tmp_path, methods) == is_counted


@pytest.mark.parametrize(
    ("name", "is_counted"), [("retrieve_feedback", False), ("few_shot_search", False), ("retrieve_pages", True)]
)
def test_a_search_of_feedback_or_of_examples_may_find_none(name: str, is_counted: bool, tmp_path: Path) -> None:
    text = _APP.format(methods=_SEARCH.replace("search(self", f"{name}(self"), asked=f"store.{name}(vectors)")
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": text})), is_bounded=False)

    assert any(m.family.endswith("passages_found") for m in made.metrics) == is_counted


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_function_that_gives_nothing_back_counts_nothing(is_counted: bool, tmp_path: Path) -> None:
    text = f"""
import threading
import httpx
import openai
from fastapi import FastAPI

app = FastAPI()
kept = []


def search_documents(question):
    rows = httpx.post("http://index/search", json={{"query": question}}).json()["rows"]
    {"return rows" if is_counted else "kept.extend(rows)"}


@app.post("/ask")
def ask(question: str):
    found = search_documents(question) or kept
    told = f"Answer in one sentence. Items: {{found}} Question: {{question}}"
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{{"role": "user", "content": told}}]
    ).choices[0].message.content
"""
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": text})), is_bounded=False)

    assert any(m.family.endswith("passages_found") for m in made.metrics) == is_counted
