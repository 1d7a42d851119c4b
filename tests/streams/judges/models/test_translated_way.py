"""What is filled into a request that litellm wrote once is what litellm would send; answers are read as it does."""

from __future__ import annotations

import asyncio
import logging
import traceback
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.prompt import judge_prompt
from gapwatch.streams.judges.models.litellm_model import LitellmModel
from gapwatch.streams.judges.models.translated_way import TRANSLATED_PROVIDERS, TranslatedWay
from gapwatch.streams.judges.secret import Secret
from tests.scorers.judges.rubrics import claim_of
from tests.streams.judges.model_server import HttpAnswer, ModelServer, completion, serving
from tests.streams.judges.models.test_models import ask, http_answer, recorded, run

#: Of pydantic, about litellm's types for Cohere, when they are loaded.
pytestmark = pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier")
KEY = "sk-test-5up3rs3cr3tk3y0000"
#: Of each provider: a model that has structured output of its own, or one to which it is explained otherwise.
MODELS = {
    "anthropic": ("anthropic/claude-3-5-haiku-20241022", "anthropic/claude-sonnet-4-5"),
    "gemini": ("gemini/gemini-2.5-flash", "gemini/gemini-1.5-pro"),
    "openrouter": ("openrouter/openai/gpt-4.1-mini", "openrouter/anthropic/claude-3.5-sonnet"),
    "fireworks_ai": ("fireworks_ai/accounts/fireworks/models/llama-v3p1-8b-instruct",),
    "cohere": ("cohere/command-a-03-2025",),
    "cohere_chat": ("cohere_chat/command-r-plus",),
    "ollama_chat": ("ollama_chat/llama3",),
}
#: Their parameters have other names, or their messages other roles; read as any endpoint of OpenAI's dialect.
OPENAI = ("openai/o3-mini", "openai/o1", "openai/gpt-5-mini")
ALL_MODELS = [model for models in MODELS.values() for model in models]
ONE_MODEL_EACH = [models[0] for models in MODELS.values()]
CALL = judge_prompt(claim_of()).call(
    "x/y", {"temperature": 0, "max_tokens": 200}, {"input": "Was it?", "output": "It was."}, "0" * 16, 60.0
)
#: As when an answer is sent back for repair, with all that a text may hold.
TALK = replace(
    CALL,
    messages=(
        *CALL.messages,
        ("assistant", ' {"score": "Good"} \n'),
        ("user", 'one\n\n"two" \\n \u2028 \x7f \ud7ff 😀 https://a.b/c.png data:image/png;base64,AAAA <image> {{x}} '),
    ),
)  # fmt: skip


@dataclass
class Sent:
    """What a server was sent."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


OF_THE_CLIENT = ("host", "content-length", "accept-encoding", "connection", "user-agent", "accept", ":path")


def sent(call: ChatCall, past_litellm: bool) -> list[Sent]:
    """All that a server gets when a call is asked once."""
    got: list[Sent] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        meant = {name: text for name, text in headers.items() if name not in OF_THE_CLIENT}
        got.append(Sent(headers[":path"], body, meant))
        return completion("fine")

    async def asked() -> None:
        async with serving(answer) as server:
            model = LitellmModel(Secret(KEY), server.base_url, past_litellm)
            await ask(model, call)
            assert past_litellm == any(isinstance(way, TranslatedWay) for way in model._ways.values())
            await model.close()

    asyncio.run(asked())
    return got


def outcomes(model: str, answers: list[HttpAnswer], past_litellm: bool) -> list[ChatReply | ModelFailure]:
    """What a model's answers are read as."""

    async def asked() -> list[ChatReply | ModelFailure]:
        left = iter(answers)
        async with serving(lambda body, headers: next(left)) as server:
            way = LitellmModel(Secret(KEY), server.base_url, past_litellm)
            found = [await ask(way, replace(CALL, model=model)) for _ in answers]
            await way.close()
            return found

    return asyncio.run(asked())


def told(outcome: ChatReply | ModelFailure) -> tuple[object, float | None]:
    """An outcome as far as anything depends on it."""
    return (outcome, None) if isinstance(outcome, ChatReply) else (outcome.kind, outcome.retry_after_seconds)


def test_every_provider_of_the_list_is_held_against_litellm() -> None:
    assert {*MODELS, "openai"} == TRANSLATED_PROVIDERS


@pytest.mark.parametrize("call", [CALL, TALK], ids=["question", "repair"])
@pytest.mark.parametrize("model", ALL_MODELS)
def test_litellm_would_have_sent_the_same_and_nothing_else_is_sent(model: str, call: ChatCall) -> None:
    call = replace(call, model=model)

    filled, itself = sent(call, past_litellm=True), sent(call, past_litellm=False)
    assert len(itself) == 1
    assert filled == itself


@pytest.mark.parametrize("call", [CALL, TALK], ids=["question", "repair"])
@pytest.mark.parametrize("model", OPENAI)
def test_openais_models_get_what_its_client_would_send(model: str, call: ChatCall) -> None:
    call = replace(call, model=model, params={"max_tokens": 200})  # they refuse a temperature

    filled, itself = sent(call, past_litellm=True), sent(call, past_litellm=False)
    assert "max_completion_tokens" in filled[0].body
    for one in itself:  # what its client tells of itself
        one.headers = {name: text for name, text in one.headers.items() if not name.startswith("x-stainless")}
    assert filled == itself


@pytest.mark.parametrize("name", ["OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
def test_who_pays_at_openai_is_left_to_its_client(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "one-of-several")
    (got,) = sent(replace(CALL, model="openai/o3-mini", params={}), past_litellm=False)

    async def asked() -> list[object]:
        model = LitellmModel(Secret(KEY), "http://127.0.0.1:9/v1")
        for call in (replace(CALL, model="openai/o3-mini", params={}), replace(CALL, model="openai/gpt-4.1")):
            await ask(model, call)
        return list(model._ways.values())

    assert asyncio.run(asked()) == [None, None]
    assert "one-of-several" in got.headers.values()


#: Every day those of the two largest providers.
MODELS_OF_RECORDED = [
    *ONE_MODEL_EACH[:2],
    *(pytest.param(model, marks=pytest.mark.slow) for model in ONE_MODEL_EACH[2:]),
]


@pytest.mark.parametrize("model", MODELS_OF_RECORDED)
def test_recorded_exchanges_are_read_as_litellm_reads_them(model: str) -> None:
    answers = [http_answer(record) for record in recorded()]

    filled, itself = outcomes(model, answers, past_litellm=True), outcomes(model, answers, past_litellm=False)
    assert [told(outcome) for outcome in filled] == [told(outcome) for outcome in itself]
    assert sum(isinstance(outcome, ChatReply) for outcome in filled) >= 1


def error(status: int, words: dict[str, Any] | str, **headers: str) -> HttpAnswer:
    body = words.encode() if isinstance(words, str) else orjson.dumps(words)
    return HttpAnswer(status, body, {name.replace("_", "-"): text for name, text in headers.items()})


#: As providers word them, and as the machines before them do.
FAILURES = [
    error(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}, retry_after="7"),
    error(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    error(401, {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}),
    error(403, {"error": {"code": 403, "message": "Permission denied", "status": "PERMISSION_DENIED"}}),
    error(404, {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-9"}}),
    error(400, {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}),
    error(400, {"type": "error", "error": {"message": "prompt is too long: 208310 tokens > 200000 maximum"}}),
    error(400, {"error": {"message": "bad parameter"}}),
    error(408, "late"),
    error(413, "too much"),
    error(422, {"detail": "unprocessable"}),
    error(429, {"error": {"code": 429, "message": "Quota exceeded", "status": "EXHAUSTED"}}, retry_after_ms="2500"),
    error(500, "oops"),
    error(502, "<html>bad gateway</html>"),
    error(503, {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}, retry_after="3"),
    error(504, "upstream timed out"),
    error(200, "no JSON"),
    error(200, {"error": {"message": "in a reply", "code": 502}}),
    completion("x", choices=[]),
    error(200, {"candidates": [{"content": {"parts": []}, "finishReason": "SAFETY"}], "modelVersion": "gemini"}),
    error(200, {"promptFeedback": {"blockReason": "OTHER"}, "modelVersion": "gemini", "usageMetadata": {}}),
    error(200, "data: {}\n\n", content_type="text/event-stream"),
]  # fmt: skip


@pytest.mark.parametrize("model", ONE_MODEL_EACH)
def test_failures_are_of_the_kinds_that_litellm_gives(model: str) -> None:
    filled, itself = outcomes(model, FAILURES, past_litellm=True), outcomes(model, FAILURES, past_litellm=False)

    assert [told(one)[:1] for one in filled] == [told(one)[:1] for one in itself]
    # litellm loses some: what a provider asks for is kept here whatever litellm makes of its answer.
    assert [one[1] for one in map(told, filled) if one[1]] == [7, 2.5, 3]
    assert all(KEY not in str(outcome) for outcome in filled)


def test_a_schema_that_is_sent_as_a_tool_is_read_from_its_call() -> None:
    said = {"call": "0" * 16, "justification": "So it is.", "score": "Good"}
    answer = error(200, {
        "id": "m", "type": "message", "role": "assistant", "model": "claude-3-5-haiku", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t", "name": "json_tool_call", "input": said}],
        "usage": {"input_tokens": 500, "output_tokens": 40},
    })  # fmt: skip
    filled, itself = (outcomes("anthropic/claude-3-5-haiku-20241022", [answer], past)[0] for past in (True, False))

    assert isinstance(filled, ChatReply)
    assert filled == itself
    assert orjson.loads(filled.text) == said


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (HttpAnswer(200, b"{}", seconds=60), "timeout"),
        (HttpAnswer(200, completion("a long text" * 50).body, sent=100), "cut_off"),
        (HttpAnswer(302, b"", {"location": "http://127.0.0.1:9/steal"}), "bad_request"),
        (HttpAnswer(200, b" " * 5_000_000), "bad_reply"),
    ],
    ids=["silent", "cut", "redirect", "endless"],
)
def test_a_connection_that_fails_is_told_by_its_kind(answer: HttpAnswer, kind: str) -> None:
    outcome = run(answer, past_litellm, replace(CALL, model="anthropic/claude-sonnet-4-5", timeout_seconds=2.0))

    assert isinstance(outcome, ModelFailure)
    assert outcome.kind == kind


def past_litellm(server: ModelServer) -> LitellmModel:
    return LitellmModel(Secret(KEY), server.base_url)


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"])
def test_the_key_is_sent_and_shown_nowhere(model: str, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        seen.append(headers.get("x-api-key", "") + headers.get("x-goog-api-key", ""))
        return error(401, {"error": {"message": f"wrong key {KEY} or {KEY[:13]}..."}})

    async def asked() -> str:
        async with serving(answer) as server:
            way = past_litellm(server)
            try:
                await way.ask(replace(CALL, model=model))
            except ModelFailure as failure:
                shown = "".join(traceback.TracebackException.from_exception(failure, capture_locals=True).format())
                shown += "".join(f"{one!r} {vars(one)!r}" for one in (way, *way._ways.values()))
                return shown + repr(failure) + str(failure.__context__)
            finally:
                await way.close()
        raise AssertionError

    with caplog.at_level(logging.DEBUG):
        shown = asyncio.run(asked())
    assert seen == [KEY]
    assert KEY not in shown
    assert KEY[13:] not in shown
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "call",
    [
        replace(CALL, model="anthropic/claude-sonnet-4-5", messages=(("system", "x"), ("user", " \n"))),
        replace(CALL, model="ollama/llama3"),  # both texts in one
        replace(CALL, model="bedrock/anthropic.claude-3-haiku-20240307-v1:0"),  # signed
        replace(CALL, model="vertex_ai/gemini-2.5-flash"),  # by a token that runs out
    ],
    ids=["empty text", "one text of two", "signature", "token"],
)
def test_what_cannot_be_filled_in_is_left_to_litellm(call: ChatCall) -> None:
    async def asked() -> list[object]:
        model = LitellmModel(Secret(KEY), "http://127.0.0.1:9")
        await ask(model, call)
        return list(model._ways.values())

    assert asyncio.run(asked()) in ([], [None])


def test_a_key_of_the_environment_is_not_repeated_either(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "unlike any that litellm knows by sight"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    refusal = error(401, {"error": {"message": f"wrong key {key}"}})

    outcome = run(refusal, lambda server: LitellmModel(None, server.base_url), replace(CALL, model=ALL_MODELS[0]))
    assert isinstance(outcome, ModelFailure)
    assert outcome.kind == "refused_key"
    assert "wrong key [key]" in outcome.detail


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5", "openai/gpt-4.1", "openai/o3-mini"])
def test_a_key_of_the_environment_does_not_travel_in_the_clear(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    with pytest.raises(UsageError, match="unencrypted; use https") as refused:
        asyncio.run(LitellmModel(None, "http://gateway.example").ask(replace(CALL, model=model, params={})))
    assert KEY not in str(refused.value)
