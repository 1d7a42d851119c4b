"""An empty answer is a reply of a model that came and says nothing; a call that raised has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_APP = """
import httpx
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()


def ask(question):
    told = [{{"role": "system", "content": "{prompt}"}}, {{"role": "user", "content": question}}]
    return {call}


@app.post("/ask")
def answer(question: str):
    return {{"answer": ask(question)}}
"""
_KNOWN = 'OpenAI().chat.completions.create(model="m", messages=told).choices[0].message.content'
_UNKNOWN = 'httpx.post("https://api.openai.com/v1/chat/completions", json={"messages": told}).json()["text"]'


def _made(root: Path, prompt: str = "Answer the question in one sentence.", call: str = _KNOWN) -> Design:
    return run_design(scan_repository(write_tree(root, {"app.py": _APP.format(prompt=prompt, call=call)})))


def test_a_reply_that_says_nothing_fails_and_one_that_never_came_has_no_value(tmp_path: Path) -> None:
    made = _made(tmp_path)
    (metric,) = [m for m in made.metrics if m.family == "answer_present"]

    assert metric.claim == {"form": "check", "field": "attributes.model_reply", "matches": r"\S", "optional": True}
    assert metric.spans == ["ask"]
    (span,) = [s for s in made.planned if s.span == "ask"]
    assert span.start["model_reply"] is None
    assert [m.action for m in span.function.marks if m.field == "reply"] == ["reply"]


def test_a_client_whose_replies_nobody_records_has_no_such_check(tmp_path: Path) -> None:
    made = _made(tmp_path, call=_UNKNOWN)

    assert made.has_model
    assert not [m for m in made.metrics if m.family.endswith("answer_present")]


@pytest.mark.parametrize(
    ("prompt", "is_checked"),
    [
        ("Write a further question. If none is needed, return an empty string.", False),
        ("Correct the text. If it is right, respond with nothing.", False),
        ("Answer the question. Never return an empty list of facts.", True),
    ],
)
def test_a_model_that_may_say_nothing_is_not_checked(prompt: str, is_checked: bool, tmp_path: Path) -> None:
    families = {m.family for m in _made(tmp_path, prompt).metrics}
    assert ("answer_present" in families) == is_checked


def test_what_steps_give_back_waits_on_the_shelf(tmp_path: Path) -> None:
    made = _made(tmp_path)

    shelved = [s.metric for s in made.selection.shelf if s.metric.family.endswith("output_present")]
    assert {m.claim["field"] for m in shelved} == {"output"}
    assert not [m for m in made.metrics if m.claim.get("field") == "output"]
