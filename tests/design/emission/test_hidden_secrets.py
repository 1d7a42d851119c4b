"""No secret reaches a span: neither of a program with a patch nor of one that is watched."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from gapwatch.design.emission.hidden_secrets import HIDDEN, hide_secrets, is_secret_name
from gapwatch.design.emission.interpreter.plain_values import text_of_value
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan
from gapwatch.design.emission.recorded_values import written
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    planned,
    python_with_events,
    run_patched,
    run_watched,
    write_plan,
)
from tests.design.source.test_secret_texts import SECRETS
from tests.design.source_tree import write_tree

PYTHON = python_with_events()
WAYS: list[Callable[[Any], str]] = [written, text_of_value]
_WORDS = [
    *("api key", "access key", "private key", "secret", "client secret", "secret key", "password", "pass phrase"),
    *("db password", "authorization", "proxy authorization", "x api key", "cookie", "set cookie", "credentials"),
    *("access token", "auth token", "refresh token", "bearer token", "session token", "my api keys", "Open AI API Key"),
]
_CASES: list[Callable[[str], str]] = [str.lower, str.upper, str.title, str.capitalize, str.swapcase]


@st.composite
def names(draw: st.DrawFn) -> str:
    """Draw a name of a secret: words with a gap, a dash, an underscore or nothing between them, in any case."""
    words = draw(st.sampled_from(_WORDS)).split()
    if draw(st.booleans()):
        return words[0] + "".join(w.capitalize() for w in words[1:])
    return draw(st.sampled_from(_CASES))(draw(st.sampled_from(["-", "_", " ", ".", ""])).join(words))


#: Begin with letters that nothing else here has; any sign may come after them.
secrets = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=30).map(lambda text: f"Zq8v{text}")


@dataclass
class Settings:
    endpoint: str
    api_key: str


class Options(BaseModel):
    note: str
    client_secret: str
    hidden: SecretStr


@given(names(), secrets, st.integers(0, 3))
def test_no_text_under_the_name_of_a_secret_is_written(name: str, secret: str, way: int) -> None:
    below: Any = [secret, {"type": "str", "value": secret}, [{"a": [secret, secret]}], {secret: 1}][way]
    values = [
        {"settings": {name: below, "model": "m"}},
        [{"deep": [{"page": "a text of some words", name: below}]}],
        SimpleNamespace(**{"kind": "a text of some words", name: below}),
        SimpleNamespace(inner=SimpleNamespace(**{name: below})),
        json.dumps({"settings": {name: below}}),
        json.dumps({"body": json.dumps({name: below})}),
        {"headers": [(name, secret), ("accept", "text")], "raw": [(name.encode(), secret.encode())]},
        {"setting": {"name": name, "value": secret}},
    ]
    for value in values:
        for write in WAYS:
            assert "Zq8v" not in write(value), (write, value)
    assert is_secret_name(name)


@given(secrets, st.sampled_from([{"type": "password"}, {"secret": True}, {"input_type": "Password"}]), st.booleans())
def test_the_value_beside_a_word_that_says_it_is_a_secret_is_not_written(
    secret: str, said: Any, is_first: bool
) -> None:
    member = {**said, "value": secret} if is_first else {"value": secret, **said}
    for value in ({"API Key": member}, {"Field 7": member}, [member], SimpleNamespace(f=SimpleNamespace(**member))):
        for write in WAYS:
            assert "Zq8v" not in write(value), (write, value)


@given(secrets, st.integers(0, 40))
def test_a_secret_deep_inside_or_late_in_much_is_not_written(secret: str, depth: int) -> None:
    value: Any = {"password": secret}
    for _ in range(depth):
        value = {"a": value} if depth % 2 else [value]
    for write in WAYS:
        assert "Zq8v" not in write({"texts": ["word " * 900] * 60, "v": value, "o": SimpleNamespace(v=value)})


@pytest.mark.parametrize("write", WAYS)
def test_fields_of_objects_with_such_names_are_not_written(write: Callable[[Any], str]) -> None:
    options = Options(note="a note", client_secret="Zq8v-2", hidden=SecretStr("Zq8v-3"))
    for value in (Settings("http://host", "Zq8v-1"), {"s": Settings("http://host", "Zq8v-1")}, options, [options]):
        assert "Zq8v" not in write(value)
        assert HIDDEN in write(value)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("write", WAYS)
def test_a_key_is_not_written_wherever_it_stands(write: Callable[[Any], str], secret: str) -> None:
    for value in (secret, f"Use {secret}, please.", {"q": ["a", f"({secret})"]}, {secret: 1}, "x " * 30_000 + secret):
        assert secret not in write(value)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("postgres://app:Hj7kkq2@db/x", "postgres://app:[secret]@db/x"),
        ("GET https://h/v1?q=a&key=abcd1234&n=1", "GET https://h/v1?q=a&key=[secret]&n=1"),
        ("401 for Authorization: Bearer abcdefghij", "401 for Authorization: Bearer [secret]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [secret]"),
        ("Cookie: session=abc1; theme=dark\nHost: h", "Cookie: [secret]\nHost: h"),
        ("Settings(host='h', api_key='abc')", "Settings(host='h', api_key='[secret]')"),
        ("password=hunter22 host=h", "password=[secret] host=h"),
        ("{'API Key': {'type': 'str', 'value': 'abc'}}", "{'API Key': {'type': '[secret]', 'value': '[secret]'}}"),
        ("x {'a': {'type': 'password', 'value': 'abc'}}", "x {'a': {'type': 'password', 'value': '[secret]'}}"),
        ('say {"a": "{\\"api_key\\": \\"abc\\"}"}', 'say {"a": "{\\"api_key\\": \\"[secret]\\"}"}'),
    ],
)
def test_a_secret_is_known_inside_of_a_text(text: str, after: str) -> None:
    assert hide_secrets(text) == after
    assert hide_secrets(after) == after


@pytest.mark.parametrize(
    "value",
    [
        "The API key: set it in the file. Passwords are: long.",
        "api_key = os.environ['KEY']; secretary: Anna; keyword=blue",
        "The password must be reset at http://host:80/reset?page=2.",
        {
            "max_tokens": 5,
            "token": "Hello",
            "key": "refund",
            "api_key": None,
            "secretary": "Anna",
            "has_password": True,
        },
        {"name": "refund", "value": "30 days"},
        {"title": "Resetting your password", "text": "Click the link."},
        [["user", "What is a password?"], ["assistant", "A word."]],
        '{"a":  1}',
    ],
)
def test_what_only_looks_like_a_secret_is_written(value: Any) -> None:
    assert hide_secrets(value) == value


_PROGRAM = """\
import json


def ask(settings, question):
    if question == "fail":
        raise ValueError(f"401 for key {settings['API Key']['value']}, password='Zq8v pw'")
    return {"answer": question, "headers": {"x-api-key": "Zq8v-3"}}
"""
_RUN = """\
import app
settings = {"API Key": {"type": "password", "value": "sk-" + "Zq8v" * 6}}
app.ask(settings, "hello")
try:
    app.ask(settings, "fail")
except ValueError:
    pass
"""


def _check(found: Collector) -> None:
    assert [s.is_error for s in found.named("ask")] == [False, True]
    texts = [str(s.attributes) for s in found.spans] + [t for s in found.spans for t in s.errors]
    assert "hello" in texts[0]
    assert any("401 for key [secret]" in t and "Traceback" in t for s in found.spans for t in s.errors)
    assert not [t for t in texts if "Zq8vZq8v" in t or "Zq8v-3" in t or "password='Zq8v" in t]


@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_no_secret_of_a_call_or_an_error_leaves_a_watched_program(tmp_path: Path) -> None:
    write_tree(tmp_path, {"app.py": _PROGRAM, "run.py": _RUN})
    with collector() as found:
        plan = write_plan(tmp_path / "plan", [planned("ask")])
        ran = run_watched(plan, [str(PYTHON), str(tmp_path / "run.py")], found.url)
    assert ran.returncode == 0, ran.stderr
    _check(found)


def test_no_secret_of_a_call_or_an_error_leaves_a_patched_program(tmp_path: Path) -> None:
    span = PlannedSpan("c", "ask", "chain", "app.py", "app.ask", MarkedFunction("ask", 4))
    copy = write_tree(tmp_path / "app", {"app.py": _PROGRAM})
    (tmp_path / "p.patch").write_text(make_patch(copy, [span], ["app.py"]).text)
    subprocess.run(["git", "apply", str(tmp_path / "p.patch")], cwd=copy, check=True, timeout=20)
    _check(run_patched(_RUN, copy))


@pytest.mark.parametrize(
    "sign", ["cookie: " + "a" * 100_000, "cookie:a" * 12_000, "password" + " " * 100_000, "?a" * 50_000]
)
def test_no_text_takes_long(sign: str) -> None:
    began = time.process_time()
    hide_secrets(sign)
    assert time.process_time() - began < 2
