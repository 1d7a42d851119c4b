"""CPU of spans that come over OTLP (split, assemble, map, score), beside scoring the same traces as native envelopes.

    python -m tests.benchmarks.otlp_cost          # a minute
    python -m tests.benchmarks.otlp_cost 1 2      # one copy of the captures, two rounds
    python -m tests.benchmarks.otlp_cost --compiled 6 6   # with the modules that `hatch_build.py` compiles

The spans of all captures of `tests/data/otlp`, in copies with new ids, in requests of 64 spans. The contenders run in
turns in one process; the smallest of the rounds counts.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.decoding.raw_items import RawTrace
from gapwatch.streams.otlp.decoding.span_bytes import IS_COMPILED
from gapwatch.streams.otlp.files.file_assembly import FILE_RULES
from gapwatch.streams.otlp.files.span_file import FileRequest
from gapwatch.streams.otlp.mapping.mapper import MappedTrace, TraceMapper
from tests.paths import ROOT
from tests.streams.otlp import captures
from tests.streams.otlp.compiled import make_compiled
from tests.streams.otlp.otlp_json import as_json, as_protobuf

_BATCH, _SLICE = 64, 500
_HEAD = """
gapwatch: 1
portfolio: velo
version: 1
pipeline: velo
spans: {pipeline: {names: {velo-support: velo, velo-support-web: velo, velo-web: velo}}}
components:
"""
_COMPONENTS = {
    "answer": "llm", "generate": "llm", "booking_agent": "agent", "retrieve": "retrieval", "get_booking": "tool",
}  # fmt: skip
_CLAIMS = {
    "status": "{form: check, field: status, one_of: [ok]}",
    "output": "{form: check, field: output, present: true}",
    "apology": '{form: check, field: output, not_matches: "(?i)sorry"}',
    "length": "{form: check, field: output, length: {max: 2000}}",
}


def _portfolio() -> str:
    lines = [f"  - {{id: {component}, kind: {kind}}}" for component, kind in _COMPONENTS.items()]
    lines.append("metrics:")
    for component in _COMPONENTS:
        for name, claim in _CLAIMS.items():
            lines.append(f"  - {{name: {component}_{name}, component: {component}, claim: {claim}}}")
    return _HEAD + "\n".join(lines) + "\n"


def requests_of_batches(copies: int) -> tuple[list[bytes], list[bytes], int]:
    """Return the spans of all captures in requests of 64, as protobuf and as JSON, and the number of spans."""
    parts = []
    for name in captures.names():
        for one in captures.requests(name):
            if one.signal == "traces":
                parts.append(ExportTraceServiceRequest.FromString(as_protobuf(one.body) if one.is_json else one.body))
    bodies, total = [], 0
    batch, held = ExportTraceServiceRequest(), 0
    for copy in range(copies):
        for part in parts:
            for resource in part.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        if held == _BATCH:
                            bodies.append(batch.SerializeToString())
                            batch, held = ExportTraceServiceRequest(), 0
                        last = batch.resource_spans[-1] if batch.resource_spans else None
                        if (
                            last is None
                            or last.resource != resource.resource
                            or last.scope_spans[-1].scope != scope.scope
                        ):
                            last = batch.resource_spans.add()
                            last.resource.CopyFrom(resource.resource)
                            last.scope_spans.add().scope.CopyFrom(scope.scope)
                        added = last.scope_spans[-1].spans.add()
                        added.CopyFrom(span)
                        added.trace_id = hashlib.sha256(span.trace_id + bytes([copy])).digest()[:16]
                        held += 1
                        total += 1
    bodies.append(batch.SerializeToString())
    return bodies, [as_json(body, "traces") for body in bodies], total


class _NoMapper:
    root_globs: tuple[str, ...] = ()

    def map(self, trace: RawTrace) -> MappedTrace:
        return MappedTrace(spans=len(trace.spans), orphaned=len(trace.logs))


def main(copies: int, rounds: int) -> None:
    """Print microseconds a span of each contender, and the ratio to native scoring."""
    portfolio = parse_portfolio(_portfolio())
    mapper, scorer, selection = (
        TraceMapper.of([portfolio]),
        Scorer(compile_plan([portfolio])),
        fixed_selection([portfolio]),
    )
    protobuf, as_text, total = requests_of_batches(copies)

    def assembled(bodies: list[bytes], is_json: bool, with_mapper: bool = True) -> list[bytes]:
        assembler = Assembler(mapper if with_mapper else _NoMapper(), FILE_RULES)
        for position, body in enumerate(bodies):
            assembler.take(FileRequest("traces", is_json, body), position, 1_795_500_000.0, float(position))
        assembler.end()
        return [one.envelope for one in assembler.closed() if one.envelope is not None]

    def scored(lines: list[bytes]) -> None:
        for first in range(0, len(lines), _SLICE):
            values = lines[first : first + _SLICE]
            offsets = np.arange(first, first + len(values), dtype=np.int64)
            score(
                scorer,
                selection,
                RecordSlice("live", "traces", 0, first, first + len(values), offsets, pa.array(values, pa.binary())),
            )

    lines = assembled(protobuf, False)
    assert sorted(lines) == sorted(assembled(as_text, True))
    contenders: dict[str, Callable[[], object]] = {
        "native: score envelopes, 20 metrics": lambda: scored(lines),
        "OTLP protobuf, whole way": lambda: scored(assembled(protobuf, False)),
        "OTLP JSON, whole way": lambda: scored(assembled(as_text, True)),
        "of which split and assemble, protobuf": lambda: assembled(protobuf, False, False),
        "of which split and assemble, JSON": lambda: assembled(as_text, True, False),
    }
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.process_time()
            run()
            least[name] = min(least[name], time.process_time() - started)
    native = next(iter(least.values()))
    form = "compiled" if IS_COMPILED else "Python"
    print(f"{total:,} spans, {len(lines):,} traces, best of {rounds}; reading and mapping: {form}")
    for name, seconds in least.items():
        print(f"{name:42} {seconds / total * 1e6:7.1f} us a span {seconds / native:6.2f}")


def run_compiled(arguments: list[str]) -> int:
    """Run the benchmark with the compiled modules; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        environment = make_compiled(Path(folder))
        return subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.otlp_cost", *arguments], cwd=ROOT, env=environment, check=False
        ).returncode


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compiled"]:
        sys.exit(run_compiled(sys.argv[2:]))
    main(*(int(given) for given in sys.argv[1:] or ("6", "6")))
