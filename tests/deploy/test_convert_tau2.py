"""The converter of tau2-bench results: one span a message, nothing made up."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.demo_traces import SAMPLES, converted, envelope_faults, run_script
from tests.paths import AIRLINE

SCRIPT = AIRLINE / "convert_tau2.py"
FILES = sorted((SAMPLES / "tau2").glob("*.json.gz"))
GPT_4O, GROK, QWEN, TWO_TIER = FILES
Json = dict[str, Any]


def source(path: Path) -> list[Json]:
    content = json.loads(gzip.decompress(path.read_bytes()))
    return content if isinstance(content, list) else content["simulations"]


def spans(traces: list[Json], component: str) -> list[Json]:
    return [span for trace in traces for span in trace["spans"] if span["component"] == component]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_message_becomes_a_span_of_a_sound_envelope(path: Path) -> None:
    traces = converted(SCRIPT, path)

    assert [fault for trace in traces for fault in envelope_faults(trace)] == []
    messages = {simulation["id"]: simulation["messages"] for simulation in source(path)}
    assert {trace["trace_id"]: len(trace["spans"]) for trace in traces} == {
        key: len(value) for key, value in messages.items()
    }
    for trace in traces:
        said = [message.get("content") or "" for message in messages[trace["trace_id"]]]
        assert [span["output"] for span in trace["spans"]] == said


def test_the_same_input_gives_the_same_bytes() -> None:
    assert run_script(SCRIPT, *FILES).stdout == run_script(SCRIPT, *FILES).stdout


def test_a_span_starts_when_the_one_before_it_ended() -> None:
    for trace in converted(SCRIPT, *FILES):
        ends = [trace["started_at"], *(span["ended_at"] for span in trace["spans"])]

        assert [span["started_at"] for span in trace["spans"]] == ends[:-1]


def test_a_tool_span_hangs_under_the_reply_that_called_it() -> None:
    for trace in converted(SCRIPT, *FILES):
        calls = {
            call["id"]: (span["span_id"], call["name"], call["arguments"])
            for span in trace["spans"]
            for call in span["attributes"].get("tool_calls", [])
        }
        tools = [span for span in trace["spans"] if span["component"] == "tools"]

        assert {t["attributes"]["call_id"]: (t["parent_id"], t["name"], t["input"]) for t in tools} == calls


def test_an_unknown_price_is_no_cost_and_not_zero() -> None:
    assert all(span["usage"]["cost_usd"] > 0 for span in spans(converted(SCRIPT, GPT_4O), "agent"))
    free_of_charge = spans(converted(SCRIPT, QWEN, TWO_TIER), "agent")
    assert free_of_charge
    assert all(set(span["usage"]) == {"input_tokens", "output_tokens"} for span in free_of_charge)


def test_rejected_replies_are_counted_only_where_the_harness_records_them() -> None:
    counted = [span["attributes"]["rejected_replies"] for span in spans(converted(SCRIPT, QWEN), "agent")]

    assert set(counted) == {0, 1}
    assert not any("rejected_replies" in span["attributes"] for span in spans(converted(SCRIPT, GPT_4O), "agent"))


def test_tiers_are_named_only_where_two_models_answer() -> None:
    tiers = {(span["model"], span["tier"]) for span in spans(converted(SCRIPT, TWO_TIER), "agent")}

    assert tiers == {("claude-opus-4-6", "primary"), ("claude-sonnet-4-6", "fallback")}
    assert not any("tier" in span for span in spans(converted(SCRIPT, QWEN, GPT_4O), "agent"))


def test_hard_tasks_are_another_population() -> None:
    (hard,) = converted(SCRIPT, GROK)

    assert (hard["environment"], hard["release"], hard["pipeline"]) == ("hard", "grok-3", "airline-agent")
    assert all("environment" not in trace for trace in converted(SCRIPT, QWEN))


def test_an_invented_identifier_is_not_among_those_seen() -> None:
    tools = spans(converted(SCRIPT, QWEN), "tools")
    first = next(tool for tool in tools if tool["attributes"]["ids"] == ["1234567890"])

    assert first["attributes"]["seen_ids"] == []
    assert (first["status"], first["error_type"]) == ("error", "tool_error")


def test_what_a_customer_or_a_tool_named_has_been_seen() -> None:
    tools = [tool for tool in spans(converted(SCRIPT, GPT_4O), "tools") if "ids" in tool["attributes"]]

    assert tools
    for tool in tools:
        seen = json.dumps(tool["attributes"]["seen_ids"]).lower()
        assert all(name.lower() in seen for name in tool["attributes"]["ids"]), tool


def test_an_error_message_teaches_no_identifier() -> None:
    traces = converted(SCRIPT, QWEN)
    failed = next(span for span in spans(traces, "tools") if span["output"] == "Error: User 1234567890 not found")
    trace = next(trace for trace in traces if failed in trace["spans"])
    later = trace["spans"][trace["spans"].index(failed) + 1 :]

    assert not any("1234567890" in span.get("attributes", {}).get("seen_ids", []) for span in later)


def test_the_greeting_is_no_model_call() -> None:
    for trace in converted(SCRIPT, *FILES):
        greetings = [span for span in trace["spans"] if span["component"] == "greeting"]

        assert [(span["kind"], "usage" in span, "model" in span) for span in greetings] == [("other", False, False)]


def test_the_way_a_conversation_ended_and_its_reward_are_trace_attributes() -> None:
    by_task = {trace["attributes"]["task_id"]: trace["attributes"] for trace in converted(SCRIPT, QWEN)}

    assert by_task["11"]["termination_reason"] == "agent_error"
    assert by_task["11"]["reward"] == 0
    assert "ended_by_customer" not in by_task["11"]
    assert by_task["5"]["termination_reason"] == "user_stop"


def test_a_file_without_domain_and_set_up_in_its_name_is_refused(tmp_path: Path) -> None:
    nameless = tmp_path / "results.json"
    nameless.write_text('{"simulations": []}')
    done = run_script(SCRIPT, nameless)

    assert done.returncode == 1
    assert "results.json: expected a name like airline_gpt-4.1.json.gz" in done.stderr


def test_without_a_file_it_says_how_it_is_used() -> None:
    done = run_script(SCRIPT)

    assert done.returncode == 2
    assert "convert_tau2.py FILE.json.gz..." in done.stdout
