"""Answers of the HTTP receiver to good, odd and hostile requests."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.otlp.receiving import http_receiver
from gapwatch.streams.otlp.receiving.http_receiver import read_otlp_address
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, RefusedRequestError, Signal, Taken
from tests.streams.otlp.receiving.receivers import GZIP, JSON, PROTOBUF, Receiving, receiving

TRACES = "/v1/traces"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Receiving]:
    with receiving(tmp_path) as one:
        yield one


def bomb(mebibytes: int) -> bytes:
    machine = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(machine.compress(bytes(1 << 20)) for _ in range(mebibytes)), machine.flush()])


@pytest.mark.parametrize("path", [TRACES, "/api/public/otel/v1/traces"])
@pytest.mark.parametrize("headers", [PROTOBUF, JSON, {"Content-Type": "application/json; charset=utf-8"}])
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_what_is_answered_200_is_in_the_spool(
    there: Receiving, path: str, headers: dict[str, str], is_packed: bool
) -> None:
    got = there.post(path, gzip.compress(b"spans") if is_packed else b"spans", headers | (GZIP if is_packed else {}))

    is_json = "json" in headers["Content-Type"]
    assert (got.status, got.body) == (200, b"{}" if is_json else b"")
    assert got.headers["Content-Type"].startswith(headers["Content-Type"].partition(";")[0])
    assert there.stored() == [OtlpRequest(Signal.TRACES, is_json, b"spans")]


def test_logs_are_stored_as_logs(there: Receiving) -> None:
    assert there.post("/v1/logs", b"records", PROTOBUF).status == 200
    assert there.stored() == [OtlpRequest(Signal.LOGS, False, b"records")]


def test_metrics_are_counted_and_dropped(there: Receiving) -> None:
    assert there.post("/v1/metrics", b"numbers", PROTOBUF).status == 200
    assert there.stored() == []
    assert there.intake.requests[Signal.METRICS, "dropped"] == 1


@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
def test_an_empty_body_is_a_success(there: Receiving, headers: dict[str, str]) -> None:
    assert there.post(TRACES, b"", headers).status == 200
    assert there.stored() == []


REFUSED = {
    "no content type": (TRACES, b"x", {"Content-Type": ""}, 415),
    "wrong content type": (TRACES, b"x", {"Content-Type": "text/plain"}, 415),
    "unknown encoding": (TRACES, b"x", PROTOBUF | {"Content-Encoding": "zip"}, 415),
    "brotli": (TRACES, b"x", PROTOBUF | {"Content-Encoding": "br"}, 415),
    "gzip twice": (TRACES, b"x", PROTOBUF | {"Content-Encoding": "gzip, gzip"}, 415),
    "broken gzip": (TRACES, b"spans", PROTOBUF | GZIP, 400),
    "cut gzip": (TRACES, gzip.compress(os.urandom(100))[:-20], PROTOBUF | GZIP, 400),
    "unknown path": ("/v1/nothing", b"x", PROTOBUF, 404),
}


@pytest.mark.parametrize(("path", "body", "headers", "status"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_cannot_be_read_is_refused_with_a_status(
    there: Receiving, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    got = there.post(path, body, headers)

    assert got.status == status
    if headers == PROTOBUF | GZIP or status == 404:
        assert got.headers["Content-Type"].startswith("application/x-protobuf")
        assert got.body[0] == 8  # field 1 of google.rpc.Status, the code
    assert there.stored() == []
    assert there.post(TRACES, b"after", PROTOBUF).status == 200


def test_a_get_is_told_to_post(there: Receiving) -> None:
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(f"{there.url}{TRACES}")
    with told.value as answer:
        assert answer.code == 405
        assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
def test_a_refusal_is_in_the_content_type_of_the_request(tmp_path: Path, headers: dict[str, str]) -> None:
    def check(_: OtlpRequest) -> Taken:
        raise RefusedRequestError("this is no message")

    with receiving(tmp_path, check) as there:
        got = there.post(TRACES, b"x", headers)
        assert got.status == 400
        assert got.headers["Content-Type"].startswith(headers["Content-Type"])
        if headers is JSON:
            assert json.loads(got.body) == {"code": 3, "message": "this is no message"}
        else:
            assert got.body == b"\x08\x03\x12\x12this is no message"


def test_rejected_spans_are_a_partial_success(tmp_path: Path) -> None:
    with receiving(tmp_path, lambda _: Taken(300, "bad_id")) as there:
        assert there.post(TRACES, b"x", JSON).json() == {
            "partialSuccess": {"rejectedSpans": "300", "errorMessage": "bad_id"}
        }
        assert there.post("/v1/logs", b"x", JSON).json()["partialSuccess"]["rejectedLogRecords"] == "300"
        # Field 1 of the answer: rejected_spans (a varint of two bytes) and error_message.
        assert there.post(TRACES, b"x", PROTOBUF).body == b"\x0a\x0b\x08\xac\x02\x12\x06bad_id"
        assert len(there.stored()) == 3


def test_a_body_over_the_limit_is_refused_before_it_is_read(there: Receiving) -> None:
    with there.connect() as one:
        one.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 20971521\r\n\r\n"
        )
        assert one.recv(1_000).startswith(b"HTTP/1.1 413 ")


def test_a_body_without_a_length_is_refused_at_the_limit(there: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_receiver, "BODY_LIMIT", 1_000)
    with there.connect() as one:
        one.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + bytes(1024) + b"\r\n"
        )
        assert one.recv(1_000).startswith(b"HTTP/1.1 413 ")
    assert there.post(TRACES, b"after", PROTOBUF).status == 200


def test_a_gzip_bomb_is_refused(there: Receiving) -> None:
    got = there.post(TRACES, bomb(32), PROTOBUF | GZIP)
    assert got.status == 413
    assert b"200 times" in got.body
    assert there.post(TRACES, b"after", PROTOBUF).status == 200


def test_a_body_that_comes_too_slowly_is_refused(there: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_receiver, "BODY_SECONDS", 0.2)
    with there.connect() as slow:
        slow.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 30\r\n\r\nabc"
        )
        assert slow.recv(1_000).startswith(b"HTTP/1.1 408 ")


def test_connections_at_rest_do_not_keep_out_an_exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_receiver, "CONNECTIONS", 20)
    monkeypatch.setattr("gapwatch.sinks.api.connection_limit._SPARE_SECONDS", 0.05)
    with receiving(tmp_path) as there, contextlib.ExitStack() as idle:
        for _ in range(60):
            idle.enter_context(there.connect())
        end, statuses = time.monotonic() + 10, list[int]()
        while 200 not in statuses and time.monotonic() < end:
            with contextlib.suppress(urllib.error.URLError):  # refused before the request was read
                statuses.append(there.post(TRACES, b"x", PROTOBUF).status)
        assert set(statuses) <= {200, 503}
        assert len(there.stored()) == 1


def test_with_a_token_nothing_is_taken_without_it(tmp_path: Path) -> None:
    with receiving(tmp_path, token="a-long-secret") as there:
        assert there.post(TRACES, b"x", PROTOBUF).status == 401
        assert there.post(TRACES, b"x", PROTOBUF | {"Authorization": "Bearer wrong"}).status == 401
        assert there.post(TRACES, b"x", PROTOBUF | {"Authorization": "Bearer a-long-secret"}).status == 200
        # Langfuse's SDK sends its keys as user name and password.
        basic = "Basic cGstMTphLWxvbmctc2VjcmV0"
        assert there.post(TRACES, b"x", PROTOBUF | {"Authorization": basic}).status == 200
        assert len(there.stored()) == 2


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
def test_a_web_page_cannot_send_spans(there: Receiving, headers: dict[str, str]) -> None:
    assert there.post(TRACES, b"x", PROTOBUF | headers).status == 403


def test_an_address_that_others_reach_needs_a_token() -> None:
    with pytest.raises(UsageError, match="GAPWATCH_OTLP_TOKEN"):
        read_otlp_address("0.0.0.0:4318", "--otlp", "")
    assert read_otlp_address("0.0.0.0:4318", "--otlp", "secret").token == "secret"
    assert read_otlp_address("4318", "--otlp", "").address == "127.0.0.1"
    with pytest.raises(UsageError, match="not an address and port"):
        read_otlp_address("http://127.0.0.1", "--otlp", "")


def test_a_full_disk_is_answered_503_and_the_receiver_goes_on(
    there: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("gapwatch.streams.otlp.live.spool.write_all", full)
        got = there.post(TRACES, b"lost?", PROTOBUF)
        assert (got.status, got.headers["Retry-After"]) == (503, "10")
    assert there.post(TRACES, b"after", PROTOBUF).status == 200
    assert [one.body for one in there.stored()] == [b"after"]
