"""Waits of the records of each partition while one of four is overloaded: of the source alone, on a real broker.

    python -m tests.benchmarks.stream_fairness                 # a minute
    python -m tests.benchmarks.stream_fairness --share 0.6

Records come at `--rate` a second, a share of them to partition 0; the sink takes `--capacity` a second, so that a
backlog grows. A record waits from its time in the broker until it is stored. The ratio is that of the longest and the
shortest median wait of a partition, in the second half of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from gapwatch.streams.sources.faust_slices import SliceAppOptions
from gapwatch.streams.sources.quiet_logs import quieten_logs
from gapwatch.streams.sources.raw_slice import RawSlice
from gapwatch.streams.sources.slice_source import SliceSource, SourceOptions
from tests.benchmarks.replay import _machine, _table, _title

PARTITIONS = 4


def main() -> None:
    """Produce, read, and print the waits."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stream_fairness", description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second (default 1000)")
    parser.add_argument("--capacity", type=int, default=650, help="records a second that the sink takes (default 650)")
    parser.add_argument("--share", type=float, default=0.85, help="of partition 0 (default 0.85)")
    parser.add_argument("--seconds", type=int, default=40, help="of traffic (default 40)")
    asked = parser.parse_args()
    print(_machine())
    quieten_logs()
    from tests.kafka_broker import running_broker

    with tempfile.TemporaryDirectory() as temporary, running_broker(Path(temporary) / "broker") as broker:
        topic = broker.make_topic(PARTITIONS)
        waits = asyncio.run(_read(broker, topic, asked))
    _title(f"{asked.rate} records/s, {asked.share:.0%} to partition 0, {asked.capacity} records/s are taken")
    row = _table("partition", "records", "wait p50 s", "p99 s", "slices")
    longest = []
    for partition in range(PARTITIONS):
        if partition not in waits:
            longest.append(float("inf"))
            row(partition, 0, "-", "-", 0)
            continue
        late = np.concatenate(waits[partition])
        p50, p99 = np.percentile(late, [50, 99])
        longest.append(p50)
        row(partition, len(late), f"{p50:.1f}", f"{p99:.1f}", len(waits[partition]))
    print(f"\nratio of the longest and the shortest median wait: **{max(longest) / min(longest):.2f}**")


async def _read(broker: Any, topic: str, asked: argparse.Namespace) -> dict[int, list[Any]]:
    waits: dict[int, list[Any]] = {}
    turn, begin = asyncio.Lock(), time.time()

    async def take(raw: RawSlice) -> None:
        async with turn:
            await asyncio.sleep(0.02 + len(raw) / asked.capacity)
        if time.time() - begin > asked.seconds / 2:
            waits.setdefault(raw.partition, []).append(time.time() - raw.timestamps)

    options = SourceOptions(SliceAppOptions(topic, f"group-{uuid.uuid4().hex}"), drain_seconds=60.0)
    source = SliceSource(options, broker.settings, take)
    producing = threading.Thread(target=_produce, args=(broker, topic, asked), daemon=True)
    producing.start()
    reading = asyncio.create_task(source.run())
    await asyncio.sleep(asked.seconds)
    source.stop()
    await reading
    await asyncio.to_thread(producing.join)
    return waits


def _produce(broker: Any, topic: str, asked: argparse.Namespace) -> None:
    """Produce at the rate, by a client of its own event loop."""
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        producer = AIOKafkaProducer(**broker.settings.client_options(), linger_ms=20)
        await producer.start()
        dice, begin, sent = np.random.default_rng(7), time.monotonic(), 0
        value = bytes(range(256)) * 9
        while (passed := time.monotonic() - begin) < asked.seconds:
            for _ in range(int(passed * asked.rate) - sent):
                others = int(dice.integers(1, PARTITIONS))
                await producer.send(topic, value, partition=0 if dice.random() < asked.share else others)
                sent += 1
            await asyncio.sleep(0.02)
        await producer.stop()

    asyncio.run(send())


if __name__ == "__main__":
    main()
