"""Commands on `--store http://...`: they answer as with the file, and each failure has a sentence and status 2."""

from __future__ import annotations

import io
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from gapwatch.scorers.errors import StoreError, UsageError
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.api_version import API_HEADER, API_VERSION
from gapwatch.sinks.api.store_address import StoreAddress, find_token, read_address
from gapwatch.sinks.store.store import Store
from tests.gapwatch_command import Ran, gapwatch
from tests.live_alerts import KeptAlerts
from tests.live_store import Kept, until
from tests.store_commands import APART, DECIDING, READING
from tests.streams.alerting.breaking_stream import BROKEN, slices_after_calm
from tests.streams.alerting.builders import portfolio
from tests.test_help import all_commands

READ, WRITE = "read-token-of-the-run", "write-token-of-the-run"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptAlerts]:
    with KeptAlerts(tmp_path_factory.mktemp("address") / "s.duckdb", portfolio()) as opened:
        opened.keep_all(slices_after_calm(BROKEN))
        yield opened


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A store whose API listens for other machines."""
    options = ApiOptions("0.0.0.0", 0, read_token=READ, write_token=WRITE)
    with Kept(tmp_path_factory.mktemp("wide") / "s.duckdb", options, portfolios=[]) as opened:
        yield opened


def url_of(kept: Kept) -> str:
    return kept.server.url.replace("0.0.0.0", "127.0.0.1")


def said(ran: Ran, *names: object) -> tuple[int, str, str]:
    """What a command says, without the name of the store."""
    out, err = ran.out, ran.err
    for name in names:
        out, err = out.replace(str(name), "S"), err.replace(str(name), "S")
    return ran.status, out, err


# --- the same as with the file


@pytest.fixture(scope="module")
def alert(kept: KeptAlerts) -> str:
    (one,) = gapwatch("alerts", "--store", kept.path, "--format", "json").json()
    return str(one["alert_id"])


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_command_by_address_says_what_it_says_by_file(kept: KeptAlerts, alert: str, command: list[str]) -> None:
    words = [alert if word == "ALERT" else word for word in command]
    by_address, by_file = (gapwatch(*words, "--store", store) for store in (kept.server.url, kept.path))
    assert said(by_address, kept.server.url) == said(by_file, kept.path)


def test_every_command_on_a_store_takes_an_address() -> None:
    found = {
        name
        for name, command in all_commands()
        if any(param.name == "store" and type(param.type).__name__ == "_StoreType" for param in command.params)
    }
    tried = {
        " ".join(words[:2]) if words[0] in ("judge", "issue", "triage", "test") else words[0]
        for words in [*READING, *DECIDING]
    }
    assert found == (tried | set(APART)) & found
    assert {"rates", "gaps", "alerts", "explain", "ack", "snapshot", "judge agreement", "override"} <= found


def test_the_variable_names_the_store(kept: KeptAlerts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPWATCH_STORE", kept.server.url)
    assert gapwatch("alerts").out == gapwatch("alerts", "--store", kept.path).out


def test_a_snapshot_by_address_lies_beside_the_store_of_the_run(kept: KeptAlerts) -> None:
    ran = gapwatch("snapshot", "--store", kept.server.url, "--name", "asked-from-afar")
    assert (ran.status, Path(ran.out.strip()).parent.name) == (0, "s.duckdb.snapshots")
    assert f"the folder is on the machine of {kept.server.url}" in ran.err


def test_on_this_machine_a_decision_by_address_needs_no_token_but_the_note(kept: KeptAlerts) -> None:
    annotate = ["annotate", "deploy v12", "--by", "ann", "--store", kept.server.url]
    with ThreadPoolExecutor(1) as other:
        noted = other.submit(gapwatch, *annotate)
        until(lambda: kept.decisions.waiting == 1 or noted.done())
        kept.decisions.apply(kept.store)
        assert said(noted.result(timeout=60)) == (0, "", "noted\n")


# --- tokens


def test_a_store_that_asks_for_tokens_reads_with_one_and_decides_with_the_other(
    wide: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(wide)
    refused = gapwatch("ledger", "--store", url)
    assert refused.status == 2
    assert "asks for its read token: put it into GAPWATCH_TOKEN, or into a file for --token-file" in refused.err

    file = tmp_path / "token"
    file.write_text(READ + "\n")
    assert gapwatch("ledger", "--store", url, "--token-file", file).status == 0
    monkeypatch.setenv("GAPWATCH_TOKEN", READ)
    assert gapwatch("ledger", "--store", url).status == 0
    annotated = gapwatch("annotate", "x", "--store", url)
    assert annotated.status == 2
    assert f"{url} does not accept the token of GAPWATCH_TOKEN as its write token" in annotated.err
    monkeypatch.setenv("GAPWATCH_TOKEN", "guessed-guessed")
    wrong = gapwatch("rates", "--store", url)
    assert (wrong.status, "does not accept the token of GAPWATCH_TOKEN as its read token" in wrong.err) == (2, True)
    assert not any(text in ran.err for text in (READ, WRITE, "guessed-guessed") for ran in (refused, annotated, wrong))


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "is empty"), (b"\nx", "is empty"), (b"two words", "does not hold a token"), (b"\xff", "is not a text"),
     (None, "cannot be read: No such file")],
)  # fmt: skip
def test_a_token_file_without_a_token_is_told(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    ran = gapwatch("ledger", "--store", "http://127.0.0.1:1", "--token-file", file)
    assert (ran.status, why in ran.err, str(file) in ran.err) == (2, True, True)


def test_the_file_wins_over_the_environment_and_no_token_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file")
    environment = {"GAPWATCH_TOKEN": "any", "GAPWATCH_WRITE_TOKEN": "w"}
    found = find_token(StoreAddress("http://h:1", file), True, environment)
    assert (found.text, "from-file" in repr(found)) == ("from-file", False)
    assert find_token(StoreAddress("http://h:1"), True, environment).text == "any"
    del environment["GAPWATCH_TOKEN"]
    assert [find_token(StoreAddress("http://h:1"), writes, environment).text for writes in (True, False)] == ["w", ""]


# --- what is no store


@pytest.mark.parametrize(
    "address",
    [
        "ftp://host/x",
        "http://",
        "http://host:99999",
        "http://host:x",
        "http://h:1?x=1",
        "https://h#x",
        "s3://b",
        "http://a b",
        "http://a..b",
        "http://.:80",
        f"http://{'a' * 300}",
        "http://a\x1b[2J",
        "http://h:1/a b",
        "http://h:1/ä",
        "http://*",
        "http://a%20b",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_told(address: str) -> None:
    ran = gapwatch("alerts", "--store", address)
    assert (ran.status, "write http://HOST:9464" in ran.err, "\x1b" in ran.err) == (2, True, False)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="no user name or password") as refused:
        read_address("http://me:hunter22@host:1")
    assert "hunter22" not in str(refused.value)


@contextmanager
def serving(
    answer: Callable[[BaseHTTPRequestHandler], None], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Serve an answer to every request; gives the address, and the path and token of each request."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((self.path, self.headers.get("Authorization", "")))
            answer(self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def replies(status: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": "2", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(b"{}")

    return reply


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (replies(200), "is not the API of Gapwatch"),
        (replies(404), "is not the API of Gapwatch (its answer has status 404); check host and port"),
        (replies(200, Gapwatch_Api="0.1"), "is another version of Gapwatch (its API is version 0.1, that of this"),
    ],
)
def test_another_program_or_version_is_told(answer: Callable[[BaseHTTPRequestHandler], None], why: str) -> None:
    with serving(answer) as (url, _):
        ran = gapwatch("alerts", "--store", url)
    assert (ran.status, why in ran.err) == (2, True), ran.err


VERSION = {API_HEADER: API_VERSION}


def sends(body: bytes, length: int | None = None, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    """Answer as the API of this version does, with a body of one's own."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body) if length is None else length), **VERSION}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


@pytest.mark.parametrize(
    "command", [["rates"], ["ledger"], ["snapshot"], ["annotate", "x", "--by", "ann"]], ids=" ".join
)
@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b'{"store": 7, "applied": []}', b"\xff\xff\xff\xff\x10"])
def test_a_server_that_names_this_version_and_sends_nonsense_is_told(command: list[str], body: bytes) -> None:
    with serving(sends(body)) as (url, _):
        ran = gapwatch(*command, "--store", url)
    if command[0] == "annotate" and b"applied" in body:
        assert (ran.status, ran.out) == (0, "")
        return
    assert (ran.status, ran.out) == (2, "")
    assert f"{url} answers with version {API_VERSION} of the API of Gapwatch, but what it sends has another" in ran.err


@pytest.mark.parametrize("command", ["rates", "gaps", "alerts", "alerts --watched", "explain a1", "rates --by release"])
def test_valid_arrow_with_other_columns_is_told(command: str) -> None:
    table, sink = pa.table({"x": [1, 2], "y": ["a", None]}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    with serving(sends(sink.getvalue())) as (url, _):
        ran = gapwatch(*command.split(), "--store", url)
    assert ran.status == 2, ran.err
    assert f"{url} answers with version {API_VERSION} of the API of Gapwatch, but what it sends has another" in ran.err


def test_an_answer_that_is_cut_is_told_with_its_size() -> None:
    with serving(sends(b'{"store": "x', length=900)) as (url, _):
        ran = gapwatch("ledger", "--store", url)
    assert ran.status == 1
    assert f"the answer of {url} was cut off (the connection ended after 12 of 900 bytes)" in ran.err


def test_an_answer_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapwatch.sinks.api.connection._ANSWER_BYTES", 2**20)
    with serving(sends(b" " * 2**22)) as (url, _):
        ran = gapwatch("ledger", "--store", url)
    assert ran.status == 1
    assert f"the answer of {url} is longer than 1 MiB and was not read" in ran.err


def test_the_text_of_a_server_cannot_write_to_the_terminal() -> None:
    text = json.dumps({"error": "no\x1b[2J\x07 such\u202e table\nline 2\r"}).encode()
    with serving(sends(text, status=400)) as (url, _):
        ran = gapwatch("ledger", "--store", url)
    assert (ran.status, ran.err) == (2, "gapwatch: no\\x1b[2J\\x07 such\\u202e table\nline 2\\r\n")


def test_a_token_does_not_follow_a_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPWATCH_TOKEN", "secret-secret")
    with serving(replies(200)) as (elsewhere, asked), serving(replies(302, Location=elsewhere)) as (url, _):
        ran = gapwatch("alerts", "--store", url)
    assert (ran.status, "redirects to another address, to which no token is sent" in ran.err) == (2, True)
    assert asked == []
    assert "secret-secret" not in ran.err


def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ran = gapwatch("alerts", "--store", f"http://127.0.0.1:{port}")
    assert ran.status == 2
    assert f"nothing answers at http://127.0.0.1:{port} (Connection refused); is `gapwatch run` running" in ran.err


def test_https_to_a_port_of_http_is_told(wide: Kept) -> None:
    ran = gapwatch("alerts", "--store", url_of(wide).replace("http:", "https:"))
    assert (ran.status, "does not speak https" in ran.err) == (2, True), ran.err


def test_https_is_asked_only_with_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAPWATCH_TOKEN", "secret-secret")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True, timeout=120)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(replies(200, Gapwatch_Api="0.1"), context) as (url, asked):
        address = url.replace("http://127.0.0.1", "https://localhost")
        refused = gapwatch("alerts", "--store", address)
        assert (refused.status, asked) == (2, [])
        assert f"the certificate of {address} is not valid (self" in refused.err and "no token was sent" in refused.err
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = gapwatch("alerts", "--store", address)
    assert "another version of Gapwatch" in trusted.err
    assert "unencrypted" not in trusted.err
    assert ("/v1/about", "Bearer secret-secret") in asked or ("/v1/query", "Bearer secret-secret") in asked


def test_a_token_over_plain_http_to_another_machine_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPWATCH_TOKEN", "secret-secret")
    ran = gapwatch("alerts", "--store", "http://gapwatch.invalid:9464")  # a name that never exists (RFC 6761)
    assert ran.err.count("the token goes unencrypted to http://gapwatch.invalid:9464") == 1
    assert (ran.status, "secret-secret" in ran.err) == (2, False)


def test_a_command_that_opens_the_file_says_so(kept: KeptAlerts) -> None:
    ran = gapwatch("judge", "run", "--judges", "j.yaml", "--store", kept.server.url)
    assert (ran.status, "opens the file of the store: give --store the file" in ran.err) == (2, True)
    with pytest.raises(StoreError, match="takes no address"):
        Store.open("http://127.0.0.1:9464", create=True)
