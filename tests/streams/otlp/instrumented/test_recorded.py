"""Programs with real instrumentors, recorded by `record.py`: their calls are those that the model server counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapwatch.streams.otlp.files.file_assembly import assemble_files
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp import captures
from tests.streams.otlp.instrumented.test_instrumented import INSTRUMENTORS, assert_counted

FOLDER = captures.FOLDER / "recorded"
#: Those that are too large to install for each run.
LARGE = {
    "openinference-langchain": ("answer_question", True),
    "openinference-agents": ("answerer", True),
    "openinference-litellm": ("answer_question", True),
    "openinference-dspy": ("answer_question", True),
    "openinference-llama-index": ("answer_question", True),
    "traceloop": ("answer_question", True),
}
#: Without gRPC, whose requests are the same bytes.
RECORDED = {**{name: one for name, one in INSTRUMENTORS.items() if not name.endswith("-grpc")}, **LARGE}


def traces_of(name: str) -> list[dict[str, Any]]:
    found = assemble_files([str(FOLDER / f"{name}.jsonl.gz")], TraceMapper())
    return [json.loads(one.envelope) for one in found if one.envelope is not None]


@pytest.mark.parametrize("name", RECORDED)
def test_calls_of_a_real_instrumentor_are_those_that_the_model_server_counted(name: str) -> None:
    truth = json.loads((FOLDER / "truth.json").read_text())[name]
    if name == "openinference-dspy":  # it sends no tokens
        truth |= {"input_tokens": None, "output_tokens": None}
    assert_counted(traces_of(name), *RECORDED[name], truth)


def test_a_call_that_the_client_reports_too_has_the_content_of_the_instrumentor() -> None:
    # The Anthropic client makes spans itself, without content; OpenInference's is around it, OpenLLMetry's beside it.
    for name in ("openinference-anthropic", "openllmetry-anthropic"):
        for trace in traces_of(name):
            (answered,) = [one for one in trace["spans"] if one["kind"] == "llm" and one["status"] == "ok"]
            (wrapper,) = [
                one for one in trace["spans"] if "reported_input_tokens" in one.get("attributes", {})
            ]  # fmt: skip
            assert wrapper["kind"] == "chain"
            assert json.loads(answered["output"])["answer"].startswith("answer ")
            assert json.loads(answered["input"])[0]["content"].startswith("question ")
