"""The same program on Quix Streams: a data frame over the topic, one event at a time. One partition.

Needs `pip install quixstreams`. Quix commits its offsets every five seconds, as it does unless told otherwise.

    python -m tests.benchmarks.stream_quix BROKERS TOPIC COUNT PORTFOLIO STORE
"""

from __future__ import annotations

import sys
import uuid
from itertools import count as numbers
from pathlib import Path

from quixstreams import Application

from gapwatch.sinks.store.store import Store
from tests.benchmarks.event_scorer import EventScorer


def run(brokers: str, topic: str, count: int, scorer: EventScorer) -> None:
    """Read a topic of one partition to its end."""
    app = Application(
        brokers, consumer_group=f"quix-{uuid.uuid4().hex[:8]}", auto_offset_reset="earliest", loglevel="ERROR",
        consumer_extra_config={"isolation.level": "read_committed"}, auto_create_topics=False,
    )  # fmt: skip
    offsets = numbers()
    frame = app.dataframe(app.topic(topic, key_deserializer="bytes", value_deserializer="bytes"))
    frame.update(lambda value: scorer.take(next(offsets), value))
    app.run(frame, count=count, collect=False)
    scorer.store(count)


def main(arguments: list[str]) -> None:
    brokers, topic, count, portfolio, store_path = arguments
    with Store.open(Path(store_path), create=True) as store:
        run(brokers, topic, int(count), EventScorer(topic, Path(portfolio), store))


if __name__ == "__main__":
    main(sys.argv[1:])
