"""The transcript of a trace: what its spans read and wrote, once each, in the order of time."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gapwatch.scorers.transcripts.trace_turns import TRANSCRIPT_KEYS, trace_transcript
from gapwatch.scorers.transcripts.turns import Turn, read_transcript
from tests.deploy.demo_traces import run_script
from tests.deploy.test_convert_tau2 import SCRIPT
from tests.paths import ROOT

SYSTEM = {"role": "system", "content": "Be brief."}


def span(
    component: str, kind: str | None = "llm", start: float | None = None, end: float | None = None, **texts: Any
) -> Any:
    values = dict.fromkeys(TRANSCRIPT_KEYS) | {"kind": kind} | texts
    written = {k: v if isinstance(v, str) or v is None else json.dumps(v) for k, v in values.items()}
    return SimpleNamespace(component=component, started_at=start, ended_at=end, **written)


def turns(*spans: Any) -> list[Turn]:
    text = trace_transcript(SimpleNamespace(spans=list(spans)))
    found = None if text is None else read_transcript(text)
    return [] if found is None else list(found.turns)


def said(*spans: Any) -> list[tuple[str, str]]:
    return [(turn.role, part.text) for turn in turns(*spans) for part in turn.parts]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_a_history_that_is_sent_with_each_call_is_shown_once() -> None:
    first, second = [SYSTEM, user("Hi")], [SYSTEM, user("Hi"), assistant("Hello"), user("Hi")]

    assert said(span("agent", input=first, output="Hello"), span("agent", input=second, output="Hello")) == [
        ("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Hi"), ("assistant", "Hello"),
    ]  # fmt: skip


def test_a_tool_that_is_called_twice_with_the_same_arguments_is_shown_twice() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "name": "find", "arguments": {"id": 7}}]}
    tool = {"kind": "tool", "name": "find", "input": '{"id": 7}', "output": "none"}
    shown = turns(span("agent", input=[user("Find 7")], output=[call]), span("t", **tool), span("t", **tool))

    assert [(turn.role, turn.parts[0].kind) for turn in shown] == [
        ("user", "text"), ("assistant", "tool_call"), ("tool", "tool_call_response"), ("assistant", "tool_call"),
        ("tool", "tool_call_response"),
    ]  # fmt: skip


def test_times_order_what_encloses_and_what_is_enclosed() -> None:
    whole = span("app", "chain", 1, 9, input="Where is it?", output="It left.")
    search = span("search", "retrieval", 2, 3, input="where it is", output='["doc"]')
    model = span("model", "llm", 4, 8, input='["doc"]', output="It left.")

    assert said(whole, model, search) == [
        ("user", "Where is it?"), ("input", "where it is"), ("output", '["doc"]'), ("assistant", "It left."),
    ]  # fmt: skip


def test_a_failed_step_says_its_error() -> None:
    shown = turns(span("t", "tool", name="pay", input="{}", status="error", error_type="TimeoutError"))

    assert [part.text for turn in shown for part in turn.parts] == ["{}", "TimeoutError"]


def test_a_trace_without_texts_has_no_transcript() -> None:
    assert trace_transcript(SimpleNamespace(spans=[span("agent"), span("t", "tool")])) is None


def test_a_recorded_conversation_has_the_turns_that_its_judge_was_shown() -> None:
    files = ROOT / "tests" / "data"
    recorded = json.loads(gzip.decompress((files / "judges" / "tau2_prompt.json.gz").read_bytes()))
    records = run_script(SCRIPT, Path(files / "tau2" / "airline_gpt-4o-2024-11-20.json.gz")).stdout.splitlines()
    trace = next(t for t in map(json.loads, records) if t["attributes"]["task_id"] == recorded["task_id"])
    absent = dict.fromkeys((*TRANSCRIPT_KEYS, "started_at", "ended_at"))
    spans = [SimpleNamespace(**(absent | values)) for values in trace["spans"]]
    text = recorded["judge_prompt"].split("Conversation transcript:\n")[1].split("\n\nJudging instructions:")[0]
    expected = re.split(r"(?m)^\d+\. ", text)[1:]
    shown = turns(*spans)

    assert len(shown) == len(expected) == 22
    for turn, line in zip(shown, expected, strict=True):
        (part,) = turn.parts
        if part.kind == "tool_call":
            assert line.startswith(f"Assistant TOOL CALL -> {part.name} ")
        else:
            assert part.text.strip() == line.split(": ", 1)[1].strip()
