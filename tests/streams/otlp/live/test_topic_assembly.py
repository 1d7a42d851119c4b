"""Assembly of topics that a real Collector wrote, in a real Kafka."""

from __future__ import annotations

import asyncio
import base64
import gzip
import threading
import time
import uuid

import orjson
import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.live.span_topics import SpanTopics
from gapwatch.streams.otlp.live.topic_assembly import TopicAssembly
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Signal
from tests.gapwatch_command import gapwatch
from tests.kafka_broker import KafkaBroker
from tests.paths import ROOT

RECORDED = ROOT / "tests" / "data" / "otlp" / "kafka"
TRACES = 37

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def recorded(name: str) -> list[dict[str, object]]:
    lines = gzip.decompress((RECORDED / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [orjson.loads(line) for line in lines]


def replay(broker: KafkaBroker, name: str, **options: object) -> str:
    """Write a recorded topic into a new one: the same keys and partitions, now."""
    from aiokafka import AIOKafkaProducer

    records = recorded(name)
    topic = broker.make_topic(partitions=4)

    async def send() -> None:
        producer = AIOKafkaProducer(**broker.settings.client_options(), max_request_size=12_000_000, **options)
        await producer.start()
        try:
            for one in records:
                key = base64.b64decode(str(one["key"])) if one["key"] else None
                await producer.send_and_wait(
                    topic, base64.b64decode(str(one["value"])), key=key, partition=int(str(one["partition"]))
                )
        finally:
            await producer.stop()

    asyncio.run(send())
    return topic


def make() -> Assembler:
    return Assembler(TraceMapper.of([]), CloseRules(quiet=1.0, orphan=2.0))


def assembly(
    broker: KafkaBroker, spans: str, traces: str, group: str, logs: str = "", store: str = "store-1"
) -> TopicAssembly:  # fmt: skip
    topics = SpanTopics(spans, logs, traces, group, store_id=store)
    return TopicAssembly(broker.settings, topics, make)


def until_done(*running: TopicAssembly, seconds: float = 60.0) -> None:
    failed = list[BaseException]()
    for one in running:
        one.start(failed.append)
    end = time.monotonic() + seconds
    while not all(one.is_done and one.counts for one in running):
        assert not failed, failed
        assert time.monotonic() < end, [one.waiting_for for one in running]
        time.sleep(0.1)
    assert all(one.stop(20) for one in running)


def envelopes(broker: KafkaBroker, topic: str) -> dict[bytes, bytes]:
    found = broker.everything(topic)
    by_key = {record.key: record.value for record in found}
    assert len(by_key) == len(found), "a trace came twice"
    assert all(orjson.loads(value)["trace_id"].encode() == key for key, value in by_key.items())
    return by_key


def in_memory(*names: str) -> dict[bytes, bytes]:
    """Assemble the recorded values without Kafka."""
    assembler = make()
    number = 0
    for name in names:
        for one in recorded(name):
            signal = Signal.LOGS if "logs" in name else Signal.TRACES
            body = base64.b64decode(str(one["value"]))
            assembler.take(OtlpRequest(signal, body[:1] == b"{", body), number, 0.0, 0.0)
            number += 1
    assembler.advance(1_000.0)
    return {one.trace_id.encode(): one.envelope for one in assembler.closed() if one.envelope is not None}


def ledger_of(running: TopicAssembly) -> dict[str, int]:
    spans = {name: n for name, n in running.counts.items() if name.startswith("span.")}
    assert spans["span.consumed."] == sum(n for name, n in spans.items() if name != "span.consumed.")
    return spans


#: Topics that a Collector wrote, and how they are written again.
COLLECTED: list[tuple[str, str, dict[str, str]]] = [
    ("otlp_spans", "otlp_logs", {}),
    ("otlp_spans_json", "otlp_logs_json", {"compression_type": "zstd"}),
    ("otlp_spans_by_trace", "otlp_logs", {"compression_type": "gzip"}),
    ("otlp_spans_zstd", "otlp_logs", {"compression_type": "zstd"}),
]


def test_topics_of_a_collector_give_the_envelopes_of_their_spans(kafka_broker: KafkaBroker) -> None:
    running = []
    for spans, logs, options in COLLECTED:  # log records first: content may come before its span
        log_topic, traces = replay(kafka_broker, logs, **options), kafka_broker.make_topic(partitions=2)
        spans_topic = replay(kafka_broker, spans, **options)
        running.append(assembly(kafka_broker, spans_topic, traces, uuid.uuid4().hex, log_topic))
    until_done(*running)
    first = running[0].topics
    shown = gapwatch("spans", "--brokers", kafka_broker.address, "--topic", first.spans, "--topic", first.logs)
    assert shown.status == 0, shown.err
    assert "velo-support" in shown.out
    for one, (spans, logs, _) in zip(running, COLLECTED, strict=True):
        expected = in_memory(spans, logs)
        assert len(expected) == TRACES
        assert envelopes(kafka_broker, one.topics.traces) == expected
        assert ledger_of(one).get("span.pending.", 0) == 0


def test_a_second_process_with_another_store_is_refused(kafka_broker: KafkaBroker) -> None:
    spans, traces, group = replay(kafka_broker, "otlp_spans"), kafka_broker.make_topic(), uuid.uuid4().hex
    until_done(assembly(kafka_broker, spans, traces, group))
    failed = list[BaseException]()
    ended = threading.Event()
    other = assembly(kafka_broker, spans, traces, group, store="store-2")
    other.start(lambda error: (failed.append(error), ended.set()))
    assert ended.wait(30)
    assert isinstance(failed[0], UsageError)
    assert "another store" in str(failed[0])
