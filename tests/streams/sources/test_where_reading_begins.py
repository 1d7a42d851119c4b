"""Where reading of a partition begins, by what the store and the consumer group know of it."""

from __future__ import annotations

import asyncio

import pytest

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.sources.faust_slices import PartitionOffsets, SliceAppOptions
from gapwatch.streams.sources.slice_source import STORE_NOTE, SliceSource, SourceOptions

OURS, NOBODY = STORE_NOTE + "ours", ""


@pytest.mark.parametrize(
    ("stored", "committed", "note", "begins"),
    [
        ({0: 40, 1: None}, 70, NOBODY, 3),  # a stranger's offset: nothing is skipped
        ({0: 40, 1: None}, 10_000, NOBODY, 3),  # beyond the end: the start is not refused
        ({0: 40, 1: None}, 70, OURS, 70),
        ({0: 40, 1: None}, None, NOBODY, 3),
        ({0: None, 1: None}, 70, NOBODY, 70),  # a new store continues where the group is
        ({0: 40, 1: 50}, 70, NOBODY, 50),
    ],
)
def test_a_partition_begins(stored: dict[int, int | None], committed: int | None, note: str, begins: int) -> None:
    async def choose() -> dict[int, int]:
        options, kafka = SourceOptions(SliceAppOptions("traces", "group")), KafkaSettings("127.0.0.1:9")
        source = SliceSource(options, kafka, lambda raw: asyncio.sleep(0), lambda partitions: stored, "ours")
        return source.choose_starts({1: PartitionOffsets(committed, note, 3, 100)})

    assert asyncio.run(choose()) == {1: begins}
