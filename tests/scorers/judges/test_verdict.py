"""Verdicts are read from well-formed answers; any other answer is rejected with its reason."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.judges.chat_model import ChatReply
from gapwatch.scorers.judges.prompt import judge_prompt
from gapwatch.scorers.judges.verdict import JudgeAnswer, NoAnswer, read_verdict, repair_words
from tests.scorers.judges.rubrics import claim_of

NONCE = "00112233aabbccdd"
_PROMPT = judge_prompt(claim_of())
_SCHEMA: dict[str, Any] = _PROMPT.response_format["json_schema"]["schema"]  # type: ignore[index]


def read(text: str, finish: str | None = "stop", refusal: str | None = None) -> JudgeAnswer | NoAnswer:
    return read_verdict(ChatReply(text, "m", finish_reason=finish, refusal=refusal), _PROMPT.scale, _SCHEMA, NONCE)


def verdict(**changed: Any) -> str:
    document = {"call": NONCE, "justification": "It quotes the order.", "score": "Good", **changed}
    return orjson.dumps({k: v for k, v in document.items() if v is not ...}).decode()


def test_a_well_formed_answer_is_a_verdict() -> None:
    answer = read(verdict())

    assert isinstance(answer, JudgeAnswer)
    assert (answer.band.word, answer.band.score, answer.band.passes) == ("Good", 0.75, True)
    assert answer.justification == "It quotes the order."


@pytest.mark.parametrize(
    ("word", "score", "passes"),
    [("Excellent", 1.0, True), ("Fair", 0.5, False), ("poor", 0.25, False), (" Very Poor ", 0.0, False)],
)
def test_the_middle_of_the_scale_does_not_pass(word: str, score: float, passes: bool) -> None:
    answer = read(verdict(score=word))

    assert isinstance(answer, JudgeAnswer)
    assert (answer.band.score, answer.band.passes) == (score, passes)


@pytest.mark.parametrize(
    "wrapped", ["```json\n{}\n```", "```\n{}\n```", "<think>let me see {{</think>\n{}", "\n {} \n"]
)
def test_dressing_around_the_object_is_taken_off(wrapped: str) -> None:
    assert isinstance(read(wrapped.replace("{}", verdict())), JudgeAnswer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_json"),
        ("Excellent", "not_json"),
        ("Here is my verdict: " + verdict(), "not_json"),
        (verdict() + verdict(), "not_json"),
        (verdict()[:-2], "not_json"),
        (f"[{verdict()}]", "not_object"),
        ("1", "not_object"),
        (verdict(call=...), "wrong_call"),
        (verdict(call="0" * 16), "wrong_call"),
        (verdict(call=None), "wrong_call"),
        (verdict(justification=...), "no_justification"),
        (verdict(justification="  "), "no_justification"),
        (verdict(justification=["a"]), "no_justification"),
        (verdict(score=...), "no_score"),
        (verdict(score=None), "no_score"),
        (verdict(score="Superb"), "off_scale"),
        (verdict(score=5), "off_scale"),
        (verdict(score=True), "off_scale"),
        (verdict(score=["Good"]), "off_scale"),
        (verdict(extra=1), "schema"),
    ],
)
def test_what_is_no_verdict_says_why(text: str, reason: str) -> None:
    answer = read(text)

    assert isinstance(answer, NoAnswer)
    assert answer.reason == reason


def test_the_justification_has_to_stand_before_the_score() -> None:
    text = f'{{"call": "{NONCE}", "score": "Good", "justification": "because"}}'
    answer = read(text)

    assert isinstance(answer, NoAnswer)
    assert answer.reason == "score_before_justification"


@pytest.mark.parametrize(
    ("finish", "refusal", "reason"),
    [("length", None, "cut_short"), ("content_filter", None, "refusal"), ("stop", "I can't.", "refusal")],
)
def test_a_refusal_or_a_cut_answer_is_no_verdict_even_if_it_looks_like_one(
    finish: str, refusal: str | None, reason: str
) -> None:
    answer = read(verdict(), finish, refusal)

    assert isinstance(answer, NoAnswer)
    assert answer.reason == reason
    assert answer.can_be_repaired == (reason != "refusal")


@pytest.mark.parametrize("scale", [[5, 4, 3, 2, 1], [1, 2, 3, 4, 5]])
def test_of_numbers_the_highest_is_the_best_and_they_are_read_as_numbers_or_words(scale: list[int]) -> None:
    prompt = judge_prompt(claim_of(scale=scale, pass_at=4.0))
    assert [band.position for band in prompt.scale.bands] == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert "- 5\n- 4\n- 3\n- 2\n- 1" in prompt.template
    schema: dict[str, Any] = prompt.response_format["json_schema"]["schema"]  # type: ignore[index]
    for score, passes in ((5, True), (4.0, True), ("3", False), ("1", False)):
        answer = read_verdict(ChatReply(verdict(score=score), "m"), prompt.scale, schema, NONCE)

        assert isinstance(answer, JudgeAnswer)
        assert answer.band.passes is passes


def test_a_map_says_what_each_band_is_worth() -> None:
    scale = judge_prompt(claim_of(scale={"yes": 1.0, "partly": 0.3, "no": 0.0}, pass_at="partly")).scale

    assert [(band.word, band.score, band.passes) for band in scale.bands] == [
        ("yes", 1.0, True), ("partly", 0.3, True), ("no", 0.0, False),
    ]  # fmt: skip


def test_what_the_rubrics_own_schema_asks_for_is_checked_and_kept() -> None:
    own = {"properties": {"issues": {"type": "array", "items": {"type": "string"}}}, "required": ["issues"]}
    prompt = judge_prompt(claim_of(output_schema=own))
    schema: dict[str, Any] = prompt.response_format["json_schema"]["schema"]  # type: ignore[index]

    def read_own(**changed: Any) -> JudgeAnswer | NoAnswer:
        return read_verdict(ChatReply(verdict(**changed), "m"), prompt.scale, schema, NONCE)

    good, missing, wrong = read_own(issues=["a"]), read_own(), read_own(issues=[1])
    assert isinstance(good, JudgeAnswer) and good.more == {"issues": ["a"]}
    assert isinstance(missing, NoAnswer) and missing.reason == "schema"
    assert isinstance(wrong, NoAnswer) and wrong.reason == "schema"


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)


@given(st.text(max_size=200) | _JSON.map(lambda document: orjson.dumps(document).decode()))
def test_no_text_that_lacks_the_number_of_the_call_is_a_verdict(text: str) -> None:
    assert isinstance(read(text), NoAnswer)


def test_a_repair_names_the_problem_and_the_number() -> None:
    words = repair_words(NoAnswer("not_json", "the answer is not one JSON object and nothing else"), NONCE)

    assert NONCE in words
    assert "not one JSON object" in words
