"""A question quotes a line of code that a metric which it decides rests on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_PROGRAM = """
import json
import logging

import httpx
import openai

def read_settings(path):
    try:
        return json.load(open(path))
    except FileNotFoundError:
        logging.info("no settings")

def remember(question):
    try:
        httpx.post("https://memory.example", json={"q": question}).raise_for_status()
    except Exception:
        logging.exception("not remembered")

def answer(question):
    read_settings("settings.json")
    remember(question)
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Answer in one sentence: " + question}]
    ).choices[0].message.content
"""


def test_a_question_quotes_a_line_of_a_metric_that_it_decides(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": _PROGRAM})), is_bounded=False)
    metrics = {m.name: m for m in made.metrics}

    (question,) = [q for q in made.questions if q.id.endswith("-default")]
    quoted = re.match(r"app\.py:(\d+)-\d+: except", question.why)
    places = [p for name in question.decides for p in metrics[name].places]
    assert quoted is not None, question.why
    assert int(quoted[1]) in {p.line for p in places}
    assert _PROGRAM.splitlines()[int(quoted[1]) - 2].startswith("def remember")


@pytest.mark.parametrize(
    ("told", "is_asked"),
    [
        ("If the context does not contain the answer, say so.", True),
        ("Say that you don't know where you are not sure.", True),
        ("Insufficient or limited information makes a bad report, so ask for more of it.", False),
        ("Never refuse to complete the task, and do your absolute best.", False),
    ],
)
def test_abstaining_is_asked_about_where_a_prompt_tells_what_to_do_then(
    told: str, is_asked: bool, tmp_path: Path
) -> None:
    text = f"You answer questions of customers about their orders in one short sentence. {told} The question: "
    program = _PROGRAM.replace("Answer in one sentence: ", text)
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": program})), is_bounded=False)

    assert any(m.source == "judge" for m in made.metrics)
    assert any(q.id.endswith("-abstain") for q in made.questions) == is_asked
