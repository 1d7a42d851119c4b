"""The program of a first day's work: a stock Faust agent that scores one event at a time.

python -m tests.benchmarks.stream_naive BROKERS TOPIC COUNT PORTFOLIO STORE
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import faust

from gapwatch.sinks.store.store import Store
from tests.benchmarks.event_scorer import EventScorer


async def run(brokers: str, topic: str, count: int, scorer: EventScorer) -> None:
    """Read a topic of one partition to its end."""
    app = faust.App(
        f"naive-{uuid.uuid4().hex[:8]}", broker=f"kafka://{brokers}", web_enabled=False, topic_allow_declare=False,
        topic_disable_leader=True, consumer_auto_offset_reset="earliest", autodiscover=False,
    )  # fmt: skip
    done = asyncio.Event()

    @app.agent(app.topic(topic, key_serializer="raw", value_serializer="raw"))
    async def take(stream: Any) -> None:
        async for event in stream.events():
            scorer.take(event.message.offset, event.value)
            if event.message.offset == count - 1:
                scorer.store(count)
                done.set()

    app.finalize()
    await app.start()
    await done.wait()
    await app.stop()


def main(arguments: list[str]) -> None:
    brokers, topic, count, portfolio, store_path = arguments
    with Store.open(Path(store_path), create=True) as store:
        asyncio.run(run(brokers, topic, int(count), EventScorer(topic, Path(portfolio), store)))
    sys.stdout.flush()
    os._exit(0)  # Faust's threads have nothing more to do


if __name__ == "__main__":
    main(sys.argv[1:])
