"""Sends spans to a process that is killed again and again, as exporters do, and says what came of them."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.live.commit_journal import AssemblyCommit, CommitJournal
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Signal
from tests.paths import ROOT

STEPS = ("read", "traces written", "journal written", "committed")


def requests(traces: int, seed: int) -> list[bytes]:
    """Return requests with the spans of several traces in each, and each trace in several of them."""
    chance = random.Random(seed)
    spans: list[tuple[float, bytes, int, bool]] = []
    for number in range(traces):
        at = number + 0.0
        trace = chance.randbytes(16)
        for place in range(chance.randint(1, 6)):
            spans.append((at + chance.random() * 6, trace, place, place == 0))
    spans.sort()
    bodies = []
    while spans:
        size = chance.randint(1, 9)
        taken, spans = spans[:size], spans[size:]
        asked = ExportTraceServiceRequest()
        scope = asked.resource_spans.add()
        scope.resource.attributes.add(key="service.name").value.string_value = "support"
        inside = scope.scope_spans.add()
        for _, trace, place, is_root in taken:
            inside.spans.add(
                trace_id=trace, span_id=bytes(7) + bytes([place + 1]), name=f"chat {place}",
                parent_span_id=b"" if is_root else bytes(7) + b"\x01",
                start_time_unix_nano=1_790_000_000_000_000_000 + place, end_time_unix_nano=1_790_000_001_000_000_000,
                attributes=[
                    {"key": "gen_ai.operation.name", "value": {"string_value": "chat"}},
                    {"key": "gen_ai.request.model", "value": {"string_value": "gpt-4.1"}},
                    {"key": "gen_ai.usage.input_tokens", "value": {"int_value": 7}},
                    {"key": "gen_ai.usage.output_tokens", "value": {"int_value": 3}},
                ],
            )  # fmt: skip
        bodies.append(asked.SerializeToString())
    return bodies


def spans_of(bodies: Sequence[bytes]) -> int:
    """Return the number of spans in requests."""
    return sum(
        len(scope.spans)
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
    )


def undisturbed(bodies: Iterable[bytes]) -> list[bytes]:
    """Return the envelopes of requests that are assembled in memory, one after the other, with nothing between."""
    assembler = Assembler(TraceMapper.of([]))
    for number, body in enumerate(bodies):
        assembler.take(OtlpRequest(Signal.TRACES, False, body), number, 0.0, 0.0)
    assembler.advance(100_000.0)
    return sorted(one.envelope for one in assembler.closed() if one.envelope is not None)


@dataclass
class Fed:
    """A feed in a process of its own, on one folder and one port.

    Attributes:
        folder: Its folder.
        port: Its port.
        quiet: Seconds after which it closes a trace.
        kills: Times that it was killed.
        deadly: Step of a commit, and its number, at which the processes that are started next kill themselves.
    """

    folder: Path
    port: int
    quiet: float = 2.0
    kills: int = 0
    deadly: list[tuple[str, str]] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        deadly = self.deadly.pop(0) if self.deadly else ()
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.chaos.otlp_child", str(self.folder), str(self.port), str(self.quiet),
                *deadly,
            ],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()  # empty if it was killed before
        assert line or deadly, "it did not start"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._gone()

    def revive(self) -> None:
        """Start it again if it is gone."""
        assert self._process is not None
        if self._process.poll() is not None:
            assert self._process.returncode == -signal.SIGKILL, self._process.returncode
            self._gone()
            self.start()

    def until_killed(self, kills: int, seconds: float = 30.0) -> None:
        """Wait until it has killed itself so many times in all."""
        end = time.monotonic() + seconds
        while self.kills < kills:
            assert time.monotonic() < end, f"{self.kills} kills"
            time.sleep(0.05)
            self.revive()

    def _gone(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.wait(20)
        self._process.stdout.close()
        self.kills += 1

    def send(self, body: bytes, seconds: float = 60.0) -> None:
        """Send a request until it is answered 200, as an exporter does."""
        end = time.monotonic() + seconds
        headers = {"Content-Type": "application/x-protobuf"}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/traces", body, headers)
        while True:
            try:
                with urllib.request.urlopen(asked, timeout=10) as answer:
                    assert answer.status == 200
                    return
            except (OSError, urllib.error.URLError, ConnectionError):
                assert time.monotonic() < end
                self.revive()

    def end(self, seconds: float = 60.0) -> None:
        """Wait until nothing is open, and stop it."""
        assert self._process is not None
        end = time.monotonic() + seconds
        while True:
            self.revive()
            last = self.last()
            if last.counts.get("span.pending.", 0) == 0 and last.read == last.held and last.number:
                break
            assert time.monotonic() < end, last
            time.sleep(0.2)
        time.sleep(0.3)
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(20) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()

    def last(self) -> AssemblyCommit:
        """Return the last commit."""
        if not (self.folder / "commits").exists():
            return AssemblyCommit()
        copy = self.folder / "commits.copy"
        copy.write_bytes((self.folder / "commits").read_bytes())
        journal = CommitJournal(copy)
        journal.close()
        return journal.last

    def traces(self) -> list[bytes]:
        """Return the whole traces."""
        files = sorted((self.folder / "traces").iterdir())
        return [line for file in files for line in file.read_bytes().splitlines()]


def assert_whole(fed: Fed, bodies: Sequence[bytes]) -> None:
    """It has the envelopes of an undisturbed assembly, each once, and the ledger of spans balances."""
    lines = fed.traces()
    ids = [orjson.loads(line)["trace_id"] for line in lines]
    assert len(ids) == len(set(ids)), "a trace came twice"
    assert sorted(lines) == undisturbed(bodies)
    counts = dict(fed.last().counts)
    spans = {name: n for name, n in counts.items() if name.startswith("span.")}
    consumed = spans.pop("span.consumed.")
    assert consumed == sum(spans.values())
    # A request whose answer was lost in a kill is sent again: its spans are duplicates, or late if all was closed.
    assembled = sum(n for name, n in spans.items() if name.startswith("span.assembled."))
    assert assembled == spans_of(bodies)
    assert spans.get("span.late.", 0) + spans.get("span.duplicate.", 0) == consumed - assembled
