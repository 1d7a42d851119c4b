"""A receiver on a free port that stores what it takes in a spool, and requests by a client that is none of ours."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gapwatch.streams.otlp.live.spool import Spool
from gapwatch.streams.otlp.live.spool_intake import Check, LogClock, SpoolIntake
from gapwatch.streams.otlp.receiving.http_receiver import HttpReceiver, OtlpAddress
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Taken
from tests.http_client import Got, post

PROTOBUF, JSON = {"Content-Type": "application/x-protobuf"}, {"Content-Type": "application/json"}
GZIP = {"Content-Encoding": "gzip"}


@dataclass(frozen=True)
class Receiving:
    receiver: HttpReceiver
    spool: Spool
    intake: SpoolIntake

    @property
    def url(self) -> str:
        return self.receiver.url

    def stored(self) -> list[OtlpRequest]:
        return [one.request for one in self.spool.read(self.spool.first, 1 << 40)]

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> Got:
        return post(self.url, path, body, headers)

    def connect(self) -> socket.socket:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return socket.create_connection((host, int(port)), timeout=10)


@contextlib.contextmanager
def receiving(folder: Path, check: Check | None = None, token: str = "") -> Iterator[Receiving]:
    spool = Spool(folder / "spool")
    intake = SpoolIntake(spool, LogClock(spool.last_clock), check or (lambda _: Taken()), lambda: 0, lambda: None)
    receiver = HttpReceiver(OtlpAddress("127.0.0.1", 0, token), intake)
    receiver.start()
    try:
        yield Receiving(receiver, spool, intake)
    finally:
        assert receiver.stop(10)
        intake.close()
        spool.close()
