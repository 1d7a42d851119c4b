"""The same spans give the same bytes, whatever way they come: encodings, orders, requests, topics."""

from __future__ import annotations

import json
import random

import pytest
import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.item_ledger import item_imbalance
from gapwatch.streams.otlp.decoding.raw_items import RawSpan
from gapwatch.streams.otlp.decoding.splitting import split
from gapwatch.streams.otlp.files.file_assembly import FILE_RULES, FileSummary, assemble_files
from gapwatch.streams.otlp.files.span_file import FileRequest
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.streams.otlp import captures
from tests.streams.otlp.otlp_json import as_json, as_protobuf

#: What the Collector was fed with, and its topics in the order in which their spans are joined with the log records.
COLLECTED = (
    "oi-openai-failover",
    "tl-new-failover",
    "otel-v2-old-failover",
    "pyd-failover",
    "vercel7-failover",
    "two-services",
)
TOPICS = (("otlp_spans", "otlp_logs"), ("otlp_spans_json", "otlp_logs_json"), ("otlp_spans_by_trace", "otlp_logs"))


def _topic(name: str) -> str:
    return str(captures.FOLDER / "kafka" / f"{name}.jsonl.gz")


def _lines(paths: list[str]) -> list[bytes]:
    return sorted(one.envelope for one in assemble_files(paths, TraceMapper()) if one.envelope is not None)


@pytest.mark.parametrize("topics", TOPICS)
def test_records_of_a_collector_give_the_bytes_of_what_the_programs_sent(topics: tuple[str, str]) -> None:
    sent = sorted(line for name in COLLECTED for line in captures.assembled(name)[0])
    assert len(sent) == 37
    assert _lines([_topic(name) for name in topics]) == sent


@pytest.mark.slow
@pytest.mark.parametrize("name", captures.names())
def test_json_of_every_capture_gives_the_bytes_of_protobuf(name: str) -> None:
    as_text = [
        one if one.is_json else FileRequest(one.signal, True, as_json(one.body, one.signal))
        for one in captures.requests(name)
    ]
    of_protobuf = [
        FileRequest(one.signal, False, as_protobuf(one.body)) if one.is_json else one for one in captures.requests(name)
    ]
    assert _assembled(as_text) == _assembled(of_protobuf) == sorted(captures.assembled(name)[0])


@pytest.mark.parametrize("name", ["oi-openai-rag", "tl-new-agent", "otel-v2-events", "lf3-agent", "mlflow-agent"])
def test_json_gives_the_bytes_of_protobuf(name: str) -> None:
    written = [FileRequest(one.signal, True, as_json(one.body, one.signal)) for one in captures.requests(name)]
    assert _assembled(written) == sorted(captures.assembled(name)[0])


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_doubled_and_split_spans_give_the_same_bytes(seed: int) -> None:
    _check_any_order(seed, ["oi-litellm-failover", "vercel6-failover", "otel-v2-old-failover", "two-services"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_shuffled_doubled_and_split_spans_of_any_captures_give_the_same_bytes(seed: int) -> None:
    names = captures.names()  # each of them in five seeds
    _check_any_order(seed, [name for number, name in enumerate(names) if number % 4 == seed % 4])


def _check_any_order(seed: int, names: list[str]) -> None:
    chance = random.Random(seed)
    parts = [(spans, logs) for name in names for one in captures.requests(name) for spans, logs in _single(one)]
    doubled = chance.sample(parts, len(parts) // 5)
    parts += doubled
    chance.shuffle(parts)
    assembler = Assembler(TraceMapper(), FILE_RULES)
    for position, (spans, logs) in enumerate(parts):
        assembler._ledger.add(len(spans), "span", "consumed")
        assembler._ledger.add(len(logs), "log_record", "consumed")
        assembler.add(spans, logs, position, 0.0, float(position))
    assembler.end()
    counts = assembler.counts()
    assert item_imbalance(counts) == 0
    assert counts["span.duplicate."] == sum(len(spans) for spans, _ in doubled)
    found = sorted(one.envelope for one in assembler.closed() if one.envelope is not None)
    assert found == sorted(line for name in names for line in captures.assembled(name)[0])


def _single(request: FileRequest) -> list[tuple[list[RawSpan], list]]:  # type: ignore[type-arg]
    payload = split(request.body, is_json=request.is_json, is_logs=request.signal == "logs")
    return [([span], []) for span in payload.spans] + [([], [log]) for log in payload.logs]


def test_a_collectors_protobuf_file_is_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "spans.bin"
    requests = captures.requests("oi-openai-rag")
    file.write_bytes(b"".join(len(one.body).to_bytes(4, "big") + one.body for one in requests))
    assert _lines([str(file)]) == sorted(captures.assembled("oi-openai-rag")[0])


@pytest.mark.parametrize("form", ["protobuf", "protobuf in zstd", "JSON in zstd"])
def test_a_collectors_file_of_both_signals_is_read(tmp_path, form: str) -> None:  # type: ignore[no-untyped-def]
    """The file exporter writes spans and log records into one file, and compresses each message for itself."""
    written = b""
    for one in captures.requests("otel-v2-old-failover"):
        body = as_json(one.body, one.signal) if form.startswith("JSON") else one.body
        if form.endswith("zstd"):
            body = zstandard.compress(body)
        written += len(body).to_bytes(4, "big") + body
    file = tmp_path / ("spans.zst" if form.endswith("zstd") else "spans.bin")
    file.write_bytes(written)
    assert _lines([str(file)]) == sorted(captures.assembled("otel-v2-old-failover")[0])


def test_a_collectors_json_file_is_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "spans.json"
    file.write_bytes(b"".join(as_json(one.body, one.signal) + b"\n" for one in captures.requests("oi-openai-rag")))
    summary = FileSummary()
    lines = [one.envelope for one in assemble_files([str(file)], TraceMapper(), summary)]
    assert sorted(line for line in lines if line) == sorted(captures.assembled("oi-openai-rag")[0])
    assert summary.counts["span.consumed."] == 25


def _assembled(requests: list[FileRequest]) -> list[bytes]:
    assembler = Assembler(TraceMapper(), FILE_RULES)
    for position, request in enumerate(requests):
        assembler.take(request, position, 0.0, float(position))
    assembler.end()
    return sorted(one.envelope for one in assembler.closed() if one.envelope is not None)


def test_the_json_of_the_tests_is_that_of_the_specification() -> None:
    body = captures.requests("oi-openai-rag")[0].body
    request = ExportTraceServiceRequest.FromString(body)
    first = json.loads(as_json(body, "traces"))["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert first["traceId"] == request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    assert isinstance(first["startTimeUnixNano"], str)
