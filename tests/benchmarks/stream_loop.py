"""The loop of `hand_loop`, over confluent-kafka: the fastest that was found in Python. One partition.

python -m tests.benchmarks.stream_loop BROKERS TOPIC COUNT PORTFOLIO STORE
"""

from __future__ import annotations

import gc
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from tests.benchmarks.hand_loop import SLICE_RECORDS, tables_of
from tests.benchmarks.hand_rows import Rows, Source
from tests.benchmarks.hand_shape import Records, decode

_LINES = 100


def main(arguments: list[str]) -> None:
    brokers, topic, count, portfolio, store_path = arguments
    loaded = load_portfolio(portfolio)
    policy = fixed_selection([loaded])
    source = Source("live", topic, policy.id, policy.sample_rates[loaded.sha])
    rows = Rows(loaded)
    gc.disable()
    consumer = Consumer(
        {
            "bootstrap.servers": brokers, "group.id": f"loop-{uuid.uuid4().hex[:8]}", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "fetch.min.bytes": 1 << 20, "fetch.wait.max.ms": 250,
            "isolation.level": "read_committed",
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    at, end = 0, int(count)
    with Store.open(Path(store_path), create=True) as store:
        store.register(loaded, policy.rows())
        while at < end:
            messages = consumer.consume(SLICE_RECORDS, timeout=0.3)
            if not messages:
                continue
            records = Records()
            values = [message.value() + b"\n" for message in messages]
            for start in range(0, len(values), _LINES):
                lines = values[start : start + _LINES]
                decode(records, lines, b"".join(lines), at + start)
            tables = tables_of(records, rows, loaded, source)
            n = len(values)
            store.write_slice(ScoredSlice(source.lane, topic, 0, at, at + n, n, 3 * n, None, tables), datetime.now(UTC))
            at += n
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
