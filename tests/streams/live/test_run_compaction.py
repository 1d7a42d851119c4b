"""A real run whose file is copied and replaced again and again, while it reads slowly and queries come over its API."""

from __future__ import annotations

from typing import Any

import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from tests.http_client import get
from tests.kafka_broker import KafkaBroker
from tests.streams.run_process import traces

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: Numbers that a query counts in about half a second.
NUMBERS = 100_000_000
#: A query of half a second, and one of milliseconds.
QUERIES = (
    f"SELECT count(*) AS n FROM range({NUMBERS}) WHERE range % 7 = 3",
    "SELECT coalesce(sum(records), 0)::BIGINT AS n FROM offsets",
)


def test_neither_the_run_nor_a_query_notices_that_the_file_is_replaced(broker: KafkaBroker, watch: Any) -> None:
    topic = broker.make_topic()
    watched = watch(broker, topic, compact_seconds=0.2, slow_read=NUMBERS)
    watched.start()
    watched.wait_until(lambda: read_note(watched.store) is not None)
    url = read_note(watched.store).url
    counts, errors, sent = list[int](), list[str](), 0

    def replaced() -> int:
        return int(watched.said().count("gave free space of the store back"))

    def ask_until_replaced(times: int) -> bool:
        for sql in QUERIES:
            answer = get(url, "/v1/query", sql=sql)
            if answer.status == 200:
                counts.append(answer.json()[0]["n"])
            else:
                errors.append(f"{answer.status} {answer.body!r}")
        return replaced() >= times

    for times in (2, 4, 6):
        broker.produce(topic, traces(sent, sent + 1000))
        sent += 1000
        watched.wait_until(lambda times=times: ask_until_replaced(times), 120.0)
    watched.wait_until(lambda: ask_until_replaced(0) and counts[-1] == sent, 120.0)

    assert watched.end() == 0, watched.said()
    assert errors == []
    assert set(counts[::2]) == {len(range(3, NUMBERS, 7))}
    assert counts[1::2] == sorted(counts[1::2])
    assert watched.query("SELECT count(*) FROM offsets WHERE to_offset > 3000") == [(0,)]
    broken = sum(value.startswith(b"no trace") for value in traces(0, sent))
    states = watched.query("SELECT state, sum(n)::BIGINT FROM ledger WHERE metric IS NULL GROUP BY ALL ORDER BY ALL")
    assert states == [("dead_letter", broken), ("read", sent - broken)]
