"""Libraries that the mapping was not made with: they come through by the general rules, to the token."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from gapwatch.streams.otlp.files.file_assembly import assemble_files
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp import captures

#: Calls that the model server answered and failed; each answer was of 41 and 9 tokens.
SERVER = {
    "agno": (2, 1),
    "langsmith": (1, 1),
    "litellm": (1, 1),
    "logfire_openai": (1, 1),
    "openlit": (1, 1),
    "smolagents": (3, 0),
    "strands": (2, 1),
    "two_instrumentors": (2, 1),
}
ANSWER = "The weather in Rome is sunny."


@cache
def _spans(name: str) -> tuple[dict[str, Any], ...]:
    path = str(captures.FOLDER / "further" / f"{name}.jsonl.gz")
    closed = [one.envelope for one in assemble_files([path], TraceMapper())]
    return tuple(span for envelope in closed if envelope is not None for span in json.loads(envelope)["spans"])


@pytest.mark.parametrize("name", SERVER)
def test_calls_and_tokens_are_those_of_the_model_server(name: str) -> None:
    calls = [span for span in _spans(name) if span["kind"] == "llm"]
    answered = [call for call in calls if call["status"] == "ok"]
    usage = [call["usage"] for call in answered]
    assert (len(answered), len(calls) - len(answered)) == SERVER[name]
    assert [(one["input_tokens"], one["output_tokens"]) for one in usage] == [(41, 9)] * len(answered)
    assert sum("usage" in span for span in _spans(name)) == len(answered)


@pytest.mark.parametrize("name", SERVER)
def test_inputs_and_outputs_have_their_normal_form(name: str) -> None:
    answered = [span for span in _spans(name) if span["kind"] == "llm" and span["status"] == "ok"]
    for call in answered:
        assert {message.keys() == {"role", "content"} for message in json.loads(call["input"])} == {True}
    outputs = {call["output"] for call in answered}
    assert ANSWER in outputs
    for output in outputs - {ANSWER}:
        assert json.loads(output) == [{"name": "get_weather", "arguments": {"city": "Rome"}}]
    failed = [span for span in _spans(name) if span["kind"] == "llm" and span["status"] == "error"]
    assert not any("output" in call for call in failed)
    assert all("error_type" in call for call in failed)


@pytest.mark.parametrize("name", ["agno", "strands"])
def test_a_tool_has_its_arguments_and_its_result(name: str) -> None:
    (tool,) = [span for span in _spans(name) if span["kind"] == "tool"]
    assert (tool["component"], json.loads(tool["input"]), tool["output"]) == (
        "get_weather", {"city": "Rome"}, "sunny in Rome",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["langsmith", "litellm", "logfire_openai", "openlit", "two_instrumentors"])
def test_a_call_belongs_to_the_step_that_a_person_named(name: str) -> None:
    assert {span["component"] for span in _spans(name) if span["kind"] == "llm"} == {"answer_question"}


def test_a_library_without_spans_of_model_calls_has_none() -> None:
    assert sorted(span["kind"] for span in _spans("autogen")) == ["agent", "agent", "tool"]
