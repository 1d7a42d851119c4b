"""A function that hands on the answer of a client has no check of its own; one that reads a part of it has."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_CLIENT = """
import openai


def ask(prompt):
    client = openai.OpenAI()
    reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    return reply.choices[0].message.content
"""
_SERVER = """
from fastapi import FastAPI
from app.writing import write_report

app = FastAPI()


@app.post("/report")
def report(question: str):
    return {"report": write_report(question, False)}
"""
_WRITING = """
import re
from typing import cast
from app.client import ask

PROMPT = '''You are a careful writer of reports for busy readers.
Write a report of three sentences about the question, in plain words and without headings.
Put code that answers the question between fences, and say nothing else about it.
The question: '''


class Stream:
    def __init__(self, chunks):
        self.chunks = chunks


def clean(text):
    text = text.replace("```", "")
    return text.strip()


def code_in(text):
    found = re.search("```(.*)```", text)
    return found[1] if found else ""


REPORT
"""
_HANDED_ON = {
    "cleaned by methods": "def write_report(q, is_stream):\n    said = ask(prompt=PROMPT + q)\n    return said.strip().replace('#', '')\n",
    "cleaned by a function": "def write_report(q, is_stream):\n    said = ask(prompt=PROMPT + q)\n    said = clean(said)\n    return said\n",
    "cast, or in an object": "def write_report(q, is_stream):\n    said = ask(prompt=PROMPT + q)\n    if is_stream:\n        return Stream(said)\n    text = cast(str, said)\n    return text\n",
}  # fmt: skip
_OWN = {
    "a part of it": "def write_report(q, is_stream):\n    said = ask(prompt=PROMPT + q)\n    said = code_in(said)\n    return said\n",
    "one of two": "def write_report(q, is_stream):\n    said = ask(prompt=PROMPT + q)\n    if is_stream:\n        said = code_in(q)\n    return said\n",
}  # fmt: skip


def _checked(root: Path, report: str) -> set[str]:
    files = {"app/client.py": _CLIENT, "app/server.py": _SERVER, "app/writing.py": _WRITING.replace("REPORT", report)}
    made = run_design(scan_repository(write_tree(root, files)))
    found = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    return {s for m in found if m.claim.get("present") is True for s in m.symbols}


@pytest.mark.parametrize("name", sorted(_HANDED_ON))
def test_an_answer_that_is_handed_on_is_checked_once(name: str, tmp_path: Path) -> None:
    assert _checked(tmp_path, _HANDED_ON[name]) == {"app.client.ask"}


@pytest.mark.parametrize("name", sorted(_OWN))
def test_what_may_be_missing_where_there_is_an_answer_has_a_check_of_its_own(name: str, tmp_path: Path) -> None:
    assert "app.writing.write_report" in _checked(tmp_path, _OWN[name])
