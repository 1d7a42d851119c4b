"""Stored slices of a lane, commit by commit, for the watch to fold again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

from gapwatch.sinks.reading.lane_commits import count_commits, lane_commits
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.series.slice_units import SliceContent


@dataclass(frozen=True)
class StoredCommit:
    """One stored slice, as the watch reads it.

    Attributes:
        partition: Topic and partition of the slice, as `partition_name` gives it.
        second: Time of the commit, seconds since the epoch.
        waits_for: Partitions whose unread records held event time back.
        content: Ticks of units and of labels, and all ticks of sessions.
        seq: Number of the commit; 0 for a slice that is not stored yet.
    """

    partition: str
    second: float
    waits_for: Sequence[str]
    content: SliceContent
    seq: int = 0


def partition_name(topic: str, partition: int) -> str:
    """Return the name of a partition, such as `traces/0`."""
    return f"{topic}/{partition}"


def stored_commits(store: Store, lane: str, after: int) -> Iterator[StoredCommit]:
    """Yield the slices of a lane that were stored after a commit, in order."""
    cursor = store.cursor()
    try:
        for commit in lane_commits(cursor, lane, after):
            partition = partition_name(commit.topic, commit.partition)
            second = commit.kept_at.replace(tzinfo=UTC).timestamp()
            content = SliceContent(commit.ticks, commit.session_ticks)
            yield StoredCommit(partition, second, commit.waited_for, content, commit.seq)
    finally:
        cursor.close()


def stored_count(store: Store, lane: str, after: int) -> int:
    """Return the number of slices of a lane that were stored after a commit."""
    cursor = store.cursor()
    try:
        return count_commits(cursor, lane, after)
    finally:
        cursor.close()
