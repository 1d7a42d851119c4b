"""Reads the newest stored event time of each pipeline in a partition, from which its event clock continues."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from gapwatch.scorers.slices.columns import BUCKET_SECONDS
from gapwatch.scorers.slices.event_clock import EventClock, SliceClocks
from gapwatch.sinks.store.store import Store


def event_clocks(
    store: Store, lane: str, topic: str, partition: int, until: float | None = None
) -> Mapping[str, EventClock]:
    """Return the event clock of each pipeline after the stored slices of a partition.

    Times that are not believed have no bucket, so the newest bucket is the newest believed time.

    Args:
        store: Store, open.
        lane: Lane of the partition.
        topic: Topic, or name of the file source.
        partition: Number of the partition.
        until: Present time, seconds since the epoch: times more than half an hour later are left out. None: none are.
    """
    latest = 2**53 if until is None else int(until) + 1_800
    with closing(store.cursor()) as cursor:
        rows = cursor.execute(
            """SELECT pipeline, max(epoch(bucket))::BIGINT FROM ticks
            WHERE lane = $lane AND epoch(bucket) <= $latest AND seq IN (
                SELECT seq FROM offsets
                WHERE lane = $lane AND source_topic = $topic AND source_partition = $partition)
            GROUP BY pipeline""",
            {"lane": lane, "latest": latest, "topic": topic, "partition": partition},
        ).fetchall()
    return SliceClocks.after({pipeline: second // BUCKET_SECONDS for pipeline, second in rows}).clocks
