"""The benchmark of real applications: its expectations name phases that there are, and its server of models answers."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml

from tests.benchmarks.instrumented.model_server import ANSWER, ModelServer, model_server
from tests.benchmarks.instrumented_applications import HERE

APPLICATIONS = yaml.safe_load((HERE / "applications.yaml").read_text())
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}}}


@pytest.mark.parametrize("told", APPLICATIONS, ids=lambda told: told["name"])
def test_expectations_name_phases_and_programs_that_there_are(told: dict[str, Any]) -> None:
    phases = [phase["name"] for phase in told["phases"]]

    assert len(phases) == len(set(phases))
    assert {m["fails"] for m in told["metrics"].values() if "fails" in m} <= set(phases)
    assert all((HERE / told[key]).exists() for key in ("program", "prepare") if key in told)


def _asked(server: ModelServer, path: str, **body: Any) -> Any:
    request = urllib.request.Request(server.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as reply:
        data = reply.read()
    return data.decode() if body.get("stream") else json.loads(data or "{}")


def test_the_server_answers_by_the_form_of_the_request_and_faults_as_the_phase_says() -> None:
    question: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "when?"}]}
    wanted = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
    with model_server() as server:
        text = _asked(server, "/chat/completions", **question)["choices"][0]
        server.begin({"name": "tools", "tools": [["look", {"a": 1}]], "values": {"why": "x"}})
        call = _asked(server, "/chat/completions", **question, tools=[TOOL])["choices"][0]
        made = _asked(server, "/chat/completions", **question, response_format=wanted)["choices"][0]
        streamed = _asked(server, "/chat/completions", **question, stream=True)
        server.begin({"name": "cut", "fault": "cut", "where": "when?", "times": 1})
        cut, whole = (_asked(server, "/chat/completions", **question)["choices"][0] for _ in range(2))
        server.begin({"name": "down", "fault": "error"})
        with pytest.raises(urllib.error.HTTPError, match="500"):
            _asked(server, "/chat/completions", **question)

    assert (text["message"]["content"], text["finish_reason"]) == (ANSWER, "stop")
    assert call["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"a": 1}'}
    assert json.loads(made["message"]["content"]) == {"ok": False, "why": "x"}
    assert streamed.count("data: ") > 3
    assert streamed.endswith("data: [DONE]\n\n")
    assert (cut["finish_reason"], whole["finish_reason"]) == ("length", "stop")
