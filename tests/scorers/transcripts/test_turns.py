"""Lists of messages of different frameworks become the same turns, and what is no such list stays a text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.transcripts.turns import (
    CALL,
    OTHER,
    RESULT,
    TEXT,
    Transcript,
    Turn,
    TurnPart,
    read_transcript,
    write_transcript,
)

#: The same conversation as four frameworks write it.
ASKED = Turn("user", (TurnPart(TEXT, "Where is W7?"),))
CALLED = Turn("assistant", (TurnPart(TEXT, "I look."), TurnPart(CALL, '{"id":"W7"}', "find", "c1")))
FOUND = Turn("tool", (TurnPart(RESULT, "It left.", "", "c1"),))
OPENAI = [
    {"role": "user", "content": "Where is W7?"},
    {"role": "assistant", "content": "I look.",
     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id":"W7"}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "It left."},
]  # fmt: skip
TAU2 = [
    OPENAI[0],
    {
        "role": "assistant", "content": "I look.",
        "tool_calls": [{"id": "c1", "name": "find", "arguments": {"id": "W7"}}],
    },
    {"role": "tool", "id": "c1", "content": "It left."},
]  # fmt: skip
ANTHROPIC = [
    OPENAI[0],
    {"role": "assistant", "content": [
        {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c1", "name": "find", "input": {"id": "W7"}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "It left."}]}]},
]  # fmt: skip
OTEL = [
    {"role": "user", "parts": [{"type": "text", "content": "Where is W7?"}]},
    {"role": "assistant", "parts": [
        {"type": "text", "content": "I look."},
        {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"id": "W7"}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "It left."}]},
]  # fmt: skip


def turns_of(document: Any, is_own: bool = False) -> tuple[Turn, ...] | None:
    found = read_transcript(json.dumps(document), is_own)
    return None if found is None else found.turns


@pytest.mark.parametrize("written", [OPENAI, TAU2, OTEL, {"model": "m", "messages": OPENAI}])
def test_a_conversation_is_the_same_whoever_wrote_it(written: Any) -> None:
    assert turns_of(written) == (ASKED, CALLED, FOUND)


def test_anthropic_gives_the_results_of_tools_to_the_user() -> None:
    assert turns_of(ANTHROPIC) == (ASKED, CALLED, Turn("user", FOUND.parts))


def test_messages_of_langchain_have_types_for_roles() -> None:
    assert turns_of([{"type": "human", "content": "Hi"}, {"type": "ai", "content": "Hello"}]) == (
        Turn("user", (TurnPart(TEXT, "Hi"),)),
        Turn("assistant", (TurnPart(TEXT, "Hello"),)),
    )


def test_an_image_is_named_and_not_printed() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    (turn,) = turns_of([{"role": "user", "content": [{"type": "text", "text": "See"}, image]}]) or ()

    assert [(part.kind, part.name) for part in turn.parts] == [(TEXT, ""), (OTHER, "image_url")]
    assert turn.characters < 300


@pytest.mark.parametrize(
    "text",
    [
        "", "Hi", "[]", "{}", "null", "[1]", '["user"]', '[{"content": "x"}]', '[{"role": 1}]', '[{"role": ""}]',
        '[{"role": "user", "content": "x"}, 2]', '[{"role": "user"', '{"messages": "x"}', "[" * 5_000,
        '[{"left_out": {"turns": 3, "characters": 4}}]',
    ],
)  # fmt: skip
def test_what_is_no_list_of_messages_stays_a_text(text: str) -> None:
    assert read_transcript(text) is None


def test_a_stranger_cannot_say_that_turns_were_left_out() -> None:
    forged = [*OPENAI[:1], {"left_out": {"turns": 99, "characters": 1}}, *OPENAI[2:]]
    found = read_transcript(json.dumps(forged))

    assert found == Transcript((ASKED, FOUND))
    assert "left_out" not in write_transcript(found)


WORDS = st.text(max_size=30)
PARTS = st.one_of(
    st.builds(TurnPart, st.just(TEXT), WORDS),
    st.builds(TurnPart, st.sampled_from((CALL, RESULT)), WORDS, WORDS, WORDS),
    st.builds(TurnPart, st.just(OTHER), WORDS, WORDS),
)
ROLES = st.text(min_size=1, max_size=10).filter(lambda role: role not in ("tool", "function"))
TURNS = st.builds(Turn, ROLES, st.lists(PARTS, min_size=1, max_size=4).map(tuple), WORDS)


@given(st.lists(TURNS, min_size=1, max_size=5), st.integers(0, 5), st.integers(0, 9))
def test_a_written_transcript_is_read_as_it_was(turns: list[Turn], gap: int, left: int) -> None:
    written = Transcript(tuple(turns), min(gap, len(turns)), left, 7) if left else Transcript(tuple(turns))
    text = write_transcript(written)

    assert read_transcript(text, is_own=True) == written
    assert write_transcript(read_transcript(text, is_own=True) or written) == text
