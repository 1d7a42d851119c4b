"""Errors of calls of models are counted once: what a handler makes of them alone is no metric beside that."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SERVER = """
import httpx
import json
import logging
import openai
from fastapi import FastAPI

app = FastAPI()
client = openai.OpenAI()

def summary(text):
%s

@app.post("/answer")
def answer(text: str):
    found = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"Answer {text} from {summary(text)} alone."}]
    )
    return found.choices[0].message.content
"""
_CALL = "client.chat.completions.create(model='m', messages=[text])"
_STREAM = "found = client.chat.completions.create(model='m', messages=[text], stream=True)\n        return list(found)"
_WORDS = ".choices[0].message.content"
_TRIED = {
    "a call alone": (False, "Exception", f"return {_CALL}{_WORDS}", "return None"),
    "a call in a context": (
        False,
        "Exception",
        f"with client.settings.context(m=1):\n            return {_CALL}{_WORDS}",
        "return None",
    ),
    "a call and a page": (
        True,
        "(openai.APIError, httpx.HTTPError)",
        f"text = httpx.get(text).text\n        return {_CALL}",
        "return None",
    ),
    "a parse of the reply": (True, "(openai.APIError, ValueError)", f"return json.loads({_CALL}{_WORDS})", "return {}"),
    "a text instead": (True, "openai.APIError as error", f"return {_CALL}{_WORDS}", 'return f"Error: {error}"'),
    "errors of the client alone": (
        False,
        "openai.BadRequestError",
        f"text = httpx.get(text).text\n        {_STREAM}",
        "return None",
    ),
    "errors of the stream of a client": (True, "openai.APIError", _STREAM, "return None"),
}


def _made(root: Path, body: str) -> Design:
    return run_design(scan_repository(write_tree(root, {"server.py": _SERVER % body})))


def _families(made: Design) -> set[str]:
    ends = ("failure_answers", "swallowed_errors", "unanswered")
    return {end for m in made.metrics for end in ends if m.family.endswith(end)}


@pytest.mark.parametrize("name", sorted(_TRIED))
def test_an_empty_answer_counts_where_more_than_a_call_of_a_model_fails(tmp_path: Path, name: str) -> None:
    counts, kind, tried, given = _TRIED[name]
    made = _made(tmp_path, f"    try:\n        {tried}\n    except {kind}:\n        {given}\n")

    assert "unanswered" in _families(made)
    assert ("failure_answers" in _families(made)) == counts


@pytest.mark.parametrize(
    "tried, then, counts",
    [
        (_CALL, "logging.warning('no')", False),
        (_CALL, _CALL.replace("model=", "tools=None, model="), True),  # a poorer answer takes its place
        ("httpx.post(text).raise_for_status()", "logging.warning('no')", True),
    ],
)
def test_a_swallowed_error_of_a_model_is_told_by_the_call(tmp_path: Path, tried: str, then: str, counts: bool) -> None:
    body = f"    try:\n        text = {tried}\n    except Exception:\n        text = {then}\n    return text\n"

    assert ("swallowed_errors" in _families(_made(tmp_path, body))) == counts


_BATCH = """
import httpx
import logging
import openai
from fastapi import FastAPI

app = FastAPI()
client = openai.OpenAI()

def page_of(address):
    return httpx.get(address).raise_for_status().text

def careful(address):
    try:
        return page_of(address)
    except Exception:
        return ""

def send(address):
    httpx.post(address).raise_for_status()

@app.post("/answer")
def answer(addresses: list):
    texts = []
    for address in {items}:
        try:
            {tried}
        except {kind}:
            {then}
    return client.chat.completions.create(
        model="m", messages=[{{"role": "user", "content": f"Answer from {{texts}} alone."}}]
    ).choices[0].message.content
"""
_LOGS = "logging.warning('left out')"


@pytest.mark.parametrize(
    "items, tried, kind, then, counts",
    [
        ("addresses", "texts.append(httpx.get(address).raise_for_status().text)", "Exception", _LOGS, True),
        ("addresses", "texts.append(careful(address))", "Exception", _LOGS, False),  # none comes here
        ("client.stream(addresses)", "send(address)", "Exception", _LOGS, False),  # pieces of one answer
        (
            "addresses",
            "send(address)",
            "httpx.HTTPError as error",
            "if str(error) == 'same':\n                continue\n            else:\n                send('else')",
            False,
        ),
    ],
)
def test_items_fail_where_their_errors_come_to_the_loop(
    tmp_path: Path, items: str, tried: str, kind: str, then: str, counts: bool
) -> None:
    text = _BATCH.format(items=items, tried=tried, kind=kind, then=then)
    made = run_design(scan_repository(write_tree(tmp_path, {"server.py": text})))

    assert any(m.family.endswith("failed_items") for m in made.metrics) == counts
