"""Searches that say in words that they found nothing: one metric, beside that of failures."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_TOOL = """
import requests
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def search(question):
    try:
        rows = requests.get("https://search.example", params={"q": question}, timeout=9).json()
    except requests.RequestException as error:
        return f"Error: the search failed: {error}"
    if not rows:
        return "No results found for this question."
    return "\\n".join(row["text"] for row in rows)


@app.post("/chat")
def chat(question: str):
    told = [{"role": "user", "content": search(question) + question}]
    return client.chat.completions.create(model="m", messages=told).choices[0].message.content
"""


def test_a_search_without_results_is_counted_apart_from_one_that_failed(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": _TOOL})))

    told = {m.family: m for m in made.metrics if m.family in ("failure_answers", "results_found")}
    lines = _TOOL.splitlines()
    found = {family: [lines[p.line - 1].strip() for p in m.places] for family, m in told.items()}
    assert found == {
        "failure_answers": ['return f"Error: the search failed: {error}"'],
        "results_found": ['return "No results found for this question."'],
    }
    claim = told["results_found"].claim
    assert (claim["field"], claim["limit"]) == ("attributes.retrieved_count", {"min": 1})
    assert told["results_found"].per_trace == "max", "one search of a run that finds something is enough"
    (span,) = [p for p in made.planned if p.span == "search"]
    said = {m.line: m.value for m in span.function.marks if m.field == "answer_outcome"}
    assert list(map(str, said.values())) == ["failed"], "what was not found is told by the count"
    counted = {m.line: m.value for m in span.function.marks if m.field == "retrieved_count"}
    assert (span.start["retrieved_count"], sorted(map(str, counted.values()))) == (1, ["0", "None"])


def test_a_search_that_only_fails_has_no_such_metric(tmp_path: Path) -> None:
    text = _TOOL.replace("No results found for this question.", "Error: the search is down.")
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": text})), is_bounded=False)

    assert "results_found" not in {m.family for m in made.metrics}
