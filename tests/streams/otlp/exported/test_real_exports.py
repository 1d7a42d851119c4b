"""Exports of real programs of others, made by the scripts beside this file: they say what the model server counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gapwatch.streams.otlp.files.file_assembly import assemble_files
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.gapwatch_command import gapwatch
from tests.streams.otlp import captures

FOLDER = captures.FOLDER / "exported"
#: Four questions, of which one model failed once; the same of each export, counted by the model server.
TRUTH = {"answered": 4, "failed": 1, "input_tokens": 50, "output_tokens": 12}
EXPORTS = sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz"))
PIPELINE = {
    "phoenix_spans": "{names: {unknown_service: support}}",
    "mlflow": '{from: resource.mlflow.experiment_id, names: {"1": support}}',
}
PORTFOLIO = """\
gapwatch: 1
portfolio: support
version: 1
pipeline: support
spans: {pipeline: %s}
components: [{id: answer_question, kind: llm}]
metrics:
  - name: calls_end
    component: answer_question
    when: {field: kind, one_of: [llm]}
    claim: {form: check, field: status, one_of: [ok]}
"""


def traces_of(name: str) -> list[dict[str, Any]]:
    found = assemble_files([str(FOLDER / f"{name}.jsonl.gz")], TraceMapper())
    return [json.loads(one.envelope) for one in found if one.envelope is not None]


@pytest.mark.parametrize("name", EXPORTS)
def test_calls_of_an_export_are_those_that_the_model_server_counted(name: str) -> None:
    traces = traces_of(name)
    calls = [span for trace in traces for span in trace["spans"] if span["kind"] == "llm"]
    answered = [span for span in calls if span["status"] == "ok"]
    assert (len(traces), len(answered), len(calls) - len(answered)) == (4, TRUTH["answered"], TRUTH["failed"])
    for field in ("input_tokens", "output_tokens"):
        assert sum(span["usage"][field] for span in answered) == TRUTH[field]
    assert all(json.loads(span["output"])["answer"].startswith("answer ") for span in answered)
    assert {span["component"] for span in calls} == {"answer_question"}
    assert sorted(span["tier"] for span in answered) == ["fallback", "primary", "primary", "primary"]
    assert {trace["session_id"] for trace in traces} == {"s-0", "s-1"}
    assert all(trace["attributes"]["complete"] for trace in traces)
    documents = [
        span["attributes"]["documents"] for trace in traces for span in trace["spans"] if span["kind"] == "retrieval"
    ]
    assert len(documents) == 4
    assert all("what is known of" in one for one in documents)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_replayed(name: str, tmp_path: Path) -> None:
    portfolio, store = tmp_path / "p.yaml", tmp_path / "s.duckdb"
    portfolio.write_text(PORTFOLIO % PIPELINE[name])
    done = gapwatch("replay", str(FOLDER / f"{name}.jsonl.gz"), "--portfolio", portfolio, "--store", store, "--quiet")
    assert done.status == 0, done.err
    gaps = gapwatch("gaps", "--store", store, "--format", "json")
    assert gaps.status == 0, gaps.err
    assert gaps.out.count("calls_end") >= 1
