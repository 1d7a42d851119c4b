"""Loops that ask a model until its answer will do, and give up at a limit; shapes that are such loops, and others."""

# ruff: noqa: E501 - one case a line reads as a table

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import no_progress
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, read_code, run_design
from tests.design.source_tree import write_tree

_HEAD = "import logging\nfrom openai import OpenAI\nclient = OpenAI()\ndef ask(text):\n    return client.chat.completions.create(model='m', messages=[text]).choices[0].message.content\n"
_FIRST = _HEAD.count("\n")

#: Name: (line of the loop from the fixture's own first line, the fixture).
LOOPS = {
    "rounds of a talk, then an exception": (3, "def plan(topic, limit):\n    most = limit\n    for i in range(most):\n        said = ask(topic)\n        if 'PLAN' in said:\n            return said\n        topic += said\n    raise RuntimeError('no plan within the limit')\n"),
    "rounds, then a text": (2, "def plan(topic):\n    for step in range(5):\n        said = ask(topic)\n        if 'PLAN' in said:\n            return said\n    return 'No plan was made.'\n"),
    "rounds, then one of two": (2, "def plan(topic, strict, max_steps):\n    for _ in range(max_steps):\n        said = ask(topic)\n        if 'PLAN' in said:\n            return said\n    if strict:\n        raise RuntimeError('no plan')\n    return ''\n"),
    "a count of its own": (3, "def plan(topic, most):\n    n = 0\n    while n < most:\n        n += 1\n        said = ask(topic)\n        if said.startswith('{'):\n            return said\n    logging.error('no plan')\n    return ''\n"),
    "a break, then a check": (2, "def plan(topic):\n    for _ in range(4):\n        said = ask(topic)\n        if said:\n            break\n    else:\n        pass\n    if not said:\n        logging.warning('no plan')\n    return said\n"),
}  # fmt: skip

OTHERS = {
    "each of some things": "def plan(topics):\n    for i in range(len(topics)):\n        said = ask(topics[i])\n        if said:\n            return said\n    raise RuntimeError('no topic')\n",
    "an index": "def plan(topics, max_topics):\n    for i in range(max_topics):\n        said = ask(topics[i])\n        if said:\n            return said\n    raise RuntimeError('no topic')\n",
    "it always makes so many": "def plan(topic, max_steps):\n    texts = []\n    for _ in range(max_steps):\n        texts.append(ask(topic))\n    return texts\n",
    "no model": "def plan(topic, max_steps):\n    for _ in range(max_steps):\n        if topic.is_read():\n            return topic\n    raise RuntimeError('no topic')\n",
    "the normal course behind it": "def plan(topic, max_steps):\n    for _ in range(max_steps):\n        said = ask(topic)\n        if 'DONE' in said:\n            break\n        topic += said\n    return topic\n",
}  # fmt: skip


def limits(root: Path, source: str) -> list[int]:
    """Return the lines of the loops with a limit, counted from the fixture's own first line."""
    code = read_code(
        scan_repository(write_tree(root, {"worker.py": _HEAD + source})), (), default_catalog(), no_progress
    )
    return [h.line - _FIRST for h in code.hits if h.pattern == "has_retry_loop" and h.kind == "limit"]


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_loop_that_gives_up_is_found(name: str, tmp_path: Path) -> None:
    line, source = LOOPS[name]

    assert limits(tmp_path, source) == [line]


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_loop_that_does_not_give_up_is_none(name: str, tmp_path: Path) -> None:
    assert limits(tmp_path, OTHERS[name]) == []


def _exhausted(made: Design) -> MetricDesign:
    every = [*made.metrics, *(one.metric for one in made.selection.shelf)]
    (metric,) = [m for m in every if m.family == "retries_exhausted"]
    return metric


SERVED = "from fastapi import FastAPI\napp = FastAPI()\n"


def test_its_metric_fails_where_the_code_says_that_it_gave_up(tmp_path: Path) -> None:
    source = SERVED + _HEAD + LOOPS["rounds, then a text"][1].replace("def plan", "@app.post('/plan')\ndef plan")
    made = run_design(scan_repository(write_tree(tmp_path, {"worker.py": source})))

    assert _exhausted(made).claim["not"] == {"one_of": ["exhausted"]}
    (span,) = [p for p in made.planned if p.symbol.endswith(".plan")]
    last = source.splitlines().index("    return 'No plan was made.'") + 1
    marks = [(m.line, m.value) for m in span.function.marks if m.field == "retry_outcome"]
    assert marks == [(last, "exhausted")]
    assert not [m for m in made.metrics if m.family == "failure_answers"], "one line counts in one metric"


def test_a_handler_that_gives_up_by_itself_says_so_at_its_own_line(tmp_path: Path) -> None:
    source = (
        SERVED
        + _HEAD
        + """
@app.post('/plan')
def plan(topic: str):
    for attempt in range(1, 4):
        try:
            return ask(topic)
        except OSError as error:
            if error.errno == 5 and attempt < 3:
                logging.warning('again')
                continue
            return f'{topic} is away for now'
    raise RuntimeError('never here')
"""
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"worker.py": source})), is_bounded=False)

    (span,) = [p for p in made.planned if p.symbol.endswith(".plan")]
    gives_up = source.splitlines().index("            return f'{topic} is away for now'") + 1
    assert (gives_up, "exhausted") in [(m.line, m.value) for m in span.function.marks if m.field == "retry_outcome"]


def test_a_loop_whose_only_bad_end_is_an_error_of_its_calls_has_no_metric_of_its_ends(tmp_path: Path) -> None:
    source = (
        SERVED
        + _HEAD
        + """
def run_tool(call):
    return call


@app.post('/work')
def work(topic: str):
    while True:
        said = ask(topic)
        if 'DONE' in said:
            break
        topic += run_tool(said)
    return topic
"""
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"worker.py": source})), is_bounded=False)

    assert [m.family for m in made.metrics if m.family.startswith("agent_")] == ["agent_steps"]
