"""Stored positions: the next offset of each partition of a source."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store_reader import StoreReader

#: Lane, topic and partition.
SourceKey = tuple[str, str, int]


@dataclass(frozen=True)
class Position:
    """Stored position of one partition of a source, in one lane.

    Attributes:
        to_offset: Next offset to store; everything below is stored.
        records: Number of records stored so far.
        prefix_sha256: Digest of the source's bytes up to `to_offset`, for files; None for Kafka.
    """

    to_offset: int
    records: int
    prefix_sha256: str | None


def scored_until(con: StoreReader, lane: str, topic: str, partition: int) -> int:
    """Return the next offset of a partition that is not stored; 0 if nothing of it is stored."""
    rows = con.execute(
        """SELECT coalesce(max(to_offset), 0) FROM offsets
            WHERE lane = ? AND source_topic = ? AND source_partition = ?""",
        [lane, topic, partition],
    ).fetchall()
    return int(rows[0][0])


def advance_position(positions: dict[SourceKey, Position], scored: ScoredSlice) -> None:
    """Move the position of a partition over a slice.

    Raises:
        JobError: The slice does not begin at the position.
    """
    where = f"{scored.topic} [{scored.partition}] in lane {scored.lane}"
    if scored.to_offset < scored.from_offset:
        raise JobError(f"a slice of {where} ends at {scored.to_offset}, before its start {scored.from_offset}")
    key = (scored.lane, scored.topic, scored.partition)
    kept = positions.get(key)
    if kept is not None and scored.from_offset != kept.to_offset:
        what = "overlaps stored offsets" if scored.from_offset < kept.to_offset else "leaves a hole"
        raise JobError(
            f"a slice of {where} begins at {scored.from_offset} and {what}: {kept.to_offset} is next; "
            "restart, and it continues from there"
        )
    records = scored.records + (kept.records if kept else 0)
    positions[key] = Position(scored.to_offset, records, scored.prefix_sha256)
