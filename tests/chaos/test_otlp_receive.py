"""`gapwatch receive` and `run --spans` with a real broker that goes away: nothing lost that was answered 200."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.live.span_topics import SpanTopics
from gapwatch.streams.otlp.live.topic_assembly import TopicAssembly
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from tests.chaos.otlp_feeding import requests, spans_of, undisturbed
from tests.gapwatch_command import gapwatch
from tests.http_client import Got, post
from tests.kafka_broker import KafkaBroker
from tests.paths import ROOT
from tests.streams.otlp.ports import free_port
from tests.streams.run_process import make_relayed_topics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PORTFOLIO = """\
gapwatch: 1
portfolio: support
version: 1
pipeline: support
components: [{id: chat, kind: llm}]
metrics:
  - name: calls_end
    component: chat
    claim: {form: label, field: status, labels: [ok, error], bad: [error]}
    alert: {severity: page}
"""


class Receiver:
    """A process of `gapwatch receive`."""

    def __init__(self, broker: KafkaBroker, spans: str, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.said = folder / "said"
        with self.said.open("w") as file:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "gapwatch.scorers.command_line", "receive", "--brokers", broker.address,
                    "--otlp", self.url.removeprefix("http://"), "--spans", spans,
                ],
                stderr=file, cwd=ROOT,
            )  # fmt: skip

    def post(self, body: bytes) -> Got:
        return post(self.url, "/v1/traces", body, {"Content-Type": "application/x-protobuf"})

    def send(self, body: bytes, seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                if self.post(body).status == 200:
                    return
            except OSError:
                assert self.process.poll() is None, self.said.read_text()
            assert time.monotonic() < end, self.said.read_text()
            time.sleep(0.2)


@pytest.fixture
def receiver(own_kafka_broker: KafkaBroker, tmp_path: Path) -> Iterator[tuple[Receiver, str]]:
    spans = own_kafka_broker.make_topic(partitions=2)
    made = Receiver(own_kafka_broker, spans, tmp_path)
    yield made, spans
    made.process.kill()
    made.process.wait()


def until(is_so: Callable[[], bool], failed: list[BaseException], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert not failed, failed
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_broker_that_goes_away_loses_and_doubles_nothing(
    own_kafka_broker: KafkaBroker, receiver: tuple[Receiver, str], tmp_path: Path
) -> None:
    make_relayed_topics(own_kafka_broker)
    there, spans = receiver
    direct, traces = own_kafka_broker.make_topic(partitions=2), own_kafka_broker.make_topic()
    # Exporters hold back what they cannot send; the clock stands still meanwhile.
    rules = CloseRules(quiet=4.0, orphan=8.0)
    running = TopicAssembly(
        own_kafka_broker.settings, SpanTopics(direct, "", traces, uuid.uuid4().hex, store_id="store-1"),
        lambda: Assembler(TraceMapper.of([]), rules),
    )  # fmt: skip
    failed = list[BaseException]()
    running.start(failed.append)
    bodies = requests(40, seed=5)
    own_kafka_broker.produce(direct, bodies[:20])
    for body in bodies[:10]:
        there.send(body)
    until(lambda: bool(running.counts.get("span.consumed.")), failed)
    own_kafka_broker.kill()
    killed = time.monotonic()
    refused = there.post(bodies[10])
    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    time.sleep(max(0.0, killed + 5.0 - time.monotonic()))  # longer than the quiet time
    own_kafka_broker.start()
    own_kafka_broker.produce(direct, bodies[20:])
    for body in bodies[10:]:
        there.send(body)
    there.process.send_signal(signal.SIGTERM)
    assert there.process.wait(20) == 0, there.said.read_text()
    consumed = spans_of(bodies)
    until(lambda: running.counts == {"span.consumed.": consumed, "span.assembled.quiet": consumed}, failed)
    assert running.stop(20)
    assert sorted(record.value for record in own_kafka_broker.everything(traces)) == undisturbed(bodies)

    (tmp_path / "p.yaml").write_text(PORTFOLIO)
    store, topic = tmp_path / "s.duckdb", own_kafka_broker.make_topic(partitions=2)
    ran = subprocess.run(
        [
            sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--brokers", own_kafka_broker.address,
            "--spans", spans, "--topic", topic, "--group", "spans-group", "--portfolio", str(tmp_path / "p.yaml"),
            "--store", str(store), "--until-caught-up", "--json",
        ],
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    ledger = gapwatch("ledger", "--store", store, "--format", "json")
    assert ledger.status == 0, ledger.err
    (spans_found,) = [one for one in ledger.json()["spans"] if one["item"] == "span"]
    doubled = spans_found["states"].get("duplicate", 0)  # a request that was sent, but not answered in time
    assembled = sum(n for state, n in spans_found["states"].items() if state.startswith("assembled"))
    assert assembled == spans_of(bodies) == spans_found["consumed"] - doubled
    scored = [orjson.loads(record.value) for record in own_kafka_broker.everything(topic)]
    assert len({one["trace_id"] for one in scored}) == len(scored) == 40
    assert {one["read"] for one in ledger.json()["sources"]} <= set(range(41))
    assert sum(one["read"] for one in ledger.json()["sources"]) == 40
