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
from tests.chaos.otlp_feeding import requests, spans_of
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


def until_done(running: TopicAssembly, seconds: float = 60.0) -> None:
    failed = list[BaseException]()
    running.start(failed.append)
    end = time.monotonic() + seconds
    while not running.is_done or not running.counts:
        assert not failed, failed
        assert time.monotonic() < end, running.waiting_for
        time.sleep(0.1)
    assert running.stop(20)


def envelopes(broker: KafkaBroker, topic: str, expected: int) -> dict[bytes, bytes]:
    found = broker.consume(topic, expected + 1, seconds=4.0)
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


@pytest.mark.parametrize(
    ("spans", "logs", "options"),
    [
        ("otlp_spans", "otlp_logs", {}),
        ("otlp_spans_json", "otlp_logs_json", {"compression_type": "zstd"}),
        ("otlp_spans_by_trace", "otlp_logs", {"compression_type": "gzip"}),
        ("otlp_spans_zstd", "otlp_logs", {"compression_type": "zstd"}),
    ],
)
def test_a_topic_of_a_collector_gives_the_envelopes_of_its_spans(
    kafka_broker: KafkaBroker, spans: str, logs: str, options: dict[str, str]
) -> None:
    expected = in_memory(spans, logs)
    traces, group = kafka_broker.make_topic(partitions=2), uuid.uuid4().hex
    log_topic = replay(kafka_broker, logs, **options)  # first: content may come before its span
    running = assembly(kafka_broker, replay(kafka_broker, spans, **options), traces, group, log_topic)
    until_done(running)
    assert len(expected) == TRACES
    assert envelopes(kafka_broker, traces, TRACES) == expected
    assert ledger_of(running).get("span.pending.", 0) == 0


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


def test_a_broker_that_goes_away_loses_and_doubles_nothing(own_kafka_broker: KafkaBroker) -> None:
    bodies = requests(40, seed=9)
    spans, traces = own_kafka_broker.make_topic(partitions=2), own_kafka_broker.make_topic()
    topics = SpanTopics(spans, "", traces, uuid.uuid4().hex, store_id="store-1")
    # Exporters hold back what they cannot send; the clock stands still meanwhile.
    rules = CloseRules(quiet=3.0, orphan=6.0)
    running = TopicAssembly(own_kafka_broker.settings, topics, lambda: Assembler(TraceMapper.of([]), rules))
    failed = list[BaseException]()
    running.start(failed.append)
    half = len(bodies) // 2
    own_kafka_broker.produce(spans, bodies[:half])
    end = time.monotonic() + 60
    while not running.counts.get("span.consumed.") and time.monotonic() < end:
        time.sleep(0.1)
    own_kafka_broker.kill()
    time.sleep(8)
    own_kafka_broker.start()
    own_kafka_broker.produce(spans, bodies[half:])
    while time.monotonic() < end + 60:
        counts = running.counts
        if counts.get("span.consumed.") == spans_of(bodies) and not counts.get("span.pending."):
            break
        assert not failed, failed
        time.sleep(0.2)
    assert running.stop(20)
    assert ledger_of(running) == {"span.consumed.": spans_of(bodies), "span.assembled.quiet": spans_of(bodies)}
    assert len(envelopes(own_kafka_broker, traces, 40)) == 40
