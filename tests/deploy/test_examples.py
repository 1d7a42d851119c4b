"""The other recordings: other dialects, no telemetry, a monitor instead of an agent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.loading.load import load_portfolio
from tests.deploy.demo_traces import (
    EXAMPLES,
    SAMPLES,
    converted,
    envelope_faults,
    ledger_of,
    run_script,
    scored,
    units_of,
)

LANGFUSE = (EXAMPLES / "langfuse" / "convert_langfuse.py", SAMPLES / "langfuse" / "traces.jsonl.gz")
TAU_BENCH = (EXAMPLES / "tau_bench" / "convert_tau_bench.py", SAMPLES / "tau_bench" / "gpt-4o-airline.json.gz")
AUTOGPT = (
    EXAMPLES / "autogpt" / "convert_autogpt.py",
    *(SAMPLES / "autogpt" / f"{name}.jsonl.gz" for name in ("agent_steps", "judge_calls", "judge_runs")),
)
ALL = {"langfuse": LANGFUSE, "tau_bench": TAU_BENCH, "autogpt": AUTOGPT}
Json = dict[str, Any]


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.mark.parametrize("name", ALL)
def test_the_envelopes_are_sound_and_the_same_each_time(name: str) -> None:
    traces = converted(*ALL[name])

    assert traces
    assert [fault for trace in traces for fault in envelope_faults(trace)] == []
    assert run_script(*ALL[name]).stdout == run_script(*ALL[name]).stdout


@pytest.mark.parametrize("name", ALL)
def test_the_engine_reads_them_by_the_portfolio_beside_the_converter(name: str) -> None:
    portfolio = EXAMPLES / name / "portfolio.yaml"
    traces = converted(*ALL[name])
    result = scored(portfolio, traces)

    assert ledger_of(result, None) == {"read": len(traces)}
    applied = [metric.name for metric in load_portfolio(portfolio).metrics if ledger_of(result, metric.name)]
    assert applied == [metric.name for metric in load_portfolio(portfolio).metrics]


# ---- langfuse ----


def test_an_observation_becomes_a_span_with_its_parent() -> None:
    for exported, trace in zip(lines(LANGFUSE[1]), converted(*LANGFUSE), strict=True):
        parents = {o["id"]: o["parentObservationId"] for o in exported["data"]["observations"]}

        assert {span["span_id"]: span.get("parent_id") for span in trace["spans"]} == parents


def test_the_span_lasts_as_long_as_its_times_say_whatever_the_unit_of_the_latency() -> None:
    slowest = {}
    for trace in converted(*LANGFUSE):
        seconds = [span["ended_at"] - span["started_at"] for span in trace["spans"] if span["kind"] == "llm"]
        slowest[trace["attributes"]["name"]] = max(seconds)

    assert slowest["joke-generator"] < 3  # its export says 1707
    assert max(slowest.values()) < 15


def test_what_a_framework_did_not_report_is_absent() -> None:
    generations = [s for trace in converted(*LANGFUSE) for s in trace["spans"] if s["component"] == "generation"]

    assert {"finish_reason" in span["attributes"] for span in generations} == {True, False}
    assert not any(value is None for span in generations for value in span["usage"].values())


def test_a_trace_that_comes_twice_is_read_twice() -> None:
    ids = [trace["trace_id"] for trace in converted(*LANGFUSE)]

    assert (len(ids), len(set(ids))) == (10, 9)


# ---- tau-bench: no telemetry ----


def test_no_time_no_token_no_cost_and_no_model_is_made_up() -> None:
    for trace in converted(*TAU_BENCH):
        assert not {"started_at", "ended_at"} & trace.keys()
        for span in trace["spans"]:
            assert not {"started_at", "ended_at", "usage", "model"} & span.keys()


def test_absent_is_not_failing() -> None:
    result = scored(EXAMPLES / "tau_bench" / "portfolio.yaml", converted(*TAU_BENCH))
    blind = ("agent_call_succeeds", "reply_latency", "agent_cost", "conversation_seconds", "conversation_tokens")

    assert {name: set(ledger_of(result, name)) for name in blind} == {name: {"unknown"} for name in blind}
    assert set(ledger_of(result, "model_named")) == {"skip"}
    assert {tick["bucket"] for tick in result.tables["ticks"].to_pylist()} == {None}


def test_what_can_be_seen_without_telemetry_is_seen() -> None:
    traces = converted(*TAU_BENCH)
    result = scored(EXAMPLES / "tau_bench" / "portfolio.yaml", traces)
    errors = [s["output"] for trace in traces for s in trace["spans"] if s.get("status") == "error"]

    assert errors
    assert all(error.startswith("Error") for error in errors)
    assert ledger_of(result, "tool_calls_succeed")["fail"] == len(errors)
    assert units_of(result, "task_done").get("good") == sum(trace["attributes"]["reward"] for trace in traces)


# ---- autogpt: a monitor ----


def test_a_decision_is_right_when_bad_steps_stop_and_good_ones_run() -> None:
    for trace in converted(*AUTOGPT):
        facts = trace["attributes"]

        assert facts["right"] == (facts["stopped"] == facts["inserted"])


def test_what_is_stopped_agrees_with_the_source_where_it_says_so() -> None:
    calls = lines(SAMPLES / "autogpt" / "judge_calls.jsonl.gz")
    stopped = [trace["attributes"]["stopped"] for trace in converted(*AUTOGPT)]
    said = [(call["type"] in ("TP", "FP"), was) for call, was in zip(calls, stopped, strict=True) if "type" in call]

    assert said
    assert all(source == was for source, was in said)


def test_a_step_that_the_whitelist_stopped_was_never_judged_and_has_no_time() -> None:
    by_rule = [t for t in converted(*AUTOGPT) if all(span["component"] != "judge" for span in t["spans"])]

    assert by_rule
    for trace in by_rule:
        assert [(span["component"], span["output"]) for span in trace["spans"]] == [("whitelist", "stopped")]
        assert trace["attributes"]["stopped"] is True


def test_a_release_is_the_prompt_of_the_monitor() -> None:
    releases = {trace["release"] for trace in converted(*AUTOGPT)}

    assert "bare" in releases
    assert any("few_shot" in release for release in releases)
    assert any("few_shot" not in release and "scoring" in release for release in releases)
