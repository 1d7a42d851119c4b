"""The other recordings: other dialects, no telemetry, a monitor instead of an agent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.streams.otlp.files.file_assembly import assemble_files
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
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

LANGFUSE = SAMPLES / "langfuse" / "traces.jsonl.gz"
TAU_BENCH = (EXAMPLES / "tau_bench" / "convert_tau_bench.py", SAMPLES / "tau_bench" / "gpt-4o-airline.json.gz")
AUTOGPT = (
    EXAMPLES / "autogpt" / "convert_autogpt.py",
    *(SAMPLES / "autogpt" / f"{name}.jsonl.gz" for name in ("agent_steps", "judge_calls", "judge_runs")),
)
CONVERTED = {"tau_bench": TAU_BENCH, "autogpt": AUTOGPT}
Json = dict[str, Any]


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def mapped() -> list[Json]:
    """The exported traces of Langfuse, by the mapping of their portfolio."""
    mapper = TraceMapper.of([load_portfolio(EXAMPLES / "langfuse" / "portfolio.yaml")])
    closed = assemble_files([str(LANGFUSE)], mapper)
    return [json.loads(one.envelope) for one in closed if one.envelope is not None]


def envelopes_of(name: str) -> list[Json]:
    return mapped() if name == "langfuse" else converted(*CONVERTED[name])


@pytest.mark.parametrize("name", ["langfuse", *CONVERTED])
def test_the_envelopes_are_sound(name: str) -> None:
    traces = envelopes_of(name)

    assert traces
    assert [fault for trace in traces for fault in envelope_faults(trace)] == []


@pytest.mark.parametrize("name", CONVERTED)
def test_a_converter_writes_the_same_each_time(name: str) -> None:
    assert run_script(*CONVERTED[name]).stdout == run_script(*CONVERTED[name]).stdout


@pytest.mark.parametrize("name", ["langfuse", *CONVERTED])
def test_the_engine_reads_them_by_their_portfolio(name: str) -> None:
    portfolio = EXAMPLES / name / "portfolio.yaml"
    traces = envelopes_of(name)
    result = scored(portfolio, traces)

    assert ledger_of(result, None) == {"read": len(traces)}
    applied = [metric.name for metric in load_portfolio(portfolio).metrics if ledger_of(result, metric.name)]
    assert applied == [metric.name for metric in load_portfolio(portfolio).metrics]


# ---- langfuse ----


def exported() -> dict[str, Json]:
    """Exported observations by the id of their trace and their own."""
    return {f"{one['traceId']}/{one['id']}": one for trace in lines(LANGFUSE) for one in trace["data"]["observations"]}


def steps() -> dict[str, Json]:
    return {f"{trace['trace_id']}/{span['span_id']}": span for trace in mapped() for span in trace["spans"]}


def test_an_observation_becomes_a_span_with_its_parent() -> None:
    assert {key: span.get("parent_id") for key, span in steps().items()} == {
        key: one["parentObservationId"] for key, one in exported().items()
    }


def test_a_model_call_has_the_tokens_and_the_model_of_its_observation() -> None:
    calls = {key: span for key, span in steps().items() if span["kind"] == "llm"}
    observations = exported()

    assert calls
    for key, call in calls.items():
        details = observations[key]["usageDetails"]
        assert call.get("usage", {}).get("input_tokens") == details.get("input")
        assert call.get("usage", {}).get("output_tokens") == details.get("output")
        assert call.get("model") is not None or observations[key]["model"] is None


def test_an_observation_of_a_model_that_is_no_call_repeats_a_call() -> None:
    found = steps()
    wrappers = [
        found[key] for key, one in exported().items() if one["type"] == "GENERATION" and found[key]["kind"] != "llm"
    ]

    assert all(wrapper["kind"] in ("chain", "other") and "usage" not in wrapper for wrapper in wrappers)


def test_the_span_lasts_as_long_as_its_times_say_whatever_the_unit_of_the_latency() -> None:
    calls = [span for span in steps().values() if span["kind"] == "llm"]

    assert max(span["ended_at"] - span["started_at"] for span in calls) < 15  # one export says 1707 of a joke


def test_a_trace_that_was_exported_twice_is_one_trace() -> None:
    assert (len(lines(LANGFUSE)), len(mapped())) == (10, 9)


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
