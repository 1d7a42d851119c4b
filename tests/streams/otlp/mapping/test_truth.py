"""Each capture against what its model server counted, and against a second reading of its spans."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.streams.otlp import captures

#: Traces in which another model answered alone: the failed call has no span, or is a trace of its own. Only a person
#: who names the tiers makes such a call a fallback.
FALLBACKS_WITHOUT_A_FAILED_CALL = {"oi-litellm-failover": 2, "tl-old-failover": 2}


@pytest.mark.parametrize("name", captures.names())
def test_calls_and_tokens_are_those_of_the_model_server(name: str) -> None:
    true = captures.truth()[name]
    calls = captures.steps(name, kind="llm")
    answered = sum(call["status"] == "ok" for call in calls)
    tokens = [sum(call.get("usage", {}).get(key, 0) for call in calls) for key in ("input_tokens", "output_tokens")]
    if true["agrees_with_model_server"]:
        server = true["model_server"]
        expected = [server["chat_calls_answered"], sum(server["chat_calls_failed"].values())]
    else:
        server = true["innermost_model_spans"]
        expected = [server["calls"], server["failed"]]
    expected += [server["input_tokens"], server["output_tokens"]]
    assert [answered, len(calls) - answered, *tokens] == expected


@pytest.mark.parametrize("name", captures.names())
def test_every_span_is_in_one_state(name: str) -> None:
    true = captures.truth()[name]
    lines, summary = captures.assembled(name)
    assert len(lines) == true["traces"]
    assert summary.counts["span.consumed."] == true["spans"]
    assert true["spans"] == sum(
        n for key, n in summary.counts.items() if key.startswith("span.") and "consumed" not in key
    )
    assert summary.counts.get("log_record.joined.", 0) == true["log_records"]


@pytest.mark.parametrize("name", captures.names())
def test_each_trace_is_what_a_second_reader_found(name: str) -> None:
    found = captures.envelopes(name)
    fallbacks = 0
    for true in captures.truth()[name]["per_trace"]:
        envelope = found[true["trace_id"]]
        attributes, spans = envelope["attributes"], envelope["spans"]
        kinds = Counter(span["kind"] for span in spans)
        assert attributes.get("root") == true["root"]
        assert envelope.get("session_id") == true["session"]
        assert attributes.get("user_id") == true["user"]
        assert attributes.get("services", true["services"]) == true["services"]
        assert attributes["complete"] == (true["root"] is not None and not true["spans_whose_parent_never_came"])
        assert kinds["embedding"] == true["embedding_calls"]
        assert kinds["retrieval"] == true["retrievals"]
        assert kinds["rerank"] == true["reranks"]
        tools = [(span["component"], span["status"]) for span in spans if span["kind"] == "tool"]
        assert tools == [(tool["name"], tool["status"]) for tool in true["tools"]]
        calls = [_call(span) for span in spans if span["kind"] == "llm"]
        assert sorted(calls, key=str) == sorted((_true_call(call) for call in true["model_calls"]), key=str)
        models = {span.get("model") for span in spans if span["kind"] == "llm"}
        assert {call["model"] for call in true["model_calls"]} - {None} <= models
        fallbacks += true["fell_back"] - any(span.get("tier") == "fallback" for span in spans)
        if true["root"] is not None:  # unset is the normal state of a span that succeeded
            root = next(span for span in spans if "parent_id" not in span)
            assert (root["status"] == "error") == (true["root_status"] == "error")
    assert fallbacks == FALLBACKS_WITHOUT_A_FAILED_CALL.get(name, 0)


def _call(span: dict[str, Any]) -> tuple[Any, ...]:
    usage = span.get("usage", {})
    return span["status"], span.get("error_type"), usage.get("input_tokens"), usage.get("output_tokens")


def _true_call(call: dict[str, Any]) -> tuple[Any, ...]:
    return call["status"], call["error_type"], call.get("input_tokens"), call.get("output_tokens")
