"""What is sent past litellm is what litellm would have sent: each provider on the list, against litellm itself."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from gapwatch.scorers.judges.chat_model import ChatCall, ModelFailure
from gapwatch.scorers.judges.prompt import judge_prompt, request_bytes
from gapwatch.streams.judges.models.http_sender import HttpSender
from gapwatch.streams.judges.models.litellm_model import LitellmModel
from gapwatch.streams.judges.models.openai_dialect import PLAIN_PROVIDERS, plain_way
from gapwatch.streams.judges.models.quiet_litellm import load_litellm
from gapwatch.streams.judges.secret import Secret
from tests.scorers.judges.rubrics import claim_of
from tests.streams.judges.model_server import HttpAnswer, completion, serving

KEY = "sk-test-5up3rs3cr3tk3y0000"
PARAMS = {"temperature": 0, "max_tokens": 200}
CALL = judge_prompt(claim_of()).call("openai/small", PARAMS, {"input": "Was it?", "output": "It was."}, "0" * 16)
#: Among the parameters of a request, what litellm says besides and what means the same.
DEFAULTS = {"stream": False}


def sent(call: ChatCall, past_litellm: bool) -> tuple[dict[str, Any], str, str]:
    """Body, path and key of a call as a server gets it."""
    got: list[tuple[dict[str, Any], str, str]] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        got.append((body, headers[":path"], headers["authorization"]))
        return completion("fine")

    async def asked() -> None:
        async with serving(answer) as server:
            model = LitellmModel(Secret(KEY), server.base_url, past_litellm)
            with contextlib.suppress(ModelFailure):  # litellm does not read every provider's answer in this form
                await model.ask(call)
            await model.close()

    asyncio.run(asked())
    ((body, path, key),) = got
    return {name: value for name, value in body.items() if DEFAULTS.get(name, "") != value}, path, key


def asked_plainly(call: ChatCall, base_url: str | None = "http://127.0.0.1:9/v1") -> bool:
    return plain_way(load_litellm(), call, base_url, has_key=True) is not None


@pytest.mark.parametrize("provider", sorted(PLAIN_PROVIDERS))
def test_litellm_would_have_sent_the_same(provider: str) -> None:
    call = replace(CALL, model=f"{provider}/some/model")
    if not asked_plainly(call):  # litellm knows that this provider has no schemas
        call = replace(call, response_format=None)

    assert asked_plainly(call)
    assert sent(call, past_litellm=True) == sent(call, past_litellm=False)


def test_the_bytes_sent_are_those_that_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[bytes] = []
    post = HttpSender.post

    async def watched(sender: HttpSender, content: bytes, timeout_seconds: float) -> Any:
        bodies.append(content)
        return await post(sender, content, timeout_seconds)

    monkeypatch.setattr(HttpSender, "post", watched)
    assert sent(CALL, past_litellm=True)
    assert bodies == [request_bytes(CALL)]


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("anthropic/claude-3-5-haiku-20241022", {}),  # another dialect
        ("azure/deployment", {}),  # another address for each version
        ("openai/o3-mini", {"max_tokens": 10}),  # litellm gives the parameter another name
        ("openai/gpt-5", {"temperature": 0}),  # litellm refuses
        ("openai/responses/gpt-4o", {}),  # another interface
        ("no-such-provider/x", {}),
        ("fireworks_ai/x", {}),  # litellm writes the name out
    ],
)
def test_what_litellm_would_change_is_left_to_it(model: str, params: dict[str, Any]) -> None:
    assert not asked_plainly(replace(CALL, model=model, params=params))


def test_without_a_key_litellm_says_which_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GROQ_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    call = replace(CALL, model="openai/gpt-4o-mini")
    assert plain_way(load_litellm(), call, None, has_key=False) is None
    with pytest.raises(ModelFailure) as refused:
        asyncio.run(LitellmModel().ask(call))
    assert refused.value.kind == "refused_key"
    assert "OPENAI_API_KEY" in refused.value.detail


def test_the_address_and_the_key_are_those_that_litellm_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    groq = plain_way(load_litellm(), ChatCall("groq/llama", (), {}), None, has_key=False)
    openai = plain_way(load_litellm(), ChatCall("openai/gpt-4o", (), {}), None, has_key=False)

    assert groq is not None and openai is not None
    assert (groq.base_url, groq.key) == ("https://api.groq.com/openai/v1", KEY)
    assert (openai.base_url, openai.key) == ("https://gateway.example/v1", KEY)
    assert KEY not in repr(groq)
    monkeypatch.setenv("OPENAI_ORGANIZATION", "org-1")
    assert plain_way(load_litellm(), ChatCall("openai/gpt-4o", (), {}), None, has_key=False) is None
