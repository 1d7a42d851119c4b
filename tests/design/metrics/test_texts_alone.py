"""Clients whose calls give what the model said alone: no metric of tokens, cost or the reason why an answer ended."""

from __future__ import annotations

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SERVICE = """
import replicate
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()


@app.post("/picture")
def picture(prompt: str):
    return replicate.Client("key").run("a/b", input={"prompt": prompt})


@app.post("/answer")
def answer(prompt: str):
    return OpenAI().chat.completions.create(model="m", messages=[prompt]).choices[0].message.content
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    root = write_tree(tmp_path_factory.mktemp("s"), {"s.py": _SERVICE})
    return run_design(scan_repository(root), is_bounded=False)


@pytest.mark.parametrize("family", ["finish_reason", "model_cost"])
def test_a_text_alone_has_no_reason_and_no_cost(made: Design, family: str) -> None:
    assert {s for m in made.metrics if m.family == family for s in m.symbols} == {"s.answer"}


def test_a_text_alone_may_be_missing_or_late(made: Design) -> None:
    for family in ("output_present", "model_latency"):
        assert "s.picture" in {s for m in made.metrics if m.family.endswith(family) for s in m.symbols}
