"""A fetch that waits while a rebalance ends: what it gets must not be lost, whichever of the two comes first.

aiokafka moves its position as it hands records out. A fetch from before a seek that gets records from behind it would
drop them, and the next slice would begin where the last one ended all the same: a hole that looks like a transaction.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import aiokafka
import pytest
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from gapwatch.streams.sources.faust_slices import SliceThread
from gapwatch.streams.sources.linger import Linger
from gapwatch.streams.sources.slice_buffer import SliceBuffer

_TP = aiokafka.TopicPartition("traces", 0)


class Partition:
    """One partition as aiokafka's consumer shows it: a position that moves with what is handed out."""

    def __init__(self, end: int) -> None:
        self.position, self.end, self.highwater, self.lso = end, end, None, end
        self.has_more = asyncio.Event()
        self.assignment = SimpleNamespace(state_value=lambda _tp: self)
        self._fetcher = SimpleNamespace(_records={})

    @property
    def _position(self) -> int:
        return self.position

    @property
    def _subscription(self) -> Any:
        return SimpleNamespace(subscription=SimpleNamespace(assignment=self.assignment))

    def assign(self, committed: int) -> None:
        """A rebalance gives the partition back; reading would begin at the group's offset."""
        self.position, state = committed, self
        self.assignment = SimpleNamespace(state_value=lambda _tp: state)

    def seek(self, _tp: Any, offset: int) -> None:
        self.position = offset

    def append(self, count: int) -> None:
        self.end, self.lso = self.end + count, self.end + count
        self.has_more.set()

    async def fetch(self, timeout: float) -> dict[Any, list[Any]]:
        if self.position == self.end and timeout:
            self.has_more.clear()
            try:
                await asyncio.wait_for(self.has_more.wait(), timeout)
            except TimeoutError:
                return {}
        first, self.position = self.position, self.end
        return {
            _TP: [SimpleNamespace(offset=n, timestamp=0, timestamp_type=0, value=b"") for n in range(first, self.end)]
        }


@pytest.mark.parametrize("is_assigned_first", [True, False])
def test_records_that_come_at_the_end_of_a_rebalance_are_in_a_slice(
    is_assigned_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch_records(_self: Any, consumer: Partition, _active: Any, timeout: float | None, _most: Any) -> Any:
        return {tp: records for tp, records in (await consumer.fetch(timeout or 0.0)).items() if records}

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "_fetch_records", fetch_records)

    async def live() -> list[int]:
        partition, thread = Partition(end=100), object.__new__(SliceThread)
        thread.taken, thread.sought = {_TP: 100}, partition.assignment
        thread.buffer, thread._at_consumer = SliceBuffer(8000, Linger(0.0), 0.0), asyncio.Lock()
        thread.consumer = SimpleNamespace(flow_active=True)
        monkeypatch.setattr(thread, "_ensure_consumer", lambda: partition, raising=False)

        if is_assigned_first:
            partition.assign(committed=100)
        waiting = asyncio.ensure_future(thread._fetch_records(partition, {_TP}, 0.3, 8000))
        await asyncio.sleep(0)
        partition.assign(committed=100)
        seek = asyncio.ensure_future(thread._seek_slices({TP("traces", 0): (100, 0)}, epoch=1))
        await asyncio.sleep(0.01)
        partition.append(50)
        found = [await waiting]
        await seek
        found += [await thread._fetch_records(partition, {_TP}, 0.1, 8000) for _ in range(2)]
        return [offset for one in found for [fetched] in one.values() for offset in fetched.raw.offsets.tolist()]

    assert asyncio.run(live()) == list(range(100, 150))
