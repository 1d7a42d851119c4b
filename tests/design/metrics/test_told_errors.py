"""Errors that others tell, that a library puts into words, or that a model is asked to mend have no metric."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_ASKING = """
import queue

import httpx
from fastapi import FastAPI
from openai import OpenAI
{imports}

app = FastAPI()
client = OpenAI()
found = queue.Queue()

def ask(text):
    return client.chat.completions.create(model="m", messages=[{{"role": "user", "content": text}}])

{body}

@app.post("/ask")
def answer(question: str):
    return ask("Answer from this alone: " + str(work(question)))
"""
_QUEUE = """
def work(question):
    try:
        found.put((question, httpx.get(question).raise_for_status().text))
    except Exception as error:
        found.put(({kept}, None))
    return found.get()[1]
"""
_TOOL = """
def work(question):
    return {tool}().invoke(question)
"""
_SECOND = """
def mended(text, error):
    return ask(f"Mend {{text}}, for it says {{error}}")

def worded(text, error):
    return f"Error: {{text}}, {{error}}"

def work(question):
    try:
        return httpx.get(question).raise_for_status().text
    except Exception as error:
        return {then}(question, error)
"""
_CHECK = """
from types import SimpleNamespace

def grade(text):
    return SimpleNamespace(is_good=ask(text), status=ask(text), feedback=ask(text))

def fetched(text):
    return httpx.get(text).raise_for_status()

def work(question):
    verdict = {maker}(question)
    if not verdict.is_good:
        return {{"text": f"Not good: {{verdict.feedback}}", "status": "error"}}
    return {{"text": question, "status": "success"}}
"""


def _fields(tmp_path: Path, body: str, imports: str = "", **values: str) -> set[tuple[str, str]]:
    source = _ASKING.format(imports=imports, body=body.format(**values))
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": source})))
    mine = [
        m for m in made.metrics if m.claim.get("field") in ("attributes.swallowed_errors", "attributes.answer_outcome")
    ]
    mine += [m for m in made.metrics if m.family == "service_errors"]
    return {(m.family, s.rpartition(".")[2]) for m in mine for s in m.symbols}


@pytest.mark.parametrize(("kept", "counts"), [("error", False), ("str(question)", True)])
def test_an_error_that_goes_through_a_queue_is_not_swallowed(tmp_path: Path, kept: str, counts: bool) -> None:
    assert (("swallowed_errors", "work") in _fields(tmp_path, _QUEUE, kept=kept)) is counts


@pytest.mark.parametrize(("tool", "counts"), [("TavilySearchResults", False), ("GoogleSearchRun", True)])
def test_a_tool_that_gives_its_errors_in_words_has_no_error_rate(tmp_path: Path, tool: str, counts: bool) -> None:
    imports = f"from langchain_community.tools import {tool}"
    assert (("service_errors", "work") in _fields(tmp_path, _TOOL, imports, tool=tool)) is counts


@pytest.mark.parametrize(("then", "counts"), [("mended", False), ("worded", True)])
def test_what_a_model_mends_is_no_error_text(tmp_path: Path, then: str, counts: bool) -> None:
    assert (("failure_answers", "work") in _fields(tmp_path, _SECOND, then=then)) is counts


@pytest.mark.parametrize(("maker", "counts"), [("grade", False), ("fetched", True)])
def test_a_verdict_that_the_work_is_not_good_is_no_failure(tmp_path: Path, maker: str, counts: bool) -> None:
    assert (("failure_answers", "work") in _fields(tmp_path, _CHECK, maker=maker)) is counts
