"""Answers whose prompt shows how to cite are checked for a citation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gapwatch.design.metrics.citations import citation_pattern
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree


@pytest.mark.parametrize(
    ("prompt", "cited", "uncited"),
    [
        (
            "Answer from the passages and cite them by their number, for example [1] or [2][3].",
            "So it is [2].",
            "So it is.",
        ),
        (
            "Cite your sources by the document number in square brackets.",
            "It opened in 1887 [12].",
            "It opened [then].",
        ),
        ("Cite search results using [${{number}}] notation.", "Yes [${3}].", "Yes."),
        ("Add citations as markdown links: [title](https://page).", "See [it](https://a.b).", "See [it]."),
    ],
)
def test_an_answer_that_cites_as_its_prompt_shows_matches(prompt: str, cited: str, uncited: str) -> None:
    pattern = citation_pattern(prompt)

    assert pattern is not None
    assert re.search(pattern, cited) and not re.search(pattern, uncited)


@pytest.mark.parametrize(
    "prompt",
    [
        "Answer in three sentences.",
        "Was the call right? Cite the figure.",
        "Don't cite the source id; the files are [1] and [2].",
        "Return a list such as [1, 2].",
    ],
)
def test_a_prompt_that_shows_no_form_or_wants_no_citations_has_none(prompt: str) -> None:
    assert citation_pattern(prompt) is None


_APP = """
import chromadb
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
pages = chromadb.Client().get_collection("pages")
PROMPT = "Answer the question from these passages alone, and cite them by their number like [1]: {passages}"


@app.post("/ask")
def ask(question: str):
    found = pages.query(query_texts=[question], n_results=3)["documents"][0]
    prompt = PROMPT.format(passages=found)
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
    return OpenAI().chat.completions.create(model="gpt-4.1", messages=messages).choices[0].message.content
"""


def _citations(root: Path, source: str) -> list[MetricDesign]:
    made = run_design(scan_repository(write_tree(root, {"app.py": source})))
    return [m for m in made.metrics if m.family == "citations_given"]


def test_the_reply_of_the_function_that_sends_the_prompt_is_checked(tmp_path: Path) -> None:
    (metric,) = _citations(tmp_path, _APP)

    assert metric.symbols == ["app.ask"]
    assert metric.claim["field"] == "attributes.model_reply" and metric.claim["optional"]
    assert [place.line for place in metric.places] == [16, 8]


def test_a_prompt_without_citations_has_no_such_metric(tmp_path: Path) -> None:
    assert _citations(tmp_path, _APP.replace(", and cite them by their number like [1]", "")) == []
