"""Clients that send no HTTP, half of a request, or guesses: each gets a plain answer, and the log stays quiet."""

from __future__ import annotations

import http.client
import logging
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.service import api_options, token_variables
from gapwatch.sinks.api.token_attempts import WRONG_TOKENS_A_MINUTE, TokenAttempts
from tests.http_client import get, post
from tests.live_store import Kept, until

READ, WRITE = "read-token", "write-token"
BROWSER = {"Accept": "text/html,application/xhtml+xml"}
HEAD = "Host: localhost\r\nConnection: close\r\n"
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
JSON = f"Authorization: Bearer {READ}\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    options = ApiOptions("0.0.0.0", 0, read_token=READ, write_token=WRITE)
    with Kept(tmp_path_factory.mktemp("hostile") / "s.duckdb", options, portfolios=[]) as opened:
        yield opened


@pytest.fixture(autouse=True)
def new_attempts(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a server without wrong tokens and without connections that the test before it left open."""
    until(lambda: b"too many connections" not in raw(kept, f"GET /healthz HTTP/1.1\r\n{HEAD}\r\n"))
    attempts = TokenAttempts()
    monkeypatch.setattr(kept.server, "_attempts", attempts)
    monkeypatch.setattr(kept.server._login, "_attempts", attempts)


def url(kept: Kept) -> str:
    return f"http://127.0.0.1:{urlsplit(kept.server.url).port}"


def connect(kept: Kept) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(kept.server.url).port or 0), timeout=60)


def raw(kept: Kept, text: str | bytes) -> bytes:
    """Send bytes and return all that comes back."""
    with connect(kept) as one:
        one.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        return b"".join(iter(lambda: one.recv(10_000), b""))


def posted(path: str, headers: str, body: str) -> str:
    return f"POST {path} HTTP/1.1\r\n{HEAD}{headers}Content-Length: {len(body)}\r\n\r\n{body}"


REQUESTS = {
    "parts without a boundary": posted("/login", "Content-Type: multipart/form-data\r\n", "abc"),
    "parts that do not begin": posted("/login", "Content-Type: multipart/form-data; boundary=x\r\n", "abc"),
    "unknown encoding": posted("/login", FORM.replace("\r\n", "; charset=nope\r\n"), "abc"),
    "no UTF-8": posted("/login", FORM, "\xff\xfe"),
    "no gzip": posted("/login", "Content-Encoding: gzip\r\n" + FORM, "abc"),
    "no chunks": f"POST /login HTTP/1.1\r\n{HEAD}{FORM}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    "JSON in no gzip": posted("/v1/query", "Content-Encoding: gzip\r\n" + JSON, "abc"),
    "JSON in an unknown encoding": posted("/v1/query", JSON.replace("json\r\n", "json; charset=nope\r\n"), "{}"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "another protocol": "EHLO there\r\n\r\n",
    "a header without a colon": "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
    "control characters": f"GET / HTTP/1.1\r\n{HEAD}Cookie: \x01=\x02\r\n\r\n",
    "a long path": f"GET /{'a' * 20_000} HTTP/1.1\r\n{HEAD}\r\n",
    "an unknown method": f"BREW / HTTP/1.1\r\n{HEAD}\r\n",
}


@pytest.mark.parametrize("request_text", REQUESTS.values(), ids=REQUESTS)
def test_what_is_no_request_is_answered_400_and_not_logged(
    kept: Kept, request_text: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    got = raw(kept, request_text)

    assert got.split(b" ", 2)[1] == b"400", got[:200]
    assert caplog.messages == []
    assert get(url(kept), "/healthz").status == 200


@pytest.mark.parametrize("head", [f"POST /login HTTP/1.1\r\n{HEAD}{FORM}", f"POST /v1/query HTTP/1.1\r\n{HEAD}{JSON}"])
def test_a_body_that_does_not_come_is_answered_408(
    kept: Kept, head: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gapwatch.sinks.api.request_body._BODY_SECONDS", 0.2)
    with connect(kept) as one:
        one.sendall(f"{head}Content-Length: 30\r\n\r\nabc".encode())
        assert one.recv(1_000).startswith(b"HTTP/1.1 408 ")
    assert caplog.messages == []


def test_a_head_that_comes_byte_by_byte_does_not_hold_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapwatch.sinks.api.site.IDLE_SECONDS", 0.3)
    with Kept(tmp_path / "s.duckdb", portfolios=[]) as kept, connect(kept) as slow:
        slow.settimeout(0.05)

        def is_closed_after_one_more_byte() -> bool:
            try:
                slow.sendall(b"G")
                return slow.recv(100) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(is_closed_after_one_more_byte)


def test_wrong_bearer_tokens_are_soon_no_longer_looked_at(kept: Kept) -> None:
    wrong, right = {"Authorization": "Bearer guessed"}, {"Authorization": f"Bearer {READ}"}
    for number in range(WRONG_TOKENS_A_MINUTE):
        if number % 2:
            assert get(url(kept), "/metrics", wrong).status == 401
        else:
            assert post(url(kept), "/v1/annotations", {"text": "x"}, wrong).status == 401
    late = get(url(kept), "/metrics", right)

    assert (late.status, late.json()) == (429, {"error": "Too many wrong tokens: wait a minute."})
    assert get(url(kept), "/healthz").status == 200
    assert get(url(kept), "/metrics").status == 401  # without a token nothing is guessed


def test_an_address_that_gave_the_right_token_is_not_kept_out_by_wrong_ones(kept: Kept) -> None:
    """Behind a proxy all clients have one address."""
    assert get(url(kept), "/metrics", {"Authorization": f"Bearer {READ}"}).status == 200
    for _ in range(2 * WRONG_TOKENS_A_MINUTE):
        assert get(url(kept), "/metrics", {"Authorization": "Bearer guessed"}).status == 401
    assert get(url(kept), "/metrics", {"Authorization": f"Bearer {READ}"}).status == 200


def test_a_minute_later_tokens_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("gapwatch.sinks.api.token_attempts.time.monotonic", lambda: now)
    attempts = TokenAttempts()
    for _ in range(WRONG_TOKENS_A_MINUTE):
        assert not attempts.are_blocked("a")
        attempts.note("a", is_right=False)
    assert (attempts.are_blocked("a"), attempts.are_blocked("b")) == (True, False)
    now += 61.0
    assert not attempts.are_blocked("a")


@pytest.mark.parametrize("name", ["GAPWATCH_READ_TOKEN", "GAPWATCH_WRITE_TOKEN"])
@pytest.mark.parametrize("token", ["a b", "a\tb", "a\nb", "sch\u00f6n", " ", "a\x7fb"])
def test_a_token_that_no_client_can_send_is_refused_at_the_start(name: str, token: str) -> None:
    with pytest.raises(UsageError, match=name) as raised:
        api_options("0", token_variables(None, None, {name: token}))
    assert token.strip() == "" or token not in str(raised.value)


def test_white_space_around_a_token_does_not_count() -> None:
    options = api_options("0", {"GAPWATCH_READ_TOKEN": "abc\n", "GAPWATCH_WRITE_TOKEN": ""})
    assert options is not None
    assert (options.read_token, options.asks_to_read) == ("abc", True)
    assert len(options.write_token) > 20


@pytest.mark.parametrize("path", ["/alerts/nope", "/no/such/page", "/alerts/%3Cscript%3E"])
def test_a_browser_gets_a_page_for_an_error_and_a_program_json(kept: Kept, path: str) -> None:
    token = {"Authorization": f"Bearer {READ}"}
    page, answer = get(url(kept), path, {**token, **BROWSER}), get(url(kept), path, token)

    assert (page.status, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert b"404 Not Found" in page.body and b"overview" in page.body and b"<script" not in page.body
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert (answer.status, answer.headers["Content-Type"]) == (404, "application/json")


def test_the_error_page_finds_its_style_and_the_overview_from_any_depth(kept: Kept) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(kept.server.url).port, timeout=60)
    for path, root in (("/nope", "./"), ("/alerts/nope", "../"), ("/a/b/c", "../../")):
        connection.request("GET", path, headers={"Authorization": f"Bearer {READ}", **BROWSER})
        assert f'href="{root}overview.css"' in connection.getresponse().read().decode()
    connection.close()


@pytest.mark.slow
def test_eleven_hundred_idle_connections_do_not_end_the_process(tmp_path: Path) -> None:
    """The process starts with few file descriptors; clients without a token open more connections than that."""
    code = f"""
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        from pathlib import Path
        from tests.live_store import Kept
        with Kept(Path({str(tmp_path / "s.duckdb")!r}), portfolios=[]) as kept:
            print(kept.server.url, resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
            sys.stdin.read()
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(line[8:] for line in code.splitlines())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    address, limits = process.stdout.readline().split(" ", 1)
    idle = [socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=60) for _ in range(1_100)]
    try:
        assert limits.strip() == str((hard, hard))

        def is_served() -> bool:
            try:
                return get(address, "/healthz").status == 200
            except OSError:
                return False

        until(is_served)
    finally:
        for one in idle:
            one.close()
        process.communicate(timeout=60)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert process.returncode == 0
