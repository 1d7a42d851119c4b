"""Assembly of a topic of spans, killed at every step of a transaction: nothing lost, nothing twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid

import pytest

from tests.chaos.otlp_feeding import requests, spans_of, undisturbed
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


def test_kills_at_every_step_lose_and_double_nothing(kafka_broker: KafkaBroker) -> None:
    bodies = requests(80, seed=3)
    spans, traces, group = kafka_broker.make_topic(partitions=3), kafka_broker.make_topic(), uuid.uuid4().hex
    for partition in range(3):
        kafka_broker.produce(spans, bodies[partition::3], partition)
    kills = 0
    for step in ("read", "traces written", "offsets written", "committed"):
        kills += assembled(kafka_broker, spans, traces, group, step, "1") is None
    counts = assembled(kafka_broker, spans, traces, group)
    assert kills == 4
    assert sorted(record.value for record in kafka_broker.everything(traces)) == undisturbed(bodies)
    assert counts == {"span.consumed.": spans_of(bodies), "span.assembled.quiet": spans_of(bodies)}
