"""An outage of the broker is two lines of the log, whoever notices it."""

from __future__ import annotations

import pytest

from gapwatch.streams.sources import broker_outage
from gapwatch.streams.sources.broker_outage import BrokerOutage


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr(broker_outage.time, "monotonic", lambda: moment[0])
    caplog.set_level("INFO")
    return moment


def test_an_outage_is_logged_at_its_begin_and_at_its_end(now: list[float], caplog: pytest.LogCaptureFixture) -> None:
    outage = BrokerOutage()
    assert outage.covers("Failed fetch messages from 1: KafkaConnectionError: Connection at 127.0.0.1:9092 closed")
    for second in range(20):
        now[0] += 1
        outage.note("cannot send the outbox to Kafka: KafkaConnectionError()")
        outage.look(is_connected=second > 17)  # a connection that is just made proves nothing yet
    assert outage.covers("Timer commit is overlapping")
    for _ in range(3):
        now[0] += 1
        outage.look(is_connected=True)
    assert outage.covers("Heartbeat failed: local member_id was not recognized;")
    now[0] += broker_outage.AFTERMATH_SECONDS
    assert not outage.covers("something else")

    assert [record.getMessage() for record in caplog.records] == [
        "no answer from Kafka: Connection at 127.0.0.1:9092 closed; trying until Kafka answers, "
        "stored results are safe",
        "Kafka answers again, after 22 s",
    ]


def test_a_broker_that_hangs_with_its_connections_open_answers_again_when_it_answers(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    outage = BrokerOutage()
    for second in range(40):
        outage.look(is_connected=True, silence=0.5 + second)
        now[0] += 1
    outage.note("no answer from Kafka: produce response: RequestTimedOutError")
    for _ in range(3):
        outage.look(is_connected=True, silence=0.2)
        now[0] += 1

    assert [record.getMessage() for record in caplog.records] == [
        "no answer from Kafka for 16 s; trying until Kafka answers, stored results are safe",
        "Kafka answers again, after 42 s",
    ]


def test_an_outage_counts_from_the_last_answer(now: list[float], caplog: pytest.LogCaptureFixture) -> None:
    outage = BrokerOutage()
    outage.look(is_connected=True, silence=0.0)
    now[0] += 10
    outage.note("no answer from Kafka: RequestTimedOutError")
    now[0] += 5
    outage.look(is_connected=True, silence=1.0)

    assert caplog.records[-1].getMessage() == "Kafka answers again, after 15 s"


def test_a_process_that_stood_still_does_not_blame_the_broker(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    outage = BrokerOutage()
    for silence in (0.2, 60.0, 0.3):
        now[0] += 1
        outage.look(is_connected=True, silence=silence)

    assert caplog.records == []


def test_each_outage_is_logged_also_where_nobody_sees_its_end(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    outage = BrokerOutage()
    for _ in range(2):
        outage.note("no answer")
        now[0] += broker_outage.FORGET_SECONDS + 1
        assert not outage.covers("a line of a library")

    assert len(caplog.records) == 2


def test_without_an_outage_nothing_is_logged(now: list[float], caplog: pytest.LogCaptureFixture) -> None:
    outage = BrokerOutage()
    outage.look(is_connected=True)
    assert not outage.covers("Discovered coordinator 1 for group gapwatch")

    assert caplog.records == []
