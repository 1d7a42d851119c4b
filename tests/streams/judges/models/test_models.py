"""Both ways to models: what recorded providers answered ends as a reply or a failure, and no key is shown."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatCall, ChatModel, ChatReply, ModelFailure
from gapwatch.streams.judges.models.chat_completions import read_reply, retry_after
from gapwatch.streams.judges.models.http_model import HttpModel
from gapwatch.streams.judges.secret import Secret, read_secret
from tests.paths import ROOT
from tests.streams.judges.model_server import HttpAnswer, ModelServer, completion, serving

CASSETTES = ROOT / "tests" / "data" / "judges" / "cassettes.jsonl.gz"
KEY = "sk-test-5up3rs3cr3tk3y0000"
#: The first call imports litellm, which took more than 5 seconds on a busy machine.
CALL = ChatCall("openai/small", (("user", "hello"),), {"temperature": 0}, None, 60.0)


def recorded() -> list[dict[str, Any]]:
    with gzip.open(CASSETTES, "rt", encoding="utf-8") as lines:
        return [orjson.loads(line) for line in lines]


def http_answer(record: dict[str, Any]) -> HttpAnswer:
    headers = {name: values[0] for name, values in record["headers"].items() if name.lower() != "content-length"}
    return HttpAnswer(record["status"], (record["body"] or "").encode(), headers)


def by_http(server: ModelServer) -> ChatModel:
    return HttpModel(server.base_url, Secret(KEY))


def by_litellm(server: ModelServer) -> ChatModel:
    from gapwatch.streams.judges.models.litellm_model import LitellmModel

    return LitellmModel(Secret(KEY), server.base_url)


MAKERS = [by_http, by_litellm]
Made = Callable[[ModelServer], ChatModel]


async def ask(model: ChatModel, call: ChatCall = CALL) -> ChatReply | ModelFailure:
    try:
        return await model.ask(call)
    except ModelFailure as failure:
        return failure


def run(answer: HttpAnswer, make: Made, call: ChatCall = CALL) -> ChatReply | ModelFailure:
    async def asked() -> ChatReply | ModelFailure:
        async with serving(lambda body, headers: answer) as server:
            model = make(server)
            try:
                return await ask(model, call)
            finally:
                await model.close()

    return asyncio.run(asked())


def several(answers: list[HttpAnswer], make: Made) -> list[ChatReply | ModelFailure]:
    async def asked() -> list[ChatReply | ModelFailure]:
        left = iter(answers)
        async with serving(lambda body, headers: next(left)) as server:
            model = make(server)
            try:
                return [await ask(model) for _ in answers]
            finally:
                await model.close()

    return asyncio.run(asked())


@pytest.mark.parametrize("make", MAKERS)
def test_every_recorded_reply_and_error_ends_as_a_reply_or_a_failure(make: Made) -> None:
    records = recorded()
    outcomes = several([http_answer(record) for record in records], make)

    assert len(outcomes) == len(records)
    for record, outcome in zip(records, outcomes, strict=True):
        assert isinstance(outcome, ChatReply | ModelFailure)
        if record["status"] >= 400:
            assert isinstance(outcome, ModelFailure), record["uri"]
    assert sum(isinstance(outcome, ChatReply) for outcome in outcomes) >= 20


def test_recorded_chat_completions_are_read_whole_and_streamed() -> None:
    texts = 0
    for record in recorded():
        if not record["uri"].split("?")[0].endswith("chat/completions") or record["status"] != 200:
            continue
        try:
            reply = read_reply(200, {}, (record["body"] or "").encode())
        except ModelFailure as failure:
            assert failure.kind in ("empty", "bad_request")  # a call of a tool; stopped by a filter
            continue
        texts += 1
        assert reply.model and (reply.text or reply.refusal)
    assert texts >= 15


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (HttpAnswer(429, b'{"error": {"message": "slow down"}}', {"retry-after": "7"}), "rate_limited"),
        (HttpAnswer(500, b"oops"), "unavailable"),
        (HttpAnswer(503, b'{"error": "overloaded"}'), "unavailable"),
        (HttpAnswer(401, f'{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}'.encode()), "refused_key"),
        (HttpAnswer(404, b'{"error": {"message": "no such model", "code": "model_not_found"}}'), "no_such_model"),
        (HttpAnswer(400, b'{"error": {"message": "bad parameter"}}'), "bad_request"),
        (completion("x", choices=[]), "empty"),
    ],
    ids=["429", "500", "503", "401", "404", "400", "no choices"],
)  # fmt: skip
def test_a_failure_says_its_kind(make: Made, answer: HttpAnswer, kind: str) -> None:
    outcome = run(answer, make)

    assert isinstance(outcome, ModelFailure)
    if make is by_litellm and kind == "empty":
        assert outcome.passes  # litellm makes an error of its own of it
        return
    assert outcome.kind == kind
    assert KEY not in str(outcome)
    if kind == "rate_limited":
        assert outcome.retry_after_seconds == 7


@pytest.mark.parametrize("make", MAKERS)
def test_a_dead_endpoint_is_unavailable(make: Made) -> None:
    async def asked() -> ChatReply | ModelFailure:
        async with serving(lambda body, headers: completion("x")) as server:
            model = make(server)
        try:
            return await ask(model)
        finally:
            await model.close()

    outcome = asyncio.run(asked())
    assert isinstance(outcome, ModelFailure)
    assert outcome.kind == "unreachable"


@pytest.mark.parametrize("make", MAKERS)
def test_a_silent_endpoint_times_out(make: Made) -> None:
    outcome = run(HttpAnswer(200, b"{}", seconds=60), make, ChatCall("openai/small", (("user", "x"),), {}, None, 0.3))

    assert isinstance(outcome, ModelFailure)
    assert outcome.kind == "timeout"


@pytest.mark.parametrize("make", MAKERS)
def test_a_cut_reply_may_be_tried_again(make: Made) -> None:
    whole = completion("a long text" * 50)
    outcome = run(HttpAnswer(200, whole.body, sent=100), make)

    assert isinstance(outcome, ModelFailure)
    assert outcome.passes


def test_a_stream_that_stops_before_its_end_is_cut_off() -> None:
    chunk = b'data: {"model": "m", "choices": [{"delta": {"content": "half"}}]}\n\n'
    with pytest.raises(ModelFailure) as cut:
        read_reply(200, {}, chunk)
    whole = read_reply(
        200, {}, chunk + b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n'
    )

    assert cut.value.kind == "cut_off"
    assert (whole.text, whole.model, whole.finish_reason) == ("half", "m", "stop")


def test_a_stream_of_another_dialect_is_no_outage() -> None:
    message = b'event: message_start\ndata: {"type": "message_start", "message": {"model": "m"}}\n\n'
    delta = b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"text": "hello"}}\n\n'
    with pytest.raises(ModelFailure) as strange:
        read_reply(200, {}, message + delta)

    assert strange.value.kind == "bad_reply"


@pytest.mark.parametrize("make", [by_http])
def test_a_stream_that_was_not_asked_for_is_put_together(make: Made) -> None:
    chunks = [
        {"model": "small-2026-01-01", "choices": [{"delta": {"role": "assistant", "content": "hel"}}]},
        {"model": "small-2026-01-01", "choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]},
        {"model": "small-2026-01-01", "choices": [], "usage": {"prompt_tokens": 500, "completion_tokens": 40}},
    ]
    body = b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    outcome = run(HttpAnswer(200, body, {"content-type": "text/event-stream"}), make)

    assert isinstance(outcome, ChatReply)
    assert (outcome.text, outcome.finish_reason) == ("hello", "stop")
    assert (outcome.model, outcome.input_tokens, outcome.output_tokens) == ("small-2026-01-01", 500, 40)


@pytest.mark.parametrize("make", MAKERS)
def test_a_refusal_is_a_reply(make: Made) -> None:
    refused = [
        {"index": 0, "message": {"role": "assistant", "content": None, "refusal": "No."}, "finish_reason": "stop"}
    ]
    outcome = run(completion("", choices=refused), make)

    assert isinstance(outcome, ChatReply)
    assert (outcome.text, outcome.refusal) == ("", "No.")


@pytest.mark.parametrize("make", MAKERS)
def test_a_reply_has_text_model_and_usage(make: Made) -> None:
    outcome = run(completion("hello"), make)

    assert isinstance(outcome, ChatReply)
    assert (outcome.text, outcome.model) == ("hello", "small-2026-01-01")
    assert (outcome.input_tokens, outcome.output_tokens) == (500, 40)


@pytest.mark.parametrize("make", [by_http])
@pytest.mark.parametrize("tokens", [2**63, 2**62, 100_000_001, -1, True, 1.5, "500"])
def test_what_can_be_no_number_of_tokens_is_none(make: Made, tokens: object) -> None:
    """A reply that names 2**63 tokens could not be stored: the judge ended, and met it again after each restart."""
    outcome = run(completion("hello", usage={"prompt_tokens": tokens, "completion_tokens": 40}), make)

    assert isinstance(outcome, ChatReply)
    assert (outcome.input_tokens, outcome.output_tokens) == (None, 40)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3), ({"retry-after": "0.5"}, 0.5), ({"retry-after-ms": "250"}, 0.25), ({}, None),
        ({"retry-after": "soon"}, None), ({"retry-after": "-1"}, None), ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None), ({"retry-after": "99999"}, 600),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
    ],
)  # fmt: skip
def test_a_wait_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_the_key_is_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        seen.append(headers["authorization"])
        return HttpAnswer(401, f'{{"error": {{"message": "wrong key {KEY} or {KEY[:13]}..."}}}}'.encode())

    async def asked(make: Made) -> str:
        async with serving(answer) as server:
            model = make(server)
            try:
                await model.ask(CALL)
            except ModelFailure as failure:
                shown = "".join(traceback.TracebackException.from_exception(failure, capture_locals=True).format())
                return shown + repr(model) + repr(vars(model)) + repr(failure) + str(failure.__context__)
            finally:
                await model.close()
        raise AssertionError

    with caplog.at_level(logging.DEBUG):
        shown = "".join(asyncio.run(asked(make)) for make in MAKERS)
    assert seen == [f"Bearer {KEY}"] * len(MAKERS)
    assert KEY not in shown
    assert KEY not in caplog.text
    assert KEY[13:] not in shown


def test_a_key_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")

    for key in (read_secret("A_KEY", None, {"A_KEY": KEY}), read_secret(None, file)):
        assert key is not None
        assert key.reveal() == KEY
        assert KEY not in f"{key} {key!r} {[key]}"
    assert read_secret(None, None) is None


@pytest.mark.parametrize("text", ["", "  ", "two words", "line\nbreak\x00", "schlüssel"])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_secret("A_KEY", None, {"A_KEY": text})

    assert "A_KEY" in str(refused.value)
    assert not text.strip() or text not in str(refused.value)


def test_a_missing_key_names_the_variable_or_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="NO_SUCH"):
        read_secret("NO_SUCH", None, {})
    with pytest.raises(UsageError, match="absent"):
        read_secret(None, tmp_path / "absent")


@pytest.mark.parametrize("key", [KEY, "gsk_5up3rs3cr3t", "AIzaSy-5up3rs3cr3t"])
def test_a_key_in_the_place_of_its_name_is_not_repeated(key: str) -> None:
    for variable, file in ((key, None), (None, Path(key))):
        with pytest.raises(UsageError) as refused:
            read_secret(variable, file, {})

        assert key not in str(refused.value)
        assert "key_env" in str(refused.value) or "key_file" in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["ftp://a/v1", "nonsense", "https://user:pass@host/v1", "https://host/v1?key=1", "http://example.com/v1"],
)
def test_an_address_that_would_show_the_key_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        HttpModel(url, Secret(KEY))

    assert "pass" not in str(refused.value)


@pytest.mark.parametrize(("excepted", "reached"), [("", True), ("127.0.0.1", False)])
def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, excepted: str, reached: bool) -> None:
    seen: list[str] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        seen.append(headers[":path"])
        return completion("through the proxy")

    async def asked() -> ChatReply | ModelFailure:
        async with serving(answer) as server:
            for name in ("HTTP_PROXY", "http_proxy"):
                monkeypatch.setenv(name, server.base_url.removesuffix("/v1"))
            for name in ("NO_PROXY", "no_proxy"):
                monkeypatch.setenv(name, excepted)
            model = HttpModel("http://127.0.0.1:9/v1", Secret(KEY))
            try:
                return await ask(model)
            finally:
                await model.close()

    outcome = asyncio.run(asked())
    assert isinstance(outcome, ChatReply) == reached
    assert seen == (["http://127.0.0.1:9/v1/chat/completions"] if reached else [])


def test_a_redirect_is_not_followed() -> None:
    outcome = run(HttpAnswer(302, b"", {"location": "http://127.0.0.1:9/steal"}), by_http)

    assert isinstance(outcome, ModelFailure)
    assert outcome.kind == "bad_request"


def test_an_endless_reply_is_stopped() -> None:
    outcome = run(HttpAnswer(200, b" " * 5_000_000), by_http)

    assert isinstance(outcome, ModelFailure)
    assert outcome.kind == "bad_reply"


def test_only_asking_imports_litellm_and_it_keeps_its_own_prices() -> None:
    code = (
        "import sys, os\n"
        "import gapwatch.streams.judges.models.quiet_litellm as m\n"
        "assert 'litellm' not in sys.modules\n"
        "os.environ.pop('LITELLM_LOCAL_MODEL_COST_MAP', None)\n"
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('the network was asked')\n"
        "socket.getaddrinfo = refuse\n"
        "socket.socket.connect = refuse\n"
        "assert m.listed_price('openai/gpt-4o')[0] > 0\n"
        "assert m.listed_price('openai/no-such-model') is None\n"
        "assert os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] == 'True'\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 0, done.stderr
