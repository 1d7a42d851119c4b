"""Clients that open connections and do nothing: they are refused or closed, and nobody else notices."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gapwatch.sinks.api.connection_limit import CONNECTIONS
from tests.http_client import get
from tests.live_store import Kept, until

_SPARE = "gapwatch.sinks.api.connection_limit._SPARE_SECONDS"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with Kept(tmp_path_factory.mktemp("limit") / "s.duckdb", portfolios=[]) as opened:
        yield opened


def connect(kept: Kept) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(kept.server.url).port or 0), timeout=60)


@contextmanager
def idle(kept: Kept, number: int) -> Iterator[list[socket.socket]]:
    """Open connections that send nothing."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(kept)) for _ in range(number)]


def is_closed(one: socket.socket) -> bool:
    """Return whether the server has closed a connection."""
    one.setblocking(False)
    try:
        while one.recv(10_000):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        pass
    return True


def answers(kept: Kept) -> bool:
    try:
        return get(kept.server.url, "/healthz").status == 200
    except OSError:
        return False


def test_connections_beyond_the_limit_get_503_and_are_closed(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    until(lambda: answers(kept))
    monkeypatch.setattr(_SPARE, math.inf)
    with idle(kept, CONNECTIONS + 40) as made:
        until(lambda: sum(map(is_closed, made)) >= 40)
        refused = connect(kept)
        got = b"".join(iter(lambda: refused.recv(10_000), b""))
        refused.close()
        assert got.startswith(b"HTTP/1.1 503 ")
        assert b"Connection: close" in got and b"too many connections" in got
    monkeypatch.undo()
    until(lambda: answers(kept))


def test_a_request_takes_the_place_of_a_connection_at_rest(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    until(lambda: answers(kept))
    monkeypatch.setattr(_SPARE, 0.0)
    with idle(kept, 3 * CONNECTIONS) as made:
        until(lambda: answers(kept))  # of a burst, those that come in the same moment may be refused
        until(lambda: sum(map(is_closed, made)) >= 2 * CONNECTIONS)


def test_a_request_under_way_keeps_its_place(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    until(lambda: answers(kept))
    monkeypatch.setattr(_SPARE, 0.0)
    with connect(kept) as slow:
        slow.sendall(
            b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            b"Content-Length: 7\r\nConnection: close\r\n\r\ntok"
        )
        until(lambda: answers(kept))
        assert answers(kept)  # the head of the request has been read
        with idle(kept, 2 * CONNECTIONS):
            until(lambda: answers(kept))
            slow.sendall(b"en=x")
            got = b"".join(iter(lambda: slow.recv(10_000), b""))
    assert got.startswith(b"HTTP/1.1 401 ")


def test_a_connection_without_a_whole_request_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapwatch.sinks.api.site.IDLE_SECONDS", 0.2)
    with Kept(tmp_path / "s.duckdb", portfolios=[]) as kept, connect(kept) as silent, connect(kept) as half:
        half.sendall(b"GET /metrics HTTP/1.1\r\nHost: local")
        until(lambda: is_closed(silent) and is_closed(half))


def test_one_client_after_the_other_finds_a_place_however_short_each_stays(kept: Kept) -> None:
    """A connection may be made and closed between two others, and is never seen among those that are open."""
    until(lambda: answers(kept))
    assert [get(kept.server.url, "/healthz").status for _ in range(3 * CONNECTIONS)] == [200] * 3 * CONNECTIONS
