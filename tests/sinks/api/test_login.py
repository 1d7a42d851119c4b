"""A browser gives the token once: the form, the cookie, what the cookie may do, and its end."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import pytest

from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.service import api_options
from gapwatch.sinks.api.sessions import SESSION_SECONDS, Sessions
from gapwatch.sinks.api.token_attempts import WRONG_TOKENS_A_MINUTE
from tests.live_store import Kept

READ, WRITE = "read-token-of-the-run", "write-token-of-the-run"
BROWSER = {"Accept": "text/html,application/xhtml+xml"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    options = ApiOptions("0.0.0.0", 0, read_token=READ, write_token=WRITE)
    with Kept(tmp_path_factory.mktemp("login") / "s.duckdb", options, portfolios=[]) as opened:
        yield opened


@dataclass
class Answer:
    status: int
    body: str
    headers: dict[str, str]

    @property
    def cookie(self) -> str:
        """The cookie that the answer sets, as a browser sends it back."""
        return self.headers["Set-Cookie"].partition(";")[0]


def ask(kept: Kept, method: str, path: str, body: str = "", **headers: str) -> Answer:
    """Send one request, without following where the answer leads."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(kept.server.url).port, timeout=60)
    connection.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    answer = Answer(response.status, response.read().decode(), dict(response.headers))
    connection.close()
    return answer


def log_in(kept: Kept, token: str = READ, page: str = "", **headers: str) -> Answer:
    return ask(kept, "POST", "/login", urlencode({"token": token, "next": page}), **FORM, **headers)


@pytest.mark.parametrize(
    ("path", "form"),
    [("/", "login"), ("/alerts/a1", "../login?next=alerts/a1"), ("/no/such/page", "../../login?next=no/such/page")],
)  # fmt: skip
def test_any_page_without_a_session_leads_to_the_form(kept: Kept, path: str, form: str) -> None:
    got = ask(kept, "GET", path, **BROWSER)
    assert (got.status, f"url={form}" in got.body) == (401, True)


def test_a_program_gets_json_and_no_form(kept: Kept) -> None:
    for path in ("/", "/metrics", "/v1/ledger", "/v1/about", "/no/such/path"):
        got = ask(kept, "GET", path)
        assert (got.status, got.headers["Content-Type"]) == (401, "application/json"), path
    assert ask(kept, "GET", "/v1/query?sql=SELECT+1", **BROWSER).headers["Content-Type"].startswith("application/json")


def test_the_token_opens_the_page_that_was_asked_for(kept: Kept) -> None:
    form = ask(kept, "GET", "/login?next=alerts/a1", **BROWSER)
    assert (form.status, 'value="alerts/a1"' in form.body, 'type="password"' in form.body) == (200, True, True)

    done = log_in(kept, page="alerts/a1")
    assert (done.status, done.headers["Location"]) == (303, "./alerts/a1")
    attributes = done.headers["Set-Cookie"]
    for attribute in ("HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_SECONDS}"):
        assert attribute in attributes
    assert READ not in attributes and "Secure" not in attributes
    page = ask(kept, "GET", "/", Cookie=done.cookie, **BROWSER)
    assert (page.status, '<form method="post" action="logout">' in page.body) == (200, True)
    assert ask(kept, "GET", "/v1/query?sql=SELECT+1", Cookie=done.cookie).status == 200
    assert ask(kept, "GET", "/login?next=alerts/a1", Cookie=done.cookie).headers["Location"] == "./alerts/a1"


def test_behind_a_proxy_with_https_the_cookie_is_for_https_only(kept: Kept) -> None:
    assert "Secure" in log_in(kept, X_Forwarded_Proto="https").headers["Set-Cookie"]


def test_a_session_may_only_read(kept: Kept) -> None:
    cookie = log_in(kept, WRITE).cookie
    for path in ("/v1/annotations", "/v1/snapshots", "/v1/query", "/v1/no-such-path"):
        got = ask(
            kept, "POST", path, '{"text": "x", "sql": "SELECT 1"}', Cookie=cookie, Content_Type="application/json"
        )
        assert got.status == 401, path
    assert kept.decisions.waiting == 0


def test_no_other_page_uses_the_session_but_a_link_leads_here(kept: Kept) -> None:
    cookie = log_in(kept).cookie
    foreign = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert ask(kept, "GET", "/", Cookie=cookie, **foreign).status == 200
    assert ask(kept, "GET", "/v1/query?sql=SELECT+1", Cookie=cookie, **foreign).status == 403
    assert ask(kept, "GET", "/", Cookie=cookie, **{**foreign, "Sec_Fetch_Dest": "iframe"}).status == 403
    assert ask(kept, "GET", "/metrics", Cookie=cookie, Origin="https://evil.example").status == 403
    assert log_in(kept, Origin="https://evil.example").status == 403
    assert ask(kept, "POST", "/logout", Cookie=cookie, Origin="null").status == 403
    port = urlsplit(kept.server.url).port
    assert log_in(kept, Origin=f"http://127.0.0.1:{port}", Sec_Fetch_Site="same-origin").status == 303


@pytest.mark.parametrize(
    "page", ["https://evil.example", "//evil.example", "a//evil", "javascript:x", "a\r\nSet-Cookie: b"]
)
def test_a_login_leads_to_no_other_host(kept: Kept, page: str) -> None:
    assert log_in(kept, page=page).headers["Location"] == "./"
    assert "evil" not in ask(kept, "GET", f"/login?{urlencode({'next': page})}", **BROWSER).body


def test_a_logout_ends_the_session(kept: Kept) -> None:
    cookie = log_in(kept).cookie
    other = log_in(kept).cookie
    done = ask(kept, "POST", "/logout", Cookie=cookie)
    assert (done.status, done.headers["Location"], "Max-Age=0" in done.headers["Set-Cookie"]) == (303, "./login", True)
    assert ask(kept, "GET", "/metrics", Cookie=cookie).status == 401
    assert ask(kept, "GET", "/metrics", Cookie=other).status == 200


def test_wrong_tokens_are_told_and_soon_no_longer_looked_at(kept: Kept) -> None:
    for _ in range(WRONG_TOKENS_A_MINUTE):
        wrong = log_in(kept, "guessed")
        assert (wrong.status, "Set-Cookie" in wrong.headers, "This is not the read token." in wrong.body) == (
            401,
            False,
            True,
        )
    late = log_in(kept)
    assert (late.status, "wait a minute" in late.body) == (429, True)
    assert "guessed" not in wrong.body


def test_a_cookie_is_of_one_token_and_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(READ, 9464)
    cookie = sessions.begin()
    assert sessions.cookie == "gapwatch-9464"
    assert sessions.holds(cookie) and Sessions(READ, 9464).holds(cookie)
    assert not Sessions("another", 9464).holds(cookie)
    expiry, nonce, signature = cookie.split(".")
    for forged in (
        "",
        cookie + "0",
        f"{int(expiry) + 1}.{nonce}.{signature}",
        f"{expiry}.{nonce}.{'0' * 64}",
        "x" * 5000,
    ):
        assert not sessions.holds(forged)
    monkeypatch.setattr("gapwatch.sinks.api.sessions.time.time", lambda: int(expiry) + 1)
    assert not sessions.holds(cookie)


def test_on_this_machine_a_set_read_token_is_asked_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    options = api_options("0", {"GAPWATCH_READ_TOKEN": READ})
    assert options is not None and options.is_local and not options.reading_is_free
    with Kept(tmp_path_factory.mktemp("local") / "s.duckdb", options, portfolios=[]) as kept:
        assert ask(kept, "GET", "/metrics").status == 401
        assert ask(kept, "GET", "/metrics", Authorization=f"Bearer {READ}").status == 200
        assert ask(kept, "GET", "/v1/about").status == 200  # it names the note, which its owner reads
        assert ask(kept, "GET", "/", Host="evil.example", **BROWSER).status == 403
        assert re.search("url=login", ask(kept, "GET", "/", **BROWSER).body)
