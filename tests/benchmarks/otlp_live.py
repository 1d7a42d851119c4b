"""Memory, restart and receiving of spans over OTLP, on copies of real captures with new trace ids.

    python -m tests.benchmarks.otlp_live memory --spans 200000
    python -m tests.benchmarks.otlp_live flat --spans 2000000
    python -m tests.benchmarks.otlp_live restart --spans 650000
    python -m tests.benchmarks.otlp_live receive --requests 2000

Each prints one line of JSON. CPU is that of this process; the clients of `receive` are a process of their own.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import http.client
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.decoding.raw_items import RawTrace
from gapwatch.streams.otlp.decoding.splitting import split
from gapwatch.streams.otlp.live.commit_journal import AssemblyCommit, CommitJournal
from gapwatch.streams.otlp.live.spool import Spool
from gapwatch.streams.otlp.live.spool_assembly import SpoolAssembly
from gapwatch.streams.otlp.live.spool_feed import check_request
from gapwatch.streams.otlp.live.spool_intake import LogClock, SpoolIntake
from gapwatch.streams.otlp.mapping.mapper import MappedTrace, TraceMapper
from gapwatch.streams.otlp.receiving.http_receiver import HttpReceiver, OtlpAddress
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Signal
from tests.paths import ROOT

CAPTURES = ROOT / "tests" / "data" / "otlp"


def corpus() -> list[tuple[bytes, list[bytes], int]]:
    """Return protobuf bodies of captures, the trace ids in each, and its number of spans."""
    found = []
    for path in sorted(CAPTURES.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            one = orjson.loads(line)
            if not one["path"].endswith("traces") or "json" in one["headers"].get("content-type", ""):
                continue
            body = base64.b64decode(one["body"])
            if one["headers"].get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            spans = split(body, is_json=False, is_logs=False).spans
            found.append((body, sorted({span.trace_id for span in spans}), len(spans)))
    return found


def copies(spans: int, seed: int = 1) -> Iterator[tuple[bytes, list[bytes], int]]:
    """Yield bodies with new trace ids, their ids and their number of spans, until there are so many spans."""
    chance, bodies, total = random.Random(seed), corpus(), 0
    while True:
        names: dict[bytes, bytes] = {}
        for body, ids, count in bodies:
            for trace_id in ids:
                body = body.replace(trace_id, names.setdefault(trace_id, chance.randbytes(16)))
            yield body, [names[trace_id] for trace_id in ids], count
            total += count
            if total >= spans:
                return


def rss() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def memory(spans: int) -> dict[str, float]:
    """Measure the memory of a pending span."""
    assembler = Assembler(TraceMapper.of([]), CloseRules(memory=1 << 40))
    corpus()
    before, raw = rss(), 0
    for number, (body, _, _) in enumerate(copies(spans)):
        raw += len(body)
        assembler.take(OtlpRequest(Signal.TRACES, False, body), number, 0.0, 0.0)
    pending = assembler.pending
    return {
        "pending": pending, "bytes_a_span": (rss() - before) / pending, "raw_bytes_a_span": raw / pending,
        "estimated_bytes_a_span": assembler.memory_bytes / pending,
    }  # fmt: skip


class _NoMapper:
    root_globs: tuple[str, ...] = ()

    def map(self, trace: RawTrace) -> MappedTrace:
        return MappedTrace(spans=len(trace.spans), orphaned=len(trace.logs))


def flat(spans: int) -> dict[str, object]:
    """Measure the memory while spans come and traces are closed: 200 traces a second, quiet time 10 s.

    Traces are not mapped: what is mapped is given away at once, and it would take ten times as long.
    """
    assembler = Assembler(_NoMapper())
    seen, looks, cpu = 0, list[tuple[int, int]](), time.process_time()
    for number, (body, _, count) in enumerate(copies(spans)):
        seen += count
        clock = seen / 1_100
        assembler.advance(clock)
        assembler.take(OtlpRequest(Signal.TRACES, False, body), number, clock, clock)
        assembler.closed()
        if seen // (spans // 10) > len(looks):
            looks.append((seen, rss() >> 20))
    return {"mib_by_spans": looks, "us_a_span": (time.process_time() - cpu) / seen * 1e6}


def restart(spans: int) -> dict[str, float]:
    """Measure a start that reads spans again: one agent is open since before all others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spool, closed, written, batch = Spool(folder / "spool"), list[str](), 0, list[OtlpRequest]()
        first = True
        agent = b""
        for body, ids, count in copies(spans):
            if first:
                agent, first = ids[0], False
            closed += [one.hex() for one in ids if one != agent]
            written += count
            batch.append(OtlpRequest(Signal.TRACES, False, body))
            if len(batch) == 200:
                spool.append(batch, 0.0, 1.0)
                batch = []
        spool.append(batch, 0.0, 1.0)
        journal = CommitJournal(folder / "commits")
        journal.append(AssemblyCommit(1, 0.0, spool.end, 0, counts={}, closed=list(dict.fromkeys(closed))))
        journal.close()
        started, cpu = time.monotonic(), time.process_time()
        assembly = SpoolAssembly(folder, spool, Assembler(TraceMapper.of([])), lambda: 1.0, lambda _: None)
        assembly._restore()
        found = {
            "spans": written, "bytes": spool.end, "seconds": time.monotonic() - started,
            "cpu_seconds": time.process_time() - cpu,
        }  # fmt: skip
        assembly.stop(1)
        spool.close()
        return found


def receive(requests: int) -> dict[str, float]:
    """Measure the CPU of receiving: requests of 512 spans over 4 connections, and of one span over 4 and over 64.

    Over few connections the receiver is idle while the group of requests waits for more of them and for the disk, and
    pays for each waking.
    """
    with tempfile.TemporaryDirectory() as name:
        spool = Spool(Path(name) / "spool")
        intake = SpoolIntake(spool, LogClock(0.0), check_request, lambda: spool.end, lambda: None)
        receiver = HttpReceiver(OtlpAddress("127.0.0.1", 0), intake)
        receiver.start()
        found: dict[str, float] = {}
        for kind, count, each, lines in (
            ("large", max(1, requests // 50), 512, 4),
            ("small", requests, 1, 64),
            ("small_of_few", requests, 1, 4),
        ):
            cpu = time.process_time()
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.otlp_live", "client", "--url", receiver.url,
                 "--requests", str(count), "--spans", str(each), "--connections", str(lines)],
                capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ,
            )  # fmt: skip
            used, spans = time.process_time() - cpu, int(done.stdout)
            found |= {f"{kind}_us_a_request": used / count * 1e6, f"{kind}_us_a_span": used / spans * 1e6}
        receiver.stop()
        intake.close()
        spool.close()
        return found


def client(url: str, requests: int, spans: int, connections: int) -> None:
    """Send requests of so many spans, over so many connections at once."""
    field = b"\x0a"
    bodies, parts, sizes = list[bytes](), b"", 0
    for body, _, count in copies(spans * 20 if spans > 1 else 200):
        if spans == 1 and count != 1:
            continue
        parts, sizes = parts + body, sizes + count
        if sizes >= spans:
            bodies.append(parts)
            parts, sizes = b"", 0
    assert all(body.startswith(field) for body in bodies)
    total = 0
    lines = [http.client.HTTPConnection(url.removeprefix("http://")) for _ in range(connections)]
    for number in range(0, requests, connections):
        used = lines[: min(connections, requests - number)]
        for place, line in enumerate(used):
            body = bodies[(number + place) % len(bodies)]
            total += len(split(body, is_json=False, is_logs=False).spans)
            line.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        for line in used:
            answer = line.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
    print(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["memory", "flat", "restart", "receive", "client"])
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--url", default="")
    parser.add_argument("--connections", type=int, default=4)
    given = parser.parse_args()
    if given.what == "client":
        client(given.url, given.requests, given.spans, given.connections)
        return
    measured = receive(given.requests) if given.what == "receive" else globals()[given.what](given.spans)
    print(orjson.dumps(measured).decode())


if __name__ == "__main__":
    main()
