"""Requests of a topic through a rebalance of the group: what is committed, and what is handed over again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.judges.workers import request_topic
from gapwatch.streams.judges.workers.request_topic import RequestTopic

TP = TopicPartition("judge-requests", 0)


class Consumer:
    """A member with one partition, whose position is where the group has last committed."""

    def __init__(self, **_: Any) -> None:
        self.committed = self._position = 0

    def subscribe(self, topics: list[str], listener: RequestTopic) -> None:
        self.listener = listener

    def assignment(self) -> set[TopicPartition]:
        return {TP}

    async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[SimpleNamespace]]:
        offsets = range(self._position, self._position + max_records)
        self._position += max_records
        return {TP: [SimpleNamespace(offset=n, headers=(), value=b"{}", timestamp=0) for n in offsets]}

    async def commit(self, marks: dict[TopicPartition, int]) -> None:
        self.committed = marks[TP]

    async def revoke(self) -> None:
        await self.listener.on_partitions_revoked({TP})

    def assign(self) -> None:
        self._position = self.committed
        self.listener.on_partitions_assigned({TP})


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[RequestTopic, Consumer], Awaitable[None]]], None]:
    """Runs steps over a topic of batches of five requests."""
    monkeypatch.setattr(request_topic, "AIOKafkaConsumer", Consumer)

    def run(steps: Callable[[RequestTopic, Consumer], Awaitable[None]]) -> None:
        topic = RequestTopic(KafkaSettings("127.0.0.1:1"), "group", 5)

        async def all_steps() -> None:
            await steps(topic, topic._consumer)

        asyncio.run(all_steps())

    return run


def test_what_is_answered_is_committed_before_the_group_rebalances_and_nothing_while_it_does(over: Any) -> None:
    async def steps(topic: RequestTopic, consumer: Consumer) -> None:
        places = [(await topic.next()).place for _ in range(4)]
        await topic.done(places[:1], now=True)
        await topic.done(places[1:2])
        assert consumer.committed == 1
        await consumer.revoke()
        assert consumer.committed == 2
        await topic.done(places[2:3], now=True)
        assert consumer.committed == 2
        consumer.assign()
        while (await topic.next()).place[1] < 9:
            pass
        await topic.done([], now=True)
        assert consumer.committed == 3

    over(steps)


def test_after_a_rebalance_no_request_in_work_or_answered_comes_again_and_those_unread_do(over: Any) -> None:
    async def steps(topic: RequestTopic, consumer: Consumer) -> None:
        places = [(await topic.next()).place for _ in range(4)]
        await topic.done([places[1]])  # the first is in work for longer
        await consumer.revoke()
        await topic.done([places[2]])
        consumer.assign()
        assert consumer.committed == 0
        assert [(await topic.next()).place[1] for _ in range(3)] == [4, 5, 6]
        await topic.done([places[0], places[3]], now=True)
        assert consumer.committed == 4

    over(steps)
