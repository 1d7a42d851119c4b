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

from scorers.policy import fixed_policy
from scorers.portfolio import load_portfolio
from scorers.slices import ScoredSlice
from scorers.tables import SCORED_TABLES
from sinks.store import Store
from tests.benchmarks.hand_checks import check
from tests.benchmarks.hand_loop import SLICE_RECORDS
from tests.benchmarks.hand_rows import Rows, Source, dead_letters_table, samples_table, trace_ids_table
from tests.benchmarks.hand_shape import Records, decode
from tests.benchmarks.hand_ticks import ledger_table, ticks_and_ledger

_LINES = 100


def main(arguments: list[str]) -> None:
    brokers, topic, count, portfolio, store_path = arguments
    loaded = load_portfolio(portfolio)
    policy = fixed_policy([loaded])
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
            found = check(records.traces)
            ticks, totals = ticks_and_ledger(found, loaded, source.lane)
            states = {"read": len(records.traces), "dead_letter": len(records.dead), "foreign": records.foreign}
            tables = {
                **{name: schema.empty_table() for name, schema in SCORED_TABLES.items()},
                "gaps": rows.table(found, records, source),
                "ticks": ticks,
                "ledger": ledger_table(totals, loaded, source.lane, source.topic, states),
                "dead_letters": dead_letters_table(records, source),
                "samples": samples_table(found, records, source),
                "trace_ids": trace_ids_table(records, source),
            }
            n = len(values)
            store.keep(ScoredSlice(source.lane, topic, 0, at, at + n, n, 3 * n, None, tables), datetime.now(UTC))
            at += n
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
