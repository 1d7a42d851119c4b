"""`gapwatch run` as the engineer on call meets it: a topic whose answers break, told, answered, and not lost."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from tests.gapwatch_command import gapwatch
from tests.kafka_broker import KafkaBroker
from tests.streams.alerting.breaking_stream import BROKEN, CHANGE, STEP
from tests.streams.run_process import Children, Watched, make_relayed_topics, relayed

pytestmark = pytest.mark.kafka

PORTFOLIO = """
gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
volume: {traces_per_day: 20000}
budget: {pages_per_month: 1, tickets_per_month: 10}
components: [{id: agent, role: ai_core, kind: llm}]
questions:
  - {id: q-fallback, component: agent, text: "Is the fallback degraded service?", decides: [fallback_rate]}
metrics:
  - name: parses
    component: agent
    claim: {form: check, field: output, format: json}
    direction: {better: lower, verdict: verified, evidence: "a.py:1"}
    alert: {severity: page}
  - name: fallback_rate
    component: agent
    claim: {form: label, field: tier, labels: [primary, fallback], bad: [fallback]}
    direction: {better: unknown}
    alert: {severity: ticket}
"""
_FOUND = "SELECT * EXCLUDE (seq) FROM {} WHERE lane = 'live' AND \"by\" = 'gapwatch' ORDER BY rowid"


def shop_traces() -> list[bytes]:
    """One trace for each unit of the stream that breaks; where an answer is broken the small model gave it."""
    made = []
    for tick, good, bad, _ in BROKEN:
        for i in range(good + bad):
            at = tick * 30.0 + i * 0.5
            is_bad = i >= good
            span = {
                "span_id": "s", "component": "agent", "kind": "llm", "output": "{broken" if is_bad else "{}",
                "tier": "fallback" if is_bad else "primary", "ended_at": at,
            }  # fmt: skip
            record = {"trace_id": f"{tick}-{i}", "pipeline": "shop", "ended_at": at, "release": "v2", "spans": [span]}
            made.append(orjson.dumps(record))
    return made


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    running = Children()
    yield running
    running.close()


@pytest.fixture(scope="module")
def topic(kafka_broker: KafkaBroker) -> str:
    make_relayed_topics(kafka_broker)
    name: str = kafka_broker.make_topic()
    kafka_broker.produce(name, shop_traces())
    return name


@pytest.fixture(scope="module")
def whole(
    children: Children, kafka_broker: KafkaBroker, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Watched:
    """The topic, watched without an interruption."""
    watched = Watched(children, tmp_path_factory.mktemp("whole"), kafka_broker, topic, [PORTFOLIO], max_records=500)
    watched.catch_up()
    return watched


def alerts(watched: Watched) -> Any:
    return gapwatch("alerts", "--store", watched.store, "--all", "--format", "json").json()


def test_what_breaks_is_a_page_and_what_nobody_judged_a_ticket(whole: Watched) -> None:
    told = {one["metric"]: one for one in alerts(whole)}

    assert {name: (one["severity"], one["verdict"]) for name, one in told.items()} == {
        "parses": ("page", "worse"),
        "fallback_rate": ("ticket", "unknown"),
    }
    assert told["fallback_rate"]["question"] == "q-fallback"
    began = CHANGE * 30
    assert whole.query(
        f"SELECT bool_and(epoch(change_from) <= {began} AND {began} <= epoch(change_to)) FROM shifts"
    ) == [(True,)]
    assert whole.query(f"SELECT max(epoch(found_at)) < {(CHANGE + 6 * STEP) * 30} FROM shifts") == [(True,)]


def test_the_incident_reaches_the_topic_under_its_id(whole: Watched, kafka_broker: KafkaBroker) -> None:
    sent = relayed(kafka_broker, "alerts")
    ids = [id_ for (id_,) in whole.query("SELECT id FROM internal.outbox WHERE topic = 'alerts'")]

    assert ids
    messages = [orjson.loads(sent[id_][0].value) for id_ in ids]
    assert {one["metric"] for message in messages for one in message["alerts"]} == {"parses", "fallback_rate"}
    assert all(message["pipeline"] == "shop" for message in messages)


@pytest.mark.slow
def test_killed_again_and_again_it_finds_the_same(
    whole: Watched, children: Children, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    killed = Watched(children, tmp_path / "killed", kafka_broker, topic, [PORTFOLIO], max_records=150)
    for number in (3, 9, 20):
        killed.start(die_at=["commit", number]).wait()
    killed.catch_up()

    for table in ("alerts", "shifts"):
        sql = _FOUND.format(table) if table == "alerts" else "SELECT * EXCLUDE (seq) FROM shifts ORDER BY rowid"
        assert killed.query(sql) == whole.query(sql)
    same = "SELECT sum(units), count(*), max(expected_false_alarms) FROM watched"
    assert killed.query(same) == whole.query(same)


def good_trace(number: int, at: float) -> bytes:
    span = {"span_id": "s", "component": "agent", "kind": "llm", "output": "{}", "tier": "primary", "ended_at": at}
    host = {"host.name": "web-9"}
    return orjson.dumps(
        {"trace_id": f"x{number}", "pipeline": "shop", "ended_at": at, "spans": [span], "attributes": host}
    )


@pytest.mark.slow
def test_wrong_clocks_change_no_alert_and_no_tick_also_where_the_run_is_killed(
    whole: Watched, children: Children, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """A host an hour ahead sends a quarter of the records; one record is of 2030 and one of 1970."""
    made = []
    for number, trace in enumerate(shop_traces()):
        made.append(trace)
        if number % 3 == 1:
            made.append(good_trace(number, orjson.loads(trace)["ended_at"] + 3_600.0))
        if number in (700, 4_000):
            made.append(good_trace(number, 1_900_000_000.0 if number == 700 else 3_000.0))
    strange = kafka_broker.make_topic()
    kafka_broker.produce(strange, made)
    undisturbed = Watched(children, tmp_path / "strange", kafka_broker, strange, [PORTFOLIO], max_records=500)
    undisturbed.catch_up()
    killed = Watched(children, tmp_path / "killed", kafka_broker, strange, [PORTFOLIO], max_records=150)
    for number in (3, 9, 20):
        killed.start(die_at=["commit", number]).wait()
    killed.catch_up()

    ticks = """SELECT metric, bucket, fold_bucket, level, facet, value, outcome, sum(n) FROM ticks
        WHERE bucket IS NOT NULL GROUP BY ALL ORDER BY ALL"""
    counts = "SELECT state, sum(n)::INTEGER FROM ledger WHERE metric IS NULL GROUP BY ALL ORDER BY ALL"
    records = len(shop_traces())
    ahead = records // 3 + 1
    for one in (undisturbed, killed):
        assert one.query(counts) == [("ahead", ahead), ("behind", 1), ("read", records + ahead + 1)]
        assert "of host.name=web-9 in" in one.said() and "half an hour or more ahead" in one.said()
        for sql in (ticks, "SELECT * EXCLUDE (seq) FROM shifts ORDER BY rowid", _FOUND.format("alerts")):
            assert one.query(sql) == whole.query(sql)


#: Of a hundred traces so many go to each partition.
_SHARES = (45, 30, 22, 3)


@pytest.mark.slow
def test_caught_up_over_several_partitions_and_killed_it_dates_what_it_finds_as_if_read_in_order(
    whole: Watched, children: Children, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    several = kafka_broker.make_topic(partitions=len(_SHARES))
    place = [partition for partition, share in enumerate(_SHARES) for _ in range(share)]
    made = shop_traces()
    for partition in range(len(_SHARES)):
        mine = [trace for number, trace in enumerate(made) if place[number * 37 % 100] == partition]
        kafka_broker.produce(several, mine, partition=partition)
    behind = Watched(children, tmp_path / "behind", kafka_broker, several, [PORTFOLIO], max_records=700)
    for number in (1, 3, 6):
        behind.start(die_at=["commit", number]).wait()
    behind.catch_up()

    late = "SELECT count(*) FILTER (fold_bucket > bucket), count(*) > 0 FROM ticks"
    assert behind.query(late) == [(0, True)]
    shifts = "SELECT * EXCLUDE (seq) FROM shifts ORDER BY metric"
    assert behind.query(shifts) == whole.query(shifts)


def test_while_it_runs_alerts_are_on_metrics_and_can_be_answered(
    children: Children, kafka_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    watched = Watched(children, tmp_path / "live", kafka_broker, topic, [PORTFOLIO])
    watched.start()
    watched.wait_until(lambda: read_note(watched.store) is not None)
    note = read_note(watched.store)
    assert note is not None

    def lines(name: str) -> list[str]:
        with urllib.request.urlopen(note.url + "/metrics", timeout=10) as answer:
            return [line for line in answer.read().decode().splitlines() if line.startswith(name + "{")]

    watched.wait_until(lambda: len(lines("gapwatch_alert_state")) == 2)
    (page,) = [line for line in lines("gapwatch_alert_state") if 'severity="page"' in line]
    for label in ('metric="parses"', 'component="agent"', 'kind="shift"', 'state="open"', 'pipeline="shop"'):
        assert label in page
    assert 'gapwatch_series{environment="production",phase="page",pipeline="shop"} 1.0' in lines("gapwatch_series")

    told = {one["metric"]: one["alert_id"] for one in alerts(watched)}
    assert gapwatch("ack", told["parses"], "--store", watched.store, "--by", "maria").status == 0
    watched.wait_until(lambda: any('state="acknowledged"' in line for line in lines("gapwatch_alert_state")))
    answered = gapwatch("answer", "q-fallback", "lower", "--store", watched.store, "--by", "maria")
    assert "1 past shift is relabelled" in answered.out, answered.err
    assert {one["metric"]: one["verdict"] for one in alerts(watched)} == {"parses": "worse", "fallback_rate": "worse"}
    page_on_it = gapwatch("explain", told["parses"], "--store", watched.store).out
    assert "SHIFT worse" in page_on_it and "acknowledged (page) by maria" in page_on_it
    assert (
        gapwatch("accept", told["parses"], "--store", watched.store, "--by", "maria", "--why", "new format").status == 0
    )
    again = gapwatch("accept", told["parses"], "--store", watched.store, "--by", "maria")
    assert (again.status, "only an open one" in again.err) == (2, True)
    assert gapwatch("accept", told["fallback_rate"], "--store", watched.store, "--by", "maria").status == 0
    watched.wait_until(lambda: lines("gapwatch_alert_state") == [])
    watched.wait_until(lambda: "accepted" in states(kafka_broker, list(told.values())))

    # What was said outlives a kill.
    watched.kill()
    assert watched.catch_up()["records"] == 0
    assert {one["metric"]: one["state"] for one in alerts(watched)} == {
        "parses": "accepted",
        "fallback_rate": "accepted",
    }
    assert {one["metric"]: one["verdict"] for one in alerts(watched)} == {"parses": "worse", "fallback_rate": "worse"}


def states(broker: KafkaBroker, alert_ids: list[str]) -> set[str]:
    messages = [json.loads(records[0].value) for records in relayed(broker, "alerts").values()]
    return {message["state"] for message in messages if message["alert_id"] in alert_ids}
