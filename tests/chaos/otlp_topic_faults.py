"""Disturbs the assembly of a topic of spans under load, and compares what came of it with an undisturbed assembly.

    python -m tests.chaos.otlp_topic_faults kills --kills 40 --traces 1500 --seed 1
    python -m tests.chaos.otlp_topic_faults stop --seconds 45
    python -m tests.chaos.otlp_topic_faults two
    python -m tests.chaos.otlp_topic_faults away --seconds 60

`kills` kills the process at random and at named steps of a transaction; `stop` freezes it (SIGSTOP) and starts a second
one meanwhile; `two` starts two on one keyed topic at once; `away` takes the broker away. Each prints one line of JSON,
and fails where a span is lost or doubled, or an envelope differs.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.chaos.otlp_feeding import requests, spans_of, undisturbed
from tests.kafka_broker import KafkaBroker, running_broker
from tests.paths import ROOT

STEPS = ("read", "traces written", "offsets written", "committed")


class Topics:
    """A topic of spans with its traces and its group, and the processes that assemble it."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.spans, self.traces = broker.make_topic(partitions=3), broker.make_topic()
        self.group = uuid.uuid4().hex

    def start(self, *deadly: str, quiet: float = 1.0, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable, "-m", "tests.chaos.otlp_topic_child", self.broker.address, self.spans, self.traces,
                self.group, *deadly,
            ],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "QUIET_SECONDS": str(quiet), **more},
        )  # fmt: skip

    def finish(self, seconds: float = 180.0) -> dict[str, int]:
        """Assemble what is left in one more process; return its ledger."""
        said, errors = self.start().communicate(timeout=seconds)
        assert said, errors
        found: dict[str, int] = orjson.loads(said)
        return found

    def check(self, bodies: Sequence[bytes], counts: dict[str, int]) -> dict[str, Any]:
        """Compare with an undisturbed assembly; return what to print."""
        lines = sorted(record.value for record in self.broker.everything(self.traces))
        expected = undisturbed(bodies)
        assert len(lines) == len(expected), (len(lines), len(expected))
        assert lines == expected
        assert counts == {"span.consumed.": spans_of(bodies), "span.assembled.quiet": spans_of(bodies)}, counts
        return {"traces": len(lines), "spans": spans_of(bodies), "ledger": counts}


def produced(topics: Topics, bodies: Sequence[bytes]) -> None:
    for partition in range(3):
        topics.broker.produce(topics.spans, bodies[partition::3], partition)


def kills(broker: KafkaBroker, count: int, traces: int, seed: int) -> dict[str, Any]:
    """Kill at named steps and at random, by turns, while records come."""
    chance, bodies, topics = random.Random(seed), requests(traces, seed), Topics(broker)
    done = 0
    for part in range(count):
        # What comes is one burst before the quiet time can pass: the child closes what is two seconds quiet.
        if part == 0:
            produced(topics, bodies)
        if part % 2:
            child = topics.start(chance.choice(STEPS), "1")
            child.wait(120)
        else:
            child = topics.start()
            time.sleep(1.0 + chance.random() * 2.5)
            child.kill()
            child.wait(20)
        done += child.returncode == -signal.SIGKILL
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    return {"kills": done, **topics.check(bodies, topics.finish())}


def stop(broker: KafkaBroker, seconds: float, seed: int = 2) -> dict[str, Any]:
    """Freeze a process within a transaction, assemble in a second one, and wake the first: it must write nothing."""
    bodies, topics = requests(80, seed), Topics(broker)
    produced(topics, bodies)
    first = topics.start("traces written", "1", FREEZES="1")
    while Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert first.poll() is None
        time.sleep(0.1)
    counts = topics.finish(60 + seconds)
    time.sleep(seconds)
    first.send_signal(signal.SIGCONT)
    try:
        _, errors = first.communicate(timeout=90)
    finally:
        first.kill()
    last = errors.strip().splitlines()[-1][:200] if errors.strip() else ""
    return {"frozen_seconds": seconds, "woken_one": [first.returncode, last], **topics.check(bodies, counts)}


def two(broker: KafkaBroker, seed: int = 3) -> dict[str, Any]:
    """Start two processes of one group at once: one of them assembles, the other is fenced and ends."""
    bodies, topics = requests(120, seed), Topics(broker)
    produced(topics, bodies)
    both = [topics.start(), topics.start()]
    ended = []
    for child in both:
        _, errors = child.communicate(timeout=120)
        last = errors.strip().splitlines()[-1][:120] if errors.strip() else ""
        ended.append([child.returncode, last])
    return {"ended": ended, **topics.check(bodies, topics.finish())}


def away(broker: KafkaBroker, seconds: float, seed: int = 4) -> dict[str, Any]:
    """Take the broker away while a process assembles; exporters hold back what they cannot send."""
    bodies, topics = requests(80, seed), Topics(broker)
    half = len(bodies) // 2
    # What was read before the outage must still be pending: the traces of the second half begin in the first.
    topics.broker.produce(topics.spans, bodies[:half], 0)
    child = topics.start(quiet=8.0)
    said: list[tuple[str, str]] = []
    waiting = threading.Thread(target=lambda: said.append(child.communicate(timeout=300)))
    waiting.start()
    time.sleep(4.0)
    broker.kill()
    time.sleep(seconds)
    broker.start()
    topics.broker.produce(topics.spans, bodies[half:], 0)
    waiting.join(240)
    assert said and child.returncode == 0, said
    return {"away_seconds": seconds, **topics.check(bodies, topics.finish())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fault", choices=("kills", "stop", "two", "away"))
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--traces", type=int, default=1_500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder) / "broker") as broker:
        started = time.monotonic()
        if given.fault == "kills":
            found = kills(broker, given.kills, given.traces, given.seed)
        elif given.fault == "two":
            found = two(broker)
        else:
            found = (stop if given.fault == "stop" else away)(broker, given.seconds)
        print(orjson.dumps({"fault": given.fault, "seconds": round(time.monotonic() - started), **found}).decode())


if __name__ == "__main__":
    main()
