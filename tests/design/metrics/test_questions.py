"""A question quotes a line of code that a metric which it decides rests on."""

from __future__ import annotations

import re
from pathlib import Path

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
