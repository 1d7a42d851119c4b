"""Contract test with a real OpenTelemetry Collector, a real Kafka and a real SDK; see the README beside this file.

    python -m tests.streams.otlp.collector.drive --collector PATH

An SDK and real captures send to one Collector, which writes topics of every encoding, key and compression, and files.
Each pair of topics is assembled by `gapwatch run --spans --logs`, each file by `gapwatch assemble`. Every way must give
the envelopes that the captures give without a Collector, and every trace of the SDK.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.kafka_broker import KafkaBroker, running_broker
from tests.streams.otlp import captures

#: Encoding, whether the key is the trace id, and compression of each pair of topics.
WAYS = [
    ("otlp_proto", False, "none"), ("otlp_proto", True, "gzip"), ("otlp_proto", False, "snappy"),
    ("otlp_proto", True, "zstd"), ("otlp_json", False, "lz4"), ("otlp_json", True, "none"),
    ("otlp_json", False, "zstd"), ("otlp_json", True, "snappy"),
]  # fmt: skip
#: Captures without a service that repeats another's trace ids.
SENT = (
    "oi-openai-failover",
    "tl-new-failover",
    "otel-v2-old-failover",
    "pyd-failover",
    "vercel7-failover",
    "lf3-agent",
)
SDK_TRACES = 300
PORTFOLIO = """
gapwatch: 1
portfolio: sdk
version: 1
pipeline: sdk-shop
components: [{id: answer, kind: llm}]
metrics: [{name: ok, component: answer, claim: {form: check, field: status, one_of: [ok]}}]
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def configuration(folder: Path, broker: str, port: int, topics: list[tuple[str, str]]) -> Path:
    """Write the Collector's configuration: every exporter gets the same spans and log records."""
    exporters: dict[str, Any] = {}
    for number, ((encoding, keyed, compression), (spans, logs)) in enumerate(zip(WAYS, topics, strict=True)):
        exporters[f"kafka/{number}"] = {
            "brokers": [broker],
            "traces": {"topic": spans, "encoding": encoding},
            "logs": {"topic": logs, "encoding": encoding},
            "partition_traces_by_id": keyed,
            "producer": {"compression": compression},
        }
    for form in ("json", "proto"):
        exporters[f"file/{form}"] = {"path": str(folder / f"collected.{form}"), "format": form}
    exporters["file/zstd"] = {"path": str(folder / "collected.json.zst"), "format": "json", "compression": "zstd"}
    pipeline = {"receivers": ["otlp"], "processors": ["batch"], "exporters": list(exporters)}
    path = folder / "collector.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
                "processors": {"batch": {"send_batch_size": 64, "send_batch_max_size": 64, "timeout": "200ms"}},
                "exporters": exporters,
                "service": {
                    "telemetry": {"metrics": {"level": "none"}},
                    "pipelines": {"traces": pipeline, "logs": pipeline},
                },
            }
        )
    )
    return path


@contextmanager
def running_collector(binary: str, config: Path, port: int, log: Path) -> Iterator[None]:
    with log.open("wb") as file, subprocess.Popen([binary, "--config", str(config)], stdout=file, stderr=file) as child:
        try:
            end = time.monotonic() + 30
            while time.monotonic() < end:
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert child.poll() is None, log.read_text()
                time.sleep(0.1)
            yield
        finally:
            child.terminate()  # it flushes what it holds
            child.wait(30)


def send_captures(url: str) -> int:
    requests = 0
    for name in SENT:
        for one in captures.requests(name):
            request = urllib.request.Request(
                f"{url}/v1/{one.signal}", one.body,
                {"Content-Type": "application/json" if one.is_json else "application/x-protobuf"},
            )  # fmt: skip
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert answer.status == 200
            requests += 1
    return requests


def send_with_sdk(url: str) -> set[str]:
    """Send traces of three spans with a real SDK; return their ids."""
    provider = TracerProvider(resource=Resource.create({"service.name": "sdk-shop"}))
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces"), schedule_delay_millis=100, max_export_batch_size=100)
    )
    tracer, ids = provider.get_tracer("shop"), set()
    for number in range(SDK_TRACES):
        with tracer.start_as_current_span("answer") as root:
            ids.add(f"{root.get_span_context().trace_id:032x}")
            with tracer.start_as_current_span("lookup"):
                pass
            with tracer.start_as_current_span("chat gpt-4.1") as call:
                call.set_attributes(
                    {
                        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1",
                        "gen_ai.usage.input_tokens": 10 + number, "gen_ai.usage.output_tokens": 3,
                        "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": f"answer {number}"}]),
                    }
                )  # fmt: skip
    provider.shutdown()
    return ids


def expected() -> dict[str, Any]:
    return {
        envelope["trace_id"]: comparable(envelope) for name in SENT for envelope in captures.envelopes(name).values()
    }


def comparable(envelope: dict[str, Any]) -> str:
    """Return an envelope without what closed it: the end of a file, or a quiet time."""
    attributes = {key: value for key, value in envelope["attributes"].items() if key != "closed_by"}
    return json.dumps({**envelope, "attributes": attributes})


def compare(what: str, lines: list[bytes], ids: set[str]) -> bool:
    found = [json.loads(line) for line in lines]
    by_id = {one["trace_id"]: one for one in found}
    sent = expected()
    equal = sum(comparable(by_id[trace_id]) == text for trace_id, text in sent.items() if trace_id in by_id)
    of_sdk = [by_id[one] for one in ids if one in by_id]
    tokens = sum(span.get("usage", {}).get("input_tokens", 0) for one in of_sdk for span in one["spans"])
    is_right = (
        len(by_id) == len(found) == len(sent) + len(ids)
        and equal == len(sent)
        and len(of_sdk) == len(ids)
        and all(len(one["spans"]) == 3 and one["attributes"]["complete"] for one in of_sdk)
        and tokens == sum(10 + number for number in range(SDK_TRACES))
    )
    print(
        f"{what:44} traces {len(found)}, equal to the capture {equal} of {len(sent)}, of the SDK {len(of_sdk)} of "
        f"{len(ids)} with {tokens} input tokens: {'right' if is_right else 'WRONG'}", flush=True,
    )  # fmt: skip
    return is_right


def run_way(folder: Path, broker: KafkaBroker, number: int, topics: tuple[str, str]) -> tuple[str, list[bytes], str]:
    traces = broker.make_topic(partitions=2)
    (folder / "p.yaml").write_text(PORTFOLIO)
    done = subprocess.run(
        [sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--spans", topics[0], "--logs", topics[1],
         "--topic", traces, "--group", f"way-{number}", "--portfolio", folder / "p.yaml",
         "--store", folder / f"{number}.duckdb", "--until-caught-up", "--json", "--close", "orphan=15s"],
        capture_output=True, env={**os.environ, **broker.environment}, check=False,
    )  # fmt: skip
    said = next(
        (line for line in done.stderr.decode().splitlines() if "one partition" in line or "several" in line),
        "says nothing",
    )
    assert done.returncode == 0, done.stderr.decode()
    stored = json.loads(done.stdout)
    return said, [record.value for record in broker.everything(traces)], json.dumps(stored)[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collector", required=True, help="the binary that builder.yaml gives")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name) / "kafka") as broker:
        folder, port = Path(name), free_port()
        topics = [(broker.make_topic(partitions=4), broker.make_topic(partitions=4)) for _ in WAYS]
        config = configuration(folder, broker.address, port, topics)
        with running_collector(given.collector, config, port, folder / "collector.log"):
            url = f"http://127.0.0.1:{port}"
            requests = send_captures(url)
            ids = send_with_sdk(url)
            time.sleep(3)
        print(f"{requests} requests of {len(SENT)} captures and {len(ids)} traces of an SDK sent to a Collector")
        results = []
        for file in sorted(folder.glob("collected.*")):
            done = subprocess.run(
                [sys.executable, "-m", "gapwatch.scorers.command_line", "assemble", "--quiet", file],
                capture_output=True, check=True,
            )  # fmt: skip
            results.append(compare(f"assemble {file.name}", done.stdout.splitlines(), ids))
        with ThreadPoolExecutor(2) as pool:
            ran = list(pool.map(lambda one: run_way(folder, broker, *one), enumerate(topics)))
        for (encoding, keyed, compression), (said, lines, _) in zip(WAYS, ran, strict=True):
            what = f"run --spans {encoding} {'keyed' if keyed else 'no key'} {compression}"
            results.append(compare(what, lines, ids))
            print(f"    {said}")
        print(f"{sum(results)} of {len(results)} ways right")
        return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
