"""The shapes in which libraries give replies of models, each read alike by a watched and by a patched program."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace as Made
from typing import Any

import pytest

from gapwatch.design.emission.interpreter.model_replies import client_reply, count_results, reply_text
from gapwatch.design.emission.interpreter.watched_call import WatchedCall
from gapwatch.design.emission.recorded_replies import count_found, reply_notes, said_text

_KEYS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "model": "gen_ai.response.model",
}
#: Reply, tokens of both ways, finish reason, text.
_SHARED: dict[str, tuple[Any, int, int, str | None, str]] = {
    "OpenAI": (
        Made(
            choices=[Made(message=Made(content="yes"), finish_reason="stop")],
            usage=Made(prompt_tokens=7, completion_tokens=2),
        ),
        *(7, 2, "stop", "yes"),
    ),
    "Anthropic": (
        Made(
            content=[Made(type="text", text="yes")],
            stop_reason="end_turn",
            usage=Made(input_tokens=7, output_tokens=2),
        ),
        *(7, 2, "end_turn", "yes"),
    ),
    "Anthropic by LangChain": (
        Made(
            content="yes",
            response_metadata={"stop_reason": "max_tokens", "model_name": "claude"},
            usage_metadata={"input_tokens": 7, "output_tokens": 2},
        ),
        *(7, 2, "max_tokens", "yes"),
    ),
    "LangChain with tokens in its metadata": (
        Made(
            content="yes",
            response_metadata={
                "token_usage": {"prompt_tokens": 7, "completion_tokens": 2},
                "finish_reason": "length",
            },
        ),
        *(7, 2, "length", "yes"),
    ),
    "Ollama": (
        Made(
            model="qwen",
            message=Made(role="assistant", content="yes"),
            done_reason="stop",
            prompt_eval_count=7,
            eval_count=2,
        ),
        *(7, 2, "stop", "yes"),
    ),
    "OpenAI before its tools": (
        Made(
            choices=[
                Made(
                    message=Made(content=None, function_call=Made(name="search", arguments={"q": "x"})),
                    finish_reason="function_call",
                )
            ],
            usage=Made(prompt_tokens=7, completion_tokens=2),
        ),
        *(7, 2, "function_call", '[{"name": "search", "arguments": {"q": "x"}}]'),
    ),
    "Bedrock": (
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "yes"}]}},
            "stopReason": "max_tokens",
            "usage": {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9},
        },
        *(7, 2, "max_tokens", "yes"),
    ),
    "a body of Ollama": (
        {"message": {"content": "yes"}, "done_reason": "length", "prompt_eval_count": 7, "eval_count": 2},
        *(7, 2, "length", "yes"),
    ),
    "a prompt that Ollama completes": (
        {"response": "yes", "done": True, "done_reason": "length", "prompt_eval_count": 7, "eval_count": 2},
        *(7, 2, "length", "yes"),
    ),
}
_USAGE = Made(input_tokens=7, output_tokens=2)
#: Runs whose client is watched itself: their result is read by a patched program alone.
_RUNS: dict[str, tuple[Any, int, int, str | None, str]] = {
    "OpenAI's agents": (
        Made(raw_responses=[Made(usage=_USAGE, output=[]), Made(usage=_USAGE, output=[])], final_output="yes"),
        *(14, 4, None, "yes"),
    ),
    "Strands": (
        Made(
            stop_reason="end_turn",
            message={"role": "assistant", "content": [{"text": "yes"}]},
            metrics=Made(accumulated_usage={"inputTokens": 7, "outputTokens": 2}),
        ),
        *(7, 2, "end_turn", "yes"),
    ),
    "Pydantic AI": (
        Made(output="yes", _state=Made(message_history=[Made(), Made(finish_reason="length")], usage=_USAGE)),
        *(7, 2, "length", "yes"),
    ),
    "DSPy": (
        Made(_store={"answer": "yes"}, _lm_usage={"m": {"prompt_tokens": 7, "completion_tokens": 2}}),
        *(7, 2, None, '{"answer": "yes"}'),
    ),
}


@pytest.mark.parametrize("name", _SHARED)
def test_a_watched_program_reads_a_reply(name: str) -> None:
    reply, tokens, more, reason, text = _SHARED[name]
    found = client_reply(reply)

    assert (found["input_tokens"], found["output_tokens"]) == (tokens, more)
    assert (found.get("finish_reason"), reply_text(reply)) == (reason, text)


@pytest.mark.parametrize("name", [*_SHARED, *_RUNS])
def test_a_patched_program_reads_a_reply(name: str) -> None:
    reply, tokens, more, reason, text = (_SHARED | _RUNS)[name]
    found = reply_notes(reply)

    assert (found[_KEYS["input_tokens"]], found[_KEYS["output_tokens"]]) == (tokens, more)
    assert found.get("gen_ai.response.finish_reasons") == ([reason] if reason else None)
    assert said_text(reply) == text


_CALL = {"id": "1", "function": {"name": "search", "arguments": {"q": "x"}}}
#: Replies without a text that say something all the same.
_CALLS: dict[str, Any] = {
    "tools of LangChain before its core": Made(
        content="", additional_kwargs={"tool_calls": [_CALL]}, response_metadata={"finish_reason": "tool_calls"}
    ),
    "a function of LangChain before its core": Made(
        content="",
        additional_kwargs={"function_call": _CALL["function"]},
        response_metadata={"finish_reason": "function_call"},
    ),
    "Bedrock": {
        "output": {"message": {"role": "assistant", "content": [{"toolUse": {"name": "search", "input": {"q": "x"}}}]}},
        "stopReason": "tool_use",
    },
    "a tool of the provider": Made(
        status="completed", output=[Made(type="custom_tool_call", name="search", input={"q": "x"})]
    ),
    "a refusal": Made(choices=[Made(message=Made(content=None, refusal="no search"), finish_reason="stop")]),
}
#: Replies that say nothing.
_EMPTY: dict[str, Any] = {
    "nothing": Made(choices=[Made(message=Made(content=None, tool_calls=None), finish_reason="stop")]),
    "blanks": Made(choices=[Made(message=Made(content=" \n"), finish_reason="length")]),
    "LangChain": Made(content="", response_metadata={"finish_reason": "stop"}),
    "no part": Made(content=[], stop_reason="end_turn", usage=_USAGE),
    "thoughts alone": Made(content=[Made(type="thinking", thinking="hm")], stop_reason="max_tokens", usage=_USAGE),
    "thoughts of Bedrock": {
        "output": {"message": {"content": [{"reasoningContent": {"reasoningText": {"text": "hm"}}}]}},
        "stopReason": "max_tokens",
    },
}


@pytest.mark.parametrize("reply", _CALLS.values(), ids=_CALLS)
def test_a_call_of_a_tool_is_said_as_it_is(reply: Any) -> None:
    assert "search" in (reply_text(reply) or "") and "search" in (said_text(reply) or "")


def test_gemini_calls_a_function_without_a_text() -> None:
    part = Made(text=None, thought=None, function_call=Made(name="search", args={"q": "x"}))
    reply = Made(candidates=[Made(content=Made(parts=[part]), finish_reason="STOP")])

    assert reply_text(reply) == '[{"name": "search", "arguments": {"q": "x"}}]'


@pytest.mark.parametrize("reply", _EMPTY.values(), ids=_EMPTY)
def test_an_empty_reply_is_one_without_a_text(reply: Any) -> None:
    assert [(text or "").strip() for text in (reply_text(reply), said_text(reply))] == ["", ""]
    assert (reply_text(reply), said_text(reply)) != (None, None)


@pytest.mark.parametrize("value", [{"answer": "yes"}, {"documents": ["a"]}, Made(output=["a"]), ["a"], "yes", None])
def test_other_values_are_no_replies(value: Any) -> None:
    assert (client_reply(value), reply_notes(value)) == ({}, {})


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ({"documents": ["a", "b"], "queries": ["q"]}, 2),
        ({"found": ["a"], "query": "q"}, 1),
        ({"found": ["a"], "queries": ["q", "r"]}, None),
        ([["a", "b"]], 2),
        ((Made(nodes=["a"]), "a graph and its text"), None),
        (("the query", ["a", "b", "c"]), 3),
        ((["a"], ["hybrid"], 2), 1),
        ((("id", "row"), ("id", "another")), 2),
        ((), 0),
        ("a", None),
    ],
)
def test_both_count_what_a_search_found_in_a_state(value: Any, count: int | None) -> None:
    assert (count_results(value), count_found(value)) == (count, count)


@pytest.mark.parametrize(("error", "retried"), [(asyncio.CancelledError(), None), (ValueError(), "exhausted")])
def test_a_call_that_is_cancelled_has_not_failed(error: BaseException, retried: str | None) -> None:
    notes = {"request_outcome": "answered", "stream_outcome": None, "attempts": 1}
    call = WatchedCall(None, None, {"kind": "llm"}, None, True, notes)  # type: ignore[arg-type]
    call.settle(None, error, is_stream=True)

    outcomes = (None, None) if retried is None else ("failed", "aborted")
    assert (notes.get("request_outcome"), notes["stream_outcome"]) == outcomes
    assert notes["retry_outcome"] == retried
