"""Each trap of the conventions that a real capture shows."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.streams.otlp import captures


@pytest.mark.parametrize(
    ("name", "wrapper", "call"),
    [
        ("oi-litellm-failover", "completion", "acompletion"),
        ("vercel5-failover", "ai.generateText", "ai.generateText.doGenerate"),
        ("vercel6-failover", "ai.streamText", "ai.streamText.doStream"),
        ("oi-llama-rag", "OpenAI.predict", "OpenAI.chat"),
    ],
)
def test_a_wrapper_that_repeats_the_tokens_of_its_call_is_no_call(name: str, wrapper: str, call: str) -> None:
    assert {step["kind"] for step in captures.steps(name, name=wrapper)} == {"chain"}
    assert {step["kind"] for step in captures.steps(name, name=call)} == {"llm"}
    assert not any("usage" in step for step in captures.steps(name, name=wrapper))


def test_what_a_wrapper_reports_stays_in_its_attributes() -> None:
    wrapper = next(step for step in captures.steps("oi-litellm-failover", name="completion"))
    assert wrapper["attributes"]["reported_input_tokens"] == 43
    assert wrapper["attributes"]["reported_cost_usd"] == pytest.approx(6.68e-05)


def test_an_agent_that_reports_the_sum_of_its_calls_has_no_usage() -> None:
    agents = captures.steps("vercel7-failover", kind="agent")
    assert agents
    assert not any("usage" in agent for agent in agents)
    assert any(agent.get("attributes", {}).get("reported_input_tokens") == 677 for agent in agents)


def test_of_nested_model_spans_the_one_with_tokens_is_kept_where_the_inner_one_says_less() -> None:
    outer, inner = captures.steps("lf3-agent", name="ChatOpenAI"), captures.steps("lf3-agent", name="OpenAI-generation")
    assert {step["kind"] for step in outer} == {"llm"}
    assert Counter(step["kind"] for step in inner) == {"llm": 6, "chain": 3}


def test_a_failed_attempt_below_the_call_that_answered_is_a_call_of_its_own() -> None:
    failed = captures.steps("pyd-failover", kind="llm", status="error")
    assert [(call["model"], call["error_type"], call["tier"]) for call in failed] == [
        ("gpt-4.1", "ModelRateLimitError", "primary"),
        ("gpt-4.1", failed[1]["error_type"], "primary"),
    ]
    assert len(captures.steps("pyd-failover", tier="fallback")) == 2


def test_a_span_of_kind_llm_in_which_no_model_was_called_is_no_call() -> None:
    prepared = captures.steps("oi-llama-agent", name="OpenAI._prepare_chat_with_tools")
    assert [step["kind"] for step in prepared] == ["other"] * 6


@pytest.mark.parametrize("name", ["oi-openai-crash", "tl-old-crash", "mlflow-rag-failover"])
def test_a_trace_whose_root_never_came_says_so(name: str) -> None:
    rootless = [one["attributes"] for one in captures.envelopes(name).values() if "root" not in one["attributes"]]
    assert rootless
    assert not any(attributes["complete"] for attributes in rootless)


def test_content_that_is_off_is_absent_and_not_empty() -> None:
    assert not any("input" in step or "output" in step for step in captures.steps("otel-v2-plain", kind="llm"))
    assert not any("input" in step for step in captures.steps("otel-v2-failover", kind="llm"))


@pytest.mark.parametrize("name", ["otel-v2-old-failover", "otel-v2-events"])
def test_content_in_log_records_is_joined_to_its_span(name: str) -> None:
    summary = captures.assembled(name)[1]
    assert summary.counts["log_record.joined."] == captures.truth()[name]["log_records"]
    whole = [call for call in captures.steps(name, kind="llm") if "input" in call]
    assert whole
    assert all(json.loads(call["input"])[0]["role"] == "system" for call in whole)
    answered = [call for call in captures.steps(name, kind="llm", status="ok") if "output" in call]
    assert "Helmets are free with every hire and come in sizes S, M and L. [doc-5]" in {c["output"] for c in answered}


def test_the_repr_of_an_object_stays_a_text() -> None:
    calls = captures.steps("oi-llama-agent", name="OpenAI.achat")
    assert all(call["output"].startswith(("[", "Done", "I")) for call in calls)
    documents = [step.get("attributes", {}).get("documents", "") for step in captures.steps("oi-llama-rag")]
    assert not any('"content":"<' in text for text in documents)


def test_tokens_from_the_cache_are_part_of_the_input() -> None:
    calls = [step for step in captures.steps("lf3-agent", name="ChatOpenAI") if step["kind"] == "llm"]
    assert [call["usage"]["input_tokens"] for call in calls] == [130, 186, 242]
    assert [call["attributes"]["cached_tokens"] for call in calls] == [65, 93, 121]


def test_a_cost_of_zero_is_absent() -> None:
    failed = captures.steps("lf3-rag-failover", kind="llm", status="error")
    assert len(failed) == 2
    assert not any("cost_usd" in call.get("usage", {}) for call in failed)


@pytest.mark.parametrize("name", ["tl-old-rag", "oi-llama-rag"])
def test_a_streamed_call_without_tokens_is_a_call_without_usage(name: str) -> None:
    without = [call for call in captures.steps(name, kind="llm") if "usage" not in call]
    assert len(without) == 1 or name == "tl-old-rag"
    assert all(call["output"] for call in without)


def test_the_model_is_the_one_that_answered() -> None:
    calls = captures.steps("oi-litellm-failover", kind="llm", status="ok", tier="fallback")
    assert {call["model"] for call in calls} == {"openai/gpt-4.1-mini"}


def test_an_error_type_is_its_class_without_the_module() -> None:
    assert {call["error_type"] for call in captures.steps("otel-v2-failover", kind="llm", status="error")} == {
        "RateLimitError",
        "InternalServerError",
    }
    assert not any("error_type" in step for step in captures.steps("tl-old-agent", status="ok"))


def test_what_a_library_scrubbed_is_absent() -> None:
    assert not any("Scrubbed" in json.dumps(envelope) for envelope in captures.envelopes("pyd-failover").values())


def test_spans_of_http_are_left_out_and_their_children_keep_a_parent() -> None:
    for envelope in captures.envelopes("two-services").values():
        spans = {span["span_id"]: span for span in envelope["spans"]}
        assert [span["name"] for span in spans.values() if span["name"].startswith("POST")] == ["POST /answer"]
        retrieve = next(span for span in spans.values() if span["component"] == "retrieve")
        assert spans[retrieve["parent_id"]]["component"] == "answer"


def test_the_times_of_a_trace_are_those_of_its_root_whatever_other_clocks_say() -> None:
    for envelope in captures.envelopes("two-services").values():
        root = next(span for span in envelope["spans"] if "parent_id" not in span)
        assert (envelope["started_at"], envelope["ended_at"]) == (root["started_at"], root["ended_at"])
        assert any(span["ended_at"] > root["ended_at"] + 0.1 for span in envelope["spans"])


@pytest.mark.parametrize("name", ["pyd-agent", "lf3-agent", "oi-openai-rag"])
def test_names_of_machines_and_keys_are_not_taken_over(name: str) -> None:
    text = json.dumps(list(captures.envelopes(name).values()))
    assert not any(word in text for word in ("host-1", "pk-lf", "process.pid", "service.instance.id"))


@pytest.mark.parametrize("name", ["oi-openai-batch", "oi-langchain-batch"])
def test_an_answer_that_a_model_cut_off_is_kept_as_it_is(name: str) -> None:
    cut = [call["output"] for call in captures.steps(name, kind="llm", status="ok") if not _is_json(call["output"])]
    assert len(cut) == 1


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
