"""`gapwatch run` reads the first failing traces behind an alert again, also after a restart, as long as they exist."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests.gapwatch_command import gapwatch
from tests.kafka_broker import KafkaBroker
from tests.streams.broken_shop import FIRST, PORTFOLIO, query, shop_trace
from tests.streams.run_process import Children, Watched, make_relayed_topics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_SAMPLES = "SELECT * EXCLUDE (seq, kept_at) FROM samples ORDER BY source_offset"


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    running = Children()
    yield running
    running.close()


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    make_relayed_topics(kafka_broker)
    name: str = kafka_broker.make_topic()
    kafka_broker.produce(name, [shop_trace(number) for number in range(700)])
    return name


def watched(children: Children, broker: KafkaBroker, topic: str, folder: Path) -> Watched:
    return Watched(children, folder, broker, topic, [PORTFOLIO], max_records=50)


def without_texts(run: Watched) -> None:
    """Take the texts away, as if the run had ended before it read them."""
    with duckdb.connect(str(run.store)) as con:
        con.execute("DELETE FROM samples")


def delete_records(broker: KafkaBroker, topic: str, before: int) -> None:
    async def delete() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        try:
            await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=before)})
        finally:
            await admin.close()

    asyncio.run(delete())


def test_the_first_failing_traces_have_their_text_also_if_the_run_was_killed(
    children: Children, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    whole = watched(children, kafka_broker, topic, tmp_path / "whole")
    whole.catch_up()
    killed = watched(children, kafka_broker, topic, tmp_path / "killed")
    for number in (9, 2):
        killed.start(die_at=["commit", number]).wait()
    killed.catch_up()

    assert [has_text for _, has_text in query(whole.store, FIRST)] == [True] * 20
    assert killed.query(_SAMPLES) == whole.query(_SAMPLES)
    assert killed.query("SELECT sum(n) FROM ledger") == whole.query("SELECT sum(n) FROM ledger")
    assert "texts of failing traces" not in whole.said()


def test_a_restart_reads_what_is_missing_and_says_what_the_topic_no_longer_holds(
    children: Children, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    run = watched(children, kafka_broker, topic, tmp_path / "run")
    run.catch_up()
    before = run.query(_SAMPLES)
    places = [place for (place,) in run.query("SELECT source_offset FROM samples ORDER BY 1")]
    without_texts(run)
    run.catch_up()
    assert run.query(_SAMPLES) == before

    without_texts(run)
    delete_records(kafka_broker, topic, places[3])
    run.catch_up()

    assert run.query("SELECT source_offset FROM samples WHERE cause = 'gone' ORDER BY 1") == [(p,) for p in places[:3]]
    assert run.query("SELECT source_offset FROM samples WHERE cause = 'alert' ORDER BY 1") == [(p,) for p in places[3:]]
    ((trace,),) = run.query("SELECT min_by(trace_id, source_offset) FROM samples WHERE cause = 'gone'")
    assert "text no longer in the topic" in gapwatch("gaps", "--trace", trace, "--store", run.store).err
    ((alert,),) = run.query("SELECT min(alert_id) FROM alerts WHERE attribution->>'kind' <> 'bound'")
    assert "3 more texts are no longer in the topic" in gapwatch("explain", alert, "--store", run.store).out
