"""Assembly of a topic of spans, killed at every step of a transaction: nothing lost, nothing twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import uuid

import orjson
import pytest

from tests.chaos.otlp_feeding import requests, spans_of
from tests.kafka_broker import KafkaBroker
from tests.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def assembled(broker: KafkaBroker, spans: str, traces: str, group: str, *deadly: str) -> dict[str, int] | None:
    """Assemble in a process of its own; return its ledger, None if it killed itself."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.otlp_topic_child", broker.address, spans, traces, group, *deadly],
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
    )  # fmt: skip
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def envelopes(broker: KafkaBroker, topic: str, expected: int) -> list[bytes]:
    values = sorted(record.value for record in broker.consume(topic, expected + 1, seconds=3.0))
    ids = [orjson.loads(value)["trace_id"] for value in values]
    assert len(ids) == len(set(ids)), "a trace came twice"
    return values


def test_kills_at_every_step_lose_and_double_nothing(kafka_broker: KafkaBroker) -> None:
    bodies, chance = requests(80, seed=3), random.Random(3)
    spans, calm = kafka_broker.make_topic(partitions=3), kafka_broker.make_topic()
    for partition in range(3):
        kafka_broker.produce(spans, bodies[partition::3], partition)
    undisturbed = assembled(kafka_broker, spans, calm, uuid.uuid4().hex)
    expected = envelopes(kafka_broker, calm, 80)
    assert len(expected) == 80

    traces, group = kafka_broker.make_topic(), uuid.uuid4().hex
    kills = 0
    for step in ("read", "traces written", "offsets written", "committed"):
        for number in ("1", str(chance.randint(2, 3))):
            kills += assembled(kafka_broker, spans, traces, group, step, number) is None
    counts = assembled(kafka_broker, spans, traces, group)
    assert kills >= 5
    assert envelopes(kafka_broker, traces, 80) == expected
    assert counts == undisturbed
    assert counts is not None
    assert counts["span.consumed."] == spans_of(bodies) == counts["span.assembled.quiet"]
