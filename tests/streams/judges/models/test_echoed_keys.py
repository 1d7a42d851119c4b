"""A provider that repeats the key in its reply: no file, row, log line or error of a run holds it."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.secret import Secret
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import scored_store, states, trace
from tests.streams.judges.model_server import HttpAnswer, completion, nonce_in, served, verdict

KEY = "sk-Echo/7f3a+Qz91LmX-0042wTbKc"
Echo = Callable[[dict[str, Any], str], HttpAnswer]


def _says(body: dict[str, Any], words: str, **more: Any) -> str:
    document = {"call": nonce_in(body), "justification": f"Seen: {words} there.", "score": "Good", **more}
    return orjson.dumps(document).decode()


def _message(body: dict[str, Any], **message: Any) -> HttpAnswer:
    choice = {"index": 0, "message": {"role": "assistant", "content": _says(body, "it"), **message}}
    return completion("", choices=[{**choice, "finish_reason": "stop"}])


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


def _split(text: str) -> str:
    return " ".join(text[i : i + 5] for i in range(0, len(text), 5))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


#: What the server answers, and the state of the judgement.
ECHOES: dict[str, tuple[Echo, str]] = {
    "content": (lambda body, key: completion(_says(body, f"Bearer {key}")), "pass"),
    "content that is no JSON": (lambda body, key: completion(f"Bearer {key}"), "error"),
    "slashes escaped": (lambda body, key: completion(_says(body, key).replace("/", "\\/")), "pass"),
    "escaped": (lambda body, key: completion(_says(body, "KEY").replace("KEY", _escaped(key))), "pass"),
    "split": (lambda body, key: completion(_says(body, _split(key))), "pass"),
    "split over lines": (lambda body, key: completion(_says(body, _split(key).replace(" ", "\n"))), "pass"),
    "base64": (lambda body, key: completion(_says(body, _base64(f"Bearer {key}"))), "pass"),
    "key of the verdict": (lambda body, key: completion(_says(body, "it", **{key: 1})), "error"),
    "model": (lambda body, key: verdict(body, model=f"m-{key}"), "pass"),
    "id": (lambda body, key: verdict(body, id=key, system_fingerprint=key), "pass"),
    "usage": (lambda body, key: verdict(body, usage={"prompt_tokens": key, key: 7}), "pass"),
    "tool call": (
        lambda body, key: _message(body, tool_calls=[{"id": key, "function": {"name": key, "arguments": key}}]), "pass"
    ),
    "refusal": (lambda body, key: _message(body, refusal=f"I refuse {key}"), "error"),
    "finish reason": (
        lambda body, key: completion("", choices=[{"message": {"content": ""}, "finish_reason": key}]), "error"
    ),
    "error at status 200": (
        lambda body, key: HttpAnswer(body=orjson.dumps({"error": {"message": f"bad {key}", "code": "400"}})), "error"
    ),
    "other keys": (lambda body, key: HttpAnswer(body=orjson.dumps({key: 1})), "error"),
    "status 400": (
        lambda body, key: HttpAnswer(400, orjson.dumps({"error": {"message": f"bad {_split(key)}"}})), "error"
    ),
    "status 400 in headers": (lambda body, key: HttpAnswer(400, b"{}", {"x-echo": key, "retry-after": key}), "error"),
}  # fmt: skip


def _forms() -> list[str]:
    """The key and what gives it away, without white space: the key itself, and its base64 behind `Bearer `."""
    return [KEY, _base64(f"Bearer {KEY}")[12:-4]]


#: Echoes that every day are tried through litellm too, which shares with HTTP what is kept of a reply.
_EVERY_DAY = ("content", "usage", "status 400")


@pytest.mark.parametrize(
    ("echo", "adapter"),
    [(echo, "http") for echo in ECHOES]
    + [pytest.param(echo, "litellm", marks=() if echo in _EVERY_DAY else pytest.mark.slow) for echo in ECHOES],
)
def test_no_place_of_a_run_holds_an_echoed_key(
    echo: str, adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("JUDGE_OF_TEST", KEY)
    answer, state = ECHOES[echo]
    if (echo, adapter) == ("usage", "litellm"):
        state = "error"  # litellm refuses a reply whose usage has another form
    portfolio = portfolio_of(judged_metric())
    path = scored_store(tmp_path, portfolio, [trace(0)])

    def answered(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        return answer(body, headers["authorization"].removeprefix("Bearer "))

    with served(answered) as server:
        provider = {
            "adapter": adapter, "base_url": server.base_url, "key_env": "JUDGE_OF_TEST", "attempts": 2,
            "first_delay_seconds": 0.001, "longest_delay_seconds": 0.001,
        }  # fmt: skip
        access = model_access(JudgeSettings.model_validate({"providers": {"*": provider}}))
        with Store.open(path) as store:
            result = judge_store(store, [portfolio], access)
            tables = store.query("SELECT schema_name, table_name FROM duckdb_tables()")
            rows = [store.query(f'SELECT * FROM "{schema}"."{table}"') for schema, table in tables]

    held = [repr(rows), repr(result), repr(result.errors), caplog.text]
    held += [file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()]
    held = ["".join(text.replace("\\n", "").replace("\\/", "/").split()) for text in held]
    assert states(path, "faithful") == {state: 1}
    assert rows
    assert [form for form in _forms() for text in held if form in text] == []


def test_a_text_without_the_key_stays_as_it_is() -> None:
    secret = Secret(KEY)
    words = 'He said:\\n "sk-Echo" is \\u0073k, C:\\\\new\\\\table,\n and 7f3a+Qz9 \\\\\\\\\\\\\\\\\\\\'

    assert secret.scrub(words) == words
    assert secret.scrub(f"a {KEY} b") == "a [key] b"
    assert Secret("changeme").scrub("change the name") == "change the name"


def test_a_variable_of_white_space_or_of_other_bytes_spoils_no_text() -> None:
    assert Secret(" " * 40).scrub("a b") == "a b"
    assert Secret("\udcff" * 9).scrub("a b") == "a b"
    assert Secret("line of a key\n" * 200).scrub(f"a {'line of a key' + chr(10)}b") == "a line of a key\nb"
    assert "line" not in Secret("line of a key\n" * 200).scrub("line of a key\n" * 200)


@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("part", [KEY, KEY[: len(KEY) // 2], KEY[len(KEY) // 2 :]], ids=["whole", "first", "second"])
def test_no_code_of_a_key_or_of_a_half_of_it_gives_it_away(part: str, start: int) -> None:
    """Decoded again, what is left of a text holds no eight characters of the key in a row."""
    coded = base64.b64encode(b"xyz"[:start] + part.encode() + b" end").decode()
    for text in (coded, coded.translate(str.maketrans("+/", "-_"))):
        left = Secret(KEY).scrub(f"a {text} b")
        assert "[key]" in left
        decoded = [base64.b64decode(text + "=" * (-len(text) % 4)) for text in left.split() if len(text) % 4 != 1]
        assert all(part[i : i + 8].encode() not in one for one in decoded for i in range(len(part) - 7))
    for digits in (part.encode().hex(), part.encode().hex().upper()):
        assert Secret(KEY).scrub(f"a {digits} b") == "a [key] b"


def test_a_key_that_is_a_word_spoils_no_text() -> None:
    assert Secret("none").scrub("none of these") == "none of these"
