"""Feedback in a live run: from the publisher over the topic, over the API, and over a kill."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gapwatch.publisher import TracePublisher
from gapwatch.sinks.api.endpoint_note import read_note
from tests.gapwatch_command import gapwatch
from tests.kafka_broker import KafkaBroker
from tests.streams.run_process import Children, Watched, make_relayed_topics

pytestmark = pytest.mark.kafka

PORTFOLIO = """
gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
components: [{id: agent, role: ai_core, kind: llm}]
metrics:
  - {name: answers, component: agent, claim: {form: check, field: output, present: true}}
  - {name: thumbs, scope: trace, claim: {form: feedback}, alert: {severity: page}}
"""
_STATES = "SELECT state, sum(n)::BIGINT FROM span_ledger WHERE item = 'feedback' GROUP BY ALL HAVING sum(n) <> 0"


def made_trace(name: str, at: float) -> bytes:
    span = {"span_id": "s", "component": "agent", "kind": "llm", "output": "yes", "ended_at": at}
    return orjson.dumps({"trace_id": name, "pipeline": "shop", "ended_at": at, "spans": [span]})


def made_feedback(number: int, trace: str) -> bytes:
    return orjson.dumps({"id": f"f{number}", "trace_id": trace, "value": number % 4 > 0})


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    running = Children()
    yield running
    running.close()


@pytest.fixture
def watched(children: Children, own_kafka_broker: KafkaBroker, tmp_path: Path) -> Iterator[Watched]:
    make_relayed_topics(own_kafka_broker)
    run = Watched(children, tmp_path / "w", own_kafka_broker, own_kafka_broker.make_topic(), [PORTFOLIO])
    yield run
    if run.pid is not None:
        run.kill()


def asked(watched: Watched, sql: str) -> list[Any]:
    """Ask the run while it writes the store."""
    ran = gapwatch("history", sql, "--store", watched.store, "--format", "json")
    return ran.json() if ran.status == 0 else []


def states(watched: Watched) -> dict[str, int]:
    return {row["state"]: row["n"] for row in asked(watched, _STATES.replace("::BIGINT", "::BIGINT AS n"))}


def make_feedback_topic(broker: KafkaBroker) -> None:
    import asyncio

    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    async def create() -> None:
        admin = AIOKafkaAdminClient(**broker.settings.client_options())
        await admin.start()
        try:
            await admin.create_topics([NewTopic("feedback", 3, 1)])
        finally:
            await admin.close()

    asyncio.run(create())


def posted(watched: Watched, asked: dict[str, Any], token: str | None = None) -> Any:
    note = read_note(watched.store)
    assert note is not None
    request = urllib.request.Request(
        f"{note.url}/v1/feedback", json.dumps(asked).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token or note.write_token}"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_thumbs_of_the_publisher_and_of_the_api_are_watched(watched: Watched) -> None:
    broker, now = watched.broker, time.time()
    make_feedback_topic(broker)
    with TracePublisher("shop", topic=watched.topic, brokers=broker.address) as publisher:
        with publisher.trace("t-1"), publisher.span("agent", kind="llm") as span:
            span.output = "yes"
        assert publisher.feedback("t-1", "down", "the city is wrong", user="u7")
        assert publisher.feedback("t-late", True)
        assert publisher.feedback("t-1", "wonderful") == ""  # an error of the caller is counted, not raised
        assert publisher.flush()
        assert publisher.counts["feedback_sent"] == 2
        assert publisher.counts["own_errors"] == 1
    watched.start().wait_until_reading()
    watched.wait_until(lambda: states(watched).get("pending") == 1 and states(watched).get("joined") == 1)

    broker.produce(watched.topic, [made_trace("t-late", now)])
    watched.wait_until(lambda: states(watched).get("joined") == 2)
    said = posted(watched, {"trace_id": "t-late", "value": "up", "id": "again", "comment": "good"})
    assert said == {"ids": ["again"], "states": {"joined": 1}}
    both = posted(watched, {"feedback": [{"trace_id": "t-1", "value": "up", "id": x} for x in ("again", "new")]})
    assert both["states"] == {"joined": 1, "duplicate": 1}
    for wrong, token in (({"trace_id": "t-1", "value": "?"}, None), ({"trace_id": "t-1", "value": "up"}, "no")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            posted(watched, wrong, token)
        assert refused.value.code in (400, 401, 403)
    note = read_note(watched.store)
    with urllib.request.urlopen(f"{note.url}/metrics", timeout=20) as answer:  # type: ignore[union-attr]
        assert "gapwatch_feedback_total" in answer.read().decode()
    assert watched.end() == 0

    assert dict(watched.query(_STATES)) == {"consumed": 5, "joined": 4, "duplicate": 1}
    assert watched.query("SELECT DISTINCT metric, phase FROM watched WHERE kind = 'rate'") == [("thumbs", "learning")]
    fails = "SELECT trace_id, observed FROM gaps WHERE metric = 'thumbs' AND outcome = 'fail'"
    assert watched.query(fails) == [("t-1", "the city is wrong")]


@pytest.mark.slow
def test_ten_thousand_are_each_joined_once_or_counted_over_kills(watched: Watched) -> None:
    broker, now, count = watched.broker, time.time(), 10_000
    make_feedback_topic(broker)
    names = [f"t-{n}" for n in range(count)]
    early, twice, never = count // 3, count // 10, 50
    sent = [made_feedback(n, name) for n, name in enumerate(names)]
    broker.produce(watched.topic, [made_trace(name, now) for name in names[early:-never]])
    broker.produce("feedback", sent[: count // 2])
    for number in (1, 2):  # of the first traces, and of what is joined to them
        watched.start(die_at=["commit", number]).wait()
    broker.produce("feedback", sent[-twice:])
    broker.produce("feedback", sent[count // 2 :])
    watched.start().wait_until_reading()
    watched.wait_until(lambda: states(watched).get("consumed", 0) >= count // 2)
    watched.kill()
    broker.produce(watched.topic, [made_trace(name, now) for name in names[:early]])
    watched.start().wait_until_reading()
    joined = count - never
    watched.wait_until(lambda: states(watched).get("joined", 0) >= joined, 120.0)
    watched.wait_until(lambda: states(watched).get("consumed", 0) >= count + twice, 120.0)
    watched.end()

    assert dict(watched.query(_STATES)) == {
        "consumed": count + twice, "joined": joined, "duplicate": twice, "pending": never,
    }  # fmt: skip
    one = "SELECT count(*), count(DISTINCT feedback_id) FROM feedback"
    assert watched.query(one) == [(count, count)]
    assert watched.query("SELECT count(*), count(DISTINCT feedback_id) FROM feedback_joins") == [(joined, joined)]
    ticked = "SELECT outcome, sum(n)::BIGINT FROM ticks WHERE metric = 'thumbs' AND level = 'unit' AND facet = 'all'"
    bad = sum(n % 4 == 0 for n in range(joined))
    assert dict(watched.query(f"{ticked} GROUP BY ALL")) == {"good": joined - bad, "bad": bad}
    assert gapwatch("ledger", "--store", watched.store).status == 0
